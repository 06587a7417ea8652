//! A mock of the CUDA driver library, for tests: built as a shared library and
//! named by `COALESCOPE_CUDA_DRIVER`.
//!
//! Memory is host memory, so copies are real. Kernels do nothing but take time
//! on a virtual clock: each launch advances it, and events read it. Its
//! arguments are read as the PTX declares them, so a launch with too few of
//! them shows. Environment variables script it:
//!
//! | variable | effect |
//! |---|---|
//! | `MOCK_CUDA_INIT` | code that `cuInit` returns |
//! | `MOCK_CUDA_VERSION` | what `cuDriverGetVersion` says; 13000 unless set |
//! | `MOCK_CUDA_DEVICES` | number of devices; 1 unless set |
//! | `MOCK_CUDA_MAJOR` | the compute capability's first number; 9 unless set |
//! | `MOCK_CUDA_FREE` | bytes of free device memory |
//! | `MOCK_CUDA_LOG` | file to which each launch adds a line |
//! | `MOCK_CUDA_TIMES` | `kernel=milliseconds;…` by a part of the name; 0.02 unless set |
//! | `MOCK_CUDA_HANG` | launches of kernels with this in the name never end |
//! | `MOCK_CUDA_CRASH` | launches of kernels with this in the name end the process |
//! | `MOCK_CUDA_FAULT` | … make every later call return 700 (illegal address) |
//! | `MOCK_CUDA_SLEEP_MS` | real time that each launch takes |
//! | `MOCK_CUDA_PTX_VERSION` | newest PTX `.version` it accepts, as `8.1` |
//!
//! `cuMemPrefetchAsync` and many more are left out on purpose, as an old driver
//! lacks functions.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::io::Write;
use std::sync::{Mutex, MutexGuard, OnceLock};

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 1;
const OUT_OF_MEMORY: c_int = 2;
const NOT_INITIALIZED: c_int = 3;
const INVALID_DEVICE: c_int = 101;
const INVALID_CONTEXT: c_int = 201;
const INVALID_PTX: c_int = 218;
const UNSUPPORTED_PTX_VERSION: c_int = 222;
const NOT_FOUND: c_int = 500;
const NOT_READY: c_int = 600;
const ILLEGAL_ADDRESS: c_int = 700;

#[derive(Default)]
struct State {
    initialised: bool,
    current: bool,
    clock_ms: f64,
    hung: bool,
    faulted: bool,
    next: usize,
    allocations: HashMap<u64, usize>,
    modules: HashMap<usize, String>,
    functions: HashMap<usize, Function>,
    /// Time and whether it lies behind a hung launch.
    events: HashMap<usize, Option<(f64, bool)>>,
    reserved: Vec<(u64, u64)>,
    mapped: HashMap<u64, u64>,
    handles: HashMap<u64, u64>,
}

#[derive(Clone)]
struct Function {
    name: String,
    parameters: Vec<Parameter>,
    level: usize,
    dynamic_shared_limit: c_uint,
}

#[derive(Clone)]
struct Parameter {
    bytes: usize,
}

fn state() -> MutexGuard<'static, State> {
    static STATE: OnceLock<Mutex<State>> = OnceLock::new();
    STATE.get_or_init(Mutex::default).lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn variable<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn named(variable: &str, kernel: &str) -> bool {
    std::env::var(variable).is_ok_and(|part| !part.is_empty() && kernel.contains(&part))
}

/// What most functions check first.
fn ready() -> Result<MutexGuard<'static, State>, c_int> {
    let state = state();
    if !state.initialised {
        return Err(NOT_INITIALIZED);
    }
    if !state.current {
        return Err(INVALID_CONTEXT);
    }
    if state.faulted {
        return Err(ILLEGAL_ADDRESS);
    }
    Ok(state)
}

macro_rules! api {
    ($($name:ident($($arg:ident: $ty:ty),*) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
            // SAFETY: a test's caller passes what the driver API asks for.
            #[allow(unused_unsafe)]
            let body = || -> Result<c_int, c_int> { unsafe { $body } };
            match body() { Ok(code) | Err(code) => code }
        }
    )*};
}

fn free_bytes() -> usize {
    let used: usize = state().allocations.values().sum();
    variable("MOCK_CUDA_FREE", 8usize << 30).saturating_sub(used)
}

