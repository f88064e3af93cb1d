//! The protocol's part of a session, without I/O: first Status, then messages (`docs/spec/p2p.md` 12.1, 16).

use std::time::Duration;

use crate::limits::MAX_MESSAGE_BYTES;
use crate::{Kind, Message, Status, StatusMismatch, Version, WireError};

/// Time limit for the peer's Status.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// The kinds of messages that the node currently accepts. Others are ignored without being decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedMessages {
    /// Whether transactions, orders and lendings are accepted: once the node is synced.
    pub accepts_transactions: bool,
    /// Whether votes, timeouts and sync infos are accepted: unless the node is far behind.
    pub accepts_round_messages: bool,
    /// Whether whole new blocks (`NewBlock`) are accepted from this peer. Announcements of hashes always are.
    pub accepts_new_blocks: bool,
    /// Whether headers are accepted: while a request for headers to this peer is open.
    pub accepts_headers: bool,
    /// Whether bodies are accepted: while a request for bodies to this peer is open.
    pub accepts_bodies: bool,
}

impl AcceptedMessages {
    /// Accepts every kind that this node handles.
    pub const ALL: Self = Self {
        accepts_transactions: true,
        accepts_round_messages: true,
        accepts_new_blocks: true,
        accepts_headers: true,
        accepts_bodies: true,
    };

    const fn accepts(self, kind: Kind) -> bool {
        match kind {
            Kind::Transactions | Kind::OrderTx | Kind::LendingTx => self.accepts_transactions,
            Kind::Vote | Kind::Timeout | Kind::SyncInfo => self.accepts_round_messages,
            Kind::NewBlock => self.accepts_new_blocks,
            Kind::BlockHeaders => self.accepts_headers,
            Kind::BlockBodies => self.accepts_bodies,
            // Never requested.
            Kind::Receipts | Kind::NodeData | Kind::PooledTransactions => false,
            _ => true,
        }
    }
}

/// The result of checking a message that is not decoded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The peer's Status matches: the session is established.
    Established(Status),
    /// It is to be decoded ([`Message::decode`]).
    Decodable(Kind),
    /// A message of a kind that is not accepted now.
    Ignored(Kind),
}

/// The result of receiving a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// The peer's Status matches: the session is established.
    Established(Status),
    /// A message.
    Message(Message),
    /// A message of a kind that is not accepted now.
    Ignored(Kind),
}

/// Why the session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionFault {
    /// The first message is not a Status.
    #[error("No status message - first msg has code {code:x} (!= 0)")]
    NoStatus {
        /// Its code.
        code: u64,
    },
    /// No Status within the time limit.
    #[error("no Status within 5 s")]
    StatusTimeout,
    /// The peer's Status does not match.
    #[error(transparent)]
    Mismatch(#[from] StatusMismatch),
    /// A second Status.
    #[error("Extra status message - uncontrolled status message")]
    SecondStatus,
    /// An invalid message.
    #[error(transparent)]
    Message(#[from] WireError),
}

impl SessionFault {
    /// The reason of the Disconnect (`docs/spec/p2p.md` 8.1).
    pub const fn disconnect_reason(&self) -> u64 {
        match self {
            Self::StatusTimeout => 0x0b,
            _ => 0x10,
        }
    }
}

/// The state of one session of the protocol.
#[derive(Debug)]
pub struct EthSession {
    version: &'static Version,
    status: Status,
    is_established: bool,
    deadline: Duration,
}

impl EthSession {
    /// Creates a session at an agreed version. `status` is this node's Status: its version is replaced by the agreed
    /// one, and its fork identifier is removed if the version has none.
    pub fn new(version: &'static Version, mut status: Status, now: Duration) -> Self {
        status.version = version.number;
        if version.status == crate::StatusForm::Plain {
            status.fork_id = None;
        }
        Self { version, status, is_established: false, deadline: now + STATUS_TIMEOUT }
    }

    /// The agreed version.
    pub const fn version(&self) -> &'static Version {
        self.version
    }

    /// The payload of this node's Status, which must be sent immediately.
    pub fn status_payload(&self) -> Vec<u8> {
        self.status.encode()
    }

    /// Returns whether the peer's Status has arrived and matches.
    pub const fn is_established(&self) -> bool {
        self.is_established
    }

    /// When the time limit of the peer's Status ends; `None` once it has arrived.
    pub fn wakes_at(&self) -> Option<Duration> {
        (!self.is_established).then_some(self.deadline)
    }

    /// Checks the time limit of the peer's Status.
    ///
    /// # Errors
    /// [`SessionFault::StatusTimeout`].
    pub fn tick(&self, now: Duration) -> Result<(), SessionFault> {
        if self.is_established || now < self.deadline { Ok(()) } else { Err(SessionFault::StatusTimeout) }
    }

    /// Processes a message of the peer.
    ///
    /// # Errors
    /// [`SessionFault`]; the session must then be ended.
    pub fn receive(
        &mut self,
        code: u64,
        payload: &[u8],
        acceptance: AcceptedMessages,
    ) -> Result<Received, SessionFault> {
        Ok(match self.check(code, payload, acceptance)? {
            Checked::Established(status) => Received::Established(status),
            Checked::Ignored(kind) => Received::Ignored(kind),
            Checked::Decodable(_) => Received::Message(Message::decode(self.version, code, payload)?),
        })
    }

    /// Processes a message of the peer up to the decoding of its payload, which may take long.
    ///
    /// # Errors
    /// [`SessionFault`]; the session must then be ended.
    pub fn check(&mut self, code: u64, payload: &[u8], acceptance: AcceptedMessages) -> Result<Checked, SessionFault> {
        let kind = self.version.kind(code);
        if !self.is_established {
            return self.receive_status(kind, code, payload);
        }
        if payload.len() > MAX_MESSAGE_BYTES {
            return Err(WireError::too_long(payload.len()).into());
        }
        match kind {
            None => Err(WireError::Code { code }.into()),
            Some(Kind::Status) => Err(SessionFault::SecondStatus),
            Some(kind) if acceptance.accepts(kind) => Ok(Checked::Decodable(kind)),
            Some(kind) => Ok(Checked::Ignored(kind)),
        }
    }

    fn receive_status(&mut self, kind: Option<Kind>, code: u64, payload: &[u8]) -> Result<Checked, SessionFault> {
        if kind != Some(Kind::Status) {
            return Err(SessionFault::NoStatus { code });
        }
        let Message::Status(theirs) = Message::decode(self.version, code, payload)? else {
            return Err(SessionFault::NoStatus { code });
        };
        self.status.accepts(&theirs)?;
        self.is_established = true;
        Ok(Checked::Established(theirs))
    }
}
