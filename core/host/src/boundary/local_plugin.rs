//! A started plugin, with safe calls of its functions.

use std::{
    ffi::c_void,
    future::{poll_fn, ready},
    ptr,
    sync::Arc,
};

use futures_util::{FutureExt, future::BoxFuture};
use tenon_api::{
    EventPosition,
    abi::{MINOR_OF_DEADLINES, TenonCallContext, TenonSlice},
    messages::ModuleFaults,
};
use tenon_bus::CallContext;
use tenon_sdk::Failure;
use tenon_sdk::boundary::{ForeignFuture, ForeignStream, reply_into_result, slice};

use super::{
    Backend,
    in_flight::{LocalCall, LocalStream},
    library::Library,
    services::{BusBackend, Services, deadline_for_plugins},
};
use crate::{
    Caller, HostError, Manifest,
    library_cache::CheckedLibrary,
    log_limiter::{LogLimiter, RateLimitedLog},
    plugin_interface::{PluginCall, PluginInstance, PluginItems, client_of, nanos_left},
    plugin_start::{OpenedPlugin, PluginStart},
};

/// A library that is mapped here and has not been started.
pub struct LocalPlugin {
    pub(super) library: Library,
    /// Its manifest, checked.
    pub manifest: Manifest,
}

impl OpenedPlugin for LocalPlugin {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn start(self: Box<Self>, start: PluginStart<'_>) -> Result<Box<dyn PluginInstance>, Failure> {
        Ok(Box::new(LocalInstance::start(self.library, &self.manifest, start)?))
    }
}

impl LocalPlugin {
    /// Maps the copy of a checked library for the rest of the process, and performs the handshake.
    ///
    /// # Errors
    /// Why it is not a plugin that this node can use.
    pub fn open(file: &CheckedLibrary) -> Result<Self, HostError> {
        let (library, manifest) = Library::open(file)?;
        Ok(Self { library, manifest })
    }

    /// Starts it with services other than the bus.
    pub fn start_with(
        self,
        backend: Box<dyn Backend>,
        settings: &str,
        handover: &[u8],
    ) -> Result<Box<dyn PluginInstance>, Failure> {
        Ok(Box::new(LocalInstance::start_with(self.library, backend, None, settings, handover)?))
    }
}

/// A plugin that runs in this process. Its owner must drop all calls and streams before it.
struct LocalInstance {
    library: Library,
    state: *mut c_void,
    services: &'static Services,
    /// Limits its log lines, where they are limited.
    log_limiter: Option<Arc<LogLimiter>>,
}

// SAFETY: the functions of a plugin may be called from any thread, `call` and `subscribe` from several at a time.
unsafe impl Send for LocalInstance {}
// SAFETY: as above.
unsafe impl Sync for LocalInstance {}

impl LocalInstance {
    fn start(library: Library, manifest: &Manifest, start: PluginStart<'_>) -> Result<Self, Failure> {
        let PluginStart { name, granted, bus, router, space, memory, log_lines, settings, handover, .. } = start;
        let backend = BusBackend::new(name.to_owned(), bus, granted, manifest.sends_frames, space);
        let backend = backend.drawing_on(memory).calling_through(router);
        let log_limiter = log_lines.map(|lines| Arc::new(LogLimiter::new(lines)));
        let backend: Box<dyn Backend> = match &log_limiter {
            None => Box::new(backend),
            Some(log_limiter) => Box::new(RateLimitedLog { backend, log_limiter: Arc::clone(log_limiter) }),
        };
        Self::start_with(library, backend, log_limiter, settings, handover)
    }

    fn start_with(
        library: Library,
        backend: Box<dyn Backend>,
        log_limiter: Option<Arc<LogLimiter>>,
        settings: &str,
        handover: &[u8],
    ) -> Result<Self, Failure> {
        // A plugin's panic hook or a context that it kept may use the table after `stop`, so the table is never freed.
        let services = Services::begin(library.number(), backend);
        let mut state = ptr::null_mut();
        // SAFETY: by the ABI; the slices are lent for the call, and the table is never freed.
        let outcome = unsafe {
            let start = library.table().start;
            reply_into_result(start(services.table(), slice(settings.as_bytes()), slice(handover), &mut state))
        };
        match outcome {
            Ok(_) => Ok(Self { library, state, services, log_limiter }),
            Err(failure) => {
                services.end(library.number());
                Err(failure)
            }
        }
    }

