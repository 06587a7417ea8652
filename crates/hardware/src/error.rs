//! What can go wrong, and what it means for the command.

use std::path::PathBuf;

/// Why a measurement, or part of one, did not happen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No driver, or no device behind it.
    #[error("{0}")]
    NoGpu(#[from] cuda_driver::Missing),

    /// `--gpu N` with too large an N.
    #[error("there is no GPU {asked}: this machine has {}; choose with --gpu", numbered(*.count))]
    NoSuchGpu {
        /// The number asked for.
        asked: u32,
        /// How many there are.
        count: u32,
    },

    /// A call to the driver failed.
    #[error("{doing}: {function} returned {name} ({code}){detail}")]
    Driver {
        /// What was being done.
        doing: String,
        /// The driver's function.
        function: String,
        /// The driver's number.
        code: i32,
        /// The driver's name for it.
        name: String,
        /// A further sentence, with its separator, or nothing.
        detail: String,
    },

    /// A kernel ran past its time limit.
    #[error(
        "a kernel did not end within its limit of {limit_s} s: it was given up and the worker \
         restarted; raise the limit with --limit if it only is slow"
    )]
    Timeout {
        /// The limit, seconds.
        limit_s: f64,
    },

    /// The buffers do not fit.
    #[error(
        "needs {needed} bytes of device memory and {free} are free; largest buffer: `{largest}` \
         with {largest_bytes} bytes; choose smaller parameters with --set"
    )]
    OutOfMemory {
        /// Bytes needed, all buffers together.
        needed: u64,
        /// Bytes free.
        free: u64,
        /// Name of the largest buffer.
        largest: String,
        /// Its bytes.
        largest_bytes: u64,
    },

    /// The launch is beyond what this device takes.
    #[error("{what} is {value}, and this device takes at most {most}")]
    LaunchLimit {
        /// Which quantity.
        what: &'static str,
        /// What the launch asks for.
        value: u64,
        /// What the device offers.
        most: u64,
    },

    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },

    /// A worker could not open the device.
    #[error("{message}")]
    Refused {
        /// Why, in words.
        message: String,
        /// Exit code of the command for it.
        exit_code: u8,
    },

    /// The worker process could not do its part.
    #[error("{0}")]
    Worker(String),

    /// The profiler is absent, forbidden or failed.
    #[error("{0}")]
    Profiler(#[from] crate::profiler::Trouble),

    /// Input that cannot be measured as it is given.
    #[error("{0}")]
    Input(String),
}

fn numbered(count: u32) -> String {
    match count {
        1 => "one, number 0".into(),
        n => format!("{n}, numbered 0 to {}", n.saturating_sub(1)),
    }
}

impl Error {
    /// The exit code of the command: 3 where there is no usable GPU, 2 for
    /// input, 1 for what failed on the way.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoGpu(_) => 3,
            Self::Refused { exit_code, .. } => *exit_code,
            Self::NoSuchGpu { .. } | Self::Input(_) | Self::File { .. } => 2,
            _ => 1,
        }
    }

    /// Whether the context is lost with it, so that no later call can work: a
    /// fault of a kernel, or one that does not end.
    pub fn is_fatal(&self) -> bool {
        match self {
            Self::Timeout { .. } => true,
            // CUDA's sticky errors: illegal address to illegal instruction and
            // launch failure (700, 702, 709–720), ECC (214), NVLink (220),
            // unknown (999).
            Self::Driver { code, .. } => {
                matches!(code, 214 | 220 | 700 | 702 | 709 | 710 | 714..=720 | 999)
            }
            _ => false,
        }
    }

    /// A call to the driver that `cust` reported as failed. The number is that
    /// of the last failure on this thread, which `cust` may not know.
    pub(crate) fn driver(doing: impl Into<String>, error: cust::error::CudaError) -> Self {
        let failure = cuda_driver::last_failure();
        // `cust` shares the driver's numbers up to 999 and adds its own beyond.
        let own = error as i32;
        let (function, code) = match failure {
            Some(failure) if own <= 999 => (failure.function.to_owned(), failure.code),
            _ => ("cust".to_owned(), own),
        };
        // `Display` of this type calls the driver and can fail; its name in
        // Rust is the fallback.
        let name = cuda_driver::error_name(code).unwrap_or_else(|| format!("{error:?}"));
        Self::Driver { doing: doing.into(), function, code, name, detail: String::new() }
    }

    /// Adds a sentence to a driver error.
    pub(crate) fn detail(mut self, words: impl AsRef<str>) -> Self {
        if let Self::Driver { detail, .. } = &mut self
            && !words.as_ref().is_empty()
        {
            detail.push_str("; ");
            detail.push_str(words.as_ref());
        }
        self
    }

    /// A file that could not be used.
    pub(crate) fn file(path: impl Into<PathBuf>, error: std::io::Error) -> Self {
        Self::File { path: path.into(), error }
    }
}
