//! `lab.toml` as it is written.

use serde::Deserialize;
use std::collections::BTreeMap;

/// A whole `lab.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The lab's title.
    pub title: String,
    /// How long it takes, in minutes.
    pub minutes: u32,
    /// Numbers of the claims of teaching articles that the lab judges.
    #[serde(default)]
    pub claims: Vec<u32>,
    /// Numbers that a seed draws anew for each student, by name.
    #[serde(default)]
    pub numbers: BTreeMap<String, Numbers>,
    /// What the expressions refer to: `{NAME: METRIC}`.
    #[serde(default)]
    pub point: BTreeMap<String, Point>,
    /// Named expressions.
    #[serde(default)]
    pub value: BTreeMap<String, String>,
    /// The questions, in order.
    #[serde(default)]
    pub question: Vec<Question>,
    /// The exercise.
    pub exercise: Option<Exercise>,
}

/// A number that each student gets another of.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// The number without a seed.
    pub shown: i64,
    /// The numbers to draw from.
    pub of: Option<Vec<i64>>,
    /// The least, where a range is drawn from.
    pub from: Option<i64>,
    /// The most.
    pub to: Option<i64>,
    /// From one to the next.
    #[serde(default = "one")]
    pub step: i64,
}

fn one() -> i64 {
    1
}

/// A run of a scenario, and perhaps one access and one warp of it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The scenario file, from the lab's folder; or `shipped:NAME`.
    pub scenario: String,
    /// Its variant.
    pub variant: Option<String>,
    /// Parameters with other values.
    #[serde(default)]
    pub params: BTreeMap<String, Setting>,
    /// The access by its label or text; all accesses to global memory without.
    pub access: Option<String>,
    /// The block whose warp is drawn.
    #[serde(default)]
    pub block: [u64; 3],
    /// The warp of it.
    #[serde(default)]
    pub warp: u32,
    /// Compute capability of the rules.
    #[serde(default = "newest_measured")]
    pub arch: String,
}

fn newest_measured() -> String {
    "9.0".to_owned()
}

/// A parameter's value: a number, or an expression over the lab's numbers.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum Setting {
    /// A number.
    Number(i64),
    /// An expression.
    Expression(String),
}

/// How a question is answered.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// With a number.
    Number,
    /// With one of several statements.
    Choice,
    /// With the fastest of several runs, and perhaps by how much.
    FasterWhich,
}

/// A question.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// What answer files call it.
    pub id: String,
    /// The heading of the section after which it is asked.
    pub after: String,
    /// How it is answered.
    pub kind: Kind,
    /// The point whose kernel is shown before it, and whose warp is drawn after.
    pub show: Option<String>,
    /// The point whose warp is drawn after it, in the place of that of `show`.
    pub picture: Option<String>,
    /// The question, Markdown.
    pub ask: String,
    /// `number`: the unit of the answer, in words; `%` for a share.
    #[serde(default)]
    pub unit: String,
    /// `number`: the right answer, an expression.
    pub expect: Option<String>,
    /// `number`: how far off is still right: `"5%"`, or an expression.
    pub tolerance: Option<String>,
    /// What is said after the answer, whatever it was.
    pub explain: String,
    /// `number`: answers with a misconception behind them.
    #[serde(default)]
    pub wrong: Vec<Wrong>,
    /// `choice`: the statements.
    #[serde(default)]
    pub choice: Vec<Choice>,
    /// `faster-which`: the runs.
    #[serde(default)]
    pub racer: Vec<Racer>,
    /// `faster-which`: times that differ by no more than this share are the same,
    /// and the right answer is `same`.
    pub same_within: Option<f64>,
    /// `faster-which`: how far off the factor between the slowest and the fastest
    /// may be, as a share; without it no factor is asked for.
    pub factor_within: Option<f64>,
    /// `faster-which`: what lies behind the answer `same`, where that is wrong.
    pub same_says: Option<String>,
}

/// Wrong answers to a number, and what lies behind them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wrong {
    /// The answer, an expression.
    pub value: Option<String>,
    /// All answers below this one, an expression.
    pub below: Option<String>,
    /// All answers above this one, an expression.
    pub above: Option<String>,
    /// The misconception.
    pub says: String,
}

/// A statement to choose.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The statement.
    pub text: String,
    /// Whether it is right: a comparison.
    pub holds: String,
    /// The misconception behind it, where it is wrong.
    #[serde(default)]
    pub says: String,
}

/// A run whose recorded time is compared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Racer {
    /// The answer that names it.
    pub name: String,
    /// The point.
    pub point: String,
    /// The misconception behind choosing it, where it is not the fastest.
    #[serde(default)]
    pub says: String,
}

/// A scenario to edit, and when it is good.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exercise {
    /// What to do, Markdown.
    pub ask: String,
    /// The scenario that the student starts from, in the lab's folder.
    pub start: String,
    /// A scenario that meets the goals, in the lab's folder.
    pub solution: String,
    /// Parameters of the scenario that take random values.
    #[serde(default)]
    pub sizes: BTreeMap<String, Numbers>,
    /// Names of buffers or fields in a submission that stand for others of the
    /// start: `x = "p.x"`.
    #[serde(default)]
    pub same: BTreeMap<String, String>,
    /// Buffers or fields of a submission that are padding: whether they are
    /// touched counts for nothing.
    #[serde(default)]
    pub padding: Vec<String>,
    /// Buffers that stay where they are: as far into their allocation as in the start.
    #[serde(default)]
    pub keep: Vec<String>,
    /// Which element a block must have read before it writes another.
    #[serde(default)]
    pub pair: Vec<Pair>,
    /// The goals.
    pub goal: Vec<Goal>,
}

/// What a block writes must come from what it reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// The buffer or field written, as the start calls it.
    pub written: String,
    /// The buffer or field read.
    pub read: String,
    /// The element read for the written element `e`: an expression over `e` and
    /// the scenario's parameters.
    pub element: String,
}

/// A quantity of the edited scenario with its bound.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// The goal in words.
    pub what: String,
    /// The metric, of all accesses to global memory together unless it is one of
    /// shared memory.
    pub metric: String,
    /// The least it may be: an expression, in which `start` is the same metric of
    /// the untouched scenario and names are the scenario's parameters.
    pub at_least: Option<String>,
    /// The most it may be.
    pub at_most: Option<String>,
}
