//! Services that the host offers to plugins: bus, events, timer, log, clock.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    ffi::c_void,
    mem::size_of,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use futures_util::{FutureExt, stream};
use parking_lot::Mutex;
use tenon_api::{
    BusError, Capability, EventPosition, SchemaEntry, Topic,
    abi::{ABI_MINOR, TenonFuture, TenonHost, TenonSlice, TenonStream},
    schema_entries,
};
use tenon_bus::{Bus, CallContext, ClientId, FrameDelivery, MemoryBudget, MemoryUse, Origin, PluginId, Reservation};
use tenon_sdk::Failure;
use tenon_sdk::boundary::{ExportedFuture, ExportedStream, OutgoingItem, borrow, crashed};
use tokio::{sync::watch, task::unconstrained};
use zeroize::Zeroizing;

use super::Backend;
use crate::{
    json_calls::JsonCalls,
    long_polls::{LARGE_REPLY, reply_length},
    router::WeakRouter,
    space::Space,
};

/// Zero of the clock that plugins see.
static CLOCK: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A call's deadline in nanoseconds of the clock that plugins see; 0 means no deadline. Does not read the clock.
pub(super) fn deadline_for_plugins(context: &CallContext) -> u64 {
    context.deadline().map_or(0, |deadline| {
        let nanos = deadline.saturating_duration_since(*CLOCK).as_nanos();
        u64::try_from(nanos).unwrap_or(u64::MAX).max(1)
    })
}

/// Maximum sleep that a plugin can request. tokio's timer has a bound of this order too.
const MAX_SLEEP: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Request frames up to this size are not charged to the budget separately: their call already accounts for them.
const UNCOUNTED_FRAME: usize = 16 << 10;

/// Maximum memory of a frame with its decoded form, as a multiple of its length: an override of an empty account is 27
/// bytes in a frame and 184 decoded.
const DECODED_FACTOR: usize = 8;

/// The services of one instance, as passed over the boundary, with the table that points to them.
///
/// Never freed, because a plugin may use its table as long as its library is mapped. The backend is dropped with the
/// instance, and the next instance of the same library reuses the rest. So a library has as many `Services` as it ever
/// had instances at the same time.
pub(super) struct Services {
    /// `None` between two instances: every request is refused then.
    backend: ArcSwapOption<Box<dyn Backend>>,
    table: OnceLock<Table>,
}

struct Table(TenonHost);

// SAFETY: written once, and its functions may be called from any thread.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// Services without an instance, by library. Used when an instance starts or stops; nothing awaits under the lock.
static VACANT: Mutex<BTreeMap<usize, Vec<&Services>>> = Mutex::new(BTreeMap::new());

impl Services {
    /// Services for an instance of the library with this number.
    pub(super) fn begin(library: usize, backend: Box<dyn Backend>) -> &'static Self {
        LazyLock::force(&CLOCK);
        let place = VACANT.lock().get_mut(&library).and_then(Vec::pop);
        let place = place
            .unwrap_or_else(|| Box::leak(Box::new(Self { backend: ArcSwapOption::empty(), table: OnceLock::new() })));
        place.backend.store(Some(Arc::new(backend)));
        place
    }

    /// Refuses all later requests, and drops the backend.
    pub(super) fn end(&'static self, library: usize) {
        if let Some(backend) = self.backend.swap(None) {
            backend.stop();
            VACANT.lock().entry(library).or_default().push(self);
        }
    }

    /// Runs `work` with the backend. `None` after the end.
    pub(super) fn with<T>(&self, work: impl FnOnce(&dyn Backend) -> T) -> Option<T> {
        let backend = self.backend.load();
        backend.as_ref().map(|backend| work(&***backend))
    }

    /// The table that the plugin receives.
    pub(super) fn table(&'static self) -> *const TenonHost {
        let table = || {
            Table(TenonHost {
                size: size_of::<TenonHost>(),
                abi_minor: ABI_MINOR,
                reserved: [0; 3],
                state: std::ptr::from_ref(self).cast(),
                call: call_bus,
                subscribe,
                sleep,
                log,
                now_nanos,
                hold,
                call_json,
            })
        };
        &self.table.get_or_init(table).0
    }
}

