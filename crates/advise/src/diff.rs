//! Two runs, or two lists of runs, side by side.
//!
//! [`match_runs`] tells which run of one list belongs to which of the other,
//! [`diff`] compares two of them: access by access
//! ([`crate::pairing`]) and as a whole. Whatever only one side has is
//! named, not dropped.

use crate::pairing::{By, Pair, Pairing, pair};
use record::{Access, Launch, Map, RunRecord, Source, Value};
use serde::{Serialize, Serializer};
use simulator::{Field, Totals};
use std::collections::{BTreeMap, BTreeSet};

/// The format of a [`RunDiff`] as JSON.
pub const FORMAT: &str = "coalescope-diff/1";

/// A figure with what it measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// A number of things: requests, sectors, bytes.
    Count(u128),
    /// An average, such as sectors a request.
    Average(f64),
    /// A share; 1.0 is 100 %.
    Share(f64),
    /// A time in seconds.
    Seconds(f64),
    /// Bytes a second.
    Rate(f64),
}

impl Figure {
    /// As a real number.
    pub fn value(self) -> f64 {
        match self {
            Self::Count(n) => n as f64,
            Self::Average(x) | Self::Share(x) | Self::Seconds(x) | Self::Rate(x) => x,
        }
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            // All digits, as in records.
            Self::Count(n) => serializer.serialize_u128(n),
            other => serializer.serialize_f64(other.value()),
        }
    }
}

/// One quantity on both sides; `None`: this side does not have it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name, that of the record's field where it is one.
    pub name: String,
    /// On the first side.
    pub a: Option<Figure>,
    /// On the second side.
    pub b: Option<Figure>,
}

impl Row {
    /// Whether the sides differ.
    pub fn differs(&self) -> bool {
        self.a != self.b
    }

    /// Second ÷ first; `None` where a side is missing or there was nothing.
    pub fn ratio(&self) -> Option<f64> {
        let (a, b) = (self.a?.value(), self.b?.value());
        (a != 0.0).then_some(b / a)
    }

    /// Second − first: whether it is negative, and how much.
    pub fn difference(&self) -> Option<(bool, Figure)> {
        let apart = |a: f64, b: f64| (b < a, (b - a).abs());
        Some(match (self.a?, self.b?) {
            (Figure::Count(a), Figure::Count(b)) => (b < a, Figure::Count(b.abs_diff(a))),
            (Figure::Average(a), Figure::Average(b)) => {
                let (less, by) = apart(a, b);
                (less, Figure::Average(by))
            }
            (Figure::Share(a), Figure::Share(b)) => {
                let (less, by) = apart(a, b);
                (less, Figure::Share(by))
            }
            (Figure::Seconds(a), Figure::Seconds(b)) => {
                let (less, by) = apart(a, b);
                (less, Figure::Seconds(by))
            }
            (Figure::Rate(a), Figure::Rate(b)) => {
                let (less, by) = apart(a, b);
                (less, Figure::Rate(by))
            }
            _ => return None,
        })
    }
}

/// An access that both runs have.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessDiff {
    /// Its numbers in the two records, and why they belong together.
    pub pair: Pair,
    /// Every quantity that a side has.
    pub rows: Vec<Row>,
}

/// Two runs compared.
#[derive(Clone, Debug)]
pub struct RunDiff<'r> {
    /// The first run.
    pub a: &'r RunRecord,
    /// The second run.
    pub b: &'r RunRecord,
    /// The accesses that both have.
    pub accesses: Vec<AccessDiff>,
    /// Accesses of the first run only.
    pub only_a: Vec<&'r Access>,
    /// Accesses of the second run only.
    pub only_b: Vec<&'r Access>,
    /// The kernel as a whole: totals, traffic, time.
    pub kernel: Vec<Row>,
}

