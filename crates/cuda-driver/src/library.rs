//! The driver library: found and opened at first use, then kept open.

use cust_raw::CUresult;
use libloading::Library;
use std::cell::Cell;
use std::ffi::{CStr, OsString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::sync::OnceLock;

/// Names a driver library to open in place of the system's: a path, or a name
/// that the dynamic loader finds.
pub const DRIVER_VARIABLE: &str = "COALESCOPE_CUDA_DRIVER";

/// What the NVIDIA driver installs.
#[cfg(not(windows))]
const LIBRARY_NAME: &str = "libcuda.so.1";
#[cfg(windows)]
const LIBRARY_NAME: &str = "nvcuda.dll";

/// What stands between this process and a usable GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// The library could not be opened.
    Library {
        /// The file asked for.
        name: String,
        /// What the dynamic loader said.
        reason: String,
    },
    /// The library was opened, and is no CUDA driver or one from before CUDA 4.
    Symbol {
        /// The library opened.
        library: String,
        /// The first symbol it lacks.
        symbol: &'static str,
    },
    /// The driver refused to start.
    Refused {
        /// The library opened.
        library: String,
        /// The call that failed.
        function: &'static str,
        /// The driver's error number.
        code: i32,
        /// Its name for it, where it knows one.
        name: Option<String>,
    },
    /// The driver works and lists no GPU.
    Device {
        /// The library opened.
        library: String,
        /// CUDA version of the driver.
        cuda: (u32, u32),
    },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library { name, reason } => write!(
                f,
                "no NVIDIA driver found: `{name}` could not be opened ({reason}); install the \
                 NVIDIA driver, in a container pass the GPU through (docker run --gpus all), or \
                 set {DRIVER_VARIABLE} to the library's path"
            ),
            Self::Symbol { library, symbol } => write!(
                f,
                "`{library}` is not a usable CUDA driver: it has no function `{symbol}`; install a \
                 driver for CUDA 11 or later, and check {DRIVER_VARIABLE} if it is set"
            ),
            Self::Refused { library, function, code, name } => {
                write!(f, "the NVIDIA driver `{library}` refused to start: {function} returned ")?;
                match name {
                    Some(name) => write!(f, "{name} ({code})")?,
                    None => write!(f, "error {code}")?,
                }
                write!(f, "; {}", remedy(*code))
            }
            Self::Device { library, cuda: (major, minor) } => write!(
                f,
                "the NVIDIA driver `{library}` (CUDA {major}.{minor}) lists no GPU; check \
                 nvidia-smi, and CUDA_VISIBLE_DEVICES, which can hide all of them"
            ),
        }
    }
}

impl std::error::Error for Missing {}

/// What to do about an error of `cuInit`.
fn remedy(code: i32) -> &'static str {
    match code {
        34 => {
            "this is the stub library of the CUDA toolkit, meant for linking: take its folder \
               out of LD_LIBRARY_PATH"
        }
        100 => "no GPU is visible to this process: check nvidia-smi and CUDA_VISIBLE_DEVICES",
        803 => {
            "the driver library and the kernel module are of different versions: reboot, or \
                reload the module after the driver update"
        }
        804 => {
            "a forward-compatibility package does not support this GPU: remove it from the \
                library path"
        }
        _ => "nvidia-smi shows whether the driver itself works",
    }
}

/// The open driver and what is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverInfo {
    /// The library as it was named to the dynamic loader.
    pub library: String,
    /// CUDA version that the driver supports, (major, minor).
    pub cuda: (u32, u32),
    /// Number of GPUs visible to this process, at least 1.
    pub devices: u32,
}

/// Opens the driver, starts it (`cuInit`) and counts its devices.
///
/// # Errors
/// [`Missing`] says which of these steps failed and what to do.
pub fn availability() -> Result<DriverInfo, Missing> {
    let driver = open().as_ref().map_err(Clone::clone)?;
    let library = || driver.name.clone();
    let function = |name: &'static str| {
        driver
            .address(name)
            .ok_or(Missing::Symbol { library: library(), symbol: name.trim_end_matches('\0') })
    };
    let init = function("cuInit\0")?;
    let version = function("cuDriverGetVersion\0")?;
    let count = function("cuDeviceGetCount\0")?;
    let check = |name: &'static str, code: c_int| {
        if code == 0 {
            return Ok(());
        }
        Err(Missing::Refused { library: library(), function: name, code, name: error_name(code) })
    };
    // SAFETY: the three addresses are those of the driver's functions of these
    // names, whose C signatures are `CUresult cuInit(unsigned int)` and
    // `CUresult f(int *)`.
    let (init, version, count) = unsafe {
        (
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_uint) -> c_int>(init),
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(version),
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(count),
        )
    };
    let (mut cuda, mut devices) = (0, 0);
    // SAFETY: 0 is the only flag value defined; the pointers are to live ints.
    unsafe {
        check("cuInit", init(0))?;
        check("cuDriverGetVersion", version(&mut cuda))?;
        check("cuDeviceGetCount", count(&mut devices))?;
    }
    let cuda = (cuda.max(0) as u32 / 1000, cuda.max(0) as u32 % 1000 / 10);
    if devices < 1 {
        return Err(Missing::Device { library: library(), cuda });
    }
    Ok(DriverInfo { library: library(), cuda, devices: devices as u32 })
}

