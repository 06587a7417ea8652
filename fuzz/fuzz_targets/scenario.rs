//! Scenario files: read, built, counted.
#![no_main]

#[path = "../checks/scenario.rs"]
mod checks;
#[path = "../checks/run.rs"]
mod run;

libfuzzer_sys::fuzz_target!(|text: &[u8]| checks::check_scenario(text));