fn stopped() -> Failure {
    Failure::server("the plugin has been stopped")
}

/// The bus, within one plugin's granted capabilities.
pub struct BusBackend {
    plugin: String,
    /// Marks its requests.
    id: PluginId,
    bus: Bus,
    granted: Vec<Capability>,
    /// Calls methods of other namespaces for it; `None` where there are no others.
    json_calls: Option<JsonCalls>,
    /// Whether its messages have this node's schema.
    sends_frames: bool,
    is_stopped: AtomicBool,
    /// Its own storage.
    space: Space,
    memory: MemoryBudget,
    /// Memory that it keeps for clients. Locked when that changes; nothing awaits under the lock.
    kept: Mutex<HashMap<u64, Reservation>>,
    /// Position of the last event that its event subscriptions deliver. Set when they must end.
    events_end: watch::Sender<Option<EventPosition>>,
}

impl BusBackend {
    /// Services without a budget and without other namespaces. `plugin` is its name in the log.
    pub fn new(plugin: String, bus: Bus, granted: Vec<Capability>, sends_frames: bool, space: Space) -> Self {
        let events_end = watch::Sender::new(None);
        let (memory, kept) = (MemoryBudget::unbounded(), Mutex::default());
        let is_stopped = AtomicBool::new(false);
        let id = PluginId::of_name(&plugin);
        let json_calls = None;
        Self { plugin, id, bus, granted, json_calls, sends_frames, is_stopped, space, memory, kept, events_end }
    }

    /// Counts memory in this budget.
    pub fn drawing_on(self, memory: MemoryBudget) -> Self {
        Self { memory, ..self }
    }

    /// Allows calls of methods of other namespaces, through this router.
    pub fn calling_through(self, router: WeakRouter) -> Self {
        let granted = self.granted.iter().copied().collect();
        let json_calls = Some(JsonCalls::new(router, self.id, granted, self.memory.clone()));
        Self { json_calls, ..self }
    }

    fn check_running(&self) -> Result<(), Failure> {
        if self.is_stopped.load(Ordering::Acquire) {
            return Err(Failure::server(format!("plugin {} has been stopped", self.plugin)));
        }
        Ok(())
    }

    /// Checks that the plugins that called a method of this one may send to this topic, too. Access to this plugin's
    /// own storage does not depend on its callers.
    fn check_callers(entry: &SchemaEntry, context: Option<&CallContext>) -> Result<(), Failure> {
        let Some(context) = context else { return Ok(()) };
        if entry.capability == Capability::Storage || context.origin().grants.contains(entry.capability) {
            return Ok(());
        }
        Err(Failure::server(format!(
            "the calling plugin was not granted {}, which {} needs",
            entry.capability.name(),
            entry.name
        )))
    }

