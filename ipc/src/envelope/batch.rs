//! Batches: reads run concurrently, any other call keeps its order, and answers are in the order of requests.
//!
//! The reference runs the calls of a batch sequentially, and clients send a transaction and query its result in one
//! batch. Here a call that may change something begins when all calls before it have answered, and the calls after it
//! begin when it has answered. The reads between two such calls run concurrently.

use std::{borrow::Cow, pin::pin, task::Poll, time::Instant};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tenon_bus::{ClientMemory, MemoryUse, OutOfMemory, Reservation};
use tenon_sdk::Failure;
use tokio_util::sync::ReusableBoxFuture;

use super::{
    Answer, Dispatcher, Outcome, Reply, Request, SUBSCRIBE, Subscriptions, UNCOUNTED_REPLY, UNSUBSCRIBE, failures,
    poll_once,
    raw_message::{RawMessage, RawRequest},
    reply,
    spare_future::SpareFuture,
    turns::TaskTurn,
};
use crate::service::{Caller, RawCall, RpcService};

/// Memory of a batch entry besides its result: its elements in the lists of requests, calls and outcomes.
const ENTRY_BYTES: usize = 512;

/// Memory of a small batch that is not counted while the batch works: its text, its entries, its results and its future.
const UNCOUNTED_BYTES: usize = 52 << 10;

/// Minimum step by which a batch's reservation grows.
const MEMORY_STEP: usize = 64 << 10;

/// Maximum number of calls that are prepared together: other clients' calls wait for the preparation.
const MAX_PREPARED_CALLS: usize = 32;

/// Maximum bytes of their parameters together.
const MAX_PREPARED_BYTES: usize = 64 << 10;

/// One entry of the answer.
struct Entry<'a, S: RpcService> {
    /// `None` for a notification, which leaves no entry.
    id: Option<&'a str>,
    outcome: Option<Outcome<S>>,
}

impl<'a, S: RpcService> Entry<'a, S> {
    fn invalid(id: &'a str) -> Self {
        Self { id: Some(id), outcome: Some(Outcome::Failed(failures::invalid_request())) }
    }
}

/// A call, or without id a notification.
struct Call<'a> {
    id: Option<&'a str>,
    method: Cow<'a, str>,
    params: Option<&'a str>,
}

/// A call of a batch, which returns its outcome with its index.
type RunningCall<'a, S> = ReusableBoxFuture<'a, (usize, Outcome<S>)>;

/// A batch that is being answered.
struct Batch<'a, S: RpcService> {
    entries: Vec<Entry<'a, S>>,
    /// Number of requests that have entries or need none.
    read: usize,
    /// Calls that were not done on their first poll.
    running: FuturesUnordered<RunningCall<'a, S>>,
    /// Its turn on the threads that serve connections.
    turn: TaskTurn,
    budget: Budget,
    deadline: Option<Instant>,
    /// Whether the deadline had passed at the last wait for a call.
    is_late: bool,
}

impl<'a, S: RpcService> Batch<'a, S> {
    /// Adds the entry of the request at this place.
    fn add(&mut self, place: usize, entry: Entry<'a, S>) {
        self.entries.push(entry);
        self.read = place + 1;
    }

