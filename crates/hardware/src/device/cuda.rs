//! The real device, through `cust`.
// All unsafe code of this crate: launches, and driver functions that `cust`
// does not wrap.
#![allow(unsafe_code)]

use super::{
    Argument, Clocks, Description, Device, KernelId, Level, Mark, MemoryState, Place, Region,
    Resources, Shape,
};
use crate::clocks::{self, Monitor};
use crate::error::Error;
// The linker keeps the forwarders only if something names the crate.
use cuda_driver as _;
use cust::context::Context;
use cust::device::{Device as CudaDeviceHandle, DeviceAttribute};
use cust::error::{CudaError, CudaResult};
use cust::event::{Event, EventFlags, EventStatus};
use cust::function::FunctionAttribute;
use cust::memory::{cuda_free, cuda_free_locked, cuda_malloc, cuda_malloc_locked};
use cust::module::{Module, ModuleJitOption, OptLevel};
use cust::stream::{Stream, StreamFlags};
use cust::sys;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::time::{Duration, Instant};

/// One GPU, opened: its primary context, one stream, NVML where there is one.
pub struct CudaDevice {
    // Dropped in this order: what lives in the context before the context.
    kernels: HashMap<usize, Kernel>,
    events: Vec<Event>,
    backed: HashMap<u64, sys::CUmemGenericAllocationHandle>,
    host: HashMap<u64, u64>,
    stream: Stream,
    monitor: Option<Monitor>,
    description: Description,
    marks: usize,
    next_kernel: usize,
    granule: u64,
    _context: Context,
}

struct Kernel {
    module: Module,
    entry: CString,
}

/// A `CUresult` as `cust` reports one.
fn check(doing: &str, code: sys::CUresult) -> Result<(), Error> {
    if code == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    // The number itself comes from the driver crate's note of this failure.
    Err(Error::driver(doing, CudaError::UnknownError))
}

/// Adds what was being done to an error of `cust`.
trait Doing<T> {
    fn doing(self, what: &str) -> Result<T, Error>;
}

impl<T> Doing<T> for CudaResult<T> {
    fn doing(self, what: &str) -> Result<T, Error> {
        self.map_err(|error| Error::driver(what, error))
    }
}

impl CudaDevice {
    /// Opens GPU number `index` of those that are visible to this process.
    ///
    /// # Errors
    /// [`Error::NoGpu`] says what is missing, [`Error::NoSuchGpu`] how many
    /// there are.
    pub fn open(index: u32) -> Result<Self, Error> {
        let driver = cuda_driver::availability()?;
        if index >= driver.devices {
            return Err(Error::NoSuchGpu { asked: index, count: driver.devices });
        }
        cust::init(cust::CudaFlags::empty()).doing("starting the driver")?;
        let handle = CudaDeviceHandle::get_device(index).doing("opening the GPU")?;
        let context = Context::new(handle).doing("creating a context on the GPU")?;
        let stream =
            Stream::new(StreamFlags::DEFAULT, None).doing("creating a stream on the GPU")?;
        let pci_bus_id = pci_bus_id(handle)?;
        let monitor = Monitor::open(&pci_bus_id).ok();
        let version =
            monitor.as_ref().and_then(Monitor::driver).or_else(clocks::driver_version_of_module);
        let description = describe(handle, index, pci_bus_id, driver.cuda, version)?;
        Ok(Self {
            kernels: HashMap::new(),
            events: Vec::new(),
            backed: HashMap::new(),
            host: HashMap::new(),
            stream,
            monitor,
            description,
            marks: 0,
            next_kernel: 0,
            granule: 0,
            _context: context,
        })
    }

    fn kernel(&self, id: KernelId) -> Result<&Kernel, Error> {
        self.kernels
            .get(&id.0)
            .ok_or_else(|| Error::Worker(format!("kernel {} is not loaded", id.0)))
    }

    fn event(&self, mark: Mark) -> Result<&Event, Error> {
        self.events
            .get(mark.0)
            .filter(|_| mark.0 < self.marks)
            .ok_or_else(|| Error::Worker(format!("time mark {} is not set", mark.0)))
    }

