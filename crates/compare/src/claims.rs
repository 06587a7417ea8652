//! What tutorials claim, as data (`claims.toml`), judged by the model and by
//! what was measured.

use std::fmt;

use record::{Map, OpClass, RunRecord, Value};
use serde::{Deserialize, Serialize};
use simulator::Field;

use crate::figures::{Quantity, count_of, measured_count, requested_bytes, seconds, traffic};
use crate::join::Point;

/// The list of claims.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// Each with what is checked of it.
    pub claim: Vec<Claim>,
}

/// One claim.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its number.
    pub id: u32,
    /// What is claimed, in short words.
    pub text: String,
    /// Why nothing is checked, where nothing is.
    pub not_judged: Option<String>,
    /// What is checked; together the claim.
    #[serde(default)]
    pub row: Vec<Row>,
}

/// One thing that the claim says, as a comparison.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// In words.
    pub says: String,
    /// What is looked at.
    pub metric: Metric,
    /// The class of operations, of metrics that have one.
    pub class: Option<OpClass>,
    /// Where.
    pub at: At,
    /// Divided by the same metric there, where given.
    pub over: Option<At>,
    /// The smallest value with which the claim holds.
    pub min: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
    /// Whether the value is a share to be printed in percent.
    #[serde(default)]
    pub percent: bool,
}

/// A point.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct At {
    /// The scenario.
    pub scenario: String,
    /// The variant, where it has some.
    pub variant: Option<String>,
    /// Parameters that tell the point apart from the others.
    #[serde(default)]
    pub params: std::collections::BTreeMap<String, i64>,
}

/// What a row looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Sectors a request.
    SectorsPerRequest,
    /// Distinct lines a request.
    LinesPerRequest,
    /// Requests of the class for each of its warp instructions.
    RequestsPerInstruction,
    /// Distinct bytes ÷ bytes moved.
    UniqueEfficiency,
    /// Bytes read from L2 for each request.
    L2BytesPerRequest,
    /// Bytes read from DRAM for each byte asked for.
    DramReadPerRequestedByte,
    /// Time of the kernel, seconds.
    Seconds,
    /// Requested bytes a second.
    Bandwidth,
    /// Requested bytes a second ÷ what the driver's own device-to-device copy
    /// reached in the same process.
    ShareOfCopy,
    /// The largest remainder of the buffers' base addresses by 256 bytes.
    #[serde(rename = "base_modulo_256")]
    BaseModulo256,
    /// The largest remainder of the buffers' pitches by 512 bytes.
    #[serde(rename = "pitch_modulo_512")]
    PitchModulo512,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The model.
    Model,
    /// The device.
    Device,
}

/// How a claim fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything that it says is so.
    Holds,
    /// Some of it is.
    HoldsInPart,
    /// Nothing of it is.
    DoesNotHoldHere,
    /// Nothing of it was predicted or measured.
    NotJudged,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Holds => "holds",
            Self::HoldsInPart => "holds in part",
            Self::DoesNotHoldHere => "does not hold here",
            Self::NotJudged => "not judged",
        })
    }
}

/// A claim with what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Its number.
    pub id: u32,
    /// What is claimed.
    pub claim: String,
    /// Why nothing is checked, where nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_judged: Option<String>,
    /// What is checked.
    pub rows: Vec<JudgedRow>,
    /// The model's verdict.
    pub model: Verdict,
    /// The device's.
    pub device: Verdict,
    /// The device's where it was measured, else the model's.
    pub verdict: Verdict,
}

/// A row with what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgedRow {
    /// In words.
    pub says: String,
    /// The condition in words: `≥ 80 %`.
    pub condition: String,
    /// What the model says, with whether the claim holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Answer>,
    /// What the device did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<Answer>,
}

/// A value with its judgement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The metric, or the ratio of two.
    pub value: f64,
    /// The value as it is printed.
    pub text: String,
    /// Whether the condition holds.
    pub holds: bool,
}

