//! PTX and CUDA C++ text of a scenario's run.
//!
//! # What it does
//!
//! The model says which addresses a kernel's warps access; this crate writes
//! the kernel that a GPU runs to say the same. [`emit`] makes PTX with exactly
//! the scenario's accesses: operation, width, vector, cache operator, space and
//! order, under the scenario's loops, branches and barriers, with indices that
//! come from memory really loaded. [`cuda::emit`] makes a complete CUDA C++
//! file around the kernel as its author wrote it. Both are text: nothing here
//! needs a GPU, a driver or a compiler.
//!
//! ```
//! use coalescope_ptx::{Purpose, cuda, emit};
//! use scenario::{Disk, Options, Scenario};
//!
//! let text = r#"
//! [params]
//! n = 1000
//! [launch]
//! grid = ["(n + 255) / 256"]
//! block = [256]
//! [buffers]
//! in = { type = "float4", shape = ["n"] }
//! [kernel]
//! code = """
//! int i = blockIdx.x * blockDim.x + threadIdx.x;
//! if (i < n) load(in[i]);
//! """
//! "#;
//! let scenario = Scenario::from_text("quads.toml", text, &Disk)?;
//! let run = scenario.runs(&[], Options::default())?[0].build()?;
//!
//! let emitted = emit(&run, Purpose::Measure).map_err(|error| error.message)?;
//! assert_eq!(emitted.sites[0].instruction, "ld.global.v4.b32");
//! assert_eq!((emitted.version.to_string(), emitted.target.to_string()),
//!            ("7.0".to_owned(), "sm_70".to_owned()));
//!
//! assert!(cuda::emit(&run).contains("    if (i < n) load(in[i]);"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The way of a kernel
//!
//! | stage | module | result |
//! |---|---|---|
//! | loops with settled trips are written out, as `nvcc` does | `unroll` | a program |
//! | statements and expressions become instructions | `lower` | a tree, [`syntax`] |
//! | the lowest version and target that they need | [`requirements`] | `.version`, `.target` |
//! | the tree becomes text | [`print`](mod@print) | [`Emitted`] |
//!
//! # Nouns
//!
//! - **Site**: a place of the source that touches memory. Each of its
//!   instructions in the text is known by its line ([`EmittedSite`]).
//! - **Mix**: a register that combines everything a thread has loaded. It is
//!   what unknown values are stored as, so that a copy's store waits for its
//!   load as the author's does.
//! - **Sink**: a parameter that is 0. A thread ends by combining its mix with
//!   it and would store there if the result were not 0; so no assembler may
//!   drop a load, and no thread ever stores.
//! - **Purpose**: to be measured, or to be verified: then each thread also adds
//!   up hashes of the addresses and data that it touched, and the host compares
//!   the sums with its own ([`verify`]).
//!
//! # What holds and what does not
//!
//! - Integers wrap, divide and shift as in the model: 32 and 64 bits, signed
//!   and unsigned; narrower types extended by their sign.
//! - Arrays that a thread has for itself are registers. An index that is not
//!   settled after unrolling is compared with every element's number; nothing
//!   goes to local memory.
//! - A warp reconverges where the model's does, at the end of each statement
//!   (checked in the machine code of `ptxas` 13.0 for 7.5 and 9.0, with and
//!   without optimisation).
//! - **Counting wants optimisation level 0**, the driver's
//!   `CU_JIT_OPTIMIZATION_LEVEL`. Above it the assembler merges equal loads,
//!   moves invariant ones out of loops, joins neighbouring ones, puts short
//!   branches under predicates (an instruction is then executed by warps that
//!   have no active lane), and lets one lane act for all in an atomic on one
//!   address.
//! - Asynchronous copies are waited for at barriers and at the thread's end.
//! - Floats are moved, never computed with. Atomics on floats add numbers
//!   between 1 and 2.
//! - Some atomics are no single instruction of the machine: on 9.0 `ptxas` 13.0
//!   makes loops of a load and a compare-and-swap of shared-memory additions of
//!   floats and of 64-bit integers, and of global additions of single halves.
//!   How often such a loop turns depends on who meets whom.
//!
//! # What it leaves out
//!
//! Textures, tensor-map copies, `ldmatrix`, clusters and local memory: the
//! scenario language has none of them. Reading PTX.

pub mod cuda;
pub mod emitted;
mod fold;
mod lower;
pub mod print;
pub mod requirements;
pub mod syntax;
mod text;
mod unroll;
pub mod verify;

pub use emitted::{Emitted, EmittedSite, Parameter, Purpose};

use scenario::program::SiteId;
use scenario::{Diagnostic, Run};

/// The PTX of one run, as text.
///
/// # Errors
/// What PTX has no instruction for, at its place in the scenario.
pub fn emit(run: &Run, purpose: Purpose) -> Result<Emitted, Box<Diagnostic>> {
    let lowered = lowered(run, purpose)?;
    let printed = print::print(&lowered.module);

    let mut sites: Vec<EmittedSite> = (0..run.program.sites.len())
        .map(|i| EmittedSite { site: SiteId(i), instruction: String::new(), lines: Vec::new() })
        .collect();
    for (tag, line, opcode) in printed.tagged {
        if let Some(site) = sites.get_mut(tag) {
            site.instruction = opcode;
            site.lines.push(line);
        }
    }
    Ok(Emitted {
        text: printed.text,
        entry: lowered.entry,
        parameters: lowered.parameters,
        version: lowered.module.version,
        target: lowered.module.target,
        shared_bytes: run.program.shared_bytes,
        sites,
    })
}

