//! The constants of a profile, each from the benchmark that isolates it.

use std::collections::BTreeMap;

use record::RunRecord;

use super::Device;
use super::hash::TagHash;
use super::least_squares::line;
use super::measurements::{At, Measurements, middle, parameter};
use crate::profile::{Constant, Origin, Quantity};
use crate::time::{QUEUE_MIXED, QUEUE_READ, loaded, norm};
use crate::traffic::{LINE_BYTES, carve_out};

/// A calibration's repeats are in one process, and their buffers lie alike; from
/// one calibration of an H200 to the next, rates that repeated within 0.1 %
/// differed by up to 1.3 %. So no spread is smaller than this share.
const REPEATABILITY: f64 = 0.01;

/// The same of atomics on global memory: which slices the few lines of the benchmark
/// lie in differs from one calibration to the next, and with it the rate, by 2.8 and
/// 4.8 % between two of an H200.
const ATOMICS_REPEATABILITY: f64 = 0.03;

/// Share of the time below which DRAM's queue is too short to be measured.
const HARDLY_BUSY: f64 = 0.25;

/// What is within this of a limit is taken to be that limit.
const NEAR: f64 = 0.05;

/// All constants that the measurements tell.
pub(super) fn solve(
    device: &Device,
    measurements: &Measurements<'_>,
    masks: Option<&[u64]>,
    notes: &mut Vec<String>,
) -> BTreeMap<Constant, Quantity> {
    let clock = sm_clock(device, measurements);
    let mut solver = Solver { measurements, clock, constants: BTreeMap::new(), notes };
    solver.told_by_driver(device);
    solver.overheads();
    solver.rates_of_an_sm(masks);
    solver.latencies();
    solver.capacities();
    solver.l2_rates();
    solver.l2_merge_rates();
    solver.dram_rates();
    solver.sparse_dram();
    solver.loads_in_flight();
    solver.overlap();
    solver.phase_overlap();
    solver.dram_queue();
    solver.dispatch_overlap();
    solver.what_l2_holds_back();
    solver.tell_absent();
    solver.constants
}

/// The SM clock while the suite ran, where it was read; else the highest.
fn sm_clock(device: &Device, measurements: &Measurements<'_>) -> Vec<f64> {
    let clocks: Vec<f64> =
        measurements.all_times().filter_map(|record| record.clocks.as_ref()?.sm_hz).collect();
    if clocks.is_empty() { vec![device.sm_clock_hz as f64] } else { clocks }
}

struct Solver<'a, 'n> {
    measurements: &'a Measurements<'a>,
    clock: Vec<f64>,
    constants: BTreeMap<Constant, Quantity>,
    notes: &'n mut Vec<String>,
}

impl Solver<'_, '_> {
    /// SM clock, Hz.
    fn hz(&self) -> f64 {
        middle(&self.clock).map_or(f64::NAN, |(median, _)| median)
    }

    /// Takes a constant down: the median of `values`, and how far others lie
    /// from it.
    fn put(&mut self, constant: Constant, values: &[f64], origin: Origin, what: &str) {
        let Some((value, spread)) = middle(values) else { return };
        let least = match constant {
            Constant::L2AtomicRate
            | Constant::L2AtomicRequestRate
            | Constant::L2AtomicResultRate => ATOMICS_REPEATABILITY,
            _ => REPEATABILITY,
        };
        let spread = spread.map(|spread| spread.max(least * value));
        self.put_with(constant, value, spread, origin, what);
    }

    fn put_with(
        &mut self,
        constant: Constant,
        value: f64,
        spread: Option<f64>,
        origin: Origin,
        what: &str,
    ) {
        if !value.is_finite() || value < 0.0 {
            return;
        }
        let quantity = Quantity {
            value,
            unit: constant.unit().to_owned(),
            origin,
            spread: spread.filter(|spread| spread.is_finite()),
            source: self.measurements.source(what),
        };
        self.constants.insert(constant, quantity);
    }

    fn get(&self, constant: Constant) -> Option<f64> {
        self.constants.get(&constant).map(|quantity| quantity.value)
    }

