//! Connects a socket with a [`Session`]: passes it bytes and the time, and nothing else (`docs/spec/p2p.md` 7, 10).
//!
//! It owns one connection until its end. The owner receives [`Event`]s and sends [`Command`]s over two channels: consensus
//! messages and answers are written before all others. [`Bandwidth`] limits bytes per second.
//!
//! Invariants:
//!
//! - every channel has a bound;
//! - a slow owner or peer slows the connection down, and after the time limit for writing it is closed;
//! - memory for unwritten frames is bounded by the channel, and memory for received bytes by one [`ReceiveBudget`] for
//!   all connections;
//! - the crate contains no rule of the protocol.

#![forbid(unsafe_code)]

mod bandwidth;
mod budget;
mod fair_turns;
mod turn_times;

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use tenon_network_identity::NodeId;
use tenon_network_rlpx::{AgreedProtocol, CloseReason, DisconnectReason, Hello, Output, Session};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use bandwidth::LIMITED_READ_BYTES;
pub use bandwidth::{Bandwidth, BandwidthLimits, BandwidthShare, MIN_BYTES_PER_SECOND, Priority};
use budget::{MIN_PROGRESS_BYTES, PROGRESS_TIME, ReceiveAccount};
pub use budget::{Payload, ReceiveBudget};
pub use fair_turns::{FairTurn, FairTurns};

/// Time limit for writing one frame.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for sending Disconnect.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum bytes of one read.
const READ_BYTES: usize = 64 * 1024;
/// Maximum number of frames that wait for the socket.
const MAX_UNWRITTEN_FRAMES: usize = 16;

/// An event of a connection.
#[derive(Debug)]
pub enum Event {
    /// The peer has authenticated. Answer with [`Command::Admit`] or [`Command::Refuse`].
    Authenticated(NodeId),
    /// The peer's Hello. Answer as above.
    Greeted {
        /// Its content.
        hello: Hello,
        /// Sub-protocols in common.
        agreed: Vec<AgreedProtocol>,
    },
    /// A message.
    Message {
        /// Index among the agreed sub-protocols.
        protocol: usize,
        /// Its code there.
        code: u64,
        /// Its payload, which counts as received until it is dropped.
        payload: Payload,
        /// Reading from this peer continues when this is dropped.
        pause: ReadPause,
    },
}

/// Held while the owner processes a message. Reading from the peer continues when it is dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "its drop is what counts")]
pub struct ReadPause(oneshot::Sender<()>);

/// A command of the owner.
#[derive(Debug)]
pub enum Command {
    /// Admit the peer.
    Admit,
    /// End the connection.
    Refuse(DisconnectReason),
    /// Send a message. A message that the session does not allow is dropped.
    Send {
        /// Index among the agreed sub-protocols.
        protocol: usize,
        /// Its code there.
        code: u64,
        /// Its payload.
        payload: Vec<u8>,
        /// Completes when the message is written to the socket; dropped if that fails.
        written: Option<oneshot::Sender<()>>,
    },
}

/// An item of the queue of the socket.
enum Unwritten {
    Bytes(Vec<u8>),
    /// Signals that everything queued before it is written.
    Tell(oneshot::Sender<()>),
}

