//! Outgoing data of a connection.
//!
//! Implemented here, because tokio's channels do not fit: the bound is in bytes, a reservation of memory belongs to
//! each item, and one write sends everything queued.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tenon_bus::{ClientMemory, MemoryUse, OutOfMemory, Reservation};
use tokio::sync::Notify;

use crate::envelope::Reply;

/// Encodes a reply for this transport.
pub(crate) type Encode = fn(Reply, &mut VecDeque<Bytes>);

/// Bytes that a queue may hold without a reservation: most connections never need more.
const UNRESERVED_BYTES: usize = 16 << 10;

/// Minimum step by which a queue's reservation grows, and the excess that it keeps.
const MEMORY_STEP: usize = 64 << 10;

/// Queue between a connection's calls and its writer, bounded in bytes and counted as its client's memory.
///
/// Answers are always accepted, because a connection whose queue is full starts no further call
/// ([`Outgoing::has_room`]). Notifications are queued even if the client does not read. One that finds the queue full
/// ends the connection, so a subscriber that never reads costs at most `max` bytes. The queue also counts as full while
/// the client has no memory left for it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    queue: Mutex<Queue>,
    /// Bytes in the queue, and bytes that the writer has taken and not yet written. Not under the lock, because each
    /// message reads it twice.
    length: AtomicUsize,
    /// Written bytes of a piece that is not written as a whole: they are still in memory. Set by the writer alone.
    partly_written: AtomicUsize,
    /// Size of the queue's reservation. Not under the lock, like `length`.
    held: AtomicUsize,
    /// Whether a task waits for `drained`.
    is_awaited: AtomicBool,
    /// Whether the writer's task sleeps: only then does a push wake it. Set under the lock, after checking the queue,
    /// so that no push is missed.
    is_writer_asleep: AtomicBool,
    encode: Encode,
    max: usize,
    drained: Notify,
}

/// A queue's reservation in the memory budget.
#[derive(Debug)]
struct Memory {
    client: ClientMemory,
    /// `None` while `UNRESERVED_BYTES` is enough.
    reservation: Option<Reservation>,
}

impl Memory {
    fn held(&self) -> usize {
        UNRESERVED_BYTES + self.reservation.as_ref().map_or(0, Reservation::bytes)
    }

    /// Adds the reservation of a reply.
    fn absorb(&mut self, brought: Reservation) {
        match &mut self.reservation {
            Some(reservation) => reservation.absorb(brought),
            None => self.reservation = Some(brought),
        }
    }

    /// Grows until it is enough for `length` bytes.
    fn grow(&mut self, length: usize) -> Result<(), OutOfMemory> {
        let wanted = length.saturating_sub(UNRESERVED_BYTES).next_multiple_of(MEMORY_STEP);
        match &mut self.reservation {
            Some(reservation) => reservation.resize(wanted),
            None => {
                self.reservation = Some(self.client.reserve(MemoryUse::Answers, wanted)?);
                Ok(())
            }
        }
    }

    /// Releases the part that `length` bytes do not need.
    fn shrink(&mut self, length: usize) {
        let wanted = length.saturating_sub(UNRESERVED_BYTES);
        match &mut self.reservation {
            Some(reservation) if wanted > 0 => reservation.shrink(wanted),
            _ => self.reservation = None,
        }
    }
}

#[derive(Debug)]
struct Queue {
    pieces: VecDeque<Bytes>,
    has_overflowed: bool,
    memory: Memory,
    /// Waker of the writer's task.
    writer: Option<Waker>,
}

/// Error of a notification that found the queue full.
#[derive(Debug)]
pub(crate) struct Overflow;

impl Outgoing {
    /// Creates an empty queue for a connection of this client.
    pub(crate) fn new(encode: Encode, max: usize, client: ClientMemory) -> Self {
        let memory = Memory { client, reservation: None };
        let queue = Queue { pieces: VecDeque::new(), has_overflowed: false, memory, writer: None };
        Self {
            queue: Mutex::new(queue),
            length: AtomicUsize::new(0),
            partly_written: AtomicUsize::new(0),
            held: AtomicUsize::new(UNRESERVED_BYTES),
            is_awaited: AtomicBool::new(false),
            is_writer_asleep: AtomicBool::new(false),
            encode,
            max,
            drained: Notify::new(),
        }
    }

