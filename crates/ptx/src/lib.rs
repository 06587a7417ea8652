//! PTX and CUDA C++ text of a scenario's run.

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

/// The PTX of one run.
///
/// # Errors
/// What PTX has no instruction for, at its place in the scenario.
pub fn emit(run: &Run, purpose: Purpose) -> Result<Emitted, Box<Diagnostic>> {
    let unrolled = unroll::unroll(&run.program);
    let lowered = lower::lower(run, &unrolled, purpose)?;
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