    fn told_by_driver(&mut self, device: &Device) {
        let told = [
            (Constant::SmCount, Some(f64::from(device.multiprocessors))),
            (Constant::WarpsPerSm, device.threads_per_sm.map(|threads| f64::from(threads) / 32.0)),
            (Constant::BlocksPerSm, device.blocks_per_sm.map(f64::from)),
            (Constant::RegistersPerSm, device.registers_per_sm.map(f64::from)),
            (Constant::SharedBytesPerSm, device.shared_bytes_per_sm.map(|bytes| bytes as f64)),
            (Constant::SharedBytesReserved, device.shared_bytes_reserved.map(|bytes| bytes as f64)),
            (Constant::L2Bytes, Some(device.l2_bytes as f64)),
            (
                Constant::DramPeak,
                // Two transfers a cycle, eight bits a byte.
                Some(device.memory_clock_hz as f64 * f64::from(device.memory_bus_bits) / 4.0),
            ),
        ];
        for (constant, value) in told {
            if let Some(value) = value.filter(|value| *value > 0.0) {
                let source = "cuDeviceGetAttribute".to_owned();
                let unit = constant.unit().to_owned();
                let quantity =
                    Quantity { value, unit, origin: Origin::Driver, spread: None, source };
                self.constants.insert(constant, quantity);
            }
        }
        let clock = self.clock.clone();
        let read = clock.len() > 1;
        if !read {
            self.notes.push(
                "sm_clock: the driver's highest; it could not be read while kernels ran".to_owned(),
            );
        }
        let origin = if read { Origin::Measured } else { Origin::Driver };
        self.put(Constant::SmClock, &clock, origin, "clocks while kernels ran");
    }

    fn overheads(&mut self) {
        // One value for each process.
        let mut empty: Vec<f64> = self
            .measurements
            .all_times()
            .filter_map(|record| record.reference.as_ref()?.launch_overhead_seconds)
            .collect();
        empty.dedup();
        self.put(Constant::LaunchOverhead, &empty, Origin::Measured, "empty kernel");
        if let Some(overhead) = self.get(Constant::LaunchOverhead) {
            let ramps: Vec<f64> = self
                .measurements
                .times(At::scenario("ramp"))
                .filter_map(|record| record.time.as_ref()?.seconds)
                .map(|seconds| (seconds - overhead).max(0.0))
                .collect();
            self.put(Constant::RampTime, &ramps, Origin::Measured, "ramp");
        }

        let blocks = self.measurements.slopes(At::scenario("dispatch").at(&[("threads", 32)]));
        self.put(Constant::BlockDispatch, &blocks, Origin::Measured, "dispatch, 32 threads");
        self.turnaround();
    }

    /// What an SM takes for a block that does nothing, with no other beside it,
    /// is linear in the block's warps.
    fn turnaround(&mut self) {
        let Some(sms) = self.get(Constant::SmCount) else { return };
        let (blocks, warps) = self.of_warps(At::variant("turnaround", "empty"), sms);
        self.put(Constant::BlockTurnaround, &blocks, Origin::Fitted, "turnaround:empty");
        self.put(Constant::WarpStart, &warps, Origin::Fitted, "turnaround:empty");
    }

    /// Clocks, `times` as many, as a line through blocks of so many warps: for each
    /// repeat what there is without warps, and what a warp adds.
    fn of_warps(&self, at: At<'_>, times: f64) -> (Vec<f64>, Vec<f64>) {
        let by_warps: Vec<(f64, Vec<f64>)> = self
            .measurements
            .values(at, "threads")
            .into_iter()
            .map(|threads| {
                let clks = self.clks(at.at(&[("threads", threads)]));
                (threads as f64 / 32.0, clks.into_iter().map(|clks| clks * times).collect())
            })
            .collect();
        lines(&by_warps).map(|(without, warp)| (without, warp.max(0.0))).unzip()
    }

    /// 1 ÷ (seconds × clock) of each repeat.
    fn per_clk(&self, at: At<'_>) -> Vec<f64> {
        let hz = self.hz();
        self.measurements.slopes(at).into_iter().map(|slope| 1.0 / (slope * hz)).collect()
    }

    /// Seconds × clock of each repeat.
    fn clks(&self, at: At<'_>) -> Vec<f64> {
        let hz = self.hz();
        self.measurements.slopes(at).into_iter().map(|slope| slope * hz).collect()
    }

    fn rates_of_an_sm(&mut self, masks: Option<&[u64]>) {
        let issue = self.per_clk(At::scenario("issue"));
        self.put(Constant::IssueRate, &issue, Origin::Measured, "issue");
        let requests = self.per_clk(At::variant("l1-widths", "w4"));
        self.put(Constant::RequestRate, &requests, Origin::Measured, "l1-widths:w4");

        // With few conflicts a request's own cost shows; with many, only the
        // wavefronts'.
        let by_ways: Vec<(f64, Vec<f64>)> = [8, 16, 32]
            .into_iter()
            .map(|ways| {
                let clks = self.clks(At::scenario("shared-ways").at(&[("ways", ways)]));
                (ways as f64, clks)
            })
            .collect();
        let rates: Vec<f64> =
            lines(&by_ways).map(|(_, clks)| 1.0 / clks).filter(|rate| *rate > 0.0).collect();
        self.put(Constant::DataRate, &rates, Origin::Fitted, "shared-ways, 8 to 32 ways");

        self.barriers();
        self.issue_costs();
        self.tag_rate(masks);
    }

