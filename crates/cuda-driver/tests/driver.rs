//! The forwarders against a mock driver library, no driver, and a library that
//! is none. The library is opened once a process, so each case runs this test
//! binary again as a child.

// Calling the forwarders is the test.
#![allow(unsafe_code)]

mod mock;

use coalescope_cuda_driver::{
    DRIVER_VARIABLE, FORWARDED, Missing, availability, error_name, last_failure,
};
use cust_raw::CUresult;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs the `#[test]` named `case` of this binary in a child process.
fn child(case: &str, library: &Path, variables: &[(&str, &str)]) {
    let output = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", case, "--nocapture"])
        .env("MOCK_CHILD", case)
        .env(DRIVER_VARIABLE, library)
        .envs(variables.iter().copied())
        .output()
        .expect("the child starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{case}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Whether this process is the child for `case`.
fn is_child(case: &str) -> bool {
    std::env::var("MOCK_CHILD").is_ok_and(|name| name == case)
}

fn mock() -> PathBuf {
    mock::driver(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

#[test]
fn forwards_to_the_library() {
    if !is_child("forwards_to_the_library") {
        return child("forwards_to_the_library", &mock(), &[("MOCK_CUDA_VERSION", "12040")]);
    }
    let driver = availability().expect("the mock has a device");
    assert_eq!((driver.cuda, driver.devices), ((12, 4), 1));

    let mut version = 0;
    // SAFETY: the pointer is to a live int.
    let code = unsafe { cust_raw::cuDriverGetVersion(&mut version) };
    assert_eq!((code, version), (CUresult::CUDA_SUCCESS, 12040));
    assert_eq!(last_failure(), None);

    // Eleven arguments arrive in order: the mock refuses an unknown function.
    let null: *mut u8 = std::ptr::null_mut();
    // SAFETY: the mock reads no argument of a function it does not know.
    let code = unsafe {
        cust_raw::cuLaunchKernel(
            null.cast(),
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            null.cast(),
            null.cast(),
            null.cast(),
        )
    };
    assert_eq!(code, CUresult::CUDA_ERROR_INVALID_CONTEXT);
    let failure = last_failure().expect("a failure was noted");
    assert_eq!((failure.function, failure.code), ("cuLaunchKernel", 201));
}

#[test]
fn a_function_the_driver_lacks_is_not_supported() {
    const CASE: &str = "a_function_the_driver_lacks_is_not_supported";
    if !is_child(CASE) {
        return child(CASE, &mock(), &[]);
    }
    // SAFETY: no pointer is followed: the mock has no such function.
    let code = unsafe { cust_raw::cuMemPrefetchAsync(0, 0, 0, std::ptr::null_mut()) };
    assert_eq!(code, CUresult::CUDA_ERROR_NOT_SUPPORTED);
}

#[test]
fn an_unknown_code_is_kept_as_a_number() {
    const CASE: &str = "an_unknown_code_is_kept_as_a_number";
    if !is_child(CASE) {
        return child(CASE, &mock(), &[("MOCK_CUDA_INIT", "912")]);
    }
    // SAFETY: takes a number.
    let code = unsafe { cust_raw::cuInit(0) };
    assert_eq!(code, CUresult::CUDA_ERROR_UNKNOWN);
    assert_eq!(last_failure().map(|failure| failure.code), Some(912));
    assert_eq!(error_name(912).as_deref(), Some("CUDA_ERROR_NEWER_THAN_THE_BINDINGS"));
    let missing = availability().expect_err("cuInit fails");
    assert!(
        missing.to_string().contains("cuInit returned CUDA_ERROR_NEWER_THAN_THE_BINDINGS (912)"),
        "{missing}"
    );
}

#[test]
fn without_a_library_calls_fail_and_say_so() {
    const CASE: &str = "without_a_library_calls_fail_and_say_so";
    if !is_child(CASE) {
        return child(CASE, Path::new("/nonexistent/libcuda.so.1"), &[]);
    }
    // SAFETY: takes a number.
    let code = unsafe { cust_raw::cuInit(0) };
    assert_eq!(code, CUresult::CUDA_ERROR_NOT_INITIALIZED);
    assert_eq!(error_name(1), None);
    let missing = availability().expect_err("there is no such file");
    assert!(matches!(&missing, Missing::Library { name, .. } if name.ends_with("libcuda.so.1")));
    let text = missing.to_string();
    assert!(text.contains("no NVIDIA driver found"), "{text}");
    assert!(text.contains(DRIVER_VARIABLE), "{text}");
}

#[test]
fn a_library_that_is_no_driver_is_named() {
    const CASE: &str = "a_library_that_is_no_driver_is_named";
    if !is_child(CASE) {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let source = folder.join("other.rs");
        std::fs::write(&source, "#[unsafe(no_mangle)] pub extern \"C\" fn other() {}")
            .expect("a file");
        return child(CASE, &mock::build(&source, "cdylib", folder), &[]);
    }
    let missing = availability().expect_err("it has no cuInit");
    assert!(matches!(missing, Missing::Symbol { symbol: "cuInit", .. }), "{missing}");
}

#[test]
fn a_driver_without_devices_is_told_apart() {
    const CASE: &str = "a_driver_without_devices_is_told_apart";
    if !is_child(CASE) {
        return child(CASE, &mock(), &[("MOCK_CUDA_DEVICES", "0")]);
    }
    let missing = availability().expect_err("no device");
    assert!(matches!(missing, Missing::Device { cuda: (13, 0), .. }), "{missing}");
    assert!(missing.to_string().contains("CUDA_VISIBLE_DEVICES"));
}

#[test]
fn each_symbol_is_forwarded_once() {
    let mut names = FORWARDED.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FORWARDED.len());
    assert!(names.contains(&"cuLaunchKernel") && names.contains(&"cuMemAddressReserve"));
}