    /// Adds to the queue and wakes the writer if it sleeps.
    fn push<T>(&self, add: impl FnOnce(&mut Queue) -> T) -> T {
        let mut queue = self.queue.lock();
        let added = add(&mut queue);
        // A relaxed load and store suffice: the lock excludes other pushes, and without the lock only the writer clears
        // the flag, while it is awake.
        let sleeper = if self.is_writer_asleep.load(Ordering::Relaxed) {
            self.is_writer_asleep.store(false, Ordering::Relaxed);
            queue.writer.clone()
        } else {
            None
        };
        drop(queue);
        if let Some(writer) = sleeper {
            writer.wake();
        }
        added
    }

    /// Queues an answer.
    pub(crate) fn push_answer(&self, reply: Reply) {
        self.push(|queue| {
            self.encode_into(reply, queue);
            // If the client has no memory left, the answer is still queued, because its call has reserved memory for a
            // small answer, and a large answer has its own reservation. But no further call begins.
            let _ = self.hold(queue);
        });
    }

    /// Reserves memory for the next notification, of about `bytes`. If there is no room, the connection ends, as in
    /// [`Outgoing::push_notification`].
    pub(crate) fn make_room(&self, bytes: usize) -> Result<(), Overflow> {
        let mut queue = self.queue.lock();
        let allocated = self.allocated().saturating_add(bytes);
        let has_room = self.length().saturating_add(bytes) <= self.max
            && (allocated <= queue.memory.held() || queue.memory.grow(allocated).is_ok());
        self.held.store(queue.memory.held(), Ordering::Relaxed);
        drop(queue);
        if has_room {
            return Ok(());
        }
        self.push(|queue| queue.has_overflowed = true);
        Err(Overflow)
    }

    /// Queues a notification.
    pub(crate) fn push_notification(&self, reply: Reply) -> Result<(), Overflow> {
        self.push(|queue| {
            queue.has_overflowed |= self.length() + reply.len() > self.max;
            if queue.has_overflowed {
                return Err(Overflow);
            }
            self.encode_into(reply, queue);
            queue.has_overflowed = self.hold(queue).is_err();
            if queue.has_overflowed { Err(Overflow) } else { Ok(()) }
        })
    }

    /// Queues the transport's own bytes, such as a pong.
    pub(crate) fn push_raw(&self, bytes: Bytes) {
        self.push(|queue| {
            self.length.fetch_add(bytes.len(), Ordering::Relaxed);
            queue.pieces.push_back(bytes);
        });
    }

    fn encode_into(&self, mut reply: Reply, queue: &mut Queue) {
        if let Some(brought) = reply.memory.take() {
            queue.memory.absorb(brought);
            self.held.store(queue.memory.held(), Ordering::Relaxed);
        }
        let before = queue.pieces.len();
        (self.encode)(reply, &mut queue.pieces);
        let added: usize = queue.pieces.range(before..).map(Bytes::len).sum();
        self.length.fetch_add(added, Ordering::Relaxed);
    }

    /// Reserves memory for the queue.
    fn hold(&self, queue: &mut Queue) -> Result<(), OutOfMemory> {
        let allocated = self.allocated();
        if allocated <= self.held.load(Ordering::Relaxed) {
            return Ok(());
        }
        queue.memory.grow(allocated)?;
        self.held.store(queue.memory.held(), Ordering::Relaxed);
        Ok(())
    }

    /// Releases memory that the queue no longer needs.
    fn release(&self) {
        let mut queue = self.queue.lock();
        queue.memory.shrink(self.allocated());
        self.held.store(queue.memory.held(), Ordering::Relaxed);
    }

    pub(super) fn length(&self) -> usize {
        // In one order with `is_awaited`, see `drained_until`.
        self.length.load(Ordering::SeqCst)
    }

    /// Bytes of the pieces that are in memory.
    fn allocated(&self) -> usize {
        self.length() + self.partly_written.load(Ordering::Relaxed)
    }

    /// Whether another call may begin: fewer bytes than `max` are queued, and their memory is reserved.
    fn has_space(&self) -> bool {
        self.length() < self.max && self.allocated() <= self.held.load(Ordering::Relaxed)
    }