/// The owner's ends of a connection.
pub struct Channels {
    /// To the owner.
    pub events: Sender<Event>,
    /// From the owner: decisions, consensus messages and answers.
    pub urgent: Receiver<Command>,
    /// From the owner: everything else. Dropping its sender has no effect; dropping that of `urgent` closes the connection.
    pub bulk: Receiver<Command>,
    /// Counts received bytes.
    pub budget: ReceiveBudget,
    /// The address for which they count; the same for all addresses that count as one.
    pub address: IpAddr,
    /// Bandwidth limits. The connection itself waits before it reads; the owner must wait with
    /// [`BandwidthShare::upload`] before it sends.
    pub bandwidth: BandwidthShare,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionEnd {
    /// The session ended.
    #[error(transparent)]
    Session(#[from] CloseReason),
    /// The peer closed the socket.
    #[error("closed by the peer")]
    Eof,
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer does not read.
    #[error("write timeout")]
    WriteTimeout,
    /// The peer sends a message too slowly while it holds memory that other connections wait for.
    #[error("message received too slowly while other connections waited for memory")]
    Stalled,
    /// Other connections need the memory that the peer's unfinished message holds.
    #[error("closed to free the memory of an unfinished message for other connections")]
    Displaced,
    /// The owner is gone.
    #[error("closed by this node")]
    Abandoned,
}

/// Runs a connection to its end. `started` is the instant that the session's clock counts from.
pub async fn drive<S>(stream: S, session: Session, channels: Channels, started: Instant) -> ConnectionEnd
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut reader, mut writer) = split(stream);
    let (frames, unwritten) = channel(MAX_UNWRITTEN_FRAMES);
    let account = channels.budget.account(channels.address);
    let state = account.state();
    let driver = Driver {
        session,
        channels,
        frames,
        written: None,
        started,
        account,
        counted: 0,
        in_progress: None,
        progress: Progress::default(),
    };
    let writing = write(&mut writer, unwritten);
    tokio::pin!(writing);
    let end = tokio::select! {
        biased;
        end = driver.run(&mut reader) => end,
        // Awaited here and not in the driver, so that it also ends a driver that is blocked by a slow socket.
        () = state.closed() => ConnectionEnd::Displaced,
        end = &mut writing => return end,
    };
    // Its bytes are released.
    drop(state);
    // The driver has dropped its end of the channel. Write what is left, for example a Disconnect.
    if !matches!(end, ConnectionEnd::Eof | ConnectionEnd::Io(_)) {
        let _ = timeout(DISCONNECT_TIMEOUT, writing).await;
    }
    end
}

/// Writes frames in their order until there are no more.
async fn write(writer: &mut (impl AsyncWrite + Unpin), mut frames: Receiver<Unwritten>) -> ConnectionEnd {
    while let Some(unwritten) = frames.recv().await {
        let frame = match unwritten {
            Unwritten::Bytes(frame) => frame,
            Unwritten::Tell(written) => {
                // The receiver may have been dropped.
                let _ = written.send(());
                continue;
            }
        };
        match timeout(WRITE_TIMEOUT, writer.write_all(&frame)).await {
            Ok(Ok(())) => {}
            Ok(Err(cause)) => return cause.into(),
            Err(_) => return ConnectionEnd::WriteTimeout,
        }
    }
    match writer.shutdown().await {
        Ok(()) => ConnectionEnd::Eof,
        Err(cause) => cause.into(),
    }
}

struct Driver {
    session: Session,
    channels: Channels,
    frames: Sender<Unwritten>,
    /// Notified when the next output is written.
    written: Option<oneshot::Sender<()>>,
    started: Instant,
    account: ReceiveAccount,
    /// Unread bytes that were reported to the account.
    counted: usize,
    /// Ends when the owner is done with the last message. Nothing more is read before that.
    in_progress: Option<oneshot::Receiver<()>>,
    progress: Progress,
}

/// Progress of a message while the connection holds bytes of the pool.
#[derive(Default)]
struct Progress {
    received: usize,
    /// Time for which this node was reading; pauses do not count.
    read_for: Duration,
}

/// Waits until the owner has processed the message.
async fn pause_end(in_progress: &mut Option<oneshot::Receiver<()>>) {
    if let Some(pause) = in_progress {
        // The guard sends no value: only its drop is observed.
        let _ = pause.await;
    }
}

