//! Which counters a single warp's launch is asked for.
//!
//! The names on the left are those of the recorded warps
//! (`tests/hardware/h200`); the values are the profiler's own, nothing is
//! subtracted. A kernel of one memory instruction needs only the counters of
//! its own class, and the fewer there are, the fewer times the profiler has to
//! replay the kernel; so lines are counted class by class.

use record::OpClass;

/// How many counters are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CounterSet {
    /// What a model of the pipeline predicts: requests, sectors, tags,
    /// wavefronts, bank conflicts.
    Minimal,
    /// All that the recorded warps have: also reads and writes of the data
    /// banks, writeback, L2.
    #[default]
    Full,
}

/// Counters of an access through the tag stage, with `{G}` for the class. The
/// flag is for [`CounterSet::Minimal`].
const TAGGED: &[(&str, &str, bool)] = &[
    ("requests", "l1tex__t_requests_{G}.sum", true),
    ("sectors", "l1tex__t_sectors_{G}.sum", true),
    ("tags", "l1tex__t_set_accesses_{G}.sum", true),
    ("tag_wavefronts", "l1tex__t_output_wavefronts_{G}.sum", true),
    ("set_conflicts", "l1tex__t_set_conflicts_{G}.sum", false),
];

/// Counters of shared memory, with `{op}`.
const SHARED: &[(&str, &str, bool)] = &[
    ("shared_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum", true),
    ("shared_bank_conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum", true),
];

/// Counters of the data stage: all work of the load/store pipe.
const DATA: &[(&str, &str, bool)] = &[
    ("data_pipe_wavefronts", "l1tex__data_pipe_lsu_wavefronts.sum", true),
    ("data_bank_conflicts", "l1tex__data_bank_conflicts_pipe_lsu.sum", true),
    ("data_bank_reads", "l1tex__data_bank_reads.sum", false),
    ("data_bank_writes", "l1tex__data_bank_writes.sum", false),
    ("writeback_active", "l1tex__lsu_writeback_active.sum", false),
];

/// Counters of what reaches L2.
const L2: &[(&str, &str, bool)] = &[
    ("l2_read_sectors", "lts__t_sectors_srcunit_tex_op_read.sum", false),
    ("l2_read_requests", "lts__t_requests_srcunit_tex_op_read.sum", false),
    ("l2_write_sectors", "lts__t_sectors_srcunit_tex_op_write.sum", false),
    ("l2_write_requests", "lts__t_requests_srcunit_tex_op_write.sum", false),
    ("l2_red_sectors", "lts__t_sectors_srcunit_tex_op_red.sum", false),
    ("l2_atom_sectors", "lts__t_sectors_srcunit_tex_op_atom.sum", false),
];

/// The counters of a class: our name, the profiler's.
pub fn of(class: OpClass, set: CounterSet) -> Vec<(&'static str, String)> {
    let (tagged, shared): (Option<String>, Option<&str>) = match class {
        OpClass::SharedLd => (None, Some("ld")),
        OpClass::SharedSt => (None, Some("st")),
        OpClass::SharedAtom => (None, Some("atom")),
        // The counters of copies by class leave those past L1 out; a kernel of
        // one instruction can be counted by the pipe's own.
        OpClass::GlobalLdgsts => (Some("pipe_lsu".into()), None),
        other => {
            let op = other.name().rsplit('_').next().unwrap_or_default();
            (Some(format!("pipe_lsu_mem_{}_op_{op}", space(other))), None)
        }
    };
    let mut counters = Vec::new();
    let mut add = |list: &[(&'static str, &str, bool)], place: &str, value: &str| {
        for &(name, metric, minimal) in list {
            if minimal || set == CounterSet::Full {
                counters.push((name, metric.replace(place, value)));
            }
        }
    };
    if let Some(group) = &tagged {
        add(TAGGED, "{G}", group);
    }
    if let Some(op) = shared {
        add(SHARED, "{op}", op);
    }
    add(DATA, "", "");
    if tagged.is_some() {
        add(L2, "", "");
    }
    if class == OpClass::GlobalLdgsts {
        counters.push((
            "shared_wavefronts",
            "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum".to_owned(),
        ));
        counters.push((
            "shared_bank_conflicts",
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum".to_owned(),
        ));
    }
    counters
}

fn space(class: OpClass) -> &'static str {
    class.name().split('_').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::io::Read;

    /// Names as `ncu --query-metrics` listed them on a GH100 (an H200).
    fn known() -> BTreeSet<String> {
        let list = include_bytes!("../../../../tests/hardware/h200/ncu-metrics-gh100.tsv.gz");
        let mut text = String::new();
        flate2::read::GzDecoder::new(&list[..]).read_to_string(&mut text).expect("a gzip file");
        text.lines().filter_map(|line| line.split('\t').next()).map(str::to_owned).collect()
    }

    #[test]
    fn every_metric_is_on_the_chip_s_list() {
        let known = known();
        for class in OpClass::ALL {
            for (name, metric) in of(class, CounterSet::Full) {
                let base = metric.strip_suffix(".sum").expect("a sum");
                assert!(known.contains(base), "{class}: {name} is {metric}");
            }
        }
    }

    #[test]
    fn names_are_those_of_the_recorded_warps() {
        let names = |class, set| -> Vec<&str> {
            of(class, set).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(
            names(OpClass::GlobalLd, CounterSet::Full),
            [
                "requests",
                "sectors",
                "tags",
                "tag_wavefronts",
                "set_conflicts",
                "data_pipe_wavefronts",
                "data_bank_conflicts",
                "data_bank_reads",
                "data_bank_writes",
                "writeback_active",
                "l2_read_sectors",
                "l2_read_requests",
                "l2_write_sectors",
                "l2_write_requests",
                "l2_red_sectors",
                "l2_atom_sectors",
            ]
        );
        assert_eq!(
            names(OpClass::SharedSt, CounterSet::Minimal),
            [
                "shared_wavefronts",
                "shared_bank_conflicts",
                "data_pipe_wavefronts",
                "data_bank_conflicts"
            ]
        );
        assert_eq!(names(OpClass::GlobalRed, CounterSet::Minimal).len(), 6);
    }

    #[test]
    fn a_class_is_in_the_metric_s_name() {
        let metrics: Vec<String> = of(OpClass::LocalSt, CounterSet::Minimal)
            .into_iter()
            .map(|(_, metric)| metric)
            .collect();
        assert_eq!(metrics[0], "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum");
    }
}