    /// Returns at once if another call may begin, otherwise when the client has read enough of what is queued.
    pub(crate) async fn has_room(&self) {
        if !self.has_space() {
            self.drained_until(|| self.has_space()).await;
        }
    }

    /// Returns once everything is written.
    pub(crate) async fn is_empty(&self) {
        self.drained_until(|| self.length() == 0).await;
    }

    async fn drained_until(&self, is_drained: impl Fn() -> bool) {
        loop {
            // Set before the check: the writer first subtracts the written bytes, then looks for a waiter.
            self.is_awaited.store(true, Ordering::SeqCst);
            if is_drained() {
                return;
            }
            self.drained.notified().await;
        }
    }

    /// Records that the writer's task is awake and will check the queue before it sleeps: a push need not wake it.
    pub(crate) fn writer_is_awake(&self) {
        self.is_writer_asleep.store(false, Ordering::Relaxed);
    }

    /// Registers the task to be woken at the next push.
    fn watch(&self, queue: &mut Queue, context: &Context<'_>) {
        match &mut queue.writer {
            Some(writer) => writer.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        self.is_writer_asleep.store(true, Ordering::Relaxed);
    }

    /// Moves all queued pieces into `pieces`, which is empty; pending if there are none. Fails if a notification has
    /// found the queue full: the connection must end. The writer's task reports that it is awake before each poll in
    /// which it calls this.
    pub(crate) fn poll_take(
        &self,
        context: &mut Context<'_>,
        pieces: &mut VecDeque<Bytes>,
    ) -> Poll<Result<(), Overflow>> {
        // Set if an earlier call in this same poll has registered the task. A push since then wakes the task again.
        if self.is_writer_asleep.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        let mut queue = self.queue.lock();
        if queue.has_overflowed {
            return Poll::Ready(Err(Overflow));
        }
        // Registers the task even if pieces are taken. Usually these are all, and the next call then needs no lock.
        self.watch(&mut queue, context);
        if queue.pieces.is_empty() {
            return Poll::Pending;
        }
        // The queue receives the emptied buffer back, so that neither side allocates.
        std::mem::swap(&mut queue.pieces, pieces);
        Poll::Ready(Ok(()))
    }

    /// Whether a notification has found the queue full; pending if not.
    pub(crate) fn poll_overflow(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut queue = self.queue.lock();
        if queue.has_overflowed {
            return Poll::Ready(());
        }
        self.watch(&mut queue, context);
        Poll::Pending
    }

    /// Records that the writer has sent `count` bytes of those it took, and how many bytes of its first piece are written
    /// in all.
    pub(crate) fn sent(&self, count: usize, partly_written: usize) {
        self.partly_written.store(partly_written, Ordering::Relaxed);
        let left = self.length.fetch_sub(count, Ordering::SeqCst).saturating_sub(count) + partly_written;
        let held = self.held.load(Ordering::Relaxed);
        if held > UNRESERVED_BYTES && (left == 0 || held > left.saturating_add(UNRESERVED_BYTES + MEMORY_STEP)) {
            self.release();
        }
        // At most one task waits: `read_all` waits for room, and at the end of the connection `run` waits for an empty
        // queue.
        if self.is_awaited.load(Ordering::SeqCst) {
            self.is_awaited.store(false, Ordering::SeqCst);
            self.drained.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::{Pin, pin},
        sync::Arc,
        task::Wake,
    };

    use tenon_bus::{ClientId, MemoryBudget, MemoryLimits};

    use super::*;
    use crate::duplex::encode_plain;

    async fn poll_once<F: Future>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
        crate::envelope::poll_once(future.as_mut()).await
    }

    /// Counts its wakes.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_push_wakes_only_a_writer_that_has_emptied_the_queue() {
        let outgoing = Outgoing::new(encode_plain, 100, MemoryBudget::unbounded().client(ClientId::INSIDE));
        let woken = Arc::<Count>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let take = || {
            let mut pieces = VecDeque::new();
            let taken = outgoing.poll_take(&mut Context::from_waker(&waker), &mut pieces);
            assert!(!matches!(taken, Poll::Ready(Err(_))), "the queue has room");
            (taken.is_ready(), pieces.len())
        };
        for round in 1..=3 {
            outgoing.writer_is_awake();
            outgoing.push_raw(Bytes::from_static(b"by the task itself"));
            outgoing.push_raw(Bytes::from_static(b"and once more"));
            assert_eq!(take(), (true, 2));
            assert_eq!(take(), (false, 0), "nothing has come since");
            assert_eq!(woken.0.load(Ordering::Relaxed), round - 1);

            outgoing.push_raw(Bytes::from_static(b"by another"));

            assert_eq!(woken.0.load(Ordering::Relaxed), round);
            assert_eq!(take(), (true, 1), "whether the writer is still at it or comes again");
            outgoing.sent(41, 0);
        }
    }