    /// Ends the instance.
    ///
    /// # Safety
    /// All calls and streams have ended, and no function of this instance is used afterwards.
    unsafe fn stop(&self) {
        let stop = self.library.table().stop;
        // SAFETY: guaranteed by the caller.
        unsafe { stop(self.state) };
        self.services.end(self.library.number());
    }

    fn context(&self, context: &CallContext, namespaces: &str) -> TenonCallContext {
        let reads_deadline = self.library.table().abi_minor >= MINOR_OF_DEADLINES;
        let (deadline_nanos, deadline) =
            if reads_deadline { (0, deadline_for_plugins(context)) } else { (nanos_left(context), 0) };
        TenonCallContext {
            call: ptr::from_ref(context).cast(),
            namespaces: slice(namespaces.as_bytes()),
            deadline_nanos,
            client: client_of(context),
            deadline,
        }
    }
}

impl PluginInstance for LocalInstance {
    /// The call borrows `caller`, whose context is the token that the plugin passes back.
    fn call_plugin<'a>(&'a self, method: u32, params: Option<&str>, caller: &'a Caller) -> PluginCall<'a> {
        let context = self.context(&caller.context, caller.exposure.as_text());
        let call = self.library.table().call;
        // SAFETY: started and, while borrowed, not stopped; the token lives as long as what is returned; the
        // library stays mapped.
        let future = unsafe { ForeignFuture::from_raw(call(self.state, &context, method, lend(params))) };
        PluginCall::Local(LocalCall::new(future))
    }

    fn subscribe(&self, kind: u32, params: Option<&str>, caller: &Caller) -> PluginItems {
        let token = Box::new(caller.context.clone());
        let context = self.context(&token, caller.exposure.as_text());
        let subscribe = self.library.table().subscribe;
        // SAFETY: as in `call`; the token is kept together with the stream and dropped after it.
        let stream = unsafe { ForeignStream::from_raw(subscribe(self.state, &context, kind, lend(params))) };
        PluginItems::Local(LocalStream::new(stream, token))
    }

    fn export_state(&self) -> Result<Vec<u8>, Failure> {
        let export = self.library.table().export_state;
        // SAFETY: started and, while borrowed, not stopped.
        let state = unsafe { reply_into_result(export(self.state)) }?;
        Ok(state.as_ref().to_vec())
    }

    fn end_events(&self) -> EventPosition {
        // Present while the instance runs.
        self.services.with(Backend::end_events).unwrap_or_default()
    }

    fn background(&self) -> BoxFuture<'_, Result<(), Failure>> {
        let Some(run) = self.library.table().run else { return ready(Ok(())).boxed() };
        // SAFETY: started and, while borrowed, not stopped; the library stays mapped.
        let mut future = unsafe { ForeignFuture::from_raw(run(self.state)) };
        poll_fn(move |task| future.poll_reply(task).map_ok(drop)).boxed()
    }

    fn process(&self) -> Option<u32> {
        None
    }

    fn faults(&self) -> ModuleFaults {
        let omitted_lines = self.log_limiter.as_ref().map_or(0, |log_limiter| log_limiter.omitted());
        ModuleFaults { omitted_lines, ..ModuleFaults::default() }
    }
}

/// Dropping the last owner stops the plugin: calls and streams hold references to it, so none is left.
impl Drop for LocalInstance {
    fn drop(&mut self) {
        // SAFETY: `LocalCall` borrows the instance; `LocalStream` is kept with a reference to it by the router.
        unsafe { self.stop() };
    }
}

fn lend(params: Option<&str>) -> TenonSlice {
    slice(params.unwrap_or_default().as_bytes())
}
