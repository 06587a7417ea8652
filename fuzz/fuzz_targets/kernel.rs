//! Kernels: lowered, counted, and written as PTX and CUDA C++.
#![no_main]

#[path = "../checks/kernel.rs"]
mod checks;
#[path = "../checks/run.rs"]
mod run;

libfuzzer_sys::fuzz_target!(|code: &[u8]| {
    if let Some(run) = checks::check_kernel(code) {
        // What PTX cannot say is refused with a message.
        for purpose in [ptx::Purpose::Measure, ptx::Purpose::Verify] {
            let _ = ptx::emit(&run, purpose);
        }
        ptx::cuda::emit(&run);
    }
});
