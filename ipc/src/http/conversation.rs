//! State shared by an HTTP connection's requests and its stream.

use std::{
    fmt,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;

use crate::{
    connections::Activity, envelope::UsedBuffers, exposure::Admission, idle_timeout::IdleTimeout, service::ClientId,
};

use super::pipeline::Pipeline;

/// A WebSocket that begins when hyper releases the connection.
pub(crate) struct Upgrade {
    pub(crate) on_upgrade: OnUpgrade,
    /// The result of its handshake's token check.
    pub(crate) admission: Admission,
}

/// State of one connection besides hyper's. Used only by the connection's task, except that the table of connections reads
/// its activity; the locks are needed because hyper separates the service from the stream, and are not held across an
/// await.
pub(crate) struct Conversation {
    /// Incremented when a request's head is complete and when its answer is, but not yet written: odd while a request is
    /// answered.
    activity_count: AtomicU32,
    /// Number of requests.
    begun: AtomicU32,
    /// Number of requests whose answers have been written, or dropped. hyper may read the next request before that.
    written: AtomicU32,
    /// The connection's peer, which may be a proxy.
    pub(crate) peer: IpAddr,
    /// The client of that address.
    pub(crate) client: ClientId,
    /// Whether it has become a WebSocket.
    is_websocket: AtomicBool,
    /// Whether the front-end stops: then an incomplete head is not waited for.
    is_stopping: AtomicBool,
    /// Whether a request was refused for the stop before its body had arrived.
    is_cut_short: AtomicBool,
    /// Time limit of the request being answered.
    request: Mutex<IdleTimeout>,
    upgrade: Mutex<Option<Upgrade>>,
    /// Parts of hyper's read buffers that held secrets.
    pub(crate) used_buffers: UsedBuffers,
    /// The turn of requests that follow each other without a wait.
    pub(crate) pipeline: Pipeline,
}

/// A request between its head and its answer; its end is counted on drop.
pub(crate) struct RequestGuard<'a>(&'a Conversation);

/// A request until its answer is written. The answer's body contains it, which hyper drops then; its end is counted on drop.
pub(crate) struct UnwrittenAnswer(Arc<Conversation>);

impl Conversation {
    /// Creates a conversation with `peer`. `request` is the time limit of each request.
    pub(crate) fn new(peer: IpAddr, request: Duration) -> Self {
        Self {
            activity_count: AtomicU32::new(0),
            begun: AtomicU32::new(0),
            written: AtomicU32::new(0),
            peer,
            client: ClientId::of_address(peer),
            is_websocket: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            is_cut_short: AtomicBool::new(false),
            request: Mutex::new(IdleTimeout::new(request)),
            upgrade: Mutex::default(),
            used_buffers: UsedBuffers::default(),
            pipeline: Pipeline::default(),
        }
    }

    /// Ends the wait for the rest of a request's head.
    pub(crate) fn set_stopping(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Whether the front-end stops.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Records that a request is refused before its body has arrived.
    pub(crate) fn cut_short(&self) {
        self.is_cut_short.store(true, Ordering::Relaxed);
    }

    /// Whether the client may still be sending the body of a refused request.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.is_cut_short.load(Ordering::Relaxed)
    }

    /// Marks the connection as a WebSocket. From now on each of its messages counts as activity.
    pub(crate) fn set_websocket(&self) {
        self.is_websocket.store(true, Ordering::Relaxed);
    }

    /// Counts a message over the WebSocket.
    pub(crate) fn count_read(&self) {
        self.activity_count.fetch_add(2, Ordering::Relaxed);
    }

    /// Counts the head of a request. The guard's drop counts its answer.
    pub(crate) fn begin_request(&self) -> RequestGuard<'_> {
        self.activity_count.fetch_add(1, Ordering::Relaxed);
        RequestGuard(self)
    }

    /// Counts a request whose answer is to be written.
    pub(crate) fn begin_answer(self: &Arc<Self>) -> UnwrittenAnswer {
        self.begun.fetch_add(1, Ordering::Relaxed);
        UnwrittenAnswer(Arc::clone(self))
    }

    /// A number that changes whenever a head or an answer is complete; odd while a request is answered.
    pub(crate) fn activity_count(&self) -> u32 {
        self.activity_count.load(Ordering::Relaxed)
    }

    /// Starts the time limit of a request; returns its start.
    pub(crate) fn request_begins(&self) -> Instant {
        self.request.lock().restart()
    }

    /// Ready when the request has taken too long.
    pub(crate) fn poll_request_end(&self, context: &mut Context<'_>) -> Poll<()> {
        self.request.lock().poll_end(context)
    }

    /// Sets the upgrade to start once hyper has released the connection.
    pub(crate) fn upgrade_to(&self, upgrade: Upgrade) {
        *self.upgrade.lock() = Some(upgrade);
    }

    /// The upgrade, if there is one.
    pub(crate) fn take_upgrade(&self) -> Option<Upgrade> {
        self.upgrade.lock().take()
    }
}

impl Activity for Conversation {
    fn activity_count(&self) -> u32 {
        self.activity_count().wrapping_add(self.written.load(Ordering::Relaxed))
    }

    fn is_disposable(&self) -> bool {
        let has_written_all = || self.begun.load(Ordering::Relaxed) == self.written.load(Ordering::Relaxed);
        !self.is_websocket.load(Ordering::Relaxed) && has_written_all()
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        self.0.activity_count.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for UnwrittenAnswer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("UnwrittenAnswer")
    }
}

impl Drop for UnwrittenAnswer {
    fn drop(&mut self) {
        self.0.written.fetch_add(1, Ordering::Relaxed);
    }
}