/// Compares two runs.
///
/// ```
/// use coalescope_advise::diff::diff;
/// use record::{Access, Launch, RunRecord, Source};
/// use simulator::{Op, RuleSet, Totals, WarpAccess};
///
/// let rules = RuleSet::for_arch("9.0").unwrap();
/// let run = |stride: u64| {
///     let mut totals = Totals::default();
///     let addresses = std::array::from_fn(|lane| lane as u64 * stride);
///     totals.add(&rules.count(&WarpAccess::new(Op::LOAD, 4, addresses)));
///     let mut run = RunRecord::new("read", Source::Predicted, Launch::default());
///     run.accesses = vec![Access::new("x", Some(1), Op::LOAD, 4, totals)];
///     run
/// };
/// let (contiguous, strided) = (run(4), run(8));
/// let compared = diff(&contiguous, &strided);
/// let sectors = compared.accesses[0].rows.iter().find(|row| row.name == "sectors").unwrap();
/// assert_eq!(sectors.ratio(), Some(2.0));
/// assert!(!diff(&contiguous, &contiguous).differs());
/// ```
pub fn diff<'r>(a: &'r RunRecord, b: &'r RunRecord) -> RunDiff<'r> {
    let Pairing { pairs, only_a, only_b } = pair(&a.accesses, &b.accesses);
    let accesses = pairs
        .into_iter()
        .filter_map(|pair| {
            let (x, y) = (a.accesses.get(pair.a)?, b.accesses.get(pair.b)?);
            Some(AccessDiff { pair, rows: counted(Some(&x.counts), Some(&y.counts)) })
        })
        .collect();
    let totals = |run: &'r RunRecord| run.totals.as_ref().map(|totals| &totals.counts);
    let mut kernel = counted(totals(a), totals(b));
    // Requests of a kernel are to global and to shared memory, its sectors are
    // not: the one by the other says nothing.
    kernel.retain(|row| !matches!(row.a.or(row.b), Some(Figure::Average(_))));
    kernel.extend(beyond_l1(a, b));
    RunDiff {
        a,
        b,
        accesses,
        only_a: only_a.into_iter().filter_map(|index| a.accesses.get(index)).collect(),
        only_b: only_b.into_iter().filter_map(|index| b.accesses.get(index)).collect(),
        kernel,
    }
}

/// The fields whose averages over the requests say more than their sums.
const AVERAGED: [Field; 3] = [Field::Sectors, Field::DataWavefronts, Field::BankConflicts];

fn counted(a: Option<&Totals>, b: Option<&Totals>) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |name: String, of: &dyn Fn(&Totals) -> Option<Figure>| {
        let (a, b) = (a.and_then(of), b.and_then(of));
        if a.is_some() || b.is_some() {
            rows.push(Row { name, a, b });
        }
    };
    for field in Field::ALL {
        row(field.name().to_owned(), &|totals| totals.get(field).map(Figure::Count));
        if AVERAGED.contains(&field) {
            let average = |totals: &Totals| totals.per_request(field).map(Figure::Average);
            row(format!("{field}_per_request"), &average);
        }
    }
    row("requested_efficiency".to_owned(), &|totals| {
        totals.requested_efficiency().map(Figure::Share)
    });
    row("unique_efficiency".to_owned(), &|totals| totals.unique_efficiency().map(Figure::Share));
    rows
}

/// A quantity's name, and how it is read off the part of a record that has it.
type Named<Part, Value> = (&'static str, fn(&Part) -> Option<Value>);

/// Traffic, time and bandwidth, where a side has them.
fn beyond_l1(a: &RunRecord, b: &RunRecord) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |name: &str, of: &dyn Fn(&RunRecord) -> Option<Figure>| {
        let (a, b) = (of(a), of(b));
        if a.is_some() || b.is_some() {
            rows.push(Row { name: name.to_owned(), a, b });
        }
    };
    let traffic: [Named<record::Traffic, u128>; 6] = [
        ("l1_hit_sectors", |traffic| traffic.l1_hit_sectors),
        ("l2_read_sectors", |traffic| traffic.l2_read_sectors),
        ("l2_write_sectors", |traffic| traffic.l2_write_sectors),
        ("l2_atomic_sectors", |traffic| traffic.l2_atomic_sectors),
        ("dram_read_bytes", |traffic| traffic.dram_read_bytes),
        ("dram_write_bytes", |traffic| traffic.dram_write_bytes),
    ];
    for (name, of) in traffic {
        row(name, &|run| run.traffic.as_ref().and_then(of).map(Figure::Count));
    }
    row("seconds", &|run| run.time.as_ref()?.seconds.map(Figure::Seconds));
    let bandwidth: [Named<record::Bandwidth, f64>; 3] = [
        ("requested_bytes_per_s", |bandwidth| bandwidth.requested_bytes_per_s),
        ("l2_bytes_per_s", |bandwidth| bandwidth.l2_bytes_per_s),
        ("dram_bytes_per_s", |bandwidth| bandwidth.dram_bytes_per_s),
    ];
    for (name, of) in bandwidth {
        row(name, &|run| run.bandwidth.as_ref().and_then(of).map(Figure::Rate));
    }
    rows
}

impl RunDiff<'_> {
    /// Whether a count differs or an access is on one side only. Names and
    /// lines do not matter, nor what only one side has of the kernel as a whole:
    /// traffic and time are predicted for a device, or not at all.
    pub fn differs(&self) -> bool {
        !self.only_a.is_empty()
            || !self.only_b.is_empty()
            || self.kernel.iter().any(|row| row.a.is_some() && row.b.is_some() && row.differs())
            || self.accesses.iter().any(|access| access.rows.iter().any(Row::differs))
    }
}