    /// A barrier of a block is linear in its warps.
    fn barriers(&mut self) {
        let (barriers, warps) = self.of_warps(At::scenario("barrier"), 1.0);
        self.put(Constant::BarrierLatency, &barriers, Origin::Fitted, "barrier");
        self.put(Constant::BarrierWarp, &warps, Origin::Fitted, "barrier");
    }

    /// How much longer a pass takes with instructions of a kind than without, in
    /// ordinary instructions.
    fn issue_costs(&mut self) {
        let at = |variant| At::variant("issue-costs", variant);
        let Some(rate) = self.get(Constant::IssueRate) else { return };
        let plain = self.clks(at("plain"));
        for (constant, variant, number) in
            [(Constant::WideIssue, "wide", 16.0), (Constant::BarrierIssue, "barrier", 4.0)]
        {
            let costs: Vec<f64> = self
                .clks(at(variant))
                .iter()
                .zip(&plain)
                .map(|(with, without)| (with - without) * rate / number)
                .collect();
            self.put(constant, &costs, Origin::Fitted, &format!("issue-costs:{variant}"));
        }
    }

    fn tag_rate(&mut self, masks: Option<&[u64]>) {
        let Some(masks) = masks else {
            self.notes
                .push("tag_rate: absent, as the hash of the tag banks is not known".to_owned());
            return;
        };
        let hash = TagHash { masks: masks.to_vec(), line_bits: u64::MAX, evidence: 0 };
        let hz = self.hz();
        let rates: Vec<f64> = self
            .measurements
            .slopes_of(At::scenario("l1-tags"))
            .into_iter()
            .filter_map(|(slope, record)| {
                let base = record.buffers.first()?.base;
                Some(tag_wavefronts(&hash, base) / (slope * hz))
            })
            .collect();
        self.put(Constant::TagRate, &rates, Origin::Measured, "l1-tags");
        if let (Some(tags), Some(data)) =
            (self.get(Constant::TagRate), self.get(Constant::DataRate))
            && tags > (1.0 - NEAR) * data
        {
            self.notes.push(
                "tag_rate: a lower bound, as each tag wavefront is a data wavefront, too, and the \
                 data stage is no faster"
                    .to_owned(),
            );
        }
    }

    fn latencies(&mut self) {
        for (constant, variant) in [
            (Constant::L1Latency, "l1"),
            (Constant::L2Latency, "l2"),
            (Constant::DramLatency, "dram"),
        ] {
            let clks = self.clks(At::variant("chase", variant));
            self.put(constant, &clks, Origin::Measured, &format!("chase:{variant}"));
        }
        let many = At::scenario("chase-many");
        let by_doublings: Vec<(f64, Vec<f64>)> = self
            .measurements
            .values(many, "lanes")
            .into_iter()
            .map(|lanes| ((lanes as f64).log2(), self.clks(many.at(&[("lanes", lanes)]))))
            .collect();
        let doubling: Vec<f64> = lines(&by_doublings).map(|(_, slope)| slope.max(0.0)).collect();
        self.put(Constant::DramLatencyDoubling, &doubling, Origin::Fitted, "chase-many");
        let shared = self.clks(At::scenario("chase-shared"));
        self.put(Constant::SharedLatency, &shared, Origin::Measured, "chase-shared");
        let arithmetic = self.clks(At::scenario("issue-chain"));
        self.put(Constant::InstructionLatency, &arithmetic, Origin::Measured, "issue-chain");
    }