    /// Checks that the plugin may send or subscribe to this topic.
    fn check(&self, topic: Topic) -> Result<&'static SchemaEntry, Failure> {
        let Self { plugin, .. } = self;
        self.check_running()?;
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
    fn call_bus(&self, context: Option<&CallContext>, topic: Topic, schema: u32, frame: &[u8]) -> ExportedFuture {
        if let Err(failure) = self.check(topic).and_then(|entry| Self::check_callers(entry, context)) {
            return ExportedFuture::ready(Err(failure));
        }
        if let Some(answer) = self.space.answer(topic, frame) {
            return answer;
        }
        let schema = u16::try_from(schema).unwrap_or(u16::MAX);
        // A read is answered before this function returns, so it needs neither a copy of the frame nor a nested
        // context.
        let answer = match context {
            Some(context) => self.bus.try_read_frame(topic, schema, frame, context),
            None => {
                let own = CallContext::new().with_origin(Origin::default().by_plugin(self.id));
                self.bus.try_read_frame(topic, schema, frame, &own)
            }
        };
        if let Some(answer) = answer {
            return ExportedFuture::ready(answer.map_err(Failure::from));
        }
        // A nested context: if the plugin drops this request, only this request is cancelled. When the caller leaves,
        // its call is dropped, and all of these requests with it.
        let context = context.map_or_else(CallContext::new, CallContext::nested);
        let origin = context.origin().by_plugin(self.id);
        let context = context.with_origin(origin);
        // Memory for the frame and its decoded form.
        let memory = match frame.len() {
            length if length > UNCOUNTED_FRAME => {
                let client = self.memory.client(context.origin().client);
                match client.reserve(MemoryUse::Calls, length.saturating_mul(DECODED_FACTOR)) {
                    Ok(memory) => Some(memory),
                    Err(refused) => return ExportedFuture::ready(Err(BusError::from(refused).into())),
                }
            }
            _ => None,
        };
        // Wiped, because it may hold a password. Immediate answers need no copy.
        let (bus, frame) = (self.bus.clone(), Zeroizing::new(frame.to_vec()));
        let budget = self.memory.clone();
        ExportedFuture::new(async move {
            let answer = bus.call_frame(topic, schema, &frame, &context).await.map_err(Failure::from);
            drop(memory);
            let length = reply_length(&answer);
            if length < LARGE_REPLY {
                return answer;
            }
            // Reserved until the plugin has read the reply. The answer that the plugin writes from it is not reserved:
            // the limit on long polls bounds the memory of such answers.
            let _memory =
                budget.client(context.origin().client).reserve(MemoryUse::Calls, length).map_err(BusError::from)?;
            context.announce_large_reply();
            tokio::task::yield_now().await;
            answer
        })
    }

    fn subscribe(&self, topic: Topic, schema: u32) -> ExportedStream {
        let schema = u16::try_from(schema).unwrap_or(u16::MAX);
        let opened = self.check(topic).and_then(|_| self.bus.subscribe_frames(topic, schema).map_err(Failure::from));
        let subscription = match opened {
            Ok(subscription) => subscription,
            Err(failure) => return ExportedStream::refused(failure),
        };
        let listener = (subscription, self.events_end.subscribe());
        ExportedStream::new(stream::unfold(listener, |(mut subscription, mut end)| async move {
            let delivery = tokio::select! {
                biased;
                // Not subject to tokio's task budget, which may return `Pending` although events are left. The branch
                // below would then end the subscription, and these events would be lost.
                delivery = unconstrained(subscription.next()) => delivery?,
                // An error means that the services were dropped, which also ends the subscription. The second poll
                // delivers events that arrived after the first one.
                _ = end.wait_for(Option::is_some) => unconstrained(subscription.next()).now_or_never()??,
            };
            let item = match delivery {
                // Checked after the event was received: if the end is set only after this check, it includes this
                // event.
                FrameDelivery::Frame { position, .. } if end.borrow().is_some_and(|last| position > last) => {
                    return None;
                }
                // Shared by all listeners of all plugins: a full block's logs are megabytes.
                FrameDelivery::Frame { position, frame } => {
                    Ok(OutgoingItem { body: frame.into(), position: Some(position) })
                }
                FrameDelivery::Missed(missed) => Err(Failure::limit(missed.to_string())),
            };
            Some((item, (subscription, end)))
        }))
    }

    fn call_json(&self, context: Option<&CallContext>, method: &[u8], params: &[u8]) -> ExportedFuture {
        match (self.check_running(), &self.json_calls) {
            (Err(failure), _) => ExportedFuture::ready(Err(failure)),
            (Ok(()), Some(calls)) => calls.call_method(context, method, params),
            (Ok(()), None) => ExportedFuture::ready(Err(Failure::server(
                "this plugin runs without a router: it cannot call other namespaces",
            ))),
        }
    }

