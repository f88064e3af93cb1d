//! The node as seen by the plugin's process: sends requests over the socket and receives answers.

use std::{
    collections::HashMap,
    io::Write,
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::stream;
use parking_lot::Mutex;
use tenon_api::Topic;
use tenon_bus::CallContext;
use tenon_host::{Backend, MAX_LINE, MAX_METHOD, MAX_PARAMS, nanos_left};
use tenon_sdk::Failure;
use tenon_sdk::boundary::{ExportedFuture, ExportedStream, OutgoingItem};
use tokio::sync::{mpsc, oneshot};

use super::watchdog::Watch;
use crate::{
    WINDOW,
    outgoing::Outgoing,
    wire::{Frame, Item, Kind, MAX_BUS_REQUEST_BYTES, WireError},
};

/// Maximum waiting log lines, in bytes; further ones are dropped.
const MAX_LOG_BACKLOG: usize = 1024 * 1024;

type Answer = Result<Vec<u8>, Failure>;

/// The receiver of a message from the node.
enum Waiting {
    Call(oneshot::Sender<Answer>),
    /// Never holds more than the granted credit.
    Events(mpsc::Sender<Item>),
}

/// The connection to the node.
pub(crate) struct Upstream {
    pub(crate) out: Outgoing,
    socket: UnixStream,
    /// Nothing awaits under the lock.
    waiting: Mutex<HashMap<u64, Waiting>>,
    next: AtomicU64,
    /// Number of dropped log lines.
    left_out: AtomicU64,
}

impl Upstream {
    pub(crate) fn new(socket: UnixStream) -> Arc<Self> {
        Arc::new(Self {
            out: Outgoing::default(),
            socket,
            waiting: Mutex::default(),
            next: AtomicU64::new(1),
            left_out: AtomicU64::new(0),
        })
    }

    /// Writes as much as the socket accepts now.
    pub(crate) fn write_now(&self) {
        // The reader notices a closed socket.
        let _ = self.out.write_now(|bytes| (&self.socket).write(bytes));
    }

    /// Reports to the node why the library is refused.
    pub(crate) fn refuse(&self, reason: &str) {
        let max = reason.floor_char_boundary(Kind::Refused.max());
        self.out.push(Kind::Refused, 0, |out| out.extend_from_slice(reason.as_bytes().get(..max).unwrap_or_default()));
        self.write_now();
    }

    /// Sends a frame without a body before the process ends.
    pub(crate) fn send_last(&self, kind: Kind, id: u64) {
        self.out.push(kind, id, |_| {});
        self.write_now();
    }

    /// Handles an answer of the node. Answers to cancelled requests are dropped.
    pub(crate) fn take(&self, frame: Frame<'_>) -> Result<(), WireError> {
        let mut waiting = self.waiting.lock();
        let ends = frame.kind != Kind::BusItem;
        let receiver = if ends { waiting.remove(&frame.id) } else { None };
        match (receiver, waiting.get(&frame.id)) {
            (Some(Waiting::Call(receiver)), _) if frame.kind == Kind::BusReply => {
                // An error means that its future has just been dropped.
                let _ = receiver.send(frame.fields().reply()?);
            }
            (None, Some(Waiting::Events(receiver))) => {
                let _ = receiver.try_send(frame.fields().item()?);
            }
            _ => {}
        }
        Ok(())
    }

    fn ask(&self, waiting: Waiting, kind: Kind, fill: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.waiting.lock().insert(id, waiting);
        self.out.push(kind, id, fill);
        id
    }

    fn log_line(&self, level: u32, message: &str) -> bool {
        let end = message.floor_char_boundary(MAX_LINE);
        self.out.try_push(MAX_LOG_BACKLOG, Kind::Log, u64::from(level), |out| {
            out.extend_from_slice(message.get(..end).unwrap_or_default().as_bytes());
        })
    }
}

/// Cancels the request at the node if it has not been answered.
struct CancelOnDrop {
    upstream: Arc<Upstream>,
    id: u64,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.upstream.waiting.lock().remove(&self.id).is_some() {
            self.upstream.out.push(Kind::BusCancel, self.id, |_| {});
        }
    }
}