    fn capacities(&mut self) {
        if let (Some(hit), Some(miss)) =
            (self.get(Constant::L1Latency), self.get(Constant::L2Latency))
        {
            // A walk in a circle through a window that is a little too large
            // finds nothing that it left.
            let middle = f64::midpoint(hit, miss);
            let windows = self.windows(At::scenario("l1-window"), "parts");
            let last = windows.iter().rposition(|(_, clks)| *clks < middle);
            match last.and_then(|last| Some((windows[last].0, windows.get(last + 1)?.0))) {
                // The window had what the least shared memory leaves.
                Some((fits, not)) => self.put_with(
                    Constant::L1BytesPerSm,
                    f64::midpoint(fits, not)
                        + carve_out(self.get(Constant::SharedBytesReserved).unwrap_or(0.0)),
                    Some((not - fits) / 2.0),
                    Origin::Measured,
                    "l1-window",
                ),
                None => self
                    .notes
                    .push("l1_bytes_per_sm: absent, no window marks the end of L1".to_owned()),
            }
        }
        if let (Some(hit), Some(miss)) =
            (self.get(Constant::L2Latency), self.get(Constant::DramLatency))
        {
            // Of a window that is too large, what is still there is what L2
            // keeps; of one that is much too large, too little to tell.
            let kept = |at: At<'_>| -> Vec<f64> {
                self.windows(at, "eighths")
                    .into_iter()
                    .map(|(bytes, clks)| (bytes, (miss - clks) / (miss - hit)))
                    .filter(|(_, share)| (0.25..0.9).contains(share))
                    .map(|(bytes, share)| bytes * share)
                    .collect()
            };
            let one = kept(At::variant("l2-window", "one"));
            let many = kept(At::variant("l2-window", "many"));
            self.put(Constant::L2EffectiveBytes, &one, Origin::Measured, "l2-window:one");
            // Every part of L2 has a copy of what SMs near to all of them read.
            if let (Some((kept, _)), Some(all)) = (middle(&many), self.get(Constant::L2Bytes)) {
                let parts = (all / kept).round().max(1.0);
                let what = "l2-window:many";
                self.put_with(Constant::L2Partitions, parts, None, Origin::Measured, what);
            }
        }
    }

    /// Bytes of each window of a walk, and the clks of a load in it, by size.
    fn windows(&self, at: At<'_>, swept: &str) -> Vec<(f64, f64)> {
        let hz = self.hz();
        let mut windows: Vec<(f64, f64)> = self
            .measurements
            .values(at, swept)
            .into_iter()
            .filter_map(|value| {
                let params = [(swept, value)];
                let measured = self.measurements.slopes_of(at.at(&params));
                let lines = parameter(measured.first()?.1, "lines")?;
                let slopes: Vec<f64> = measured.iter().map(|(slope, _)| slope * hz).collect();
                Some((lines * 128.0, middle(&slopes)?.0))
            })
            .collect();
        windows.sort_by(|a, b| a.0.total_cmp(&b.0));
        windows
    }

    fn l2_rates(&mut self) {
        for (variant, per_sm, all) in [
            ("read-lines", Constant::L2ReadRatePerSm, Constant::L2ReadRate),
            ("read-sectors", Constant::L2ReadRequestRatePerSm, Constant::L2ReadRequestRate),
            ("write-lines", Constant::L2WriteRatePerSm, Constant::L2WriteRate),
            ("write-sectors", Constant::L2WriteRequestRatePerSm, Constant::L2WriteRequestRate),
        ] {
            let at = At::variant("l2", variant);
            let parts = self.measurements.values(at, "part");
            let (Some(&few), Some(&most)) = (parts.first(), parts.last()) else { continue };
            let hz = self.hz();
            let params = [("part", few)];
            let few_sms: Vec<f64> = self
                .measurements
                .slopes_of(at.at(&params))
                .into_iter()
                .filter_map(|(slope, record)| {
                    Some(1.0 / (slope * hz * parameter(record, "blocks")?))
                })
                .collect();
            self.put(per_sm, &few_sms, Origin::Measured, &format!("l2:{variant}, few SMs"));
            let params = [("part", most)];
            let rates: Vec<f64> =
                self.measurements.slopes(at.at(&params)).into_iter().map(f64::recip).collect();
            self.put(all, &rates, Origin::Measured, &format!("l2:{variant}, all SMs"));
            if let (Some(rate), Some(per_sm), Some(sms)) =
                (self.get(all), self.get(per_sm), self.get(Constant::SmCount))
                && rate > (1.0 - NEAR) * per_sm * hz * sms
            {
                self.notes.push(format!(
                    "{all}: a lower bound, as all SMs together are no slower than each by itself"
                ));
            }
        }
    }

    /// Stores of parts of sectors, and atomics: of all SMs alone, for no SM
    /// reaches its own limit first.
    fn l2_merge_rates(&mut self) {
        for (constant, scenario, variant) in [
            (Constant::L2PartialRate, "l2", "write-parts"),
            (Constant::L2PartialRequestRate, "l2", "write-words"),
            (Constant::L2AtomicRate, "atomics", "distinct"),
            (Constant::L2AtomicRequestRate, "atomics", "rounds"),
            (Constant::L2AtomicResultRate, "atomics", "rounds-result"),
            (Constant::L2SameAddressRate, "atomics", "same"),
        ] {
            let slopes = self.measurements.slopes(At::variant(scenario, variant));
            let rates: Vec<f64> = slopes.into_iter().map(f64::recip).collect();
            self.put(constant, &rates, Origin::Measured, &format!("{scenario}:{variant}"));
        }
        let shared = self.per_clk(At::variant("atomics", "shared"));
        self.put(Constant::SharedAtomicRate, &shared, Origin::Measured, "atomics:shared");
    }

    fn dram_rates(&mut self) {
        for (constant, variant) in [
            (Constant::DramReadRate, "read"),
            (Constant::DramWriteRate, "write"),
            (Constant::DramMixedRate, "mixed"),
        ] {
            let slopes = self.measurements.slopes(At::variant("dram", variant));
            let rates: Vec<f64> = slopes.into_iter().map(f64::recip).collect();
            self.put(constant, &rates, Origin::Measured, &format!("dram:{variant}"));
        }
    }

    fn sparse_dram(&mut self) {
        let read = At::variant("dram-sparse", "read");
        let costs: Vec<(f64, f64)> = self
            .measurements
            .values(read, "stride")
            .into_iter()
            .filter_map(|stride| {
                let slopes = self.measurements.slopes(read.at(&[("stride", stride)]));
                Some((stride as f64, middle(&slopes)?.0))
            })
            .collect();

        let counted = self.counted_read_bytes(read);
        match counted {
            Some(bytes) => {
                // A power of two, and a little else that runs beside it.
                let bytes = bytes.log2().round().exp2();
                let what = "dram-sparse:read, counters";
                self.put_with(Constant::DramAccessBytes, bytes, None, Origin::Measured, what);
            }
            None => {
                if let Some(bytes) = access_bytes(&costs) {
                    let what = "dram-sparse:read, times";
                    self.put_with(Constant::DramAccessBytes, bytes, None, Origin::Measured, what);
                }
            }
        }
        if let Some(granule) = granule_bytes(&costs) {
            let what = "dram-sparse:read";
            self.put_with(Constant::DramGranuleBytes, granule, None, Origin::Measured, what);
            self.openings(granule);
            self.turns(granule);
        } else if !costs.is_empty() {
            self.notes.push(
                "dram_granule_bytes, dram_open_rate: absent, no stride marks the granule's end"
                    .to_owned(),
            );
        }
    }

    /// What it takes to open a granule, and to go on with its other line: from
    /// accesses a granule apart and half a granule apart, one a line each.
    fn openings(&mut self, granule: f64) {
        for (variant, open, further) in [
            ("read", Constant::DramOpenRate, Constant::DramLineRate),
            ("write-sector", Constant::DramWriteOpenRate, Constant::DramWriteLineRate),
        ] {
            let at = At::variant("dram-sparse", variant);
            // Far beyond the granule, address translation comes in.
            let costs = |strides: std::ops::RangeInclusive<f64>| -> Vec<f64> {
                self.measurements
                    .values(at, "stride")
                    .into_iter()
                    .filter(|stride| strides.contains(&(*stride as f64)))
                    .flat_map(|stride| self.measurements.slopes(at.at(&[("stride", stride)])))
                    .collect()
            };
            let (alone, half) =
                (costs(granule..=4.0 * granule), costs(granule / 2.0..=granule / 2.0));
            let what = format!("dram-sparse:{variant}");
            let rates: Vec<f64> = alone.iter().map(|cost| cost.recip()).collect();
            // A small difference of two large numbers: each with each, so that the
            // spread is that of both.
            let lines: Vec<f64> = half
                .iter()
                .flat_map(|cost| alone.iter().map(move |opening| 2.0 * cost - opening))
                .filter(|more| *more > 0.0)
                .map(f64::recip)
                .collect();
            self.put(open, &rates, Origin::Measured, &what);
            self.put(further, &lines, Origin::Fitted, &what);
        }
    }

    /// Stores of parts of sectors read the rest and write it back, a line each.
    fn turns(&mut self, granule: f64) {
        let rates = [
            Constant::DramOpenRate,
            Constant::DramLineRate,
            Constant::DramWriteOpenRate,
            Constant::DramWriteLineRate,
        ];
        let [Some(open), Some(line), Some(write_open), Some(write_line)] =
            rates.map(|rate| self.get(rate))
        else {
            return;
        };
        let opening = open.recip() + write_open.recip();
        let further = line.recip() + write_line.recip();
        let at = At::variant("dram-sparse", "write");
        let of = |stride: f64| self.measurements.slopes(at.at(&[("stride", stride as i64)]));
        let mut turns: Vec<f64> = of(granule).into_iter().map(|cost| cost / opening).collect();
        let half = of(granule / 2.0);
        turns.extend(half.into_iter().map(|cost| 2.0 * cost / (opening + further)));
        self.put(Constant::DramTurns, &turns, Origin::Fitted, "dram-sparse");
    }

    /// What the counters tell of writes: what L2 still holds at a launch's end,
    /// and what it found there.
    fn what_l2_holds_back(&mut self) {
        let Some(l2_bytes) = self.get(Constant::L2Bytes) else { return };
        let written = |record: &RunRecord| {
            record.traffic.as_ref()?.dram_write_bytes.map(|bytes| bytes as f64)
        };
        let measurements = self.measurements;
        let counts = |variant| measurements.counts(At::variant("dram", variant));
        let before: Vec<f64> = counts("read").filter_map(written).collect();
        let what = "dram:read, counters";
        self.put(Constant::L2DirtyBefore, &before, Origin::Measured, what);
        let found = self.get(Constant::L2DirtyBefore).unwrap_or(0.0);
        let held: Vec<f64> = counts("write")
            .filter_map(|record| {
                Some((parameter(record, "work")? + found - written(record)?) / l2_bytes)
            })
            .filter(|share| (0.0..=1.0).contains(share))
            .collect();
        self.put(Constant::L2DirtyShare, &held, Origin::Measured, "dram:write, counters");

        // Every sector is completed once it leaves L2, and each is in a line of
        // its own: bytes read against sectors written is a line, whose slope is
        // the bytes of a fill, and that begins at what L2 holds.
        let mut by_work: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for record in self.measurements.counts(At::variant("dram-sparse", "write")) {
            let read = record.traffic.as_ref().and_then(|traffic| traffic.dram_read_bytes);
            if let (Some(read), Some(work)) = (read, parameter(record, "work")) {
                by_work.entry(work as u64).or_default().push(read as f64);
            }
        }
        let points: Vec<(f64, Vec<f64>)> =
            by_work.into_iter().map(|(work, reads)| (work as f64, reads)).collect();
        let (fills, shares): (Vec<f64>, Vec<f64>) = lines(&points)
            .filter(|(_, slope)| points.len() > 1 && *slope > 0.0)
            .map(|(intercept, slope)| {
                let lines = -intercept / slope;
                (slope, (lines * LINE_BYTES as f64 / l2_bytes).clamp(0.0, 1.0))
            })
            .unzip();
        if fills.is_empty() {
            self.notes
                .push("dram_fill_bytes, l2_partial_share: absent without counters".to_owned());
        }
        let what = "dram-sparse:write, counters";
        self.put(Constant::DramFillBytes, &fills, Origin::Fitted, what);
        self.put(Constant::L2PartialShare, &shares, Origin::Fitted, what);

        // 8 warps of a block write 5 sectors each; 7 are those of two warps.
        let merged: Vec<f64> = self
            .measurements
            .counts(At::scenario("store-merge"))
            .filter_map(|record| {
                let sectors = record.traffic.as_ref()?.l2_write_sectors? as f64;
                Some((40.0 - sectors / parameter(record, "work")?) / 7.0)
            })
            .filter(|share| (0.0..=1.0).contains(share))
            .collect();
        self.put(Constant::StoreMergeShare, &merged, Origin::Measured, "store-merge, counters");
    }

    /// Bytes read from DRAM for each access, by the counters.
    fn counted_read_bytes(&self, at: At<'_>) -> Option<f64> {
        let shares: Vec<f64> = self
            .measurements
            .counts(at)
            .filter_map(|record| {
                let bytes = record.traffic.as_ref()?.dram_read_bytes?;
                Some(bytes as f64 / parameter(record, "work")?)
            })
            .collect();
        middle(&shares).map(|(median, _)| median).filter(|bytes| *bytes > 0.0)
    }

    fn loads_in_flight(&mut self) {
        let Some(latency) = self.get(Constant::DramLatency) else { return };
        let hz = self.hz();
        let in_flight: Vec<f64> = self
            .measurements
            .slopes_of(At::scenario("in-flight"))
            .into_iter()
            .filter_map(|(slope, record)| {
                let rate = 1.0 / (slope * hz * parameter(record, "blocks")?);
                Some(rate * latency)
            })
            .collect();
        let what = "in-flight, chase:dram";
        self.put(Constant::SectorsInFlight, &in_flight, Origin::Measured, what);
        if let (Some(sectors), Some(rate)) =
            (self.get(Constant::SectorsInFlight), self.get(Constant::L2ReadRatePerSm))
            && sectors / latency > (1.0 - NEAR) * rate
        {
            self.notes.push(
                "sectors_in_flight: a lower bound, as an SM's rate from DRAM is that from L2"
                    .to_owned(),
            );
        }
    }

    fn overlap(&mut self) {
        let mut exponents = Vec::new();
        for (scenario, parts, both) in
            [("overlap", ["memory", "shared"], "both"), ("overlap-sm", ["issue", "ways"], "mixed")]
        {
            let at = At::variant(scenario, both);
            for ways in self.measurements.values(at, "ways") {
                let params = [("ways", ways)];
                let time = |variant| {
                    let slopes =
                        self.measurements.slopes(At::variant(scenario, variant).at(&params));
                    middle(&slopes).map(|(median, _)| median)
                };
                if let (Some(a), Some(b), Some(both)) = (time(parts[0]), time(parts[1]), time(both))
                    && comparable(a, b)
                {
                    exponents.push(exponent(a, b, both));
                }
            }
        }
        self.put(Constant::OverlapExponent, &exponents, Origin::Fitted, "overlap, overlap-sm");
    }

    /// How much longer accesses to DRAM take when it is busy. With few warps it
    /// is not.
    fn dram_queue(&mut self) {
        let known = [Constant::SmCount, Constant::DramLatency, Constant::DramReadRate];
        let known = known.map(|known| self.get(known));
        let [Some(sms), Some(latency), Some(rate)] = known else { return };
        let latency = latency / self.hz();
        let at = At::variant("loaded-latency", "read");
        let of = |warps: i64| {
            let slopes = self.measurements.slopes(at.at(&[("warps", warps)]));
            middle(&slopes).map(|(median, _)| median)
        };
        let warps = self.measurements.values(at, "warps");
        let Some(alone) = warps.first().and_then(|&fewest| of(fewest)) else { return };
        let queues: Vec<f64> = warps
            .iter()
            .filter_map(|&warps| {
                let loaded = of(warps)?;
                let busy = sms * 32.0 * warps as f64 * 4.0 / rate / loaded;
                // Where DRAM is hardly busy there is hardly a queue.
                let longer = ((loaded - alone) / latency).max(0.0);
                (busy > HARDLY_BUSY).then(|| longer / busy.powf(QUEUE_READ))
            })
            .collect();
        self.put(Constant::DramQueueRead, &queues, Origin::Fitted, "loaded-latency:read");

        let known = [Constant::DramQueueRead, Constant::DramMixedRate].map(|known| self.get(known));
        let [Some(reads), Some(rate)] = known else { return };
        let runs = self.resident("copy-long", 8.0 / rate);
        let queues: Vec<f64> = runs
            .iter()
            .filter_map(|run| {
                let busy = run.dram / run.both;
                let longer = (run.both - run.waiting) / (latency / sms / run.resident);
                let more = (longer - reads * busy.powf(QUEUE_READ)).max(0.0);
                (busy > HARDLY_BUSY).then(|| more / busy.powf(QUEUE_MIXED))
            })
            .collect();
        self.put(Constant::DramQueueMixed, &queues, Origin::Fitted, "turnaround:copy-long");
    }

    /// How blocks that are waited for and the giving out of others combine.
    fn dispatch_overlap(&mut self) {
        let known = [
            Constant::SmCount,
            Constant::DramLatency,
            Constant::DramReadRate,
            Constant::DramQueueRead,
            Constant::BlockDispatch,
        ];
        let known = known.map(|known| self.get(known));
        let [Some(sms), Some(latency), Some(rate), Some(queue), Some(dispatch)] = known else {
            return;
        };
        let latency = latency / self.hz() / sms;
        let runs = self.resident("load-few", 4.0 / rate);
        let few: Vec<f64> = runs
            .iter()
            .filter_map(|run| {
                let queue = |seconds: f64| queue * (run.dram / seconds).min(1.0).powf(QUEUE_READ);
                let with = |queue: f64| {
                    norm(&[run.dram, run.waiting + latency / run.resident * queue], MAX)
                };
                let waited = loaded(with, queue);
                comparable(waited, dispatch).then(|| exponent(waited, dispatch, run.both))
            })
            .collect();
        self.put(Constant::DispatchOverlap, &few, Origin::Fitted, "turnaround:load-few");
    }

    /// How waiting and work add up where barriers part them.
    fn phase_overlap(&mut self) {
        let mut exponents = Vec::new();
        let both = At::variant("phases", "both");
        for resident in self.measurements.values(both, "resident") {
            for ways in self.measurements.values(both, "ways") {
                let params = [("resident", resident), ("ways", ways)];
                let time = |variant| {
                    let slopes =
                        self.measurements.slopes(At::variant("phases", variant).at(&params));
                    middle(&slopes).map(|(median, _)| median)
                };
                if let (Some(wait), Some(work), Some(both)) =
                    (time("wait"), time("work"), time("both"))
                    && comparable(wait, work)
                {
                    exponents.push(exponent(wait, work, both));
                }
            }
        }
        self.put(Constant::PhaseOverlap, &exponents, Origin::Fitted, "phases");
    }

    /// Short blocks, `thread` seconds of DRAM for each of their threads: one an SM
    /// at a time shows their latency.
    fn resident(&self, variant: &str, thread: f64) -> Vec<Resident> {
        /// Threads of a block in these runs.
        const THREADS: i64 = 256;
        let at = At::variant("turnaround", variant);
        let of = |resident: i64| {
            let params = [("resident", resident), ("threads", THREADS)];
            middle(&self.measurements.slopes(at.at(&params))).map(|(seconds, _)| seconds)
        };
        // One at a time still moves its bytes; that is little beside its latency.
        let Some(alone) = of(1) else { return Vec::new() };
        let residents = self.measurements.values(at, "resident").into_iter();
        residents
            .filter(|resident| *resident > 1)
            .filter_map(|resident| {
                let (waiting, dram) = (alone / resident as f64, thread * THREADS as f64);
                Some(Resident { resident: resident as f64, waiting, dram, both: of(resident)? })
            })
            .collect()
    }

    fn tell_absent(&mut self) {
        let absent: Vec<&str> = Constant::ALL
            .iter()
            .filter(|constant| !self.constants.contains_key(constant))
            .map(|constant| constant.name())
            .collect();
        if !absent.is_empty() {
            self.notes.push(format!("not measured: {}", absent.join(", ")));
        }
    }
}