/// The driver's name for an error number (`CUDA_ERROR_…`), also one that is
/// newer than the bindings; `None` without a driver and for a number that it
/// does not know.
pub fn error_name(code: i32) -> Option<String> {
    let address = open().as_ref().ok()?.address("cuGetErrorName\0")?;
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: the function's C signature is `CUresult cuGetErrorName(CUresult,
    // const char **)`; a C enum is passed as an int, and any value is allowed.
    let status = unsafe {
        let function: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int =
            std::mem::transmute(address);
        function(code, &mut text)
    };
    if status != 0 || text.is_null() {
        return None;
    }
    // SAFETY: on success the driver points to a string constant of its own.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// A call to the driver that did not return `CUDA_SUCCESS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The function called.
    pub function: &'static str,
    /// The number it returned, which `cust`'s error type may not know.
    pub code: i32,
}

thread_local! {
    static LAST_FAILURE: Cell<Option<Failure>> = const { Cell::new(None) };
}

/// `CUDA_ERROR_NOT_READY`: the answer "not yet" of a query, no failure.
const NOT_READY: c_int = CUresult::CUDA_ERROR_NOT_READY as c_int;

pub(crate) fn note_failure(failure: Failure) {
    if failure.code != NOT_READY {
        LAST_FAILURE.set(Some(failure));
    }
}

/// The last call of this thread that failed, with the driver's own number:
/// `cust` turns numbers that it does not know into "unknown error".
pub fn last_failure() -> Option<Failure> {
    LAST_FAILURE.get()
}

/// The open library.
struct Driver {
    library: Library,
    name: String,
}

impl Driver {
    /// The address of a symbol, whose name ends in a NUL.
    fn address(&self, name: &'static str) -> Option<*mut c_void> {
        // SAFETY: looking a symbol up runs no code of ours; the pointer is used
        // while the library is open, which is until the process ends.
        let symbol = unsafe { self.library.get::<*mut c_void>(name.as_bytes()) }.ok()?;
        Some(*symbol).filter(|address| !address.is_null())
    }
}

/// Opens the library once; what came of it stands for the process's life.
fn open() -> &'static Result<Driver, Missing> {
    static DRIVER: OnceLock<Result<Driver, Missing>> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let name =
            std::env::var_os(DRIVER_VARIABLE).unwrap_or_else(|| OsString::from(LIBRARY_NAME));
        let shown = name.to_string_lossy().into_owned();
        // SAFETY: opening a library runs its initialisers: the driver's are
        // made for that, and another library is opened only where the user
        // names it.
        match unsafe { Library::new(&name) } {
            Ok(library) => Ok(Driver { library, name: shown }),
            Err(error) => {
                let mut reason = error.to_string();
                // The loader's words follow as the source on some systems.
                let mut source = std::error::Error::source(&error);
                while let Some(cause) = source {
                    reason = format!("{reason}: {cause}");
                    source = cause.source();
                }
                Err(Missing::Library { name: shown, reason })
            }
        }
    })
}

/// Where one symbol is, looked up at the first call of it.
pub(crate) struct Slot {
    name: &'static str,
    address: OnceLock<Option<usize>>,
}

impl Slot {
    /// `name` ends in a NUL.
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, address: OnceLock::new() }
    }

    /// The symbol's address; without a driver `CUDA_ERROR_NOT_INITIALIZED`,
    /// where the driver lacks it `CUDA_ERROR_NOT_SUPPORTED`.
    pub(crate) fn address(&self) -> Result<*mut c_void, CUresult> {
        let Ok(driver) = open() else { return Err(CUresult::CUDA_ERROR_NOT_INITIALIZED) };
        match self.address.get_or_init(|| driver.address(self.name).map(|p| p as usize)) {
            Some(address) => Ok(*address as *mut c_void),
            None => Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        }
    }
}
