//! The shell between a socket and a [`Session`]: it moves bytes and time, and nothing else (`docs/spec/p2p.md` 7, 10).
//!
//! It owns one connection while it lives. Its owner gets [`Event`]s, and answers with [`Command`]s over two channels: what is
//! urgent (consensus, answers) is written before what is bulk.
//!
//! Invariants: every channel has a bound, and an owner who does not take events, or a peer who does not read, slows the
//! connection down and ends it after the limit for writing; memory for unwritten frames is bounded by the channel; no rule of
//! the protocol stands here.

#![forbid(unsafe_code)]

use std::io;
use std::time::Duration;

use tenon_network_identity::NodeId;
use tenon_network_rlpx::{Agreed, CloseReason, DisconnectReason, Hello, Output, Session};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until, timeout};

/// Time for writing one frame.
const WRITE_LIMIT: Duration = Duration::from_secs(20);
/// Time for a Disconnect to leave.
const FAREWELL_LIMIT: Duration = Duration::from_secs(1);
/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;
/// Frames that wait for the socket.
const MAX_UNWRITTEN_FRAMES: usize = 16;

/// What happens on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer has proven who it is. Answer with [`Command::Admit`] or [`Command::Refuse`].
    Authenticated(NodeId),
    /// The peer's Hello. Answer as above.
    Greeted {
        /// What it says.
        hello: Hello,
        /// Sub-protocols in common.
        agreed: Vec<Agreed>,
    },
    /// A message.
    Message {
        /// Index among the agreed sub-protocols.
        protocol: usize,
        /// Its code there.
        code: u64,
        /// Its payload.
        payload: Vec<u8>,
    },
}

/// What the owner wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Let the peer in.
    Admit,
    /// End the connection.
    Refuse(DisconnectReason),
    /// Send a message. One that the session does not allow is dropped.
    Send {
        /// Index among the agreed sub-protocols.
        protocol: usize,
        /// Its code there.
        code: u64,
        /// Its payload.
        payload: Vec<u8>,
    },
}

/// The owner's ends of a connection.
pub struct Channels {
    /// To the owner.
    pub events: Sender<Event>,
    /// From the owner: decisions, consensus messages and answers.
    pub urgent: Receiver<Command>,
    /// From the owner: everything else. Closing it is no end; closing `urgent` ends the connection.
    pub bulk: Receiver<Command>,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionEnd {
    /// The session ended.
    #[error(transparent)]
    Session(#[from] CloseReason),
    /// The peer closed the socket.
    #[error("connection closed")]
    Eof,
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer does not read.
    #[error("write timeout")]
    WriteTimeout,
    /// The owner is gone.
    #[error("the owner of the connection is gone")]
    Abandoned,
}

/// Runs a connection to its end. `started` is the instant that the session's clock counts from.
pub async fn drive<S>(stream: S, session: Session, channels: Channels, started: Instant) -> ConnectionEnd
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut reader, mut writer) = split(stream);
    let (frames, unwritten) = channel(MAX_UNWRITTEN_FRAMES);
    let driver = Driver { session, channels, frames, started };
    let writing = write(&mut writer, unwritten);
    tokio::pin!(writing);
    let end = tokio::select! {
        end = driver.run(&mut reader) => end,
        end = &mut writing => return end,
    };
    // The driver has dropped its end of the channel: what is left, a Disconnect perhaps, is written.
    if !matches!(end, ConnectionEnd::Eof | ConnectionEnd::Io(_)) {
        let _ = timeout(FAREWELL_LIMIT, writing).await;
    }
    end
}

/// Writes frames in their order until there are no more.
async fn write(writer: &mut (impl AsyncWrite + Unpin), mut frames: Receiver<Vec<u8>>) -> ConnectionEnd {
    while let Some(frame) = frames.recv().await {
        match timeout(WRITE_LIMIT, writer.write_all(&frame)).await {
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
    frames: Sender<Vec<u8>>,
    started: Instant,
}

impl Driver {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    async fn run(mut self, reader: &mut (impl AsyncRead + Unpin)) -> ConnectionEnd {
        let mut buffer = vec![0; READ_BYTES];
        let mut is_bulk_open = true;
        loop {
            if let Err(end) = self.drain().await {
                return end;
            }
            let wakes_at = self.started + self.session.wakes_at().unwrap_or_default();
            tokio::select! {
                biased;
                command = self.channels.urgent.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return ConnectionEnd::Abandoned,
                },
                () = sleep_until(wakes_at) => {
                    let now = self.now();
                    self.session.tick(now);
                }
                read = reader.read(&mut buffer) => match read {
                    Ok(0) => return ConnectionEnd::Eof,
                    Ok(count) => self.session.receive(&buffer[..count]),
                    Err(cause) => return cause.into(),
                },
                command = self.channels.bulk.recv(), if is_bulk_open => match command {
                    Some(command) => self.obey(command),
                    None => is_bulk_open = false,
                },
            }
        }
    }

    fn obey(&mut self, command: Command) {
        let now = self.now();
        match command {
            Command::Admit => self.session.admit(now),
            Command::Refuse(reason) => self.session.refuse(reason),
            Command::Send { protocol, code, payload } => {
                // Refused only for a session that has ended, or a code or size that the owner should not have sent.
                let _ = self.session.send(protocol, code, &payload);
            }
        }
    }

    /// Hands on all outputs; waits for the socket or the owner where they are slow.
    async fn drain(&mut self) -> Result<(), ConnectionEnd> {
        while let Some(output) = self.session.next_output(self.started.elapsed()) {
            let event = match output {
                Output::Write(bytes) => {
                    // Fails only when the writer has ended, which ends the connection.
                    let _ = self.frames.send(bytes).await;
                    continue;
                }
                Output::Authenticated { id } => Event::Authenticated(id),
                Output::Greeted { hello, agreed } => Event::Greeted { hello, agreed },
                Output::Message { protocol, code, payload } => Event::Message { protocol, code, payload },
                Output::Closed(reason) => return Err(reason.into()),
            };
            self.channels.events.send(event).await.map_err(|_| ConnectionEnd::Abandoned)?;
        }
        Ok(())
    }
}