    fn hold(&self, client: u64, bytes: i64) -> bool {
        if self.is_stopped.load(Ordering::Acquire) {
            return bytes <= 0;
        }
        let mut kept = self.kept.lock();
        let change = usize::try_from(bytes.unsigned_abs()).unwrap_or(usize::MAX);
        if bytes > 0 {
            return match kept.entry(client) {
                Entry::Occupied(mut held) => {
                    let grown = held.get().bytes().saturating_add(change);
                    held.get_mut().resize(grown).is_ok()
                }
                Entry::Vacant(place) => {
                    match self.memory.client(ClientId::from_number(client)).reserve(MemoryUse::PluginState, change) {
                        Ok(held) => {
                            place.insert(held);
                            true
                        }
                        Err(_) => false,
                    }
                }
            };
        }
        if let Some(held) = kept.get_mut(&client) {
            let left = held.bytes().saturating_sub(change);
            held.shrink(left);
            if left == 0 {
                kept.remove(&client);
            }
        }
        true
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

    fn end_events(&self) -> EventPosition {
        let mut position = EventPosition::default();
        // `send_modify` holds the lock under which each event is compared with the end. So all events up to the end are
        // delivered, and no later ones.
        self.events_end.send_modify(|end| position = *end.get_or_insert_with(|| self.bus.event_position()));
        position
    }

    fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.kept.lock().clear();
        self.end_events();
    }
}

/// # Safety
/// `state` is that of a table that [`Services::table`] made, which is never freed.
unsafe fn services(state: *const c_void) -> &'static Services {
    // SAFETY: `table` takes a static reference.
    unsafe { &*state.cast::<Services>() }
}

unsafe extern "C" fn call_bus(
    state: *const c_void,
    call: *const c_void,
    topic: u32,
    schema: u32,
    frame: TenonSlice,
) -> TenonFuture {
    // SAFETY: the plugin passes its own state, a token that it was given and has not outlived, and a frame
    // that it lends (rules of `TenonHost::call`).
    let (services, context, frame) = unsafe { (services(state), call.cast::<CallContext>().as_ref(), borrow(frame)) };
    catch_unwind(AssertUnwindSafe(|| services.with(|backend| backend.call_bus(context, Topic(topic), schema, frame))))
        .unwrap_or_else(|_| Some(ExportedFuture::ready(Err(crashed()))))
        .unwrap_or_else(|| ExportedFuture::ready(Err(stopped())))
        .into_raw()
}

unsafe extern "C" fn subscribe(state: *const c_void, topic: u32, schema: u32) -> TenonStream {
    // SAFETY: the plugin passes its own state.
    let services = unsafe { services(state) };
    catch_unwind(AssertUnwindSafe(|| services.with(|backend| backend.subscribe(Topic(topic), schema))))
        .unwrap_or_else(|_| Some(ExportedStream::refused(crashed())))
        .unwrap_or_else(|| ExportedStream::refused(stopped()))
        .into_raw()
}

unsafe extern "C" fn sleep(_state: *const c_void, nanos: u64) -> TenonFuture {
    let duration = Duration::from_nanos(nanos).min(MAX_SLEEP);
    // The timer is created at the first poll, inside the caller's runtime.
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
    let write = || services.with(|backend| backend.log(level, &String::from_utf8_lossy(message)));
    let _ = catch_unwind(AssertUnwindSafe(write));
}

unsafe extern "C" fn hold(state: *const c_void, client: u64, bytes: i64) -> i32 {
    // SAFETY: the plugin passes its own state.
    let services = unsafe { services(state) };
    let hold = || services.with(|backend| backend.hold(client, bytes));
    i32::from(catch_unwind(AssertUnwindSafe(hold)).ok().flatten().unwrap_or(bytes <= 0))
}

unsafe extern "C" fn call_json(
    state: *const c_void,
    call: *const c_void,
    method: TenonSlice,
    params: TenonSlice,
) -> TenonFuture {
    // SAFETY: the plugin passes its own state, a token that it was given and has not outlived, and texts that it
    // lends (rules of `TenonHost::call_json`).
    let (services, context, method, params) =
        unsafe { (services(state), call.cast::<CallContext>().as_ref(), borrow(method), borrow(params)) };
    catch_unwind(AssertUnwindSafe(|| services.with(|backend| backend.call_json(context, method, params))))
        .unwrap_or_else(|_| Some(ExportedFuture::ready(Err(crashed()))))
        .unwrap_or_else(|| ExportedFuture::ready(Err(stopped())))
        .into_raw()
}