/// The services of the plugin in this process.
pub(crate) struct UpstreamBackend {
    pub(crate) upstream: Arc<Upstream>,
    /// Says for which call the plugin sends a request.
    pub(crate) watch: Arc<Watch>,
}

impl UpstreamBackend {
    /// Sends a request that has one answer.
    fn request(&self, kind: Kind, fill: impl FnOnce(&mut Vec<u8>)) -> ExportedFuture {
        let (sender, receiver) = oneshot::channel();
        let id = self.upstream.ask(Waiting::Call(sender), kind, fill);
        let guard = CancelOnDrop { upstream: Arc::clone(&self.upstream), id };
        ExportedFuture::new(async move {
            let _guard = guard;
            receiver.await.unwrap_or_else(|_| Err(Failure::server("the node has gone")))
        })
    }
}

impl Backend for UpstreamBackend {
    fn call_bus(&self, context: Option<&CallContext>, topic: Topic, schema: u32, frame: &[u8]) -> ExportedFuture {
        if frame.len() > MAX_BUS_REQUEST_BYTES {
            let what = format!("a request of {} bytes is too long to leave a plugin's process", frame.len());
            return ExportedFuture::ready(Err(Failure::limit(what)));
        }
        let left = context.map_or(0, nanos_left);
        let call = self.watch.current();
        self.request(Kind::BusCall, |out| {
            out.extend_from_slice(&topic.0.to_le_bytes());
            out.extend_from_slice(&schema.to_le_bytes());
            out.extend_from_slice(&left.to_le_bytes());
            out.extend_from_slice(&call.to_le_bytes());
            out.extend_from_slice(frame);
        })
    }

    fn call_json(&self, context: Option<&CallContext>, method: &[u8], params: &[u8]) -> ExportedFuture {
        if method.len() > MAX_METHOD || params.len() > MAX_PARAMS {
            let what = format!(
                "a call of {} bytes is too long to leave a plugin's process: a name may have {MAX_METHOD} bytes, \
                 parameters {MAX_PARAMS}",
                method.len() + params.len()
            );
            return ExportedFuture::ready(Err(Failure::limit(what)));
        }
        // Without a context the plugin calls on its own behalf, even while it serves a call.
        let call = context.map_or(0, |_| self.watch.current());
        self.request(Kind::JsonCall, |out| {
            out.extend_from_slice(&call.to_le_bytes());
            out.extend_from_slice(&(method.len() as u32).to_le_bytes());
            out.extend_from_slice(method);
            out.extend_from_slice(params);
        })
    }

    fn subscribe(&self, topic: Topic, schema: u32) -> ExportedStream {
        let (sender, receiver) = mpsc::channel(WINDOW);
        let id = self.upstream.ask(Waiting::Events(sender), Kind::BusSubscribe, |out| {
            out.extend_from_slice(&topic.0.to_le_bytes());
            out.extend_from_slice(&schema.to_le_bytes());
        });
        let guard = CancelOnDrop { upstream: Arc::clone(&self.upstream), id };
        ExportedStream::new(stream::unfold((receiver, guard), |(mut receiver, guard)| async move {
            let item = receiver.recv().await?;
            guard.upstream.out.push(Kind::BusCredit, guard.id, |out| out.extend_from_slice(&1_u32.to_le_bytes()));
            let item = item.map(|(body, position)| OutgoingItem { body: body.into(), position });
            Some((item, (receiver, guard)))
        }))
    }

    fn log(&self, level: u32, message: &str) {
        let left_out = self.upstream.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            let line = format!("{left_out} log lines were dropped: the process wrote them faster than the node reads");
            if !self.upstream.log_line(2, &line) {
                self.upstream.left_out.fetch_add(left_out, Ordering::Relaxed);
            }
        }
        if !self.upstream.log_line(level, message) {
            self.upstream.left_out.fetch_add(1, Ordering::Relaxed);
        }
        // Immediately, because the process may not survive this call.
        self.upstream.write_now();
    }

    fn stop(&self) {}
}
