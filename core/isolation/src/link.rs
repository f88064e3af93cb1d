//! The node's end of the socket to a serving plugin process.

mod bus_requests;
mod waiting_item;

use std::{
    collections::{HashMap, hash_map::Entry},
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tenon_api::{BusError, EventPosition};
use tenon_bus::{CallContext, ClientMemory, MemoryUse, OutOfMemory, Reservation};
use tenon_host::{Backend, Caller, LogLimiter, client_of, nanos_left};
use tenon_sdk::Failure;
use tokio::{
    net::UnixStream,
    sync::{Notify, mpsc, oneshot},
};

use self::bus_requests::BusRequest;
use self::waiting_item::{Item, length_of};
use crate::{
    WINDOW,
    outgoing::{MAX_BACKLOG, NotSent, Outgoing},
    process::{EarlyFrame, level},
    wire::{self, Frame, FrameBuffer, Kind, WireError, put_bytes, put_item, put_reply},
};

/// Interval of the checks for calls that take too long, and for a silent process.
const CHECK_PERIOD: Duration = Duration::from_millis(100);
/// Interval of the checks for free memory while nothing is read from a process.
const MEMORY_CHECK_PERIOD: Duration = Duration::from_millis(10);
/// Receive buffers up to this size are not counted in the budget.
const UNCOUNTED_BUFFER: usize = 256 * 1024;
/// Items up to this size are not counted: their subscription already accounts for them.
const UNCOUNTED_ITEM: usize = 4 * 1024;
/// Maximum size of a frame without its parameters, answer or item.
const FRAME_HEAD: usize = 256;
/// Maximum number of calls and subscriptions of one process in flight.
const MAX_IN_FLIGHT: usize = 16 * 1024;
/// Maximum bytes of waiting items for the subscribers of one process.
const MAX_ITEM_BYTES: usize = 64 * 1024 * 1024;

pub(crate) type Answer = Result<Vec<u8>, Failure>;

/// Why a process stopped serving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its socket closed: it has ended, or is about to.
    Closed,
    /// It broke the wire protocol.
    Broke(WireError),
    /// It answered nothing for this long.
    Silent(Duration),
    /// It ended itself because this call or subscription blocked it for too long.
    Overrun(u64),
    /// More than this many bytes of answers and events were waiting for it.
    Unread(usize),
}

/// The limits of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_call_time: Duration,
    pub(crate) max_silence: Duration,
    /// Number of waiting bytes for the process at which reading from it pauses.
    pub(crate) pause_at: usize,
    /// Number of waiting bytes for the process at which it is ended.
    pub(crate) end_at: usize,
}

/// A call or subscription in flight.
struct Slot {
    waits: Waits,
    /// The method of the call, or the kind of the subscription, for messages.
    method: u32,
    since: Instant,
    /// Context of the bus requests that the plugin makes for it.
    context: CallContext,
}

enum Waits {
    Call(oneshot::Sender<Answer>),
    Items(mpsc::Sender<Item>),
    /// The caller has gone; the process must still send the last frame.
    None,
}

#[derive(Default)]
struct Slots {
    taken: HashMap<u64, Slot>,
    /// Set once nothing will be answered any more.
    ended: Option<Failure>,
}

/// The node's end of the connection. Shared by callers, the tasks of the socket, and the supervisor.
pub(crate) struct Link {
    out: Outgoing,
    next: AtomicU64,
    /// Nothing awaits under the lock.
    slots: Mutex<Slots>,
    /// Running bus requests, by numbers that the plugin assigns. Nothing awaits under the lock.
    bus: Mutex<HashMap<u64, BusRequest>>,
    pub(crate) backend: Arc<dyn Backend>,
    log_limiter: Arc<LogLimiter>,
    limits: Limits,
    /// The plugin's share of the memory budget, for data between the node and its process.
    memory: ClientMemory,
    /// Number of received `Pong`s.
    pongs: AtomicU64,
    /// Bytes of the plugin's running requests.
    asked: AtomicUsize,
    /// Bytes of items that wait for subscribers.
    items: Arc<AtomicUsize>,
    /// Whether too many bytes wait for the process.
    is_over_limit: AtomicBool,
    /// Notified when `is_over_limit` becomes true.
    over_limit: Notify,
}