/// One object: both runs' names, the accesses with every quantity on both
/// sides, difference (second − first) and ratio (second ÷ first).
impl Serialize for RunDiff<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let access = |access: &AccessDiff| {
            Some(AccessJson {
                a: AccessName::of(self.a.accesses.get(access.pair.a)?),
                b: AccessName::of(self.b.accesses.get(access.pair.b)?),
                matched_by: match access.pair.by {
                    By::Label => "label",
                    By::Buffer => "buffer",
                    By::Line => "line",
                    By::Order => "order",
                },
                quantities: quantities(&access.rows),
            })
        };
        DiffJson {
            format: FORMAT,
            a: Some(RunName::of(self.a)),
            b: Some(RunName::of(self.b)),
            differs: self.differs(),
            accesses: self.accesses.iter().filter_map(access).collect(),
            only_a: self.only_a.iter().map(|access| AccessName::of(access)).collect(),
            only_b: self.only_b.iter().map(|access| AccessName::of(access)).collect(),
            kernel: quantities(&self.kernel),
        }
        .serialize(serializer)
    }
}

/// A run that one side only has, as JSON: an object without the other side.
#[derive(Clone, Copy, Debug)]
pub struct OnlyRun<'r>(pub Side, pub &'r RunRecord);

impl Serialize for OnlyRun<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let run = Some(RunName::of(self.1));
        let (a, b) = match self.0 {
            Side::A => (run, None),
            Side::B => (None, run),
        };
        DiffJson { format: FORMAT, a, b, differs: true, ..DiffJson::default() }
            .serialize(serializer)
    }
}

#[derive(Default, Serialize)]
struct DiffJson<'r> {
    format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<RunName<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    b: Option<RunName<'r>>,
    differs: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accesses: Vec<AccessJson<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    only_a: Vec<AccessName<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    only_b: Vec<AccessName<'r>>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    kernel: Map<Sides>,
}

#[derive(Serialize)]
struct AccessJson<'r> {
    a: AccessName<'r>,
    b: AccessName<'r>,
    matched_by: &'static str,
    quantities: Map<Sides>,
}

/// The fields of a record that name a run.
#[derive(Serialize)]
struct RunName<'r> {
    scenario: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<&'r str>,
    params: &'r Map<Value>,
    source: Source,
    #[serde(skip_serializing_if = "Option::is_none")]
    arch: Option<&'r str>,
    launch: &'r Launch,
}

impl<'r> RunName<'r> {
    fn of(run: &'r RunRecord) -> Self {
        Self {
            scenario: &run.scenario,
            variant: run.variant.as_deref(),
            params: &run.params,
            source: run.source,
            arch: run.arch.as_deref(),
            launch: &run.launch,
        }
    }
}

/// The fields of a record that name an access.
#[derive(Serialize)]
struct AccessName<'r> {
    label: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    op: &'r str,
    width: u8,
}

impl<'r> AccessName<'r> {
    fn of(access: &'r Access) -> Self {
        Self { label: &access.label, line: access.line, op: &access.op, width: access.width }
    }
}

/// A quantity; what a side does not have is absent, never null.
#[derive(Serialize)]
struct Sides {
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    b: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<Signed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
}

fn quantities(rows: &[Row]) -> Map<Sides> {
    let sides = |row: &Row| Sides {
        a: row.a,
        b: row.b,
        difference: row.difference().map(|(less, by)| Signed { less, by }),
        ratio: row.ratio(),
    };
    rows.iter().map(|row| (row.name.clone(), sides(row))).collect()
}

struct Signed {
    less: bool,
    by: Figure,
}

impl Serialize for Signed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.by {
            Figure::Count(n) if !self.less => serializer.serialize_u128(n),
            Figure::Count(n) => {
                // Sums saturate far below 2^127.
                serializer.serialize_i128(i128::try_from(n).unwrap_or(i128::MAX).saturating_neg())
            }
            other => {
                serializer.serialize_f64(if self.less { -other.value() } else { other.value() })
            }
        }
    }
}

/// One of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first.
    A,
    /// The second.
    B,
}

/// Which runs of two lists belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunPairs {
    /// Indices into the two lists.
    pub pairs: Vec<(usize, usize)>,
    /// Runs of the first list only.
    pub only_a: Vec<usize>,
    /// Runs of the second list only.
    pub only_b: Vec<usize>,
}

