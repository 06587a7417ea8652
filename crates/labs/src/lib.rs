//! Teaching labs: text, questions whose answers are computed, and exercises
//! with goals.
//!
//! A lab is a folder. `text.md` is what a student reads, `lab.toml` has the
//! questions and the goals, and the scenarios beside them are what the questions
//! are about. A teacher adds one without touching Rust;
//! `scenarios/labs/README.md` describes the files.
//!
//! No expected number stands in a lab. A question names a *point* (a scenario
//! with its variant and parameters) and a metric of it; the model counts it, or
//! the recorded campaign has it. A misconception is recognised the same way: by
//! the number that it would lead to.
//!
//! # From folder to mark
//!
//! 1. [`Lab::load`] reads and checks the folder: a [`Lab`], which is all there
//!    is to show, in order.
//! 2. A [`Workbench`] settles a lab's numbers for one seed and computes what its
//!    expressions name.
//! 3. [`Workbench::pose`] makes a [`Posed`] question: the words, the right answer,
//!    and the wrong ones with what lies behind them.
//! 4. [`session::run`] holds the conversation; [`grade`] marks files of answers
//!    and edited scenarios, by [`exercise`].
//!
//! # What it leaves out
//!
//! The values that a kernel computes: an exercise compares which elements are read
//! and written, and by which block, not what is stored in them.

mod campaign;
mod comparison;
mod document;
mod elements;
mod error;
pub mod exercise;
mod expression;
pub mod grade;
mod kernel;
mod lab;
mod metric;
mod numbers;
mod question;
pub mod session;
pub mod show;
pub mod site;
mod workbench;

pub use campaign::Campaign;
pub use comparison::{Compared, Comparison};
pub use document::{
    Choice, Document, Exercise, Goal, Kind, Numbers, Pair, Point, Question, Racer, Setting, Wrong,
};
pub use error::LabError;
pub use kernel::{launch_text, source_text};
pub use lab::{Lab, SHIPPED, Section, folders};
pub use metric::{Quantity, Unit};
pub use question::{Answer, Marked, Posed, Right};
pub use workbench::{Figure, Shown, Workbench};
