//! A plugin without the SDK, by the definitions of ABI 1.0, which are copied here and never change.
//!
//! `rustc --crate-type cdylib`, with `--cfg other_allocator` for memory that only this library can free.

use std::{
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slice {
    data: *const u8,
    len: usize,
}

#[repr(C)]
pub struct Buffer {
    data: *mut u8,
    len: usize,
    capacity: usize,
    free: Option<unsafe extern "C" fn(*mut u8, usize, usize)>,
}

#[repr(C)]
pub struct Reply {
    code: i32,
    body: Buffer,
    data: Buffer,
}

#[repr(C)]
pub struct Future {
    state: *mut c_void,
    poll: Option<unsafe extern "C" fn(*mut c_void, *const c_void, *mut Reply) -> i32>,
    drop: Option<unsafe extern "C" fn(*mut c_void)>,
}

#[repr(C)]
pub struct Method {
    name: Slice,
    cost: u32,
    reserved: u32,
    description: Slice,
}

#[repr(C)]
pub struct Plugin {
    magic: u64,
    abi_major: u16,
    abi_minor: u16,
    needs_minor: u16,
    reserved: u16,
    size: usize,
    features: u64,
    schema_hash: [u8; 32],
    name: Slice,
    namespace: Slice,
    version: Slice,
    built_with: Slice,
    capabilities: Slice,
    needs: Slice,
    methods: *const Method,
    method_count: usize,
    subscriptions: *const Slice,
    subscription_count: usize,
    start: unsafe extern "C" fn(*const c_void, Slice, Slice, *mut *mut c_void) -> Reply,
    call: unsafe extern "C" fn(*mut c_void, *const c_void, u32, Slice) -> Future,
    subscribe: unsafe extern "C" fn(*mut c_void, *const c_void, u32, Slice) -> Future,
    export_state: unsafe extern "C" fn(*mut c_void) -> Reply,
    stop: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: static, and never written.
unsafe impl Sync for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Method {}

/// Memory of this library has a header unknown to other allocators: freeing it elsewhere corrupts the heap.
#[cfg(other_allocator)]
mod other_allocator {
    use std::alloc::{GlobalAlloc, Layout, System};

    const HEAD: usize = 64;
    const MARK: u64 = 0x7465_6e6f_6e5f_6865;

    pub struct Headed;

    fn with_head(layout: Layout) -> Layout {
        Layout::from_size_align(layout.size() + HEAD, layout.align().max(HEAD)).expect("sizes of tests are small")
    }

    // SAFETY: every allocation is one of the system's, preceded by a header.
    unsafe impl GlobalAlloc for Headed {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the size is not zero; the header is inside the allocation.
            unsafe {
                let whole = System.alloc(with_head(layout));
                if whole.is_null() {
                    return whole;
                }
                whole.cast::<u64>().write(MARK);
                whole.add(HEAD)
            }
        }

        unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
            // SAFETY: `data` came from `alloc`, so the header precedes it.
            unsafe {
                let whole = data.sub(HEAD);
                if whole.cast::<u64>().read() != MARK {
                    std::process::abort();
                }
                whole.cast::<u64>().write(0);
                System.dealloc(whole, with_head(layout));
            }
        }
    }

    #[global_allocator]
    static ALLOCATOR: Headed = Headed;
}

const fn text(text: &'static str) -> Slice {
    Slice { data: text.as_ptr(), len: text.len() }
}

const EMPTY: Buffer = Buffer { data: ptr::null_mut(), len: 0, capacity: 0, free: None };

unsafe extern "C" fn free(data: *mut u8, len: usize, capacity: usize) {
    // SAFETY: from `buffer`.
    drop(unsafe { Vec::from_raw_parts(data, len, capacity) });
}

fn buffer(bytes: Vec<u8>) -> Buffer {
    let mut bytes = std::mem::ManuallyDrop::new(bytes);
    Buffer { data: bytes.as_mut_ptr(), len: bytes.len(), capacity: bytes.capacity(), free: Some(free) }
}

fn reply(code: i32, body: Vec<u8>) -> Reply {
    Reply { code, body: buffer(body), data: EMPTY }
}

unsafe extern "C" fn start(_: *const c_void, _: Slice, _: Slice, instance: *mut *mut c_void) -> Reply {
    // SAFETY: the host provides the memory.
    unsafe { instance.write(Box::into_raw(Box::new(7_u64)).cast()) };
    reply(0, Vec::new())
}

/// Method 0 returns its parameters, method 1 panics.
unsafe extern "C" fn call(_: *mut c_void, _: *const c_void, method: u32, params: Slice) -> Future {
    let params = if params.len == 0 {
        b"null".to_vec()
    } else {
        // SAFETY: borrowed for this call.
        unsafe { std::slice::from_raw_parts(params.data, params.len) }.to_vec()
    };
    let state = Box::into_raw(Box::new((method, params))).cast();
    Future { state, poll: Some(poll), drop: Some(drop_state) }
}

unsafe extern "C" fn poll(state: *mut c_void, _: *const c_void, out: *mut Reply) -> i32 {
    // SAFETY: the box of `call`.
    let (method, params) = unsafe { &mut *state.cast::<(u32, Vec<u8>)>() };
    let answer = || {
        assert!(*method == 0, "on purpose");
        reply(0, std::mem::take(params))
    };
    let answer = catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| reply(-32000, b"caught".to_vec()));
    // SAFETY: the host provides the memory.
    unsafe { out.write(answer) };
    1
}

unsafe extern "C" fn drop_state(state: *mut c_void) {
    // SAFETY: the box of `call`, once.
    drop(unsafe { Box::from_raw(state.cast::<(u32, Vec<u8>)>()) });
}

unsafe extern "C" fn no_stream(_: *mut c_void, _: *const c_void, _: u32, _: Slice) -> Future {
    Future { state: ptr::null_mut(), poll: None, drop: None }
}

unsafe extern "C" fn export_state(_: *mut c_void) -> Reply {
    reply(0, Vec::new())
}

unsafe extern "C" fn stop(instance: *mut c_void) {
    // SAFETY: the box of `start`, once.
    drop(unsafe { Box::from_raw(instance.cast::<u64>()) });
}

static METHODS: [Method; 2] = [
    Method { name: text("bare_echo"), cost: 0, reserved: 0, description: text("{}") },
    Method { name: text("bare_panic"), cost: 0, reserved: 0, description: text("{}") },
];

static PLUGIN: Plugin = Plugin {
    magic: 0x5445_4e4f_4e50_4c47,
    abi_major: 1,
    abi_minor: 0,
    needs_minor: 0,
    reserved: 0,
    size: size_of::<Plugin>(),
    features: 0,
    schema_hash: [0; 32],
    name: text("bare"),
    namespace: text("bare"),
    version: text("1.0"),
    built_with: text("rustc alone"),
    capabilities: text(""),
    needs: text(""),
    methods: METHODS.as_ptr(),
    method_count: METHODS.len(),
    subscriptions: ptr::null(),
    subscription_count: 0,
    start,
    call,
    subscribe: no_stream,
    export_state,
    stop,
};

#[unsafe(no_mangle)]
pub extern "C" fn tenon_plugin_v1() -> *const Plugin {
    &PLUGIN
}