    /// Properties of sparse memory on this device.
    fn allocation_properties(&self) -> sys::CUmemAllocationProp {
        sys::CUmemAllocationProp {
            type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: self.location(),
            win32HandleMetaData: std::ptr::null_mut(),
            allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1::default(),
        }
    }

    fn location(&self) -> sys::CUmemLocation {
        sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: self.description.index as i32,
        }
    }
}

fn pci_bus_id(handle: CudaDeviceHandle) -> Result<String, Error> {
    let mut text = [0u8; 32];
    // SAFETY: the buffer is as long as it is said to be; the driver writes a
    // NUL-terminated string into it.
    let code = unsafe {
        sys::cuDeviceGetPCIBusId(text.as_mut_ptr().cast(), text.len() as i32, handle.as_raw())
    };
    check("asking for the GPU's PCI bus id", code)?;
    let length = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

fn describe(
    handle: CudaDeviceHandle,
    index: u32,
    pci_bus_id: String,
    cuda: (u32, u32),
    driver: Option<String>,
) -> Result<Description, Error> {
    let attribute = |attribute: DeviceAttribute| -> Result<u64, Error> {
        let value = handle.get_attribute(attribute).doing("asking for the GPU's properties")?;
        Ok(value.max(0) as u64)
    };
    // Attributes that `cust` has no names for.
    let other = |attribute: sys::CUdevice_attribute| -> Result<u64, sys::CUresult> {
        let mut value = 0;
        // SAFETY: the pointer is to a live int.
        match unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, handle.as_raw()) } {
            sys::CUresult::CUDA_SUCCESS => Ok(value.max(0) as u64),
            code => Err(code),
        }
    };
    use sys::CUdevice_attribute as Attribute;
    let shared_bytes_per_block =
        other(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
            .or_else(|code| check("asking for the GPU's shared memory", code).map(|()| 0))?;
    Ok(Description {
        name: handle.name().doing("asking for the GPU's name")?,
        index,
        pci_bus_id,
        compute_capability: (
            attribute(DeviceAttribute::ComputeCapabilityMajor)? as u32,
            attribute(DeviceAttribute::ComputeCapabilityMinor)? as u32,
        ),
        multiprocessors: attribute(DeviceAttribute::MultiprocessorCount)? as u32,
        l2_bytes: attribute(DeviceAttribute::L2CacheSize)?,
        memory_bytes: handle.total_memory().doing("asking for the GPU's memory")? as u64,
        sm_clock_hz: attribute(DeviceAttribute::ClockRate)? * 1000,
        memory_clock_hz: attribute(DeviceAttribute::MemoryClockRate)? * 1000,
        memory_bus_bits: attribute(DeviceAttribute::GlobalMemoryBusWidth)? as u32,
        ecc: attribute(DeviceAttribute::EccEnabled)? == 1,
        shared_bytes_per_block,
        shared_bytes_per_sm: attribute(DeviceAttribute::MaxSharedMemoryPerMultiprocessor)?,
        // Since CUDA 11.
        shared_bytes_reserved: other(
            Attribute::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
        )
        .unwrap_or(0),
        threads_per_sm: attribute(DeviceAttribute::MaxThreadsPerMultiprocessor)? as u32,
        blocks_per_sm: other(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)
            .unwrap_or(0) as u32,
        registers_per_sm: attribute(DeviceAttribute::MaxRegistersPerMultiprocessor)? as u32,
        cuda,
        driver,
    })
}

/// What the driver's assembler says about PTX that it refuses; empty where it
/// says nothing.
fn assembler_log(ptx: &std::ffi::CStr) -> String {
    let mut log = vec![0u8; 8192];
    let mut module: sys::CUmodule = std::ptr::null_mut();
    let mut options = [
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    // The size goes in the pointer itself, as `cust` passes such values.
    let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
    // SAFETY: the image is NUL-terminated, two options have two values, and the
    // log buffer is as long as it is said to be.
    unsafe {
        let code = sys::cuModuleLoadDataEx(
            &mut module,
            ptx.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        );
        if code == sys::CUresult::CUDA_SUCCESS {
            sys::cuModuleUnload(module);
        }
    }
    let length = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..length]).trim().to_owned()
}