/// Seconds for each of many short blocks.
struct Resident {
    /// Blocks at a time on an SM.
    resident: f64,
    /// Latency ÷ blocks at a time, and SMs.
    waiting: f64,
    /// Time of DRAM.
    dram: f64,
    /// Measured.
    both: f64,
}

/// Whether two terms are near enough to say how they combine.
fn comparable(a: f64, b: f64) -> bool {
    const SHARE: f64 = 0.45;
    a.min(b) >= SHARE * a.max(b)
}

/// For each repeat that all points have, intercept and slope of the line through
/// them. Points are (x, values of each repeat).
fn lines(points: &[(f64, Vec<f64>)]) -> impl Iterator<Item = (f64, f64)> {
    let repeats = points.iter().map(|(_, values)| values.len()).min().unwrap_or(0);
    (0..repeats).filter_map(move |repeat| {
        let points: Vec<(f64, f64)> = points.iter().map(|(x, ys)| (*x, ys[repeat])).collect();
        line(&points)
    })
}

/// Tag wavefronts of a request of `l1-tags`, on average over a pass, if its
/// window starts at `base`.
fn tag_wavefronts(hash: &TagHash, base: u64) -> f64 {
    const TRIPS: u64 = 256;
    let total: u64 = (0..TRIPS)
        .map(|trip| {
            let mut lines: Vec<u64> =
                (0..32).map(|lane| (base + 4 * (trip * 32 + lane * 33)) >> 7).collect();
            lines.dedup();
            hash.wavefronts(&lines)
        })
        .sum();
    total as f64 / TRIPS as f64
}