/// The PTX of one run, as the tree that [`emit`] prints. Its instructions are
/// tagged with the number of the site they belong to.
///
/// # Errors
/// As [`emit`].
pub fn module(run: &Run, purpose: Purpose) -> Result<syntax::Module, Box<Diagnostic>> {
    lowered(run, purpose).map(|lowered| lowered.module)
}

fn lowered(run: &Run, purpose: Purpose) -> Result<lower::Lowered, Box<Diagnostic>> {
    let unrolled = unroll::unroll(&run.program);
    lower::lower(run, &unrolled, purpose)
}

#[cfg(test)]
mod hand;

#[cfg(test)]
mod tests {
    use super::*;

    use scenario::program::*;

    fn lines_of(emitted: &Emitted, site: usize) -> Vec<&str> {
        let lines: Vec<&str> = emitted.text.lines().collect();
        emitted.sites[site].lines.iter().map(|&n| lines[n - 1].trim()).collect()
    }

    /// Every memory instruction of the text but parameters, in order.
    fn memory(emitted: &Emitted) -> Vec<&str> {
        emitted
            .text
            .lines()
            .map(str::trim)
            .filter(|line| {
                let opcode = line.split(' ').find(|word| !word.starts_with('@')).unwrap_or("");
                ["ld.", "st.", "red.", "atom.", "cp."].iter().any(|op| opcode.starts_with(op))
                    && !opcode.starts_with("ld.param")
            })
            .collect()
    }

    #[test]
    fn a_copy_has_its_load_its_store_and_the_store_that_never_runs() {
        let emitted = emit(&hand::copy(), Purpose::Measure).unwrap();
        assert_eq!(
            memory(&emitted),
            [
                "ld.global.b32 %r5, [%rd2];",
                "st.global.b32 [%rd5], %r6;",
                "st.global.b32 [%rd6], %r6;"
            ]
        );
        assert!(emitted.text.contains("    @%p1 ret;\n    st.global.b32 [%rd6], %r6;\n    ret;\n"));
        assert_eq!(lines_of(&emitted, 0), ["ld.global.b32 %r5, [%rd2];"]);
        assert_eq!(emitted.sites[1].instruction, "st.global.b32");
        assert_eq!(
            emitted.parameters,
            [Parameter::Buffer(BufferId(0)), Parameter::Buffer(BufferId(1)), Parameter::Sink]
        );
        assert_eq!(emitted.entry, "coalescope_hand");
        assert!(emitted.text.contains(".version 7.0\n.target sm_70\n"));
    }

    #[test]
    fn a_verifying_copy_adds_its_sums_to_the_results_alone() {
        let emitted = emit(&hand::copy(), Purpose::Verify).unwrap();
        let memory = memory(&emitted);
        assert!(memory[0].starts_with("ld.global.b32") && memory[1].starts_with("st.global.b32"));
        assert_eq!(memory.len(), 2 + 5);
        assert!(memory[2..].iter().all(|line| line.contains("red.global.add.u64 [%rd49")));
        assert_eq!(emitted.parameters.last(), Some(&Parameter::Results));
    }

    /// `for (int j = 0; j < trips; ++j) load(in[j]);`
    fn counted(trips: i64) -> Run {
        let j = || hand::local(0, hand::I32);
        let mut run = hand::copy();
        run.program = Program {
            sites: vec![hand::site(
                "in[j]",
                simulator::Op::LOAD,
                Scalar::F32,
                1,
                Root::Buffer(BufferId(0)),
            )],
            locals: vec![hand::variable("j", hand::I32)],
            body: vec![
                hand::set(0, hand::number(0, hand::I32)),
                hand::stmt(StmtKind::Loop {
                    header: Vec::new(),
                    condition: hand::compare(CompareOp::Lt, j(), hand::number(trips, hand::I32)),
                    body: vec![hand::stmt(StmtKind::Access(hand::access(0, hand::at(0, j(), 4))))],
                    step: vec![hand::set(
                        0,
                        hand::binary(BinaryOp::Add, j(), hand::number(1, hand::I32)),
                    )],
                    test_first: true,
                }),
            ],
            ..Program::default()
        };
        run
    }

    #[test]
    fn short_loops_are_written_out() {
        let emitted = emit(&counted(4), Purpose::Measure).unwrap();
        let addresses: Vec<&str> =
            lines_of(&emitted, 0).into_iter().map(|line| line.split_once('[').unwrap().1).collect();
        assert_eq!(addresses, ["%rd0];", "%rd0+4];", "%rd0+8];", "%rd0+12];"]);
        assert!(!emitted.text.contains("bra"));
    }

    #[test]
    fn long_loops_are_repeated_four_times_and_keep_their_rest() {
        let emitted = emit(&counted(1003), Purpose::Measure).unwrap();
        assert_eq!(lines_of(&emitted, 0).len(), 4 + 3);
        assert!(emitted.text.contains("setp.ne.s32 %p0, %r0, 1000;"), "{}", emitted.text);
        assert!(emitted.text.contains("[%rd0+4000];"));
    }
}