    /// The call of the request at this place; `None` if it is none. An invalid request gets its entry.
    #[inline]
    fn call_at(&mut self, place: usize, raw: &RawRequest, text: &'a str) -> Option<Call<'a>> {
        match Request::inspect(raw, text) {
            Request::Ignored => None,
            Request::Invalid { id } => {
                self.add(place, Entry::invalid(id));
                None
            }
            Request::Call { id, method, params } => Some(Call { id, method, params }),
        }
    }

    /// Adds the entry of the call at this place, and returns its index; `None` if the batch may begin no further calls.
    #[inline]
    fn enter(&mut self, place: usize, id: Option<&'a str>) -> Option<usize> {
        let (index, outcome) = (self.entries.len(), self.refusal());
        let is_refused = outcome.is_some();
        self.add(place, Entry { id, outcome });
        (!is_refused).then_some(index)
    }

    fn settle(&mut self, index: usize, outcome: Outcome<S>) {
        self.entries[index].outcome = Some(self.budget.charge(outcome));
    }

    /// Waits until one of the running calls is done, if any are.
    async fn finish_one(&mut self) -> bool {
        let mut next = self.running.next();
        let finished = match poll_once(pin!(&mut next)).await {
            Poll::Ready(finished) => finished,
            Poll::Pending => self.turn.wait(next).await,
        };
        let Some((index, outcome)) = finished else { return false };
        self.settle(index, outcome);
        self.is_late = self.deadline.is_some_and(|deadline| deadline <= Instant::now());
        true
    }

    async fn finish_all(&mut self) {
        while self.finish_one().await {}
    }

    /// The outcome of a further call, if the batch may begin no further calls.
    fn refusal(&mut self) -> Option<Outcome<S>> {
        if let Some(refused) = &self.budget.refused {
            return Some(Outcome::Failed(refused.clone()));
        }
        if self.budget.left == 0 {
            return Some(Outcome::Failed(failures::batch_response_too_large(self.budget.max)));
        }
        self.is_late.then(|| self.budget.charge(Outcome::Failed(failures::timed_out())))
    }

    /// Fails the calls that are not done, and those of the requests that have not been read.
    fn cut(&mut self, requests: &[RawRequest], text: &'a str) {
        self.running.clear();
        let failed = || Some(Outcome::Failed(failures::stopping()));
        for entry in &mut self.entries {
            entry.outcome = entry.outcome.take().or_else(failed);
        }
        for raw in requests.iter().skip(self.read) {
            match Request::inspect(raw, text) {
                Request::Ignored => {}
                Request::Invalid { id } => self.entries.push(Entry::invalid(id)),
                Request::Call { id, .. } => self.entries.push(Entry { id, outcome: failed() }),
            }
        }
    }
}

/// Progress of the calls that a batch passes to the service ahead.
#[derive(Default)]
struct Preparation<'a> {
    /// The last queried method, cached because batches repeat theirs.
    method: Cow<'a, str>,
    is_called_ahead: bool,
    /// Number of calls that have been prepared and not started.
    prepared: usize,
}

impl<'a> Preparation<'a> {
    /// Counts the next call. Returns whether it and its successors are to be prepared first.
    #[inline]
    fn is_due<S: RpcService>(&mut self, call: &Call<'a>, service: &S) -> bool {
        if self.method != call.method {
            (self.method, self.is_called_ahead) = (call.method.clone(), service.is_called_ahead(&call.method));
        }
        if !self.is_called_ahead {
            return false;
        }
        let is_due = self.prepared == 0;
        self.prepared = self.prepared.saturating_sub(1);
        is_due
    }

    /// Records that this many calls are prepared, of which the first starts now.
    const fn begin(&mut self, calls: usize) {
        self.prepared = calls.saturating_sub(1);
    }
}

impl<S: RpcService> Dispatcher<S> {
    pub(super) async fn answer_batch(
        &self,
        text: &str,
        message: &RawMessage,
        caller: &Caller,
        subscriptions: Option<&Subscriptions>,
    ) -> Answer<S> {
        if message.item_count == 0 {
            return Answer::only(Some(Reply::failure_without_request(&failures::empty_batch())));
        }
        if message.item_count > self.limits.batch_items {
            let failure = failures::batch_too_large(message.item_count, self.limits.batch_items);
            return Answer::only(Some(Reply::failure_without_request(&failure)));
        }
        let memory = match BatchMemory::begin(self.memory_of(caller.context.origin()), message.item_count) {
            Ok(memory) => memory,
            Err(refused) => {
                return Answer::only(Some(Reply::failure_without_request(&failures::out_of_memory(refused))));
            }
        };
        let mut turn = self.turns.at_rest(caller.context.origin().client);
        // Thousands of batches may wait for their turns, each for several times.
        let _uncounted = match turn.try_take() {
            true => None,
            false => match self.memory_of(caller.context.origin()).reserve(MemoryUse::Calls, UNCOUNTED_BYTES) {
                Ok(memory) => Some(memory),
                Err(refused) => {
                    return Answer::only(Some(Reply::failure_without_request(&failures::out_of_memory(refused))));
                }
            },
        };
        let mut batch = Batch {
            entries: Vec::with_capacity(message.items.len()),
            read: 0,
            running: FuturesUnordered::new(),
            turn,
            budget: Budget::new(self.limits.batch_response_bytes, memory),
            deadline: caller.context.deadline(),
            is_late: false,
        };
        let running = self.run_batch(&mut batch, text, message, caller, subscriptions);
        if self.cut.until_set(running).await.is_none() {
            caller.context.cancel();
            batch.cut(&message.items, text);
        }
        let mut answer = render(batch.entries, batch.turn).await;
        if let Some(reply) = &mut answer.reply {
            reply.memory = batch.budget.memory.finish(reply.len());
        }
        answer
    }

