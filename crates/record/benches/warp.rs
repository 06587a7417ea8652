//! Lines a second of `coalescope warp`, on one core.
//!
//! `cargo bench -p coalescope-record` prints the time for 10,000 lines of about
//! 450 bytes; 25 ms are 400,000 lines a second.

use coalescope_record::warp;
use divan::counter::{BytesCount, ItemsCount};
use simulator::RuleSet;

const LINES: u64 = 10_000;

fn main() {
    divan::main();
}

/// The text of `LINES` lines whose lanes' distances are `offset(line, lane)`.
fn lines(offset: impl Fn(u64, u64) -> u64) -> String {
    let line = |line: u64| {
        let addresses: Vec<u64> =
            (0..32).map(|lane| 139_637_976_727_552 + 4 * offset(line, lane)).collect();
        format!(
            "{{\"id\":{line},\"op\":\"ld\",\"width\":4,\"mask\":4294967295,\"addresses\":{addresses:?}}}\n"
        )
    };
    (0..LINES).map(line).collect()
}

fn answer(bencher: divan::Bencher<'_, '_>, text: &str) {
    let rules = RuleSet::for_arch("9.0").expect("shipped");
    let one_core = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    bencher.counter(ItemsCount::new(LINES)).counter(BytesCount::of_str(text)).bench(|| {
        one_core.install(|| {
            let mut output = Vec::new();
            // As from a file through a buffer of a megabyte.
            let input = std::io::BufReader::with_capacity(1 << 20, text.as_bytes());
            warp::stream(&rules, input, &mut output).map(|summary| (summary, output))
        })
    });
}

#[divan::bench]
fn contiguous(bencher: divan::Bencher<'_, '_>) {
    answer(bencher, &lines(|line, lane| 32 * line + lane));
}

#[divan::bench]
fn strided(bencher: divan::Bencher<'_, '_>) {
    answer(bencher, &lines(|line, lane| 32 * line + lane * (line % 64)));
}

#[divan::bench]
fn scattered(bencher: divan::Bencher<'_, '_>) {
    answer(
        bencher,
        &lines(|line, lane| (line * 32 + lane).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40),
    );
}