/// The stride up to which an access costs in proportion to its stride, as all
/// bytes on the way are fetched. Points are (stride, seconds an access), in
/// order of stride.
fn access_bytes(costs: &[(f64, f64)]) -> Option<f64> {
    /// Twice the stride costs twice the time, or less than this: in between
    /// nothing lies but what other limits do.
    const PROPORTIONAL: f64 = 1.7;
    costs.windows(2).find(|pair| pair[1].1 < PROPORTIONAL * pair[0].1).map(|pair| pair[0].0)
}

/// The stride from which an access costs the same, however far the next one is.
/// `None` where even the largest stride but one costs less than the largest.
fn granule_bytes(costs: &[(f64, f64)]) -> Option<f64> {
    /// A stride that costs this share of four times the stride has reached the
    /// end.
    const FLAT: f64 = 0.85;
    (0..costs.len().checked_sub(1)?)
        .find(|&at| costs[at + 1..].iter().take(2).all(|(_, cost)| costs[at].1 >= FLAT * cost))
        .map(|at| costs[at].0)
}

/// The largest exponent that is looked for.
const MAX: f64 = 32.0;

/// The p with (a^p + b^p)^(1/p) = both, by bisection; 1 where both take as long
/// as one after the other, at most 32, which is a hard maximum within 2 %.
fn exponent(a: f64, b: f64, both: f64) -> f64 {
    let together = |p: f64| norm(&[a, b], p);
    if both >= together(1.0) {
        return 1.0;
    }
    if both <= together(MAX) {
        return MAX;
    }
    let (mut low, mut high) = (1.0, MAX);
    // 2^-40 of the interval.
    for _ in 0..40 {
        let p = f64::midpoint(low, high);
        if together(p) > both { low = p } else { high = p }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exponent_is_found_again() {
        for p in [1.0, 1.5, 3.0, 8.0, 31.0_f64] {
            let both = (2.0_f64.powf(p) + 3.0_f64.powf(p)).powf(1.0 / p);
            assert!((exponent(2.0, 3.0, both) - p).abs() < 1e-4 * p, "{p}");
        }
        assert_eq!(exponent(2.0, 3.0, 2.9), 32.0);
        assert_eq!(exponent(2.0, 3.0, 6.0), 1.0);
    }

    #[test]
    fn sparse_strides_tell_access_and_granule() {
        // 64 bytes an access at 4 B/ns, 256 bytes a granule at 0.04/ns.
        let cost = |stride: f64| {
            let bytes = stride.clamp(32.0, 64.0) / 4.0;
            bytes.max((stride / 256.0).min(1.0) / 0.04)
        };
        let strides = [32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0];
        let costs: Vec<(f64, f64)> = strides.iter().map(|&s| (s, cost(s))).collect();
        assert_eq!(access_bytes(&costs), Some(64.0));
        assert_eq!(granule_bytes(&costs), Some(256.0));
    }
}
