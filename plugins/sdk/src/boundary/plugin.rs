//! The plugin's own side: its static descriptor, its entry points, and the host's table of functions.

use std::{
    ffi::c_void,
    mem::{offset_of, size_of},
    num::NonZeroU64,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicPtr, Ordering},
    },
    time::Duration,
};

use crate::Failure;
use tenon_api::{
    abi::{
        ABI_MAJOR, ABI_MINOR, FEATURE_LASTING_SUBSCRIPTIONS, MINOR_OF_DEADLINES, PLUGIN_MAGIC, TenonCallContext,
        TenonFuture, TenonHost, TenonMethod, TenonPlugin, TenonReply, TenonSlice, TenonStream, TenonSubscription,
    },
    schema_hash,
};

use super::{
    ExportedFuture, ExportedStream, ForeignFuture, ForeignStream, borrow, crashed, mark_as_plugin, reply, slice,
};
use crate::{
    Context, Exported, Host, LogLevel, Plugin, Table,
    context::{Caller, HostPort, Served},
};

/// Identifies a caller to the host; a plugin only passes it back.
#[derive(Clone, Copy, Debug)]
pub struct CallToken(*const c_void);

// SAFETY: never dereferenced here; the host accepts it from any thread.
unsafe impl Send for CallToken {}
// SAFETY: as above.
unsafe impl Sync for CallToken {}

impl CallToken {
    /// No caller: the plugin acts on its own account.
    pub const NONE: Self = Self(ptr::null());
}

/// The static table of a plugin with the memory that it points into.
pub struct Descriptor {
    plugin: TenonPlugin,
    _methods: Vec<TenonMethod>,
    _subscriptions: Vec<TenonSubscription>,
    _capabilities: String,
}

// SAFETY: immutable once built, and everything that it points to is static or owned by it.
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Sync for Descriptor {}

/// Builds the descriptor of `P` once and returns its address; null if building it panicked.
pub fn descriptor<P: Exported>(slot: &'static OnceLock<Descriptor>, name: &'static str) -> *const TenonPlugin {
    let build = || ptr::from_ref(&slot.get_or_init(|| build_descriptor::<P>(name)).plugin);
    catch_unwind(AssertUnwindSafe(build)).unwrap_or(ptr::null())
}

fn build_descriptor<P: Exported>(name: &'static str) -> Descriptor {
    let table = P::table();
    let methods: Vec<TenonMethod> = table
        .methods
        .iter()
        .map(|method| TenonMethod {
            name: slice(method.name.as_bytes()),
            cost: method.cost,
            flags: method.flags,
            description: slice(method.description.as_bytes()),
        })
        .collect();
    let subscriptions: Vec<TenonSubscription> = table
        .subscriptions
        .iter()
        .map(|subscription| TenonSubscription { name: slice(subscription.name.as_bytes()) })
        .collect();
    let capabilities = table.capabilities.iter().map(|capability| capability.name()).collect::<Vec<_>>().join(",");
    let plugin = TenonPlugin {
        magic: PLUGIN_MAGIC,
        abi_major: ABI_MAJOR,
        abi_minor: ABI_MINOR,
        // An older host would never start the background work.
        needs_minor: u16::from(table.background.is_some()),
        reserved: 0,
        size: size_of::<TenonPlugin>(),
        features: if table.has_lasting_subscriptions { FEATURE_LASTING_SUBSCRIPTIONS } else { 0 },
        schema_hash: schema_hash().0,
        name: slice(name.as_bytes()),
        namespace: slice(table.namespace.as_bytes()),
        version: slice(table.version.as_bytes()),
        built_with: slice(concat!("tenon-sdk ", env!("CARGO_PKG_VERSION"), ", ", env!("TENON_RUSTC")).as_bytes()),
        capabilities: slice(capabilities.as_bytes()),
        needs: slice(table.needs.as_bytes()),
        methods: methods.as_ptr(),
        method_count: methods.len(),
        subscriptions: subscriptions.as_ptr(),
        subscription_count: subscriptions.len(),
        start: start::<P>,
        call: call_method::<P>,
        subscribe: subscribe::<P>,
        export_state: export_state::<P>,
        stop: stop::<P>,
        run: if table.background.is_some() { Some(run::<P>) } else { None },
    };
    Descriptor { plugin, _methods: methods, _subscriptions: subscriptions, _capabilities: capabilities }
}

/// The state that `start` returns to the host.
struct Instance<P: 'static> {
    served: Arc<Served<P>>,
    table: &'static Table<P>,
    /// The host's minor number.
    host_minor: u16,
}

