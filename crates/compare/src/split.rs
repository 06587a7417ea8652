//! Which scenarios the model was developed on, and which only judge it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The committed list: family by family, made before the first constant was
/// fitted. A family is a scenario with all its runs.
///
/// ```
/// use coalescope_compare::{Part, Split};
///
/// let split = Split::from_toml("development = [\"strided\"]\nheld_out = [\"transpose\"]").unwrap();
/// assert_eq!(split.part("transpose"), Part::HeldOut);
/// assert_eq!(split.part("my-own-kernel"), Part::Unlisted);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    #[serde(default)]
    development: Vec<String>,
    #[serde(default)]
    held_out: Vec<String>,
    #[serde(default)]
    outside: Vec<String>,
}

/// What a family was for while the model was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Its measurements were looked at while the model's form was decided.
    Development,
    /// It judges the model and took no part in making it.
    HeldOut,
    /// The model makes no claim about its time.
    Outside,
    /// It is on no list: a scenario of the user's.
    Unlisted,
}

impl Part {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Development, Self::HeldOut, Self::Outside, Self::Unlisted];
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Development => "development",
            Self::HeldOut => "held out",
            Self::Outside => "outside",
            Self::Unlisted => "unlisted",
        })
    }
}

impl Split {
    /// Reads the list.
    ///
    /// # Errors
    /// Text that is no such list.
    pub fn from_toml(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The families that only judge the model.
    pub fn held_out(&self) -> &[String] {
        &self.held_out
    }

    /// The part of a family.
    pub fn part(&self, scenario: &str) -> Part {
        let has = |list: &[String]| list.iter().any(|name| name == scenario);
        match () {
            () if has(&self.development) => Part::Development,
            () if has(&self.held_out) => Part::HeldOut,
            () if has(&self.outside) => Part::Outside,
            () => Part::Unlisted,
        }
    }
}
