//! What can be wrong with a lab.

use std::path::PathBuf;

/// Why a lab cannot be loaded or computed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A file cannot be read.
    #[error("{}: cannot be read: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// A file of the lab says something that cannot be.
    #[error("{}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do about it.
        message: String,
    },
    /// A scenario of the lab is wrong.
    #[error("{0}")]
    Scenario(scenario::Diagnostics),
}

impl LabError {
    /// Something wrong in the file at `path`.
    pub(crate) fn content(path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self::Content { path: path.into(), message: message.into() }
    }
}