unsafe extern "C" fn start<P: Exported>(
    host: *const TenonHost,
    settings: TenonSlice,
    handover: TenonSlice,
    instance: *mut *mut c_void,
) -> TenonReply {
    // SAFETY: by the ABI, the host's table stays valid and the slices are lent for this call.
    let begin = || unsafe {
        let host_minor = if host.is_null() { 0 } else { (*host).abi_minor };
        let host = HostTable::connect(host)?;
        let settings = std::str::from_utf8(borrow(settings))
            .map_err(|error| Failure::server(format!("the settings are not UTF-8: {error}")))?;
        let plugin = Arc::new(P::start(host.clone(), settings, borrow(handover))?);
        let served = Arc::new(Served { plugin, host });
        Ok(Box::new(Instance { served, table: P::table(), host_minor }))
    };
    match catch_unwind(AssertUnwindSafe(begin)).unwrap_or_else(|_| Err(Failure::server("the plugin crashed at start")))
    {
        Ok(started) => {
            // SAFETY: the host provides memory for the pointer.
            unsafe { instance.write(Box::into_raw(started).cast()) };
            reply(Ok(Vec::new()))
        }
        Err(failure) => reply(Err(failure)),
    }
}

unsafe extern "C" fn call_method<P: Exported>(
    instance: *mut c_void,
    context: *const TenonCallContext,
    method: u32,
    params: TenonSlice,
) -> TenonFuture {
    // SAFETY: `instance` came from `start` and lives until `stop`; the rest is lent for this call.
    let (instance, params) = unsafe { (&*instance.cast::<Instance<P>>(), borrow(params)) };
    let begin = || match instance.table.methods.get(method as usize) {
        // SAFETY: `context` was lent for this call.
        Some(method) => (method.call)(unsafe { open_context(instance, context) }, params),
        None => ExportedFuture::ready(Err(Failure::server(format!("the plugin has no method number {method}")))),
    };
    let future = catch_unwind(AssertUnwindSafe(begin)).unwrap_or_else(|_| ExportedFuture::ready(Err(crashed())));
    future.into_raw()
}

unsafe extern "C" fn subscribe<P: Exported>(
    instance: *mut c_void,
    context: *const TenonCallContext,
    kind: u32,
    params: TenonSlice,
) -> TenonStream {
    // SAFETY: as in `call`.
    let (instance, params) = unsafe { (&*instance.cast::<Instance<P>>(), borrow(params)) };
    let begin = || match instance.table.subscriptions.get(kind as usize) {
        // SAFETY: `context` was lent for this call.
        Some(subscription) => (subscription.open)(unsafe { open_context(instance, context) }, params),
        None => ExportedStream::refused(Failure::server(format!("the plugin has no subscription number {kind}"))),
    };
    let stream = catch_unwind(AssertUnwindSafe(begin)).unwrap_or_else(|_| ExportedStream::refused(crashed()));
    stream.into_raw()
}

unsafe extern "C" fn run<P: Exported>(instance: *mut c_void) -> TenonFuture {
    // SAFETY: `instance` came from `start` and lives until `stop`.
    let instance = unsafe { &*instance.cast::<Instance<P>>() };
    let begin = || match &instance.table.background {
        Some(function) => function(Context::new(instance.served.clone(), Caller::NONE, "*", None)),
        None => ExportedFuture::ready(Ok(Vec::new())),
    };
    catch_unwind(AssertUnwindSafe(begin)).unwrap_or_else(|_| ExportedFuture::ready(Err(crashed()))).into_raw()
}

/// # Safety
/// `context` and its slices are valid until this returns. The context of an older host is shorter than ours.
unsafe fn open_context<P>(instance: &Instance<P>, context: *const TenonCallContext) -> Context<P> {
    // SAFETY: guaranteed by the caller.
    let namespaces = std::str::from_utf8(unsafe { borrow((*context).namespaces) }).unwrap_or_default();
    // SAFETY: the field is read only if the host's version has it.
    let client = if instance.host_minor >= MIN_ABI_MINOR_FOR_CLIENTS { unsafe { (*context).client } } else { 0 };
    let deadline = if instance.host_minor >= MINOR_OF_DEADLINES {
        // SAFETY: the host's version has the field.
        NonZeroU64::new(unsafe { (*context).deadline }).map(|deadline| Duration::from_nanos(deadline.get()))
    } else {
        // SAFETY: `context` was lent for this call.
        let time_left = NonZeroU64::new(unsafe { (*context).deadline_nanos });
        time_left.map(|left| instance.served.host.now().saturating_add(Duration::from_nanos(left.get())))
    };
    // SAFETY: `context` was lent for this call.
    let token = CallToken(unsafe { (*context).call });
    Context::new(instance.served.clone(), Caller { token, client }, namespaces, deadline)
}

unsafe extern "C" fn export_state<P: Plugin>(instance: *mut c_void) -> TenonReply {
    // SAFETY: `instance` came from `start` and lives until `stop`.
    let instance = unsafe { &*instance.cast::<Instance<P>>() };
    reply(catch_unwind(AssertUnwindSafe(|| instance.served.plugin.export_state())).map_err(|_| crashed()))
}

unsafe extern "C" fn stop<P: Plugin>(instance: *mut c_void) {
    // SAFETY: `instance` came from `start` and is freed once.
    let instance = unsafe { Box::from_raw(instance.cast::<Instance<P>>()) };
    // A panic must not cross the boundary; the panic hook has already reported it to the host.
    let _ = catch_unwind(AssertUnwindSafe(|| instance.served.plugin.stop()));
    let _ = catch_unwind(AssertUnwindSafe(|| drop(instance)));
}

