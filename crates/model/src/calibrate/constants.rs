//! The constants of a profile, each from the benchmark that isolates it.

use std::collections::BTreeMap;

use super::Device;
use super::hash::TagHash;
use super::least_squares::line;
use super::measurements::{At, Measurements, middle, parameter};
use crate::profile::{Constant, Origin, Quantity};

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
    solver.dram_rates();
    solver.sparse_dram();
    solver.loads_in_flight();
    solver.atomics();
    solver.overlap();
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

    /// Takes a constant down: the median of `values`, and half their range.
    fn put(&mut self, constant: Constant, values: &[f64], origin: Origin, what: &str) {
        let Some((value, spread)) = middle(values) else { return };
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

        let at = At::scenario("dispatch");
        let by_threads: Vec<(f64, Vec<f64>)> = self
            .measurements
            .values(at, "threads")
            .into_iter()
            .map(|threads| {
                let slopes = self.measurements.slopes(at.at(&[("threads", threads)]));
                (threads as f64 / 32.0, slopes)
            })
            .collect();
        let (blocks, warps): (Vec<f64>, Vec<f64>) = lines(&by_threads)
            .map(|(block, warp)| {
                // Warps that cost nothing: then it is blocks alone.
                if warp < 0.0 { (block + warp, 0.0) } else { (block, warp) }
            })
            .filter(|(block, _)| *block >= 0.0)
            .unzip();
        self.put(Constant::BlockDispatch, &blocks, Origin::Fitted, "dispatch");
        self.put(Constant::WarpDispatch, &warps, Origin::Fitted, "dispatch");
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

        let barrier = self.clks(At::scenario("barrier").at(&[("threads", 256)]));
        self.put(Constant::BarrierLatency, &barrier, Origin::Measured, "barrier, 256 threads");
        self.tag_rate(masks);
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
        let shared = self.clks(At::scenario("chase-shared"));
        self.put(Constant::SharedLatency, &shared, Origin::Measured, "chase-shared");
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
                Some((fits, not)) => self.put_with(
                    Constant::L1BytesPerSm,
                    f64::midpoint(fits, not),
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
            let kept: Vec<f64> = self
                .windows(At::scenario("l2-window"), "eighths")
                .into_iter()
                .map(|(bytes, clks)| (bytes, (miss - clks) / (miss - hit)))
                .filter(|(_, share)| (0.25..0.9).contains(share))
                .map(|(bytes, share)| bytes * share)
                .collect();
            self.put(Constant::L2EffectiveBytes, &kept, Origin::Measured, "l2-window");
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
        let by_stride: Vec<(i64, Vec<f64>)> = self
            .measurements
            .values(read, "stride")
            .into_iter()
            .map(|stride| (stride, self.measurements.slopes(read.at(&[("stride", stride)]))))
            .filter(|(_, slopes)| !slopes.is_empty())
            .collect();
        let costs: Vec<(f64, f64)> = by_stride
            .iter()
            .filter_map(|(stride, slopes)| Some((*stride as f64, middle(slopes)?.0)))
            .collect();

        let counted = self.counted_bytes(read, |traffic| traffic.dram_read_bytes);
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
            // Far beyond the granule, address translation comes in.
            let opens: Vec<f64> = by_stride
                .iter()
                .filter(|(stride, _)| (granule..=4.0 * granule).contains(&(*stride as f64)))
                .flat_map(|(_, slopes)| slopes.iter().map(|slope| slope.recip()))
                .collect();
            self.put(Constant::DramOpenRate, &opens, Origin::Measured, what);
        } else if !costs.is_empty() {
            self.notes.push(
                "dram_granule_bytes, dram_open_rate: absent, no stride marks the granule's end"
                    .to_owned(),
            );
        }
        let write = At::variant("dram-sparse", "write");
        match self.counted_bytes(write, |traffic| traffic.dram_read_bytes) {
            Some(bytes) => {
                let what = "dram-sparse:write, counters";
                self.put_with(Constant::DramFillBytes, bytes, None, Origin::Measured, what);
            }
            None => self.notes.push("dram_fill_bytes: absent without counters".to_owned()),
        }
    }

    /// Bytes of DRAM traffic for each access, by the counters.
    fn counted_bytes(
        &self,
        at: At<'_>,
        field: impl Fn(&record::Traffic) -> Option<u128>,
    ) -> Option<f64> {
        let shares: Vec<f64> = self
            .measurements
            .counts(at)
            .filter_map(|record| {
                let bytes = field(record.traffic.as_ref()?)?;
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

    fn atomics(&mut self) {
        for (constant, variant) in
            [(Constant::L2AtomicRate, "distinct"), (Constant::L2SameAddressRate, "same")]
        {
            let slopes = self.measurements.slopes(At::variant("atomics", variant));
            let rates: Vec<f64> = slopes.into_iter().map(f64::recip).collect();
            self.put(constant, &rates, Origin::Measured, &format!("atomics:{variant}"));
        }
        let shared = self.per_clk(At::variant("atomics", "shared"));
        self.put(Constant::SharedAtomicRate, &shared, Origin::Measured, "atomics:shared");
    }

    fn overlap(&mut self) {
        /// Two terms of which one is less than this share of the other say
        /// little of how they combine.
        const COMPARABLE: f64 = 0.6;
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
                    && a.min(b) >= COMPARABLE * a.max(b)
                {
                    exponents.push(exponent(a, b, both));
                }
            }
        }
        self.put(Constant::OverlapExponent, &exponents, Origin::Fitted, "overlap, overlap-sm");
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

/// The p with (a^p + b^p)^(1/p) = both, by bisection; 1 where both take as long
/// as one after the other, at most 32, which is a hard maximum within 2 %.
fn exponent(a: f64, b: f64, both: f64) -> f64 {
    const MAX: f64 = 32.0;
    let norm = |p: f64| {
        let max = a.max(b);
        max * ((a / max).powf(p) + (b / max).powf(p)).powf(p.recip())
    };
    if both >= norm(1.0) {
        return 1.0;
    }
    if both <= norm(MAX) {
        return MAX;
    }
    let (mut low, mut high) = (1.0, MAX);
    // 2^-40 of the interval.
    for _ in 0..40 {
        let p = f64::midpoint(low, high);
        if norm(p) > both { low = p } else { high = p }
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
