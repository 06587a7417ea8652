//! A made-up device for tests: round numbers, of no GPU.

use crate::profile::FORMAT;
use crate::{Constant, Kind, Origin, Profile, Quantity};

/// A profile with every constant.
pub(crate) fn profile() -> Profile {
    let constants = Constant::ALL.iter().map(|&constant| (constant, quantity(constant)));
    Profile {
        format: FORMAT.to_owned(),
        name: "made-up".to_owned(),
        device: "Made-up".to_owned(),
        arch: "9.0".to_owned(),
        kind: Kind::Measured,
        notes: Vec::new(),
        tag: None,
        data: None,
        constants: constants.collect(),
    }
}

/// The profile with one number changed by a factor.
pub(crate) fn scaled(mut profile: Profile, constant: Constant, factor: f64) -> Profile {
    if let Some(quantity) = profile.constants.get_mut(&constant) {
        quantity.value *= factor;
    }
    profile
}

fn quantity(constant: Constant) -> Quantity {
    Quantity {
        value: value(constant),
        unit: constant.unit().to_owned(),
        origin: Origin::Assumed,
        spread: None,
        source: "made up".to_owned(),
    }
}

fn value(constant: Constant) -> f64 {
    match constant {
        Constant::SmCount => 100.0,
        Constant::SmClock => 2e9,
        Constant::WarpsPerSm => 64.0,
        Constant::BlocksPerSm => 32.0,
        Constant::RegistersPerSm => 65_536.0,
        Constant::SharedBytesPerSm => 233_472.0,
        Constant::SharedBytesReserved => 1024.0,
        Constant::L1BytesPerSm => 262_144.0,
        Constant::L2Bytes => 5e7,
        Constant::L2EffectiveBytes => 4e7,
        Constant::L2Partitions => 1.0,
        Constant::L2DirtyShare | Constant::L2PartialShare => 1.0,
        Constant::L2DirtyBefore | Constant::StoreMergeShare => 0.0,
        Constant::DramAccessBytes => 64.0,
        Constant::DramFillBytes => 32.0,
        Constant::DramGranuleBytes => 256.0,
        Constant::DramPeak => 4e12,
        Constant::L1Latency => 30.0,
        Constant::SharedLatency => 25.0,
        Constant::L2Latency => 300.0,
        Constant::DramLatency => 600.0,
        Constant::DramLatencyDoubling => 20.0,
        Constant::InstructionLatency => 4.0,
        Constant::BarrierLatency => 20.0,
        Constant::BarrierWarp => 1.5,
        Constant::WideIssue => 2.0,
        Constant::BarrierIssue => 3.0,
        Constant::IssueRate => 3.0,
        Constant::RequestRate => 0.5,
        Constant::TagRate | Constant::DataRate => 1.0,
        Constant::L2ReadRatePerSm | Constant::L2WriteRatePerSm => 2.0,
        Constant::L2ReadRequestRatePerSm | Constant::L2WriteRequestRatePerSm => 0.5,
        Constant::L2ReadRate => 2.5e11,
        Constant::L2WriteRate => 2e11,
        Constant::L2ReadRequestRate => 1e11,
        Constant::L2WriteRequestRate => 8e10,
        Constant::L2AtomicRate | Constant::L2PartialRate => 1e11,
        Constant::L2AtomicRequestRate | Constant::L2PartialRequestRate => 5e10,
        Constant::L2AtomicResultRate => 4e10,
        Constant::L2SameAddressRate => 2e9,
        Constant::SharedAtomicRate => 8.0,
        Constant::DramReadRate => 3.8e12,
        Constant::DramWriteRate => 3.6e12,
        Constant::DramMixedRate => 3.5e12,
        Constant::DramOpenRate | Constant::DramWriteOpenRate => 4e10,
        Constant::DramLineRate | Constant::DramWriteLineRate => 8e10,
        Constant::SectorsInFlight => 2048.0,
        Constant::BlockDispatch => 5e-10,
        Constant::BlockTurnaround => 250.0,
        Constant::WarpStart => 4.0,
        Constant::LaunchOverhead => 3e-6,
        Constant::RampTime => 1e-6,
        Constant::DramTurns => 1.1,
        Constant::OverlapExponent => 8.0,
        Constant::PhaseOverlap => 2.0,
        Constant::DispatchOverlap => 8.0,
        Constant::DramQueueRead => 0.5,
        Constant::DramQueueMixed => 0.6,
    }
}
