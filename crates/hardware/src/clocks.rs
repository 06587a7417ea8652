//! Clocks, power state and driver version through NVML, where it is there.

use crate::device::Clocks;
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};

/// NVML, opened; the driver installs it, containers may lack it.
pub struct Monitor {
    nvml: Nvml,
    pci_bus_id: String,
}

impl Monitor {
    /// Opens NVML for the device with this PCI bus id.
    ///
    /// # Errors
    /// A sentence for people: NVML is absent, or does not know the device.
    pub fn open(pci_bus_id: &str) -> Result<Self, String> {
        let nvml = Nvml::init().map_err(|error| error.to_string())?;
        nvml.device_by_pci_bus_id(pci_bus_id).map_err(|error| error.to_string())?;
        Ok(Self { nvml, pci_bus_id: pci_bus_id.to_owned() })
    }

    /// Version of the driver, `580.159.04`.
    pub fn driver(&self) -> Option<String> {
        self.nvml.sys_driver_version().ok()
    }

    /// Clocks and what holds them down, now.
    pub fn clocks(&self) -> Option<Clocks> {
        let device = self.nvml.device_by_pci_bus_id(self.pci_bus_id.as_str()).ok()?;
        let hz = |clock| device.clock_info(clock).ok().map(|mhz| u64::from(mhz) * 1_000_000);
        Some(Clocks {
            sm_hz: hz(Clock::SM)?,
            memory_hz: hz(Clock::Memory)?,
            // NVML numbers its states as their names do, P0 to P15.
            performance_state: device
                .performance_state()
                .ok()
                .map(|state| format!("P{}", state.as_c())),
            throttled: device.current_throttle_reasons().map(reasons).unwrap_or_default(),
            temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
            power_w: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
        })
    }
}

/// The reasons that make a measurement doubtful, in words.
fn reasons(reasons: ThrottleReasons) -> Vec<String> {
    [
        (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "application clocks are set"),
        (ThrottleReasons::SW_POWER_CAP, "power cap"),
        (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
        (ThrottleReasons::SYNC_BOOST, "sync boost group"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "temperature (software)"),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, "temperature (hardware)"),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "external power brake"),
        (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display clocks are set"),
    ]
    .into_iter()
    .filter(|(bit, _)| reasons.contains(*bit))
    .map(|(_, words)| words.to_owned())
    .collect()
}

/// The driver version from the kernel module's own file, where NVML is absent.
pub(crate) fn driver_version_of_module() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    version_in(&text)
}

/// The first word of the form `digits.digits[.digits]` in a line such as `NVRM
/// version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Fri …`.
fn version_in(text: &str) -> Option<String> {
    text.lines()
        .next()?
        .split_whitespace()
        .find(|word| {
            word.contains('.')
                && word
                    .split('.')
                    .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
        })
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_s_version_is_found() {
        let line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release \
                    Build  (dvs-builder@U16)  Tue Sep 16\nGCC version: gcc 12.2.0\n";
        assert_eq!(version_in(line).as_deref(), Some("580.159.04"));
        assert_eq!(version_in("nothing here. or. here"), None);
    }

    #[test]
    fn idling_is_no_reason() {
        assert_eq!(reasons(ThrottleReasons::GPU_IDLE), Vec::<String>::new());
        assert_eq!(
            reasons(ThrottleReasons::SW_POWER_CAP | ThrottleReasons::GPU_IDLE),
            ["power cap"]
        );
    }
}