/// What to do about PTX that the driver does not take.
fn advice(code: i32) -> &'static str {
    match code {
        222 => {
            "the PTX is of a newer version than this driver knows: install a newer driver, or \
             compile the kernel with an older CUDA toolkit"
        }
        209 => "the PTX targets another architecture than this GPU's",
        221 => "the driver's PTX compiler (libnvidia-ptxjitcompiler) is not installed",
        _ => "",
    }
}

impl Device for CudaDevice {
    fn description(&self) -> &Description {
        &self.description
    }

    fn memory(&self) -> Result<MemoryState, Error> {
        let (free, total) = cust::memory::mem_get_info().doing("asking for free memory")?;
        Ok(MemoryState { free: free as u64, total: total as u64 })
    }

    fn clocks(&self) -> Option<Clocks> {
        self.monitor.as_ref()?.clocks()
    }

    fn allocate(&mut self, bytes: u64, place: Place) -> Result<Region, Error> {
        let size = usize::try_from(bytes)
            .map_err(|_| Error::Input(format!("{bytes} bytes are more than can be addressed")))?;
        let address = match place {
            // SAFETY: memory is uninitialised and handed out as an address
            // only; it is freed by `release`.
            Place::Device => unsafe { cuda_malloc::<u8>(size) }
                .doing(&format!("allocating {bytes} bytes on the GPU"))?
                .as_raw(),
            Place::Pinned => {
                // SAFETY: as above.
                let host = unsafe { cuda_malloc_locked::<u8>(size) }
                    .doing(&format!("allocating {bytes} bytes of pinned host memory"))?;
                let mut device = 0;
                // SAFETY: the host pointer was just returned by the driver.
                let code =
                    unsafe { sys::cuMemHostGetDevicePointer_v2(&mut device, host.cast(), 0) };
                check("mapping pinned host memory", code)?;
                self.host.insert(device, host as u64);
                device
            }
        };
        Ok(Region { address, bytes, place })
    }

    fn release(&mut self, region: Region) -> Result<(), Error> {
        match region.place {
            // SAFETY: the address came from `cuda_malloc`, the caller has
            // waited for everything that uses it, and gives the region up.
            Place::Device => unsafe {
                cuda_free(cust::memory::DevicePointer::<u8>::from_raw(region.address))
            },
            Place::Pinned => {
                let host = self.host.remove(&region.address).unwrap_or(region.address);
                // SAFETY: as above, from `cuda_malloc_locked`.
                unsafe { cuda_free_locked(host as *mut u8) }
            }
        }
        .doing("freeing memory")
    }

    fn write(&mut self, region: &Region, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        inside(region, offset, bytes.len())?;
        // SAFETY: the source is a live slice and the destination lies inside an
        // allocation; the call returns when the source has been read.
        let code = unsafe {
            sys::cuMemcpyHtoD_v2(region.address + offset, bytes.as_ptr().cast(), bytes.len())
        };
        check("copying to the GPU", code)
    }