    fn reply(length: usize) -> Reply {
        Reply::whole(vec![b'x'; length])
    }

    #[test]
    fn unwritten_bytes_are_counted_until_they_are_written() {
        let budget = MemoryBudget::new(MemoryLimits { total: 1 << 20, client: 1 << 20 });
        let client = budget.client(ClientId::INSIDE);
        let outgoing = Outgoing::new(encode_plain, usize::MAX, client.clone());

        outgoing.push_answer(reply(UNRESERVED_BYTES));
        assert_eq!(client.held(), 0, "small answers cost nothing");
        outgoing.push_answer(reply(1));
        assert_eq!(client.held(), MEMORY_STEP);
        let mut large = reply(300_000);
        large.memory = client.reserve(MemoryUse::Answers, 300_000).ok();
        outgoing.push_answer(large);
        assert_eq!(client.held(), MEMORY_STEP + 300_000, "it brought its own");

        outgoing.sent(UNRESERVED_BYTES + 1 + 200_000, 0);
        assert_eq!(client.held(), 100_000 - UNRESERVED_BYTES);
        outgoing.sent(100_000, 0);
        assert_eq!(client.held(), 0);
    }

    #[test]
    fn written_bytes_of_a_piece_in_memory_count_for_the_client_and_not_for_the_queue() {
        let budget = MemoryBudget::new(MemoryLimits { total: 1 << 20, client: 2 * MEMORY_STEP });
        let outgoing = Outgoing::new(encode_plain, 2 * MEMORY_STEP, budget.client(ClientId::INSIDE));
        outgoing.push_answer(reply(2 * MEMORY_STEP));

        outgoing.sent(2 * MEMORY_STEP - 1, 2 * MEMORY_STEP - 1);

        assert!(outgoing.has_space(), "its memory is reserved, and one byte is queued");
        assert!(outgoing.make_room(MEMORY_STEP).is_err(), "the client has no memory left");
        outgoing.sent(1, 0);
        assert!(outgoing.make_room(MEMORY_STEP).is_ok());
    }

    #[test]
    fn room_for_a_large_notification_is_counted_before_it_is_written() {
        let budget = MemoryBudget::new(MemoryLimits { total: 1 << 20, client: 8 * MEMORY_STEP });
        let client = budget.client(ClientId::INSIDE);
        let outgoing = Outgoing::new(encode_plain, usize::MAX, client.clone());

        assert!(outgoing.make_room(4 * MEMORY_STEP).is_ok());
        assert!((3 * MEMORY_STEP..=4 * MEMORY_STEP).contains(&client.held()), "{}", client.held());
        assert!(outgoing.push_notification(reply(4 * MEMORY_STEP)).is_ok());
        assert!(client.held() <= 4 * MEMORY_STEP, "once");

        assert!(outgoing.make_room(8 * MEMORY_STEP).is_err());
        assert!(outgoing.push_notification(reply(1)).is_err(), "the connection ends");
    }

    #[tokio::test]
    async fn a_queue_without_memory_starts_no_call_and_takes_no_notification() {
        let budget = MemoryBudget::new(MemoryLimits { total: 1 << 20, client: MEMORY_STEP });
        let outgoing = Outgoing::new(encode_plain, usize::MAX, budget.client(ClientId::INSIDE));
        outgoing.push_answer(reply(UNRESERVED_BYTES + MEMORY_STEP));
        assert!(poll_once(&mut pin!(outgoing.has_room())).await.is_ready());

        outgoing.push_answer(reply(1));

        assert!(poll_once(&mut pin!(outgoing.has_room())).await.is_pending());
        assert!(outgoing.push_notification(reply(1)).is_err());
        outgoing.sent(1_000, 0);
        assert!(poll_once(&mut pin!(outgoing.has_room())).await.is_ready());
    }
}
