//! What a plugin can ask of the host: bus, events, timer, log, clock.

use std::{
    ffi::c_void,
    mem::size_of,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::stream;
use tenon_api::{
    Capability, Failure, SchemaEntry, Topic,
    abi::{ABI_MINOR, TenonFuture, TenonHost, TenonSlice, TenonStream},
    schema_entries,
};
use tenon_bus::{Bus, CallContext, FrameDelivery};
use tenon_sdk::boundary::{ExportedFuture, ExportedStream, borrow, crashed};
use tokio::{sync::watch, task::unconstrained};

use crate::space::Space;

/// Beginning of the clock that plugins see.
static CLOCK: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The longest wait that a plugin can ask for; tokio's timer has a bound of this order too.
const LONGEST_SLEEP: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What answers a plugin's questions: the bus, or for a plugin in a process of its own the node that started it.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Answers a request frame. `context` is the caller's, if there is one.
    fn call(&self, context: Option<&CallContext>, topic: Topic, schema: u32, frame: &[u8]) -> ExportedFuture;

    /// Listens to an event topic.
    fn subscribe(&self, topic: Topic, schema: u32) -> ExportedStream;

    /// Writes a line to the log. Levels as in `TenonHost::log`.
    fn log(&self, level: u32, message: &str);

    /// Listeners to events get what waits for them, and then their end.
    fn end_events(&self);

    /// From now on everything answers with failures.
    fn stop(&self);
}

/// The services of one plugin, as the boundary gives them away.
pub(super) struct Services {
    pub(super) backend: Box<dyn Backend>,
}

impl Services {
    pub(super) fn new(backend: Box<dyn Backend>) -> Self {
        LazyLock::force(&CLOCK);
        Self { backend }
    }

    /// The table that the plugin receives.
    pub(super) fn table(&'static self) -> TenonHost {
        TenonHost {
            size: size_of::<TenonHost>(),
            abi_minor: ABI_MINOR,
            reserved: [0; 3],
            state: std::ptr::from_ref(self).cast(),
            call,
            subscribe,
            sleep,
            log,
            now_nanos,
        }
    }
}

/// The bus, as far as one plugin was granted it.
pub(crate) struct BusBackend {
    plugin: String,
    bus: Bus,
    granted: Vec<Capability>,
    /// Whether its messages are this node's.
    sends_frames: bool,
    is_stopped: AtomicBool,
    /// Its own storage.
    space: Space,
    /// Becomes true when its listeners to events are to end.
    events_end: watch::Sender<bool>,
}

impl BusBackend {
    pub(crate) fn new(plugin: String, bus: Bus, granted: Vec<Capability>, sends_frames: bool, space: Space) -> Self {
        let events_end = watch::Sender::new(false);
        Self { plugin, bus, granted, sends_frames, is_stopped: AtomicBool::new(false), space, events_end }
    }

    /// Whether the plugin may send or receive what has this topic.
    fn check(&self, topic: Topic) -> Result<&'static SchemaEntry, Failure> {
        let Self { plugin, .. } = self;
        if self.is_stopped.load(Ordering::Acquire) {
            return Err(Failure::server(format!("plugin {plugin} has been stopped")));
        }
        if !self.sends_frames {
            return Err(Failure::server(format!("plugin {plugin} has no schema hash and so cannot use the bus")));
        }
        let entries = schema_entries();
        let found = entries.binary_search_by_key(&topic, |entry| entry.topic).ok().and_then(|at| entries.get(at));
        let entry = found.ok_or_else(|| Failure::server(format!("there is no message with topic {:#06x}", topic.0)))?;
        if self.granted.contains(&entry.capability) {
            return Ok(entry);
        }
        Err(Failure::server(format!(
            "plugin {plugin} was not granted {}, which {} needs",
            entry.capability.name(),
            entry.name
        )))
    }
}

impl Backend for BusBackend {
    fn call(&self, context: Option<&CallContext>, topic: Topic, schema: u32, frame: &[u8]) -> ExportedFuture {
        if let Err(failure) = self.check(topic) {
            return ExportedFuture::ready(Err(failure));
        }
        if let Some(answer) = self.space.answer(topic, frame) {
            return answer;
        }
        let schema = u16::try_from(schema).unwrap_or(u16::MAX);
        // A context of its own with the caller's deadline: a plugin that drops one of its questions must not
        // cancel the others. When the caller goes, all of them are dropped with its call.
        let context = match context.and_then(CallContext::deadline) {
            Some(deadline) => CallContext::with_deadline(deadline),
            None => CallContext::new(),
        };
        // A read answers on the spot, without a copy of the frame.
        if let Some(answer) = self.bus.try_read_frame(topic, schema, frame, &context) {
            return ExportedFuture::ready(answer);
        }
        let (bus, frame) = (self.bus.clone(), frame.to_vec());
        ExportedFuture::new(async move { bus.call_frame(topic, schema, &frame, &context).await })
    }