impl Driver {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    async fn run(mut self, reader: &mut (impl AsyncRead + Unpin)) -> ConnectionEnd {
        let is_limited = self.channels.bandwidth.is_download_limited();
        let mut buffer = vec![0; if is_limited { LIMITED_READ_BYTES } else { READ_BYTES }];
        let mut is_bulk_open = true;
        loop {
            if let Err(end) = self.drain().await {
                return end;
            }
            self.recount();
            let is_idle = self.in_progress.is_none();
            let has_room = is_idle && self.account.has_room();
            let may_read = !is_limited || self.channels.bandwidth.may_read();
            let (is_reading, began) = (has_room && may_read, Instant::now());
            let holds_common = self.account.holds_common();
            if !holds_common || self.progress.received >= MIN_PROGRESS_BYTES {
                self.progress = Progress::default();
            }
            let progress_until = began + PROGRESS_TIME.saturating_sub(self.progress.read_for);
            let wakes_at = self.started + self.session.wakes_at().unwrap_or_default();
            tokio::select! {
                biased;
                command = self.channels.urgent.recv() => match command {
                    Some(command) => self.execute(command),
                    None => return ConnectionEnd::Abandoned,
                },
                () = sleep_until(wakes_at) => self.tick(),
                () = pause_end(&mut self.in_progress), if !is_idle => self.in_progress = None,
                () = self.account.room(), if is_idle && !has_room => {}
                () = self.channels.bandwidth.download(), if has_room && !may_read => {}
                read = reader.read(&mut buffer), if is_reading => match read {
                    Ok(0) => return ConnectionEnd::Eof,
                    Ok(count) => self.receive(&buffer[..count]),
                    Err(cause) => return cause.into(),
                },
                // After the read: bytes that have arrived count first.
                () = sleep_until(progress_until), if is_reading && holds_common => {
                    if self.account.others_wait() {
                        return ConnectionEnd::Stalled;
                    }
                    self.progress = Progress::default();
                    continue;
                }
                command = self.channels.bulk.recv(), if is_bulk_open => match command {
                    Some(command) => self.execute(command),
                    None => is_bulk_open = false,
                },
            }
            if is_reading {
                self.progress.read_for += began.elapsed();
            } else {
                self.session.extend_idle_time(began.elapsed());
            }
            if is_idle && !has_room {
                self.account.stop_waiting();
            }
        }
    }

    fn tick(&mut self) {
        let now = self.now();
        self.session.tick(now);
    }

    /// Passes bytes of the socket to the session.
    fn receive(&mut self, bytes: &[u8]) {
        self.progress.received += bytes.len();
        self.channels.bandwidth.charge_received(bytes.len());
        self.session.receive(bytes);
    }

    /// Counts what the session has not read yet.
    fn recount(&mut self) {
        let unread = self.session.unread_bytes();
        self.account.recount(self.counted, unread);
        self.counted = unread;
    }

    fn execute(&mut self, command: Command) {
        let now = self.now();
        match command {
            Command::Admit => self.session.admit(now),
            Command::Refuse(reason) => self.session.refuse(reason),
            Command::Send { protocol, code, payload, written } => {
                // Refused only for a session that has ended, or a code or size that the owner should not have sent.
                if self.session.send(protocol, code, &payload).is_ok() {
                    self.written = written;
                }
            }
        }
    }

    /// Processes outputs until there are none, or until the owner holds a message. Waits while the socket is slow.
    async fn drain(&mut self) -> Result<(), ConnectionEnd> {
        loop {
            if let Some(bytes) = self.session.queued_write() {
                self.write(bytes).await;
                continue;
            }
            if self.in_progress.is_some() && !self.session.is_closed() {
                break;
            }
            // Held until the message is decoded. Parts of a message need no turn.
            let turn =
                if self.session.has_whole_part() { self.account.turn(self.session.unread_bytes()).await } else { None };
            let Some(output) = self.session.next_output(self.started.elapsed()) else { break };
            let event = match output {
                Output::Write(bytes) => {
                    drop(turn);
                    self.write(bytes).await;
                    continue;
                }
                Output::Authenticated { id } => {
                    self.channels.bandwidth.set_peer(id);
                    Event::Authenticated(id)
                }
                Output::Greeted { hello, agreed } => Event::Greeted { hello, agreed },
                Output::Message { protocol, code, payload } => {
                    self.recount();
                    let (pause, in_progress) = oneshot::channel();
                    self.in_progress = Some(in_progress);
                    let payload = self.account.payload(payload, turn);
                    Event::Message { protocol, code, payload, pause: ReadPause(pause) }
                }
                Output::Closed(reason) => return Err(reason.into()),
            };
            self.channels.events.send(event).await.map_err(|_| ConnectionEnd::Abandoned)?;
        }
        self.notify_written().await;
        Ok(())
    }

    /// Fails only when the writer has ended, which ends the connection.
    async fn write(&self, bytes: Vec<u8>) {
        self.channels.bandwidth.charge_sent(bytes.len());
        let _ = self.frames.send(Unwritten::Bytes(bytes)).await;
    }

    async fn notify_written(&mut self) {
        if let Some(written) = self.written.take() {
            let _ = self.frames.send(Unwritten::Tell(written)).await;
        }
    }
}