type CallJson = unsafe extern "C" fn(*const c_void, *const c_void, TenonSlice, TenonSlice) -> TenonFuture;

/// The host's table of functions, as passed to `start`.
///
/// Fields are read one by one, because an older host's table is shorter than ours.
struct HostTable(*const TenonHost);

// SAFETY: the host's functions may be called from any thread, and its table is valid while the library is mapped.
unsafe impl Send for HostTable {}
// SAFETY: as above.
unsafe impl Sync for HostTable {}

/// The minor number from which on a host passes the client of each call.
const MIN_ABI_MINOR_FOR_CLIENTS: u16 = 2;

/// The minor number from which on a host recognises panics by their code.
const MIN_ABI_MINOR_FOR_PANICS: u16 = 4;

/// Target of the panic hook: the host of the instance that started last.
static PANIC_HOST: AtomicPtr<TenonHost> = AtomicPtr::new(ptr::null_mut());

impl HostTable {
    /// # Safety
    /// `host` is null or a host's table that is valid while the library is mapped.
    unsafe fn connect(host: *const TenonHost) -> Result<Host, Failure> {
        // SAFETY: checked for null first; `size` is the first field in every version.
        if host.is_null() || unsafe { (*host).size } < offset_of!(TenonHost, hold) {
            return Err(Failure::server("the host's table of functions is older than this plugin"));
        }
        // SAFETY: `abi_minor` follows `size` in every version.
        mark_as_plugin(unsafe { (*host).abi_minor } >= MIN_ABI_MINOR_FOR_PANICS);
        if PANIC_HOST.swap(host.cast_mut(), Ordering::AcqRel).is_null() {
            std::panic::set_hook(Box::new(report_panic));
        }
        Ok(Host { port: Arc::new(Self(host)) })
    }

    /// The function that counts memory; `None` if the host is older.
    fn hold_function(&self) -> Option<unsafe extern "C" fn(*const c_void, u64, i64) -> i32> {
        // SAFETY: the field is read only if the host's `size` includes it.
        unsafe { ((*self.0).size >= offset_of!(TenonHost, call_json)).then(|| (*self.0).hold) }
    }

    /// The function that calls methods by name; `None` if the host is older.
    fn call_json_function(&self) -> Option<CallJson> {
        // SAFETY: as in `hold_function`.
        unsafe { ((*self.0).size >= size_of::<TenonHost>()).then(|| (*self.0).call_json) }
    }
}

fn report_panic(information: &std::panic::PanicHookInfo<'_>) {
    let host = PANIC_HOST.load(Ordering::Acquire);
    if !host.is_null() {
        HostTable(host).log(LogLevel::Error, &information.to_string());
    }
}

impl HostPort for HostTable {
    fn call_bus(&self, token: CallToken, topic: u32, schema: u32, frame: &[u8]) -> ForeignFuture {
        let table = self.0;
        // SAFETY: by the ABI; the token is the host's own or null, the frame is lent.
        unsafe { ForeignFuture::from_raw(((*table).call)((*table).state, token.0, topic, schema, slice(frame))) }
    }

    fn subscribe(&self, topic: u32, schema: u32) -> ForeignStream {
        let table = self.0;
        // SAFETY: by the ABI.
        unsafe { ForeignStream::from_raw(((*table).subscribe)((*table).state, topic, schema)) }
    }

    fn sleep(&self, nanos: u64) -> ForeignFuture {
        let table = self.0;
        // SAFETY: by the ABI.
        unsafe { ForeignFuture::from_raw(((*table).sleep)((*table).state, nanos)) }
    }

    fn log(&self, level: LogLevel, message: &str) {
        let table = self.0;
        // SAFETY: by the ABI; the message is lent.
        unsafe { ((*table).log)((*table).state, level as u32, slice(message.as_bytes())) }
    }

    fn now_nanos(&self) -> u64 {
        let table = self.0;
        // SAFETY: by the ABI.
        unsafe { ((*table).now_nanos)((*table).state) }
    }

    fn hold(&self, client: u64, bytes: i64) -> bool {
        // An older host does not count memory.
        let Some(hold) = self.hold_function() else { return true };
        // SAFETY: by the ABI; `state` is the host's own.
        unsafe { hold((*self.0).state, client, bytes) != 0 }
    }

    fn call_json(&self, token: CallToken, method: &str, params: &str) -> ForeignFuture {
        let Some(call_json) = self.call_json_function() else {
            let older = Failure::server("the host is older than call_json");
            return ExportedFuture::ready(Err(older)).into();
        };
        let (method, params) = (slice(method.as_bytes()), slice(params.as_bytes()));
        // SAFETY: by the ABI; the token is the host's own or null, both texts are lent.
        unsafe { ForeignFuture::from_raw(call_json((*self.0).state, token.0, method, params)) }
    }
}