impl Claims {
    /// Reads a list.
    ///
    /// # Errors
    /// Text that is no such list.
    pub fn from_toml(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The list that comes with the crate.
    pub fn shipped() -> Self {
        // A test reads the file; without it nothing would be claimed.
        Self::from_toml(include_str!("../claims.toml")).unwrap_or(Self { claim: Vec::new() })
    }

    /// Judges every claim by `points`.
    pub fn judge(&self, points: &[Point]) -> Vec<Judged> {
        self.claim.iter().map(|claim| claim.judge(points)).collect()
    }
}

impl Claim {
    fn judge(&self, points: &[Point]) -> Judged {
        let rows: Vec<JudgedRow> = self.row.iter().map(|row| row.judge(points)).collect();
        let verdict = |of: fn(&JudgedRow) -> Option<&Answer>| {
            let known: Vec<bool> = rows.iter().filter_map(of).map(|answer| answer.holds).collect();
            match known.iter().filter(|holds| **holds).count() {
                _ if known.is_empty() => Verdict::NotJudged,
                0 => Verdict::DoesNotHoldHere,
                holding if holding == known.len() => Verdict::Holds,
                _ => Verdict::HoldsInPart,
            }
        };
        let (model, device) =
            (verdict(|row| row.model.as_ref()), verdict(|row| row.device.as_ref()));
        Judged {
            id: self.id,
            claim: self.text.clone(),
            not_judged: self.not_judged.clone(),
            model,
            device,
            verdict: if device == Verdict::NotJudged { model } else { device },
            rows,
        }
    }
}

impl Row {
    fn judge(&self, points: &[Point]) -> JudgedRow {
        let answer = |side: Side| {
            let at = |at: &At| self.metric.of(at.find(points)?, self.class, side);
            let mut value = at(&self.at)?;
            if let Some(over) = &self.over {
                value /= at(over)?;
            }
            // A hair of room for the rounding of a division.
            let room = 1e-9 * value.abs();
            let holds = value.is_finite()
                && self.min.is_none_or(|min| value >= min - room)
                && self.max.is_none_or(|max| value <= max + room);
            Some(Answer { value, text: self.number(value), holds })
        };
        JudgedRow {
            says: self.says.clone(),
            condition: self.condition(),
            model: answer(Side::Model),
            device: answer(Side::Device),
        }
    }

    fn condition(&self) -> String {
        match (self.min, self.max) {
            (Some(min), Some(max)) if min == max => format!("= {}", self.number(min)),
            (Some(min), Some(max)) => format!("{} to {}", self.number(min), self.number(max)),
            (Some(min), None) => format!("≥ {}", self.number(min)),
            (None, Some(max)) => format!("≤ {}", self.number(max)),
            (None, None) => String::new(),
        }
    }

    fn number(&self, value: f64) -> String {
        match self.percent {
            true => record::units::percent(value),
            false => record::units::average(value),
        }
    }
}

impl At {
    /// The point; the first of several that fit.
    pub fn find<'a>(&self, points: &'a [Point]) -> Option<&'a Point> {
        points.iter().find(|point| {
            let params: &Map<Value> = &point.key.params;
            point.key.scenario == self.scenario
                && point.key.variant == self.variant
                && self.params.iter().all(|(name, value)| {
                    params.get(name) == Some(&Value::Integer(i128::from(*value)))
                })
        })
    }
}