    async fn run_batch<'a>(
        &'a self,
        batch: &mut Batch<'a, S>,
        text: &'a str,
        message: &RawMessage,
        caller: &'a Caller,
        subscriptions: Option<&'a Subscriptions>,
    ) {
        batch.turn.take_unless_held().await;
        let mut ahead = Preparation::default();
        let mut spare = SpareFuture::none();
        for (place, raw) in message.items.iter().enumerate() {
            let Some(next) = batch.call_at(place, raw, text) else { continue };
            // Most calls are done on their first poll. While nothing runs there is no order to keep.
            let mut must_run_alone = false;
            if !batch.running.is_empty() {
                must_run_alone = self.must_run_alone(&next.method);
                if must_run_alone {
                    batch.finish_all().await;
                }
            }
            let Some(index) = batch.enter(place, next.id) else {
                if batch.turn.is_over(0) {
                    batch.turn.pass().await;
                }
                continue;
            };
            if ahead.is_due(&next, &self.service) {
                ahead.begin(self.prepare(&message.items[place..], text, &next.method, caller).await);
                if batch.turn.is_over(0) {
                    batch.turn.pass().await;
                }
            }
            let Call { id, method, params } = next;
            let subscriptions = subscriptions.filter(|_| id.is_some());
            let name = method.clone();
            let mut call = spare.fill(async move {
                let mut call = RawCall::lent(&method, params);
                (index, self.call_in_time(&mut call, 0, caller, subscriptions).await)
            });
            match poll_once(pin!(&mut call)).await {
                Poll::Ready((index, outcome)) => {
                    batch.settle(index, outcome);
                    spare.keep(call);
                }
                Poll::Pending => {
                    must_run_alone = must_run_alone || self.must_run_alone(&name);
                    batch.running.push(call);
                }
            }
            if batch.turn.is_over(params.map_or(0, str::len)) {
                batch.turn.pass().await;
            }
            tokio::task::coop::consume_budget().await;
            if must_run_alone {
                batch.finish_all().await;
            } else if batch.running.len() >= self.limits.batch_concurrency.max(1) {
                batch.finish_one().await;
            }
        }
        batch.finish_all().await;
    }

    /// Passes the next successive calls of one method to the service, and returns their number.
    async fn prepare(&self, items: &[RawRequest], text: &str, method: &str, caller: &Caller) -> usize {
        let mut bytes = 0;
        let same = items.iter().map_while(|raw| match Request::inspect(raw, text) {
            Request::Call { method: other, params, .. } if other == method => params,
            _ => None,
        });
        let params: Vec<&str> = same
            .take(MAX_PREPARED_CALLS)
            .take_while(|params| {
                bytes += params.len();
                bytes <= MAX_PREPARED_BYTES
            })
            .collect();
        if params.len() > 1 {
            self.service.call_ahead(method, &params, caller).await;
        }
        params.len()
    }

    /// Whether no other call of its batch may run concurrently with this one.
    fn must_run_alone(&self, method: &str) -> bool {
        method.ends_with(SUBSCRIBE) || method.ends_with(UNSUBSCRIBE) || !self.service.only_reads(method)
    }
}

/// Remaining bytes of a batch's answer.
struct Budget {
    left: usize,
    max: usize,
    /// Why an answer did not fit. No further call begins after this, because its answer would be lost.
    refused: Option<Failure>,
    memory: BatchMemory,
}

