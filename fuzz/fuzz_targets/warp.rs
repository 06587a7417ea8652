//! Lines for `coalescope warp`.
#![no_main]

#[path = "../checks/warp.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::check(input));