unsafe extern "C" fn now_nanos(_state: *const c_void) -> u64 {
    u64::try_from(CLOCK.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::task::{Context as TaskContext, Poll, Waker};

    use tenon_api::{
        BlockNumber, Event, SpaceLimits,
        messages::{SyncChanged, SyncStatus},
    };
    use tenon_sdk::boundary::{ForeignFuture, ForeignStream};

    use super::*;

    /// Answers with its number. Its `Arc` shows whether it is still alive.
    struct Numbered(u8, #[expect(dead_code, reason = "only counted")] Arc<()>);

    impl Backend for Numbered {
        fn call_bus(&self, _: Option<&CallContext>, _: Topic, _: u32, _: &[u8]) -> ExportedFuture {
            ExportedFuture::ready(Ok(vec![self.0]))
        }
        fn subscribe(&self, _: Topic, _: u32) -> ExportedStream {
            ExportedStream::refused(stopped())
        }
        fn call_json(&self, _: Option<&CallContext>, _: &[u8], _: &[u8]) -> ExportedFuture {
            ExportedFuture::ready(Err(stopped()))
        }
        fn log(&self, _: u32, _: &str) {}
        fn stop(&self) {}
    }

    /// Sends a request through a table, as a plugin does.
    fn ask(table: *const TenonHost) -> Result<Vec<u8>, Failure> {
        // SAFETY: tables stay; an empty frame points nowhere.
        let future = unsafe {
            let frame = TenonSlice { data: std::ptr::null(), len: 0 };
            ForeignFuture::from_raw(((*table).call)((*table).state, std::ptr::null(), 0, 0, frame))
        };
        let mut future = future;
        match future.poll_reply(&TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer.map(|bytes| bytes.as_ref().to_vec()),
            Poll::Pending => Err(Failure::server("it waits")),
        }
    }

    fn progress(current: u64) -> SyncChanged {
        let number = BlockNumber;
        SyncChanged { status: Some(SyncStatus { starting: number(0), current: number(current), highest: number(9) }) }
    }

    #[test]
    fn events_end_after_the_latest_one() {
        let bus = Bus::new();
        let space = Space::new("test", SpaceLimits::default(), None);
        let backend = BusBackend::new("test".to_owned(), bus.clone(), vec![Capability::ReadNode], true, space);
        let mut events = ForeignStream::from(backend.subscribe(SyncChanged::TOPIC, 1));
        let task = TaskContext::from_waker(Waker::noop());
        let mut next = || match events.poll_item(&task) {
            Poll::Ready(item) => item.map(|event| event.ok().and_then(|event| event.position)),
            Poll::Pending => panic!("neither an event nor the end"),
        };

        bus.publish(progress(1));
        bus.publish(progress(1));
        let end = backend.end_events();
        bus.publish(progress(1));

        assert_eq!((next(), next(), next()), (Some(Some(EventPosition(1))), Some(Some(end)), None));
        assert_eq!(backend.end_events(), end, "it stays");
    }

    #[test]
    fn later_instances_of_a_library_reuse_the_services_of_ended_ones() {
        let (library, alive) = (usize::MAX, Arc::new(()));
        let begin = |number| Services::begin(library, Box::new(Numbered(number, Arc::clone(&alive))));
        let (first, second) = (begin(1), begin(2));
        let tables = [first.table(), second.table()];
        assert_ne!(tables[0], tables[1], "both run");
        assert_eq!(tables.map(ask), [Ok(vec![1]), Ok(vec![2])]);
        first.end(library);

        for number in 0..1000 {
            let next = begin(number as u8);
            assert_eq!(next.table(), tables[0], "the place of the one before");
            assert_eq!(ask(next.table()), Ok(vec![number as u8]));
            next.end(library);
            assert_eq!(ask(tables[0]), Err(stopped()), "a table that is used after the end says so");
        }

        second.end(library);
        assert_eq!(Arc::strong_count(&alive), 1, "nothing of them is kept");
        let other = Services::begin(usize::MAX - 1, Box::new(Numbered(7, alive)));
        assert!(!tables.contains(&other.table()), "another library gets none of their places");
    }
}
