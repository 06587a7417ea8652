//! Tests of the command itself: the real binary, in a scratch folder.

mod browser;
mod cli;
mod documents;
mod recorded;