impl Metric {
    /// Its value at a point; `None` where that side doesn't know it.
    fn of(self, point: &Point, class: Option<OpClass>, side: Side) -> Option<f64> {
        let count = |quantity, class| count(point, quantity, class, side);
        let each = |quantity, of| {
            let class = class?;
            let requests = count(of, class)?;
            (requests > 0.0).then_some(count(quantity, class)? / requests)
        };
        let traffic = |quantity| {
            let record = match side {
                Side::Model => point.predicted.as_ref(),
                Side::Device => point.counted.as_ref(),
            };
            traffic(record?, quantity)
        };
        let time = || match side {
            Side::Model => seconds(point.predicted.as_ref()?),
            Side::Device => seconds(point.timed.as_ref()?),
        };
        let placed = || -> Option<&RunRecord> {
            match side {
                Side::Model => point.predicted.as_ref(),
                Side::Device => point.placed(),
            }
        };
        match self {
            Self::SectorsPerRequest => each(Quantity::Sectors, Quantity::Requests),
            Self::LinesPerRequest => each(Quantity::Tags, Quantity::Requests),
            Self::RequestsPerInstruction => each(Quantity::Requests, Quantity::Instructions),
            Self::UniqueEfficiency => {
                let moved =
                    count(Quantity::Sectors, class?)? * f64::from(crate::figures::SECTOR_BYTES);
                (moved > 0.0).then_some(count(Quantity::UniqueBytes, class?)? / moved)
            }
            Self::L2BytesPerRequest => {
                let requests = count(Quantity::Requests, class?)?;
                let record = match side {
                    Side::Model => point.predicted.as_ref(),
                    Side::Device => point.counted.as_ref(),
                }?;
                let sectors = record.traffic.as_ref()?.l2_read_sectors? as f64;
                Some(sectors * f64::from(crate::figures::SECTOR_BYTES) / requests)
            }
            Self::DramReadPerRequestedByte => {
                let asked = count(Quantity::UniqueBytes, class?)?;
                Some(traffic(Quantity::DramReadBytes)? / asked)
            }
            Self::Seconds => time(),
            Self::Bandwidth => Some(requested_bytes(point)? / time()?),
            Self::ShareOfCopy => {
                let copy = point.timed.as_ref()?.reference.as_ref()?.copy_bytes_per_s?;
                Some(requested_bytes(point)? / time()? / copy)
            }
            Self::BaseModulo256 if side == Side::Model => None,
            Self::BaseModulo256 => {
                placed()?.buffers.iter().map(|buffer| buffer.base % 256).max().map(|n| n as f64)
            }
            Self::PitchModulo512 => {
                let pitches = placed()?.buffers.iter().filter_map(|buffer| buffer.pitch);
                pitches.map(|pitch| pitch % 512).max().map(|n| n as f64)
            }
        }
    }
}

/// A counter of one class of operations.
fn count(point: &Point, quantity: Quantity, class: OpClass, side: Side) -> Option<f64> {
    let count = match side {
        Side::Device => measured_count(point.counted.as_ref()?, quantity, class)?,
        Side::Model => {
            let totals = point.predicted.as_ref()?.totals.as_ref()?.by_class.get(&class)?;
            let field = match quantity {
                Quantity::Sectors => Field::UniqueSectors.name(),
                Quantity::Instructions => "instructions",
                Quantity::Requests => Field::Requests.name(),
                Quantity::Tags => Field::Tags.name(),
                Quantity::UniqueBytes => Field::UniqueBytes.name(),
                _ => return None,
            };
            count_of(totals, field)?
        }
    };
    Some(count as f64)
}

/// The claims as a table in Markdown, for plots/claims.md.
pub fn markdown(judged: &[Judged], device: &str) -> String {
    use fmt::Write as _;
    let mut text = format!(
        "# What tutorials claim, and what {device} does\n\nMade by `coalescope compare -o plots` from \
         `crates/compare/claims.toml`; no verdict is typed in.\n\n\
         | # | claim | verdict |\n|--:|---|---|\n"
    );
    for claim in judged {
        let _ = writeln!(text, "| {} | {} | **{}** |", claim.id, claim.claim, claim.verdict);
    }
    text.push_str("\n## What was checked\n");
    for claim in judged {
        let _ = write!(text, "\n### {}. {}\n\n", claim.id, claim.claim);
        if let Some(why) = &claim.not_judged {
            let _ = writeln!(text, "{why}");
        }
        if claim.rows.is_empty() {
            continue;
        }
        if claim.not_judged.is_some() {
            text.push('\n');
        }
        text.push_str("| it says | holds if | model | device |\n|---|---|---|---|\n");
        for row in &claim.rows {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} |",
                row.says,
                row.condition,
                cell(row.model.as_ref()),
                cell(row.device.as_ref())
            );
        }
    }
    text
}

/// An answer as tables show it: the value with a mark.
pub fn cell(answer: Option<&Answer>) -> String {
    answer.map_or_else(
        || record::units::UNKNOWN.to_owned(),
        |answer| format!("{} {}", answer.text, if answer.holds { "yes" } else { "no" }),
    )
}
