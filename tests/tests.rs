//! Tests of the command itself: the real binary, in a scratch folder.

mod cli;
mod recorded;
