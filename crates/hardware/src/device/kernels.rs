//! PTX of the few kernels that serve the measurement itself. They need PTX 7.0
//! and sm_70 only, so that any driver since CUDA 11 accepts them; none of their
//! names begins like a measured kernel's.

/// Does nothing: its time is the launch overhead.
pub const EMPTY: (&str, &str) = ("coalescope_empty", EMPTY_TEXT);
const EMPTY_TEXT: &str = "\
.version 7.0
.target sm_70
.address_size 64
.visible .entry coalescope_empty()
{
    ret;
}
";

/// Writes pseudo-random 64-bit words: word i is `(mix(seed + i) & keep) | set`,
/// where `mix` is the finaliser of splitmix64 (also the scenario language's
/// `hash64`). Parameters: base, number of words, seed, keep, set.
pub const FILL: (&str, &str) = ("coalescope_fill", FILL_TEXT);
const FILL_TEXT: &str = "\
.version 7.0
.target sm_70
.address_size 64
.visible .entry coalescope_fill(
    .param .u64 base,
    .param .u64 words,
    .param .u64 seed,
    .param .u64 keep,
    .param .u64 set
)
{
    .reg .pred %p<2>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<14>;
    ld.param.u64 %rd1, [base];
    ld.param.u64 %rd2, [words];
    ld.param.u64 %rd3, [seed];
    ld.param.u64 %rd4, [keep];
    ld.param.u64 %rd5, [set];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, %nctaid.x;
    cvt.u64.u32 %rd6, %r3;
    mad.wide.u32 %rd7, %r1, %r2, %rd6;
    mul.wide.u32 %rd8, %r4, %r2;
$next:
    setp.ge.u64 %p1, %rd7, %rd2;
    @%p1 bra $done;
    add.s64 %rd9, %rd3, %rd7;
    shr.u64 %rd10, %rd9, 30;
    xor.b64 %rd9, %rd9, %rd10;
    mul.lo.s64 %rd9, %rd9, 0xbf58476d1ce4e5b9;
    shr.u64 %rd10, %rd9, 27;
    xor.b64 %rd9, %rd9, %rd10;
    mul.lo.s64 %rd9, %rd9, 0x94d049bb133111eb;
    shr.u64 %rd10, %rd9, 31;
    xor.b64 %rd9, %rd9, %rd10;
    and.b64 %rd9, %rd9, %rd4;
    or.b64 %rd9, %rd9, %rd5;
    shl.b64 %rd11, %rd7, 3;
    add.s64 %rd12, %rd1, %rd11;
    st.global.u64 [%rd12], %rd9;
    add.s64 %rd7, %rd7, %rd8;
    bra $next;
$done:
    ret;
}
";

/// Reads a buffer once, 16 bytes a thread at a time, so that what was in L2
/// before has left it. It reads rather than writes: lines that it leaves behind
/// are clean, and the kernel timed next does not pay for writing them back.
/// Parameters: base, number of 16-byte pieces, 0 (the sum is stored there
/// unless it is 0, which keeps the loads alive).
pub const FLUSH: (&str, &str) = ("coalescope_flush", FLUSH_TEXT);
const FLUSH_TEXT: &str = "\
.version 7.0
.target sm_70
.address_size 64
.visible .entry coalescope_flush(
    .param .u64 base,
    .param .u64 pieces,
    .param .u64 sink
)
{
    .reg .pred %p<3>;
    .reg .b32 %r<11>;
    .reg .b64 %rd<12>;
    ld.param.u64 %rd1, [base];
    ld.param.u64 %rd2, [pieces];
    ld.param.u64 %rd3, [sink];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, %nctaid.x;
    cvt.u64.u32 %rd4, %r3;
    mad.wide.u32 %rd5, %r1, %r2, %rd4;
    mul.wide.u32 %rd6, %r4, %r2;
    mov.u32 %r9, 0;
$next:
    setp.ge.u64 %p1, %rd5, %rd2;
    @%p1 bra $done;
    shl.b64 %rd7, %rd5, 4;
    add.s64 %rd8, %rd1, %rd7;
    ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd8];
    xor.b32 %r9, %r9, %r5;
    xor.b32 %r9, %r9, %r6;
    xor.b32 %r9, %r9, %r7;
    xor.b32 %r9, %r9, %r8;
    add.s64 %rd5, %rd5, %rd6;
    bra $next;
$done:
    cvt.u64.u32 %rd9, %r9;
    and.b64 %rd10, %rd9, %rd3;
    setp.eq.s64 %p2, %rd10, 0;
    @%p2 bra $end;
    st.global.u32 [%rd3], %r9;
$end:
    ret;
}
";

/// One thread that waits for a number of SM clock cycles, so that the host can
/// enqueue what follows meanwhile. Parameter: cycles.
pub const DELAY: (&str, &str) = ("coalescope_delay", DELAY_TEXT);
const DELAY_TEXT: &str = "\
.version 7.0
.target sm_70
.address_size 64
.visible .entry coalescope_delay(
    .param .u64 cycles
)
{
    .reg .pred %p<2>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [cycles];
    mov.u64 %rd2, %clock64;
$wait:
    mov.u64 %rd3, %clock64;
    sub.s64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p1, %rd4, %rd1;
    @%p1 bra $wait;
    ret;
}
";

/// The word that [`FILL`] writes at `index`, computed on the host.
pub const fn fill_word(seed: u64, index: u64, keep: u64, set: u64) -> u64 {
    let mut x = seed.wrapping_add(index);
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    (x & keep) | set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_has_its_entry_and_asks_for_no_new_driver() {
        for (entry, text) in [EMPTY, FILL, FLUSH, DELAY] {
            assert!(text.contains(&format!(".visible .entry {entry}(")), "{entry}");
            assert!(text.starts_with(".version 7.0\n.target sm_70\n"), "{entry}");
            assert!(!entry.starts_with(crate::job::MEASURED_PREFIX));
        }
    }

    #[test]
    fn fill_words_are_splitmix64() {
        // First outputs of splitmix64 for the states 0x9e3779b97f4a7c15 × 1, 2.
        let golden = 0x9e37_79b9_7f4a_7c15_u64;
        assert_eq!(fill_word(golden, 0, u64::MAX, 0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(fill_word(golden.wrapping_mul(2), 0, u64::MAX, 0), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(fill_word(7, 1, u64::MAX, 0), fill_word(8, 0, u64::MAX, 0));
        // Floats between 1 and 2.
        let word = fill_word(3, 9, 0x007f_ffff_007f_ffff, 0x3f80_0000_3f80_0000);
        let float = f32::from_bits(word as u32);
        assert!((1.0..2.0).contains(&float), "{float}");
    }
}