/// A batch's reservation in the memory budget while it is answered.
struct BatchMemory {
    client: ClientMemory,
    /// `None` while the memory is too small to be counted.
    held: Option<Reservation>,
    /// Bytes used so far.
    taken: usize,
    /// Bytes that it may use before it must reserve more.
    covered: usize,
}

impl BatchMemory {
    /// Starts for a batch of this many entries.
    fn begin(client: ClientMemory, entries: usize) -> Result<Self, OutOfMemory> {
        let mut memory = Self { client, held: None, taken: 0, covered: UNCOUNTED_REPLY };
        memory.take(entries.saturating_mul(ENTRY_BYTES))?;
        Ok(memory)
    }

    fn take(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let taken = self.taken.saturating_add(bytes);
        if taken > self.covered {
            self.grow(taken)?;
        }
        self.taken = taken;
        Ok(())
    }

    #[cold]
    fn grow(&mut self, taken: usize) -> Result<(), OutOfMemory> {
        let wanted = taken.next_multiple_of(MEMORY_STEP);
        match &mut self.held {
            Some(held) => held.resize(wanted)?,
            None => self.held = Some(self.client.reserve(MemoryUse::Answers, wanted)?),
        }
        self.covered = wanted;
        Ok(())
    }

    /// The reservation of the finished answer, shrunk to its length.
    fn finish(self, length: usize) -> Option<Reservation> {
        let mut held = self.held?;
        held.shrink(length);
        Some(held)
    }
}

impl Budget {
    const fn new(max: usize, memory: BatchMemory) -> Self {
        Self { left: max, max, refused: None, memory }
    }

    fn refuse<S: RpcService>(&mut self, failure: Failure) -> Outcome<S> {
        self.refused = Some(failure.clone());
        Outcome::Failed(failure)
    }

    fn charge<S: RpcService>(&mut self, outcome: Outcome<S>) -> Outcome<S> {
        let length = match &outcome {
            Outcome::Json(json) => json.as_ref().len(),
            Outcome::Failed(failure) => failure.message.len() + failure.data.as_ref().map_or(0, String::len),
            Outcome::Done | Outcome::Opened(_) => 0,
        };
        if length > self.left {
            self.left = 0;
            return self.refuse(failures::batch_response_too_large(self.max));
        }
        // Twice: all results still exist while the answer is assembled from them.
        if let Err(refused) = self.memory.take(length.saturating_mul(2)) {
            return self.refuse(failures::out_of_memory(refused));
        }
        self.left -= length;
        outcome
    }
}

async fn render<S: RpcService>(entries: Vec<Entry<'_, S>>, mut turn: TaskTurn) -> Answer<S> {
    let mut text = Vec::with_capacity(estimate(&entries));
    let mut opened = Vec::new();
    text.push(b'[');
    for Entry { id, outcome } in entries {
        let (Some(id), Some(outcome)) = (id, outcome) else { continue };
        let before = text.len();
        if before > 1 {
            text.push(b',');
        }
        match outcome {
            Outcome::Json(json) => reply::write_result(&mut text, id, json.as_ref()),
            Outcome::Done => reply::write_result(&mut text, id, b"true"),
            Outcome::Failed(failure) => reply::write_failure(&mut text, id, &failure),
            Outcome::Opened(subscription) => {
                let quoted = format!("\"{}\"", subscription.id);
                reply::write_result(&mut text, id, quoted.as_bytes());
                opened.push(subscription);
            }
        }
        if turn.is_over(text.len() - before) {
            turn.pass().await;
        }
    }
    if text.len() == 1 {
        return Answer::only(None);
    }
    text.extend_from_slice(b"]\n");
    Answer { reply: Some(Reply::whole(text)), opened }
}

fn estimate<S: RpcService>(entries: &[Entry<'_, S>]) -> usize {
    let length = |entry: &Entry<'_, S>| match &entry.outcome {
        Some(Outcome::Json(json)) => json.as_ref().len() + 48,
        _ => 128,
    };
    entries.iter().map(length).sum::<usize>() + 3
}