fn allocate(bytes: usize) -> Result<u64, c_int> {
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    if bytes > free_bytes() {
        return Err(OUT_OF_MEMORY);
    }
    let layout = std::alloc::Layout::from_size_align(bytes, 512).map_err(|_| INVALID_VALUE)?;
    // SAFETY: the size is not 0.
    let address = unsafe { std::alloc::alloc(layout) } as u64;
    if address == 0 {
        return Err(OUT_OF_MEMORY);
    }
    ready()?.allocations.insert(address, bytes);
    Ok(address)
}

fn release(address: u64) -> c_int {
    let Some(bytes) = state().allocations.remove(&address) else { return INVALID_VALUE };
    if let Ok(layout) = std::alloc::Layout::from_size_align(bytes, 512) {
        // SAFETY: allocated above with this layout.
        unsafe { std::alloc::dealloc(address as *mut u8, layout) };
    }
    SUCCESS
}

/// The parameters of `.entry name(…)`.
fn parameters(ptx: &str, name: &str) -> Option<Vec<Parameter>> {
    let start = ptx.match_indices(".entry").find_map(|(at, word)| {
        let rest = ptx[at + word.len()..].trim_start();
        let rest = rest.strip_prefix(name)?;
        rest.trim_start().strip_prefix('(')
    })?;
    let list = &start[..start.find(')')?];
    let mut parameters = Vec::new();
    for declaration in list.split(',').filter(|text| !text.trim().is_empty()) {
        let mut bytes = 0;
        for word in declaration.split_whitespace() {
            bytes = match word {
                ".u8" | ".s8" | ".b8" => 1,
                ".u16" | ".s16" | ".b16" => 2,
                ".u32" | ".s32" | ".b32" | ".f32" => 4,
                ".u64" | ".s64" | ".b64" | ".f64" => 8,
                _ => bytes,
            };
        }
        let count = declaration
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'))
            .map_or(Some(1), |(count, _)| count.trim().parse().ok())?;
        parameters.push(Parameter { bytes: bytes * count });
    }
    Some(parameters)
}

