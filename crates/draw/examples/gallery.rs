//! Writes a gallery of pictures, one SVG for each of a range of patterns, to
//! the folder named (by default the current one), and prints them as text.
//!
//! `cargo run -p coalescope-draw --example gallery -- FOLDER`

use simulator::{AtomicOp, LaneMask, Op, OpKind, RuleSet, Space, WARP_LANES, WarpAccess};
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    for (name, arch, title, access) in gallery() {
        let Some(rules) = RuleSet::for_arch(arch) else { continue };
        anstream::println!("=== {title}\n{}", coalescope_draw::text(&rules, &access));
        std::fs::write(
            folder.join(format!("{name}.svg")),
            coalescope_draw::svg(&rules, &access, title),
        )?;
    }
    Ok(())
}

fn each(op: Op, width: u8, address: impl Fn(u64) -> u64) -> WarpAccess {
    let addresses = std::array::from_fn::<u64, WARP_LANES, _>(|lane| address(lane as u64));
    WarpAccess::new(op, width, addresses)
}

fn masked(mut access: WarpAccess, mask: u32) -> WarpAccess {
    access.mask = LaneMask(mask);
    access
}

fn gallery() -> Vec<(&'static str, &'static str, &'static str, WarpAccess)> {
    const BASE: u64 = 0x7000_0000_0000;
    let load = Op::LOAD;
    let red = Op::plain(OpKind::Reduction(AtomicOp::Add), Space::Global);
    let atom = Op::plain(OpKind::Atomic(AtomicOp::Add), Space::Global);
    let hash = |lane: u64| (lane.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44) & !3;
    vec![
        (
            "01-contiguous",
            "9.0",
            "Contiguous floats: one line, four sectors",
            each(load, 4, |l| BASE + 4 * l),
        ),
        ("02-misaligned", "9.0", "Misaligned by one float", each(load, 4, |l| BASE + 4 + 4 * l)),
        ("03-stride2", "9.0", "A stride of two floats", each(load, 4, |l| BASE + 8 * l)),
        ("04-stride8", "9.0", "A stride of eight floats", each(load, 4, |l| BASE + 32 * l)),
        ("05-stride32", "9.0", "A column of a row-major array", each(load, 4, |l| BASE + 128 * l)),
        (
            "06-column-pitched",
            "9.0",
            "A column of a pitched array",
            each(load, 4, |l| BASE + 16_896 * l),
        ),
        ("07-broadcast", "9.0", "All lanes read one float", each(load, 4, |_| BASE + 64)),
        ("08-reversed", "9.0", "Reversed lanes", each(load, 4, |l| BASE + 4 * (31 - l))),
        ("09-float3", "9.0", "One field of a 12-byte struct", each(load, 4, |l| BASE + 12 * l)),
        ("10-float4", "9.0", "16 bytes a lane", each(load, 16, |l| BASE + 16 * l)),
        (
            "11-tail",
            "9.0",
            "The tail of an array: 9 lanes on",
            masked(each(load, 4, |l| BASE + 4 * l), 0x1ff),
        ),
        (
            "12-divergent",
            "9.0",
            "Every other lane on",
            masked(each(load, 4, |l| BASE + 4 * l), 0x5555_5555),
        ),
        ("13-random", "9.0", "A random gather", each(load, 4, |l| BASE + hash(l))),
        ("14-bytes", "9.0", "Bytes of an interleaved RGB image", each(load, 1, |l| BASE + 3 * l)),
        ("15-reduction", "9.0", "A reduction on four words", each(red, 4, |l| BASE + 4 * (l % 4))),
        ("16-atomic", "9.0", "Atomics on scattered words", each(atom, 4, |l| BASE + hash(l))),
        ("17-shared-row", "9.0", "A row of a shared tile", each(Op::SHARED_LOAD, 4, |l| 4 * l)),
        (
            "18-shared-column",
            "9.0",
            "A column of a 32 × 32 shared tile",
            each(Op::SHARED_LOAD, 4, |l| 128 * l),
        ),
        (
            "19-shared-padded",
            "9.0",
            "The same column with one float of padding",
            each(Op::SHARED_LOAD, 4, |l| 132 * l),
        ),
        (
            "20-shared-16",
            "9.0",
            "16 bytes a lane from shared memory",
            each(Op::SHARED_LOAD, 16, |l| 16 * l),
        ),
        (
            "21-cc10",
            "1.0",
            "Misaligned by one float on compute capability 1.0",
            each(load, 4, |l| BASE + 4 + 4 * l),
        ),
        (
            "22-cc13",
            "1.3",
            "Misaligned by one float on compute capability 1.3",
            each(load, 4, |l| BASE + 4 + 4 * l),
        ),
        (
            "23-cc20",
            "2.0",
            "Misaligned by one float on compute capability 2.0",
            each(load, 4, |l| BASE + 4 + 4 * l),
        ),
        ("24-none", "9.0", "No lane on", masked(each(load, 4, |l| BASE + 4 * l), 0)),
    ]
}