    fn read(&mut self, region: &Region, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        inside(region, offset, bytes.len())?;
        // SAFETY: the destination is a live slice and the source lies inside an
        // allocation; the call returns when all is copied.
        let code = unsafe {
            sys::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), region.address + offset, bytes.len())
        };
        check("copying from the GPU", code)
    }

    fn load(&mut self, ptx: &str, entry: &str, level: Level) -> Result<KernelId, Error> {
        let nul = |_| Error::Input(format!("the PTX of {entry} has a NUL byte in it"));
        let image = CString::new(ptx).map_err(nul)?;
        let entry = CString::new(entry).map_err(nul)?;
        let options: &[ModuleJitOption] = match level {
            Level::Unoptimised => &[ModuleJitOption::OptLevel(OptLevel::O0)],
            Level::Default => &[],
        };
        let module = Module::from_ptx_cstr(&image, options).map_err(|error| {
            let error =
                Error::driver(format!("assembling the PTX of {}", entry.to_string_lossy()), error);
            let advice = match &error {
                Error::Driver { code, .. } => advice(*code),
                _ => "",
            };
            error.detail(advice).detail(assembler_log(&image))
        })?;
        module
            .get_function(entry.to_string_lossy())
            .doing(&format!("looking for the kernel {}", entry.to_string_lossy()))?;
        let id = self.next_kernel;
        self.next_kernel += 1;
        self.kernels.insert(id, Kernel { module, entry });
        Ok(KernelId(id))
    }

    fn resources(&self, kernel: KernelId) -> Result<Resources, Error> {
        let kernel = self.kernel(kernel)?;
        let function = kernel
            .module
            .get_function(kernel.entry.to_string_lossy())
            .doing("looking for a loaded kernel")?;
        let attribute = |attribute: FunctionAttribute| -> Result<u64, Error> {
            let value = function.get_attribute(attribute).doing("asking for a kernel's needs")?;
            Ok(value.max(0) as u64)
        };
        Ok(Resources {
            registers: attribute(FunctionAttribute::NumRegisters)? as u32,
            shared_bytes: attribute(FunctionAttribute::SharedMemorySizeBytes)?,
            local_bytes: attribute(FunctionAttribute::LocalSizeBytes)?,
        })
    }

    fn unload(&mut self, kernel: KernelId) -> Result<(), Error> {
        let Some(kernel) = self.kernels.remove(&kernel.0) else { return Ok(()) };
        Module::drop(kernel.module).map_err(|(error, _)| Error::driver("unloading a kernel", error))
    }

    fn enqueue(
        &mut self,
        kernel: KernelId,
        shape: &Shape,
        arguments: &[Argument],
    ) -> Result<(), Error> {
        /// Above this, a kernel has to be told that it may use more (CUDA C++
        /// Programming Guide, shared memory of each compute capability).
        const SHARED_WITHOUT_ASKING: u32 = 48 << 10;
        let kernel = self.kernel(kernel)?;
        let function = kernel
            .module
            .get_function(kernel.entry.to_string_lossy())
            .doing("looking for a loaded kernel")?;
        if shape.shared_bytes > SHARED_WITHOUT_ASKING {
            let most = self.description.shared_bytes_per_block;
            if u64::from(shape.shared_bytes) > most {
                return Err(Error::LaunchLimit {
                    what: "shared memory a block, in bytes,",
                    value: shape.shared_bytes.into(),
                    most,
                });
            }
            // SAFETY: the function belongs to a loaded module.
            let code = unsafe {
                sys::cuFuncSetAttribute(
                    function.to_raw(),
                    sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    shape.shared_bytes as i32,
                )
            };
            check("asking for more than 48 KiB of shared memory", code)?;
        }
        let pointers: Vec<*mut c_void> =
            arguments.iter().map(|argument| argument.as_ptr().cast_mut().cast()).collect();
        let [gx, gy, gz] = shape.grid;
        let [bx, by, bz] = shape.block;
        // SAFETY: there is one argument for each parameter, of its size (the
        // trait's contract), and the driver copies them before it returns. What
        // the kernel does with the addresses is the scenario's: the evaluator
        // has refused accesses outside the buffers before.
        unsafe {
            self.stream.launch(&function, (gx, gy, gz), (bx, by, bz), shape.shared_bytes, &pointers)
        }
        .doing(&format!("launching {}", kernel.entry.to_string_lossy()))
    }

    fn enqueue_copy(&mut self, to: &Region, from: &Region, bytes: u64) -> Result<(), Error> {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        inside(to, 0, size)?;
        inside(from, 0, size)?;
        // SAFETY: both ranges lie inside their allocations.
        let code = unsafe {
            sys::cuMemcpyDtoDAsync_v2(to.address, from.address, size, self.stream.as_inner())
        };
        check("copying on the GPU", code)
    }

    fn mark(&mut self) -> Result<Mark, Error> {
        if self.marks == self.events.len() {
            self.events.push(Event::new(EventFlags::DEFAULT).doing("creating an event")?);
        }
        let mark = Mark(self.marks);
        self.events[mark.0].record(&self.stream).doing("recording an event")?;
        self.marks += 1;
        Ok(mark)
    }

    fn clear_marks(&mut self) {
        self.marks = 0;
    }

    fn wait(&mut self, limit: Duration) -> Result<(), Error> {
        let last = Event::new(EventFlags::DISABLE_TIMING).doing("creating an event")?;
        last.record(&self.stream).doing("recording an event")?;
        let start = Instant::now();
        loop {
            match last.query().doing("waiting for a kernel")? {
                EventStatus::Ready => return Ok(()),
                EventStatus::NotReady => {}
            }
            let waited = start.elapsed();
            if waited >= limit {
                return Err(Error::Timeout { limit_s: limit.as_secs_f64() });
            }
            // Short work is polled for, longer work is slept through.
            if waited > Duration::from_millis(2) {
                std::thread::sleep(Duration::from_micros(200));
            } else {
                std::thread::yield_now();
            }
        }
    }

    fn seconds(&self, from: Mark, to: Mark) -> Result<f64, Error> {
        let milliseconds = self
            .event(to)?
            .elapsed_time_f32(self.event(from)?)
            .doing("reading the time between two events")?;
        Ok(f64::from(milliseconds) * 1e-3)
    }

    fn granule(&self) -> Result<u64, Error> {
        let properties = self.allocation_properties();
        let mut granule = 0;
        // SAFETY: both pointers are to live values.
        let code = unsafe {
            sys::cuMemGetAllocationGranularity(
                &mut granule,
                &properties,
                sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM,
            )
        };
        check("asking for the granularity of mappings", code)?;
        Ok((granule as u64).max(1).next_power_of_two())
    }

    fn reserve(&mut self, bytes: u64, alignment: u64, wanted: Option<u64>) -> Result<u64, Error> {
        let mut address = 0;
        // SAFETY: the pointer is to a live value; nothing is mapped yet.
        let code = unsafe {
            sys::cuMemAddressReserve(
                &mut address,
                bytes as usize,
                alignment as usize,
                wanted.unwrap_or(0),
                0,
            )
        };
        check(&format!("reserving {bytes} bytes of address space"), code)?;
        Ok(address)
    }

    fn unreserve(&mut self, address: u64, bytes: u64) -> Result<(), Error> {
        // SAFETY: the range came from `reserve` with this size, and the caller
        // has taken away what was mapped in it.
        let code = unsafe { sys::cuMemAddressFree(address, bytes as usize) };
        check("giving address space back", code)
    }

    fn back(&mut self, address: u64) -> Result<(), Error> {
        if self.granule == 0 {
            self.granule = self.granule()?;
        }
        let bytes = self.granule as usize;
        let properties = self.allocation_properties();
        let access = sys::CUmemAccessDesc {
            location: self.location(),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        let mut handle = 0;
        // SAFETY: the pointers are to live values; the range is reserved (the
        // trait's contract). What was made is undone where a later step fails.
        unsafe {
            check(
                "creating memory for a mapping",
                sys::cuMemCreate(&mut handle, bytes, &properties, 0),
            )?;
            if let Err(error) = check("mapping memory", sys::cuMemMap(address, bytes, 0, handle, 0))
            {
                sys::cuMemRelease(handle);
                return Err(error);
            }
            if let Err(error) = check(
                "making a mapping accessible",
                sys::cuMemSetAccess(address, bytes, &access, 1),
            ) {
                sys::cuMemUnmap(address, bytes);
                sys::cuMemRelease(handle);
                return Err(error);
            }
        }
        self.backed.insert(address, handle);
        Ok(())
    }

    fn unback(&mut self, address: u64) -> Result<(), Error> {
        let Some(handle) = self.backed.remove(&address) else { return Ok(()) };
        // SAFETY: mapped by `back` with this size; the caller has waited for
        // what uses it.
        unsafe {
            check("unmapping memory", sys::cuMemUnmap(address, self.granule as usize))?;
            check("releasing memory of a mapping", sys::cuMemRelease(handle))
        }
    }
}

/// Refuses a copy that would leave its allocation.
fn inside(region: &Region, offset: u64, bytes: usize) -> Result<(), Error> {
    let end = offset.checked_add(bytes as u64);
    if end.is_some_and(|end| end <= region.bytes) {
        return Ok(());
    }
    Err(Error::Worker(format!(
        "a copy of {bytes} bytes at offset {offset} leaves an allocation of {} bytes",
        region.bytes
    )))
}