/// Matches runs by what varies within a list: a parameter that a variant fixes
/// sets the lists apart, one that a sweep varies tells their runs apart.
///
/// Two lists of one run each always belong together.
pub fn match_runs(a: &[RunRecord], b: &[RunRecord]) -> RunPairs {
    if let ([_], [_]) = (a, b) {
        return RunPairs { pairs: vec![(0, 0)], ..RunPairs::default() };
    }
    let (facts_a, facts_b): (Vec<_>, Vec<_>) =
        (a.iter().map(facts).collect(), b.iter().map(facts).collect());
    let varies = |runs: &[BTreeMap<String, String>], name: &str| {
        runs.iter().map(|facts| facts.get(name)).collect::<BTreeSet<_>>().len() > 1
    };
    let known = |runs: &[BTreeMap<String, String>]| -> BTreeSet<String> {
        runs.iter().flat_map(|facts| facts.keys().cloned()).collect()
    };
    let keys: Vec<String> = known(&facts_a)
        .intersection(&known(&facts_b))
        .filter(|name| {
            let (in_a, in_b) = (varies(&facts_a, name), varies(&facts_b, name));
            // Names of variants and scenarios differ between lists by intent.
            if name.starts_with('=') { in_a || in_b } else { in_a && in_b }
        })
        .cloned()
        .collect();
    let key = |facts: &BTreeMap<String, String>| -> Vec<Option<String>> {
        keys.iter().map(|name| facts.get(name).cloned()).collect()
    };
    let mut waiting = BTreeMap::<_, std::collections::VecDeque<usize>>::new();
    for (index, facts) in facts_a.iter().enumerate() {
        waiting.entry(key(facts)).or_default().push_back(index);
    }
    let mut matched = RunPairs::default();
    for (index, facts) in facts_b.iter().enumerate() {
        match waiting.get_mut(&key(facts)).and_then(std::collections::VecDeque::pop_front) {
            Some(of_a) => matched.pairs.push((of_a, index)),
            None => matched.only_b.push(index),
        }
    }
    matched.only_a = waiting.into_values().flatten().collect();
    matched.only_a.sort_unstable();
    matched
}

/// What tells runs apart: parameters with `=` before their names, so that none
/// is taken for the rest.
fn facts(run: &RunRecord) -> BTreeMap<String, String> {
    let mut facts: BTreeMap<String, String> =
        run.params.iter().map(|(name, value)| (format!("={name}"), value.to_string())).collect();
    facts.insert("scenario".to_owned(), run.scenario.clone());
    let others = [
        ("variant", run.variant.clone()),
        ("arch", run.arch.clone()),
        ("cache", run.cache.map(|cache| cache.to_string())),
        ("part", run.part.map(|part| part.name().to_owned())),
        ("kernel", run.kernel.map(|kernel| kernel.name().to_owned())),
    ];
    for (name, value) in others {
        facts.extend(value.map(|value| (name.to_owned(), value)));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Value as Param;

    fn run(variant: Option<&str>, params: &[(&str, i64)]) -> RunRecord {
        let mut run = RunRecord::new("s", Source::Predicted, Launch::default());
        run.variant = variant.map(str::to_owned);
        run.params = params.iter().map(|&(name, value)| (name, Param::from(value))).collect();
        run
    }

    #[test]
    fn swept_parameters_match_and_fixed_ones_do_not_matter() {
        let sweep = |variant, pad, values: &[i64]| -> Vec<RunRecord> {
            values.iter().map(|&n| run(Some(variant), &[("pad", pad), ("n", n)])).collect()
        };
        let matched = match_runs(&sweep("a", 0, &[1, 2, 3]), &sweep("b", 1, &[3, 2, 4]));
        assert_eq!(matched.pairs, [(2, 0), (1, 1)]);
        assert_eq!((matched.only_a, matched.only_b), (vec![0], vec![2]));
    }

    #[test]
    fn variants_match_where_both_lists_have_several() {
        let both = |order: [&str; 2]| order.map(|variant| run(Some(variant), &[]));
        let matched = match_runs(&both(["x", "y"]), &both(["y", "x"]));
        assert_eq!(matched.pairs, [(1, 0), (0, 1)]);
    }

    #[test]
    fn single_runs_always_match() {
        let matched = match_runs(&[run(None, &[("n", 1)])], &[run(Some("x"), &[("n", 2)])]);
        assert_eq!(matched.pairs, [(0, 0)]);
    }

    #[test]
    fn counts_beyond_64_bits_keep_their_digits() {
        let row = Row {
            name: "sectors".to_owned(),
            a: Some(Figure::Count(u128::from(u64::MAX))),
            b: Some(Figure::Count(1)),
        };
        assert_eq!(row.difference(), Some((true, Figure::Count(u128::from(u64::MAX) - 1))));
        let nothing = Row { a: Some(Figure::Count(0)), ..row };
        assert_eq!(nothing.ratio(), None);
    }
}