fn ptx_version(ptx: &str) -> Option<(u32, u32)> {
    let line = ptx.lines().find_map(|line| line.trim().strip_prefix(".version"))?;
    let (major, minor) = line.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn fresh(state: &mut State) -> usize {
    state.next += 16;
    0x1000 + state.next
}

api! {
    cuInit(flags: c_uint) {
        let code = variable("MOCK_CUDA_INIT", 0);
        if code == 0 && flags == 0 { state().initialised = true; }
        Ok(if flags == 0 { code } else { INVALID_VALUE })
    }
    cuDriverGetVersion(version: *mut c_int) {
        *version = variable("MOCK_CUDA_VERSION", 13000);
        Ok(SUCCESS)
    }
    cuGetErrorName(code: c_int, text: *mut *const c_char) {
        *text = match code {
            0 => c"CUDA_SUCCESS", 1 => c"CUDA_ERROR_INVALID_VALUE", 2 => c"CUDA_ERROR_OUT_OF_MEMORY",
            3 => c"CUDA_ERROR_NOT_INITIALIZED", 222 => c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
            700 => c"CUDA_ERROR_ILLEGAL_ADDRESS", 912 => c"CUDA_ERROR_NEWER_THAN_THE_BINDINGS",
            _ => { *text = std::ptr::null(); return Err(INVALID_VALUE); }
        }.as_ptr();
        Ok(SUCCESS)
    }
    cuGetErrorString(code: c_int, text: *mut *const c_char) {
        Ok(cuGetErrorName(code, text))
    }
    cuDeviceGetCount(count: *mut c_int) {
        if !state().initialised { return Err(NOT_INITIALIZED); }
        *count = variable("MOCK_CUDA_DEVICES", 1);
        Ok(SUCCESS)
    }
    cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        if !state().initialised { return Err(NOT_INITIALIZED); }
        if !(0..variable("MOCK_CUDA_DEVICES", 1)).contains(&ordinal) { return Err(INVALID_DEVICE); }
        *device = ordinal;
        Ok(SUCCESS)
    }
    cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) {
        let text = format!("Mock GPU {device}\0");
        if text.len() > len as usize { return Err(INVALID_VALUE); }
        std::ptr::copy_nonoverlapping(text.as_ptr(), name.cast(), text.len());
        Ok(SUCCESS)
    }
    cuDeviceGetPCIBusId(name: *mut c_char, len: c_int, device: c_int) {
        let text = format!("0000:{device:02x}:00.0\0");
        if text.len() > len as usize { return Err(INVALID_VALUE); }
        std::ptr::copy_nonoverlapping(text.as_ptr(), name.cast(), text.len());
        Ok(SUCCESS)
    }
    cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) { *bytes = 16 << 30; Ok(SUCCESS) }
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) {
        *value = match attribute {
            1 => 1024,            // threads a block
            2 | 3 => 1024, 4 => 64,
            5 => i32::MAX, 6 | 7 => 65535,
            8 => 48 << 10,        // shared memory a block
            10 => 32,             // warp size
            13 => 1_980_000,      // kHz
            16 => 132,            // multiprocessors
            32 => 1,              // ECC
            36 => 3_201_000,      // memory kHz
            37 => 6144,           // bus bits
            38 => 1 << 20,        // L2 bytes
            39 => 2048,           // threads an SM
            // Compute capability.
            75 => variable("MOCK_CUDA_MAJOR", 9),
            76 => 0,
            81 => 228 << 10,      // shared memory an SM
            82 => 1 << 16,        // registers an SM
            97 => 227 << 10,      // shared memory a block, opt-in
            102 => 1,             // virtual memory management
            106 => 32,            // blocks an SM
            111 => 1 << 10,       // shared memory reserved a block
            _ => 0,
        };
        Ok(SUCCESS)
    }
    cuDevicePrimaryCtxRetain(context: *mut usize, _device: c_int) {
        if !state().initialised { return Err(NOT_INITIALIZED); }
        *context = 0xc0;
        Ok(SUCCESS)
    }
    cuDevicePrimaryCtxRelease_v2(_device: c_int) { Ok(SUCCESS) }
    cuDevicePrimaryCtxSetFlags_v2(_device: c_int, _flags: c_uint) { Ok(SUCCESS) }
    cuCtxSetCurrent(context: usize) { state().current = context == 0xc0; Ok(SUCCESS) }
    cuCtxGetDevice(device: *mut c_int) { *device = 0; Ok(SUCCESS) }
    cuCtxSynchronize() { Ok(cuStreamSynchronize(0)) }

    cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        drop(ready()?);
        *free = free_bytes();
        *total = 16 << 30;
        Ok(SUCCESS)
    }
    cuMemAlloc_v2(address: *mut u64, bytes: usize) { *address = allocate(bytes)?; Ok(SUCCESS) }
    cuMemFree_v2(address: u64) { Ok(release(address)) }
    cuMemAllocHost_v2(address: *mut u64, bytes: usize) { *address = allocate(bytes)?; Ok(SUCCESS) }
    cuMemHostAlloc(address: *mut u64, bytes: usize, _flags: c_uint) {
        *address = allocate(bytes)?;
        Ok(SUCCESS)
    }
    cuMemHostGetDevicePointer_v2(device: *mut u64, host: u64, _flags: c_uint) {
        *device = host;
        Ok(SUCCESS)
    }
    cuMemFreeHost(address: u64) { Ok(release(address)) }
    cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) {
        drop(ready()?);
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), to as *mut u8, bytes);
        Ok(SUCCESS)
    }
    cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, _stream: usize) {
        Ok(cuMemcpyHtoD_v2(to, from, bytes))
    }
    cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) {
        drop(ready()?);
        std::ptr::copy_nonoverlapping(from as *const u8, to.cast::<u8>(), bytes);
        Ok(SUCCESS)
    }
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, _stream: usize) {
        let mut state = ready()?;
        state.clock_ms += 0.002 + 2.0 * bytes as f64 / 4.0e9;
        std::ptr::copy(from as *const u8, to as *mut u8, bytes);
        Ok(SUCCESS)
    }
    cuMemsetD32Async(to: u64, value: c_uint, count: usize, _stream: usize) {
        let mut state = ready()?;
        state.clock_ms += 0.002 + 4.0 * count as f64 / 3.0e9;
        std::slice::from_raw_parts_mut(to as *mut u32, count).fill(value);
        Ok(SUCCESS)
    }
    cuMemsetD8_v2(to: u64, value: u8, count: usize) {
        drop(ready()?);
        std::slice::from_raw_parts_mut(to as *mut u8, count).fill(value);
        Ok(SUCCESS)
    }

    cuStreamCreateWithPriority(stream: *mut usize, _flags: c_uint, _priority: c_int) {
        *stream = fresh(&mut *ready()?);
        Ok(SUCCESS)
    }
    cuStreamDestroy_v2(_stream: usize) { Ok(SUCCESS) }
    cuStreamSynchronize(_stream: usize) {
        let hung = ready()?.hung;
        if hung { loop { std::thread::sleep(std::time::Duration::from_secs(1)); } }
        Ok(SUCCESS)
    }
    cuEventCreate(event: *mut usize, _flags: c_uint) {
        let mut state = ready()?;
        *event = fresh(&mut state);
        state.events.insert(*event, None);
        Ok(SUCCESS)
    }
    cuEventDestroy_v2(event: usize) { state().events.remove(&event); Ok(SUCCESS) }
    cuEventRecord(event: usize, _stream: usize) {
        let mut state = ready()?;
        let now = Some((state.clock_ms, state.hung));
        *state.events.get_mut(&event).ok_or(INVALID_VALUE)? = now;
        Ok(SUCCESS)
    }
    cuEventQuery(event: usize) {
        match ready()?.events.get(&event) {
            Some(Some((_, true))) => Ok(NOT_READY),
            Some(_) => Ok(SUCCESS),
            None => Err(INVALID_VALUE),
        }
    }
    cuEventSynchronize(event: usize) {
        while cuEventQuery(event) == NOT_READY {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        Ok(cuEventQuery(event))
    }
    cuEventElapsedTime(ms: *mut f32, start: usize, end: usize) {
        let state = ready()?;
        let at = |event| state.events.get(&event).copied().flatten().ok_or(INVALID_VALUE);
        let ((start, _), (end, hung)) = (at(start)?, at(end)?);
        if hung { return Err(NOT_READY); }
        *ms = (end - start) as f32;
        Ok(SUCCESS)
    }

    cuModuleLoadDataEx(
        module: *mut usize, image: *const c_char, count: c_uint, options: *const c_int,
        values: *const *mut c_void
    ) {
        let text = CStr::from_ptr(image).to_str().map_err(|_| INVALID_PTX)?.to_owned();
        let (mut level, mut log) = (4usize, None);
        for i in 0..count as usize {
            match *options.add(i) {
                5 => log = Some((*values.add(i)).cast::<u8>()),
                7 => level = *values.add(i) as usize,
                _ => {}
            }
        }
        let say = |words: &str| if let Some(log) = log {
            std::ptr::copy_nonoverlapping(words.as_ptr(), log, words.len());
            *log.add(words.len()) = 0;
        };
        let version = ptx_version(&text);
        if version.is_none() || !text.contains(".entry") {
            say("ptxas fatal   : Missing .version directive");
            return Err(INVALID_PTX);
        }
        let newest = std::env::var("MOCK_CUDA_PTX_VERSION").unwrap_or("9.0".into());
        if version > ptx_version(&format!(".version {newest}")) {
            return Err(UNSUPPORTED_PTX_VERSION);
        }
        let mut state = ready()?;
        *module = fresh(&mut state);
        state.modules.insert(*module, format!("{level}\n{text}"));
        Ok(SUCCESS)
    }
    cuModuleUnload(module: usize) {
        Ok(if state().modules.remove(&module).is_some() { SUCCESS } else { INVALID_VALUE })
    }
    cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) {
        let mut state = ready()?;
        let name = CStr::from_ptr(name).to_string_lossy().into_owned();
        let (level, text) = state
            .modules.get(&module).and_then(|text| text.split_once('\n')).ok_or(INVALID_VALUE)?;
        let parameters = parameters(text, &name).ok_or(NOT_FOUND)?;
        let level = level.parse().unwrap_or(4);
        *function = fresh(&mut state);
        let made = Function { name, parameters, level, dynamic_shared_limit: 48 << 10 };
        state.functions.insert(*function, made);
        Ok(SUCCESS)
    }
    cuFuncGetAttribute(value: *mut c_int, attribute: c_int, _function: usize) {
        *value = match attribute { 0 => 1024, 4 => 24, 5 => 70, 6 => 90, _ => 0 };
        Ok(SUCCESS)
    }
    cuFuncSetAttribute(function: usize, attribute: c_int, value: c_int) {
        let mut state = ready()?;
        let function = state.functions.get_mut(&function).ok_or(INVALID_VALUE)?;
        if attribute == 8 {
            if value > 227 << 10 { return Err(INVALID_VALUE); }
            function.dynamic_shared_limit = value as c_uint;
        }
        Ok(SUCCESS)
    }
    cuLaunchKernel(
        function: usize, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint,
        shared: c_uint, _stream: usize, arguments: *const *const u8, _extra: *const c_void
    ) {
        let mut state = ready()?;
        let function = state.functions.get(&function).ok_or(INVALID_VALUE)?.clone();
        if gx * gy * gz == 0 || bx * by * bz == 0 || bx * by * bz > 1024
            || shared > function.dynamic_shared_limit
        {
            return Err(INVALID_VALUE);
        }
        if named("MOCK_CUDA_CRASH", &function.name) { std::process::abort(); }
        let sleep = variable("MOCK_CUDA_SLEEP_MS", 0);
        if sleep > 0 { std::thread::sleep(std::time::Duration::from_millis(sleep)); }
        state.hung |= named("MOCK_CUDA_HANG", &function.name);
        state.faulted |= named("MOCK_CUDA_FAULT", &function.name);
        let times = std::env::var("MOCK_CUDA_TIMES").unwrap_or_default();
        state.clock_ms += times
            .split(';')
            .filter_map(|entry| entry.split_once('='))
            .find(|(part, _)| function.name.contains(part))
            .and_then(|(_, ms)| ms.parse().ok())
            .unwrap_or(0.02);
        let mut values = String::new();
        for (i, parameter) in function.parameters.iter().enumerate() {
            let from = *arguments.add(i);
            let mut bytes = [0u8; 8];
            let n = parameter.bytes.min(8);
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), n);
            values += &format!(" {}", u64::from_le_bytes(bytes));
        }
        if let Ok(path) = std::env::var("MOCK_CUDA_LOG") {
            let line = format!(
                "{} O{} grid {gx},{gy},{gz} block {bx},{by},{bz} shared {shared} arguments{values}\n",
                function.name, function.level,
            );
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            if let Ok(mut file) = file { let _ = file.write_all(line.as_bytes()); }
        }
        Ok(SUCCESS)
    }

    cuMemGetAllocationGranularity(granularity: *mut usize, _prop: *const c_void, _kind: c_int) {
        *granularity = 2 << 20;
        Ok(SUCCESS)
    }
    cuMemAddressReserve(
        address: *mut u64, bytes: usize, alignment: usize, wanted: u64, _flags: c_ulonglong
    ) {
        let mut state = ready()?;
        let (granule, bytes) = (2u64 << 20, bytes as u64);
        let alignment = (alignment as u64).max(granule);
        if bytes % granule != 0 || bytes > 1 << 45 || wanted % granule != 0 {
            return Err(INVALID_VALUE);
        }
        let free = |state: &State, at: u64| {
            state.reserved.iter().all(|&(start, len)| at + bytes <= start || start + len <= at)
        };
        // As the real one: another place where the wanted one is taken.
        let mut at = wanted;
        if at == 0 || at >= 1 << 47 || !free(&state, at) {
            at = (0x6000_0000_0000_u64).next_multiple_of(alignment);
            while !free(&state, at) { at += alignment; }
        }
        state.reserved.push((at, bytes));
        *address = at;
        Ok(SUCCESS)
    }
    cuMemAddressFree(address: u64, bytes: usize) {
        let mut state = ready()?;
        let before = state.reserved.len();
        state.reserved.retain(|&entry| entry != (address, bytes as u64));
        Ok(if state.reserved.len() < before { SUCCESS } else { INVALID_VALUE })
    }
    cuMemCreate(handle: *mut u64, bytes: usize, prop: *const c_int, _flags: c_ulonglong) {
        let mut state = ready()?;
        // Pinned device memory.
        if *prop != 1 || *prop.add(2) != 1 { return Err(INVALID_VALUE); }
        *handle = fresh(&mut state) as u64;
        state.handles.insert(*handle, bytes as u64);
        Ok(SUCCESS)
    }
    cuMemRelease(handle: u64) {
        Ok(if state().handles.remove(&handle).is_some() { SUCCESS } else { INVALID_VALUE })
    }
    cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, _flags: c_ulonglong) {
        let mut state = ready()?;
        let inside = state.reserved.iter().any(|&(start, len)| {
            start <= address && address + bytes as u64 <= start + len
        });
        if !inside || offset != 0 || state.handles.get(&handle) != Some(&(bytes as u64))
            || state.mapped.contains_key(&address)
        {
            return Err(INVALID_VALUE);
        }
        state.mapped.insert(address, bytes as u64);
        Ok(SUCCESS)
    }
    cuMemSetAccess(address: u64, bytes: usize, _desc: *const c_void, count: usize) {
        let state = ready()?;
        let known = state.mapped.get(&address) == Some(&(bytes as u64)) && count == 1;
        Ok(if known { SUCCESS } else { INVALID_VALUE })
    }
    cuMemUnmap(address: u64, bytes: usize) {
        let mut state = ready()?;
        let known = state.mapped.remove(&address) == Some(bytes as u64);
        Ok(if known { SUCCESS } else { INVALID_VALUE })
    }
}
