//! Requests of the process to the bus, and its subscriptions to events.

use std::sync::{Arc, atomic::Ordering};

use tenon_api::{Request, Topic, messages::CommitRecords};
use tenon_host::context_within;
use tenon_sdk::Failure;
use tenon_sdk::boundary::{ForeignFuture, ForeignStream};
use tokio::{sync::Semaphore, task::AbortHandle};

use super::Link;
use crate::{
    WINDOW,
    wire::{Frame, Kind, MAX_BUS_REQUEST_BYTES, WireError},
};

/// Maximum number of concurrent bus requests and event subscriptions of a plugin.
const MAX_BUS_REQUESTS: usize = 1024;
/// Maximum bytes of a plugin's concurrent bus requests. This also bounds their list items, because an item takes at
/// least one byte. It bounds the depth too: no request type is recursive.
const MAX_BUS_BYTES_IN_FLIGHT: usize = 8 * 1024 * 1024;
/// Maximum bytes of the concurrent requests when another one commits records. It may be higher, because the storage
/// counts the records before it accepts them.
const MAX_BUS_BYTES_IN_FLIGHT_WITH_RECORDS: usize = 2 * MAX_BUS_REQUEST_BYTES;
/// A running bus request of the plugin.
pub(super) struct BusRequest {
    pub(super) task: AbortHandle,
    pub(super) credit: Option<Arc<Semaphore>>,
}

impl Link {
    pub(super) fn bus_call(self: &Arc<Self>, frame: Frame<'_>) -> Result<(), WireError> {
        let (id, mut fields) = (frame.id, frame.fields());
        let (topic, schema, left) = (Topic(fields.u32()?), fields.u32()?, fields.u64()?);
        // The process names the call for which it makes this request; the node itself knows that call's origin and
        // deadline.
        let context = self.context_of(fields.u64()?).unwrap_or_else(|| context_within(left));
        let request = fields.rest();
        let max =
            if topic == CommitRecords::TOPIC { MAX_BUS_BYTES_IN_FLIGHT_WITH_RECORDS } else { MAX_BUS_BYTES_IN_FLIGHT };
        let is_too_much = self.asked.load(Ordering::Relaxed).saturating_add(request.len()) > max;
        let Some(place) = self.bus_request_place(id)?.filter(|_| !is_too_much) else {
            self.answer_bus(id, Err(&Failure::limit("the plugin has too many requests in progress")));
            return Ok(());
        };
        let work = ForeignFuture::from(self.backend.call_bus(Some(&context), topic, schema, request));
        self.answer_when_ready(place, id, work, request.len());
        Ok(())
    }

    pub(super) fn json_call(self: &Arc<Self>, frame: Frame<'_>) -> Result<(), WireError> {
        let (id, mut fields) = (frame.id, frame.fields());
        let (call, method) = (fields.u64()?, fields.u32()? as usize);
        let Some((method, params)) = fields.rest().split_at_checked(method) else {
            return Err(WireError::Malformed(frame.kind));
        };
        // As in `bus_call`. Without such a call the plugin asks on its own behalf.
        let context = self.context_of(call);
        let length = frame.body.len();
        let is_too_much = self.asked.load(Ordering::Relaxed).saturating_add(length) > MAX_BUS_BYTES_IN_FLIGHT;
        let Some(place) = self.bus_request_place(id)?.filter(|_| !is_too_much) else {
            self.answer_bus(id, Err(&Failure::limit("the plugin has too many requests in progress")));
            return Ok(());
        };
        let work = ForeignFuture::from(self.backend.call_json(context.as_ref(), method, params));
        self.answer_when_ready(place, id, work, length);
        Ok(())
    }

    /// Answers a request of `length` bytes when its work has ended.
    fn answer_when_ready(self: &Arc<Self>, place: BusRequestPlace, id: u64, mut work: ForeignFuture, length: usize) {
        // A read answers its first poll; it needs no task.
        let first = std::task::Context::from_waker(std::task::Waker::noop());
        if let std::task::Poll::Ready(answer) = work.poll_reply(&first) {
            self.answer_bus(id, answer.as_ref().map(AsRef::as_ref));
            return;
        }
        let link = Arc::clone(self);
        let asked = RunningBusRequest::new(self, length);
        self.add_bus_request(place, id, None, async move {
            let answer = work.await;
            drop(asked);
            if link.bus.lock().remove(&id).is_some() {
                link.answer_bus(id, answer.as_ref().map(AsRef::as_ref));
            }
        });
    }

    fn answer_bus(&self, id: u64, answer: Result<&[u8], &Failure>) {
        self.send_answer(Kind::BusReply, id, answer);
    }

    pub(super) fn bus_subscribe(self: &Arc<Self>, frame: Frame<'_>) -> Result<(), WireError> {
        let (id, mut fields) = (frame.id, frame.fields());
        let (topic, schema) = (Topic(fields.u32()?), fields.u32()?);
        let Some(place) = self.bus_request_place(id)? else {
            let refused = Failure::server("the plugin subscribes to too many events");
            self.send_answer(Kind::BusItem, id, Err(&refused));
            self.out.push(Kind::BusEnd, id, |_| {});
            return Ok(());
        };
        // Subscribe now, not when the task first runs.
        let mut events = ForeignStream::from(self.backend.subscribe(topic, schema));
        let credit = Arc::new(Semaphore::new(WINDOW));
        let (link, own_credit) = (Arc::clone(self), Arc::clone(&credit));
        self.add_bus_request(place, id, Some(credit), async move {
            // Without credit nothing is taken from the bus, which counts missed events meanwhile.
            while let Ok(permit) = own_credit.acquire().await {
                permit.forget();
                let Some(item) = std::future::poll_fn(|task| events.poll_item(task)).await else { break };
                link.send_item(Kind::BusItem, id, item.as_ref().map(|event| (event.as_ref(), event.position)));
            }
            if link.bus.lock().remove(&id).is_some() {
                link.out.push(Kind::BusEnd, id, |_| {});
            }
        });
        Ok(())
    }

    /// Whether one more bus request is allowed.
    fn bus_request_place(&self, id: u64) -> Result<Option<BusRequestPlace>, WireError> {
        let bus = self.bus.lock();
        if bus.contains_key(&id) {
            return Err(WireError::NumberTaken(id));
        }
        Ok((bus.len() < MAX_BUS_REQUESTS).then_some(BusRequestPlace))
    }

    fn add_bus_request(
        &self,
        _place: BusRequestPlace,
        id: u64,
        credit: Option<Arc<Semaphore>>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        // Held during the spawn, because the work looks for its own entry when it is done.
        let mut bus = self.bus.lock();
        let task = tokio::spawn(work).abort_handle();
        bus.insert(id, BusRequest { task, credit });
    }
}

/// A running request of the plugin, whose bytes are counted until it ends.
struct RunningBusRequest {
    link: Arc<Link>,
    bytes: usize,
}

impl RunningBusRequest {
    fn new(link: &Arc<Link>, bytes: usize) -> Self {
        link.asked.fetch_add(bytes, Ordering::Relaxed);
        Self { link: Arc::clone(link), bytes }
    }
}

impl Drop for RunningBusRequest {
    fn drop(&mut self) {
        self.link.asked.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Proof that a bus request was allowed. One task reads the socket, so it remains allowed until used.
struct BusRequestPlace;
