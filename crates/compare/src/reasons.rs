//! Why some points are off, as far as somebody has found out: `reasons.toml`.

use record::Value;
use serde::Deserialize;
use std::collections::BTreeMap;

use crate::figures::Quantity;
use crate::join::Point;

/// The list of reasons. It explains errors; it removes none.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reasons {
    #[serde(default)]
    reason: Vec<Reason>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    /// The quantities that it explains, by the names in tables.
    quantities: Vec<String>,
    /// The scenario; absent: every one.
    scenario: Option<String>,
    /// The variant; absent: every one.
    variant: Option<String>,
    /// Parameters that the point has; others may be anything.
    #[serde(default)]
    params: BTreeMap<String, i64>,
    /// Why.
    text: String,
}

impl Reasons {
    /// Reads a list.
    ///
    /// # Errors
    /// Text that is no such list.
    pub fn from_toml(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The list that comes with the crate.
    pub fn shipped() -> Self {
        // A test reads the file; without it there would be no reasons.
        Self::from_toml(include_str!("../reasons.toml")).unwrap_or_default()
    }

    /// The reason for a quantity of a point.
    pub fn of(&self, point: &Point, quantity: Quantity) -> Option<String> {
        let key = &point.key;
        let fits = |reason: &&Reason| {
            reason.quantities.iter().any(|name| name == quantity.name())
                && reason.scenario.as_ref().is_none_or(|name| *name == key.scenario)
                && (reason.variant.is_none() || reason.variant == key.variant)
                && reason.params.iter().all(|(name, value)| {
                    key.params.get(name) == Some(&Value::Integer(i128::from(*value)))
                })
        };
        self.reason.iter().find(fits).map(|reason| reason.text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_list_reads_and_names_quantities() {
        let reasons = Reasons::from_toml(include_str!("../reasons.toml")).unwrap();
        assert!(!reasons.reason.is_empty());
        for reason in &reasons.reason {
            for name in &reason.quantities {
                assert!(Quantity::ALL.iter().any(|q| q.name() == name), "{name}");
            }
        }
    }
}