impl Link {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        log_limiter: Arc<LogLimiter>,
        limits: Limits,
        memory: ClientMemory,
    ) -> Arc<Self> {
        Arc::new(Self {
            out: Outgoing::drawing_on(memory.clone()),
            next: AtomicU64::new(1),
            slots: Mutex::default(),
            bus: Mutex::default(),
            backend,
            log_limiter,
            limits,
            memory,
            pongs: AtomicU64::new(0),
            asked: AtomicUsize::new(0),
            items: Arc::default(),
            is_over_limit: AtomicBool::new(false),
            over_limit: Notify::new(),
        })
    }

    /// Bytes that the node holds for this process: data that it has not read, its running requests, and items that wait
    /// for subscribers.
    pub(crate) fn held_bytes(&self) -> usize {
        let (asked, items) = (self.asked.load(Ordering::Relaxed), self.items.load(Ordering::Relaxed));
        self.out.waiting().saturating_add(asked).saturating_add(items)
    }

    /// Sends an answer. If too many bytes already wait for the process, marks it to be ended instead.
    fn send_answer(&self, kind: Kind, id: u64, answer: Result<&[u8], &Failure>) {
        self.send_item(kind, id, answer.map(|body| (body, None)));
    }

    /// As [`Link::send_answer`], for an event with its position.
    fn send_item(&self, kind: Kind, id: u64, item: Result<(&[u8], Option<EventPosition>), &Failure>) {
        let length = item.map_or(0, |(body, _)| body.len());
        if self.out.waiting().saturating_add(length) > self.limits.end_at {
            self.is_over_limit.store(true, Ordering::Relaxed);
            self.over_limit.notify_one();
            return;
        }
        let sent = self.out.try_push_counted((usize::MAX, length.saturating_add(FRAME_HEAD)), kind, id, |out| {
            put_item(out, kind, item);
        });
        if let Err(NotSent::Memory(refused)) = sent {
            // A refusal is small: it is sent in place of an answer that does not fit.
            let refused = Failure::from(BusError::from(refused));
            self.out.push(kind, id, |out| put_reply(out, kind, Err(&refused)));
        }
    }

    /// Sends a request to the process.
    fn ask(
        &self,
        waits: Waits,
        (method, context): (u32, CallContext),
        (kind, length): (Kind, usize),
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<u64, Failure> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut slots = self.slots.lock();
        if let Some(reason) = &slots.ended {
            return Err(reason.clone());
        }
        if slots.taken.len() >= MAX_IN_FLIGHT {
            return Err(Failure::limit("too many calls of this plugin are in flight; try again later"));
        }
        slots.taken.insert(id, Slot { waits, method, since: Instant::now(), context });
        drop(slots);
        self.out.try_push_counted((MAX_BACKLOG, length.saturating_add(FRAME_HEAD)), kind, id, fill).map_err(
            |reason| {
                self.slots.lock().taken.remove(&id);
                match reason {
                    NotSent::Backlog => Failure::limit("the plugin does not keep up with its calls; try again later"),
                    NotSent::Memory(refused) => BusError::from(refused).into(),
                }
            },
        )?;
        Ok(id)
    }

    /// Calls a method.
    ///
    /// The request has been queued when this returns, so that the parameters need not be kept for the answer.
    pub(crate) fn call_plugin(
        self: Arc<Self>,
        method: u32,
        params: Option<&str>,
        caller: &Caller,
    ) -> Result<impl Future<Output = Answer> + Send + use<>, Failure> {
        let left = nanos_left(&caller.context);
        let (sender, receiver) = oneshot::channel();
        let length = params.map_or(0, str::len);
        let id = self.ask(Waits::Call(sender), (method, caller.context.clone()), (Kind::Call, length), |out| {
            out.extend_from_slice(&method.to_le_bytes());
            out.extend_from_slice(&left.to_le_bytes());
            out.extend_from_slice(&client_of(&caller.context).to_le_bytes());
            put_bytes(out, caller.exposure.as_text().as_bytes());
            out.extend_from_slice(params.unwrap_or_default().as_bytes());
        })?;
        let guard = CancelOnDrop { link: self, id: Some(id) };
        Ok(async move {
            let mut guard = guard;
            let answer = receiver.await.unwrap_or_else(|_| Err(Failure::server("the plugin's process has gone")));
            guard.id = None;
            answer
        })
    }

    /// Opens a subscription.
    pub(crate) fn subscribe(
        self: Arc<Self>,
        kind: u32,
        params: Option<&str>,
        caller: &Caller,
    ) -> Result<Items, Failure> {
        // One slot more than the credit, for the error that is sent if the process ends.
        let (sender, receiver) = mpsc::channel(WINDOW + 1);
        let length = params.map_or(0, str::len);
        let id = self.ask(Waits::Items(sender), (kind, caller.context.clone()), (Kind::Subscribe, length), |out| {
            out.extend_from_slice(&kind.to_le_bytes());
            out.extend_from_slice(&client_of(&caller.context).to_le_bytes());
            put_bytes(out, caller.exposure.as_text().as_bytes());
            out.extend_from_slice(params.unwrap_or_default().as_bytes());
        })?;
        Ok(Items { receiver, guard: CancelOnDrop { link: self, id: Some(id) } })
    }

    /// Requests the state for the next version. Blocks.
    pub(crate) fn export_state(&self, limit: Duration) -> Answer {
        let (sender, mut receiver) = oneshot::channel();
        self.ask(Waits::Call(sender), (u32::MAX, CallContext::new()), (Kind::ExportState, 0), |_| {})?;
        let deadline = Instant::now() + limit;
        loop {
            match receiver.try_recv() {
                Ok(answer) => return answer,
                Err(oneshot::error::TryRecvError::Empty) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(_) => return Err(Failure::limit("the plugin did not export its state in time")),
            }
        }
    }

    /// Requests an orderly stop of the process.
    pub(crate) fn stop(&self) {
        self.out.push(Kind::Stop, 0, |_| {});
    }

    /// Ends the link: every waiting caller receives `reason`.
    pub(crate) fn end(&self, reason: &Failure) {
        let taken = {
            let mut slots = self.slots.lock();
            slots.ended = Some(reason.clone());
            std::mem::take(&mut slots.taken)
        };
        for slot in taken.into_values() {
            // Errors mean that the caller has gone.
            match slot.waits {
                Waits::Call(sender) => drop(sender.send(Err(reason.clone()))),
                Waits::Items(sender) => drop(sender.try_send(Item::counted(Err(reason.clone()), &self.items, None))),
                Waits::None => {}
            }
        }
        for (_, work) in self.bus.lock().drain() {
            work.task.abort();
        }
    }

    /// The context of a call in flight; `None` if there is no call with this number.
    fn context_of(&self, call: u64) -> Option<CallContext> {
        self.slots.lock().taken.get(&call).map(|slot| slot.context.clone())
    }

    /// The call or subscription in flight with this number: whether it is a subscription, and its method or kind.
    pub(crate) fn asked(&self, id: u64) -> Option<(bool, u32)> {
        let slots = self.slots.lock();
        slots.taken.get(&id).map(|slot| (matches!(slot.waits, Waits::Items(_)), slot.method))
    }

    /// Serves the socket until it has to end.
    pub(crate) async fn run(
        self: &Arc<Self>,
        socket: UnixStream,
        buffer: FrameBuffer,
        early: Vec<EarlyFrame>,
    ) -> Ending {
        let socket = Arc::new(socket);
        let (link, writer) = (Arc::clone(self), Arc::clone(&socket));
        let pump = tokio::spawn(async move { link.out.pump(&writer, || link.slots.lock().taken.len() > 1).await });
        let ending = tokio::select! {
            ending = self.read(&socket, buffer, early) => ending,
            ending = self.watch_limits() => ending,
            () = self.over_limit.notified() => Ending::Unread(self.limits.end_at),
        };
        pump.abort();
        ending
    }

    async fn read(self: &Arc<Self>, socket: &UnixStream, mut buffer: FrameBuffer, early: Vec<EarlyFrame>) -> Ending {
        for EarlyFrame { kind, id, body } in early {
            if let Err(error) = self.take(Frame { kind, id, body: &body }) {
                return Ending::Broke(error);
            }
        }
        let mut memory = None;
        loop {
            loop {
                // Reading pauses while a process sends requests without reading the answers.
                if self.out.waiting() > self.limits.pause_at {
                    self.out.wait_until_at_most(self.limits.pause_at).await;
                }
                // A process that never stops sending must not block this thread's other tasks, nor the end of this one.
                tokio::task::consume_budget().await;
                if self.is_over_limit.load(Ordering::Relaxed) {
                    return Ending::Unread(self.limits.end_at);
                }
                match buffer.next() {
                    Ok(None) => break,
                    Ok(Some(frame)) if frame.kind == Kind::Overrun => return Ending::Overrun(frame.id),
                    Ok(Some(frame)) => {
                        if let Err(error) = self.take(frame) {
                            return Ending::Broke(error);
                        }
                    }
                    Err(error) => return Ending::Broke(error),
                }
            }
            self.hold_buffer(&buffer, &mut memory).await;
            match socket.try_read(buffer.room()) {
                Ok(0) => return Ending::Closed,
                Ok(count) => buffer.arrived(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if socket.readable().await.is_err() {
                        return Ending::Closed;
                    }
                }
                Err(_) => return Ending::Closed,
            }
        }
    }

    /// Counts the buffer's size for the next read. Reading pauses while there is no memory for it: the process waits,
    /// and is ended as silent if that lasts.
    async fn hold_buffer(&self, buffer: &FrameBuffer, memory: &mut Option<Reservation>) {
        let bytes = buffer.bytes_with_room();
        if bytes <= UNCOUNTED_BUFFER {
            *memory = None;
            return;
        }
        loop {
            let held = match memory {
                Some(held) => held.resize(bytes),
                None => self.memory.reserve(MemoryUse::PluginFrames, bytes).map(|held| *memory = Some(held)),
            };
            if held.is_ok() {
                return;
            }
            tokio::time::sleep(MEMORY_CHECK_PERIOD).await;
        }
    }

    /// Handles a frame from the process.
    fn take(self: &Arc<Self>, frame: Frame<'_>) -> Result<(), WireError> {
        match frame.kind {
            Kind::Reply => self.take_reply(frame),
            Kind::Item => self.take_item(frame),
            Kind::End => self.take_end(frame),
            Kind::BusCall => self.bus_call(frame),
            Kind::JsonCall => self.json_call(frame),
            Kind::BusSubscribe => self.bus_subscribe(frame),
            Kind::BusCancel => {
                // Absent if it has been answered already.
                if let Some(work) = self.bus.lock().remove(&frame.id) {
                    work.task.abort();
                }
                Ok(())
            }
            Kind::BusCredit => {
                let count = frame.fields().u32()? as usize;
                let bus = self.bus.lock();
                if let Some(credit) = bus.get(&frame.id).and_then(|work| work.credit.as_ref()) {
                    // Outstanding credit never exceeds the window, even if the process grants more.
                    credit.add_permits(count.min(WINDOW.saturating_sub(credit.available_permits())));
                }
                Ok(())
            }
            Kind::Log => {
                self.log_limiter.write(&*self.backend, level(frame.id), &String::from_utf8_lossy(frame.body));
                Ok(())
            }
            Kind::Pong => {
                self.pongs.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(frame.unexpected()),
        }
    }

    fn take_reply(&self, frame: Frame<'_>) -> Result<(), WireError> {
        let answer = frame.fields().reply()?;
        let slot = match self.slots.lock().taken.entry(frame.id) {
            Entry::Occupied(slot) if !matches!(slot.get().waits, Waits::Items(_)) => slot.remove(),
            _ => return Err(WireError::NotAsked(frame.id)),
        };
        if let Waits::Call(sender) = slot.waits {
            // An error means that the caller has just gone.
            let _ = sender.send(answer);
        }
        Ok(())
    }

    fn take_item(&self, frame: Frame<'_>) -> Result<(), WireError> {
        let item = frame.fields().item()?;
        let mut slots = self.slots.lock();
        let Some(slot) = slots.taken.get_mut(&frame.id) else { return Err(WireError::NotAsked(frame.id)) };
        match &slot.waits {
            Waits::Items(sender) if sender.capacity() > 1 || sender.is_closed() => {
                let failure = match self.hold_item(&item) {
                    Ok(memory) => {
                        let item = Item::counted(item, &self.items, memory);
                        if self.items.load(Ordering::Relaxed) <= MAX_ITEM_BYTES {
                            let _ = sender.try_send(item);
                            return Ok(());
                        }
                        Failure::limit("subscription closed: its items were not read in time")
                    }
                    Err(refused) => Failure::limit(format!("subscription closed: {refused}")),
                };
                // There is a free slot: the channel has one slot more than the credit.
                let _ = sender.try_send(Item::counted(Err(failure), &self.items, None));
                slot.waits = Waits::None;
                drop(slots);
                self.out.push(Kind::Cancel, frame.id, |_| {});
                Ok(())
            }
            Waits::Items(_) => Err(WireError::TooManyItems(frame.id)),
            Waits::None => Ok(()),
            Waits::Call(_) => Err(WireError::NotAsked(frame.id)),
        }
    }

    /// Memory for an item that waits for its subscriber; `None` for a small one.
    fn hold_item(&self, item: &wire::Item) -> Result<Option<Reservation>, OutOfMemory> {
        match length_of(item) {
            length if length > UNCOUNTED_ITEM => self.memory.reserve(MemoryUse::PluginFrames, length).map(Some),
            _ => Ok(None),
        }
    }

    fn take_end(&self, frame: Frame<'_>) -> Result<(), WireError> {
        match self.slots.lock().taken.entry(frame.id) {
            Entry::Occupied(slot) if !matches!(slot.get().waits, Waits::Call(_)) => {
                slot.remove();
                Ok(())
            }
            _ => Err(WireError::NotAsked(frame.id)),
        }
    }

    fn cancel(&self, id: u64) {
        let mut slots = self.slots.lock();
        let Some(slot) = slots.taken.get_mut(&id) else { return };
        slot.waits = Waits::None;
        drop(slots);
        self.out.push(Kind::Cancel, id, |_| {});
    }

    /// Ends calls that take too long, and the process if it is silent while requests wait for it.
    async fn watch_limits(&self) -> Ending {
        let mut check = tokio::time::interval(CHECK_PERIOD);
        check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut asked: Option<(u64, Instant)> = None;
        loop {
            check.tick().await;
            self.end_late_calls();
            if self.slots.lock().taken.is_empty() {
                asked = None;
                continue;
            }
            let pongs = self.pongs.load(Ordering::Relaxed);
            match asked {
                Some((before, since)) if before == pongs => {
                    if since.elapsed() > self.limits.max_silence {
                        return Ending::Silent(self.limits.max_silence);
                    }
                }
                _ => {
                    asked = Some((pongs, Instant::now()));
                    self.out.push(Kind::Ping, 0, |_| {});
                }
            }
        }
    }

    fn end_late_calls(&self) {
        let mut late = Vec::new();
        let mut slots = self.slots.lock();
        for (id, slot) in &mut slots.taken {
            if matches!(slot.waits, Waits::Call(_)) && slot.since.elapsed() > self.limits.max_call_time {
                late.push((*id, std::mem::replace(&mut slot.waits, Waits::None)));
            }
        }
        drop(slots);
        for (id, waits) in late {
            self.out.push(Kind::Cancel, id, |_| {});
            if let Waits::Call(sender) = waits {
                let _ = sender.send(Err(Failure::limit("request timed out")));
            }
        }
    }
}

/// Cancels the call or subscription in the process.
struct CancelOnDrop {
    link: Arc<Link>,
    /// `None` once it has been answered.
    id: Option<u64>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.link.cancel(id);
        }
    }
}

/// The items of a subscription.
pub(crate) struct Items {
    receiver: mpsc::Receiver<Item>,
    guard: CancelOnDrop,
}

impl Items {
    /// The next item; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<wire::Item> {
        let item = self.receiver.recv().await.map(Item::take);
        match (&item, self.guard.id) {
            (Some(_), Some(id)) => {
                self.guard.link.out.push(Kind::Credit, id, |out| out.extend_from_slice(&1_u32.to_le_bytes()));
            }
            _ => self.guard.id = None,
        }
        item
    }
}