    fn subscribe(&self, topic: Topic, schema: u32) -> ExportedStream {
        let schema = u16::try_from(schema).unwrap_or(u16::MAX);
        let opened = self.check(topic).and_then(|_| self.bus.subscribe_frames(topic, schema));
        let subscription = match opened {
            Ok(subscription) => subscription,
            Err(failure) => return ExportedStream::refused(failure),
        };
        let listener = (subscription, self.events_end.subscribe());
        ExportedStream::new(stream::unfold(listener, |(mut subscription, mut end)| async move {
            let delivery = tokio::select! {
                biased;
                // Without a budget: "not now" would be taken for "nothing waits", and what waits would be lost.
                delivery = unconstrained(subscription.next()) => delivery?,
                // An error says that the services are gone, which is the end as well.
                _ = end.wait_for(|has_come| *has_come) => return None,
            };
            let item = match delivery {
                FrameDelivery::Frame(frame) => Ok(frame.to_vec()),
                FrameDelivery::Missed(missed) => Err(Failure::limit(missed.to_string())),
            };
            Some((item, (subscription, end)))
        }))
    }

    fn log(&self, level: u32, message: &str) {
        let plugin = self.plugin.as_str();
        match level {
            1 => tracing::error!(plugin, "{message}"),
            2 => tracing::warn!(plugin, "{message}"),
            3 => tracing::info!(plugin, "{message}"),
            4 => tracing::debug!(plugin, "{message}"),
            _ => tracing::trace!(plugin, "{message}"),
        }
    }

    fn end_events(&self) {
        self.events_end.send_replace(true);
    }

    fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.end_events();
    }
}

/// # Safety
/// `state` is that of a table that [`Services::table`] made.
unsafe fn services(state: *const c_void) -> &'static Services {
    // SAFETY: `table` takes a static reference.
    unsafe { &*state.cast::<Services>() }
}

unsafe extern "C" fn call(
    state: *const c_void,
    call: *const c_void,
    topic: u32,
    schema: u32,
    frame: TenonSlice,
) -> TenonFuture {
    // SAFETY: the plugin passes its own state, a token that it was given and has not outlived, and a frame
    // that it lends (rules of `TenonHost::call`).
    let (services, context, frame) = unsafe { (services(state), call.cast::<CallContext>().as_ref(), borrow(frame)) };
    catch_unwind(AssertUnwindSafe(|| services.backend.call(context, Topic(topic), schema, frame)))
        .unwrap_or_else(|_| ExportedFuture::ready(Err(crashed())))
        .into_raw()
}

unsafe extern "C" fn subscribe(state: *const c_void, topic: u32, schema: u32) -> TenonStream {
    // SAFETY: the plugin passes its own state.
    let services = unsafe { services(state) };
    catch_unwind(AssertUnwindSafe(|| services.backend.subscribe(Topic(topic), schema)))
        .unwrap_or_else(|_| ExportedStream::refused(crashed()))
        .into_raw()
}

unsafe extern "C" fn sleep(_state: *const c_void, nanos: u64) -> TenonFuture {
    let duration = Duration::from_nanos(nanos).min(LONGEST_SLEEP);
    // The timer is made at the first poll: then the caller's runtime is there.
    ExportedFuture::new(async move {
        tokio::time::sleep(duration).await;
        Ok(Vec::new())
    })
    .into_raw()
}

unsafe extern "C" fn log(state: *const c_void, level: u32, message: TenonSlice) {
    // SAFETY: the plugin passes its own state and lends the message.
    let (services, message) = unsafe { (services(state), borrow(message)) };
    // A panicking log subscriber must not take the node down.
    let _ = catch_unwind(AssertUnwindSafe(|| services.backend.log(level, &String::from_utf8_lossy(message))));
}

unsafe extern "C" fn now_nanos(_state: *const c_void) -> u64 {
    u64::try_from(CLOCK.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
