//! What makes a type a bus message.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The stable number of a message type. Numbers are assigned once and never reused.
///
/// Requests use `0x0001..=0x7fff`, grouped by the room that answers; events use `0x8000..=0xffff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Topic(pub u32);

/// What a caller must be allowed to do before the host passes its request on (`design.md` 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Capability {
    /// Read blocks, state, receipts, logs and the pool.
    ReadChain,
    /// Run the EVM: calls, estimates, traces.
    CallEvm,
    /// Hand transactions to the pool.
    SubmitTransactions,
    /// Use keys of this node.
    Sign,
    /// Change the node: head, peers, modules.
    Administer,
    /// Read settings and facts about the node.
    ReadNode,
    /// Keep records in a storage space of its own.
    Storage,
}

impl Capability {
    /// Every capability.
    pub const ALL: [Self; 7] = [
        Self::ReadChain,
        Self::CallEvm,
        Self::SubmitTransactions,
        Self::Sign,
        Self::Administer,
        Self::ReadNode,
        Self::Storage,
    ];

    /// The name that crosses the plugin boundary and stands in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadChain => "ReadChain",
            Self::CallEvm => "CallEvm",
            Self::SubmitTransactions => "SubmitTransactions",
            Self::Sign => "Sign",
            Self::Administer => "Administer",
            Self::ReadNode => "ReadNode",
            Self::Storage => "Storage",
        }
    }

    /// The capability of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|capability| capability.name() == name)
    }
}

/// A question or command with exactly one answer.
pub trait Request: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// What comes back.
    type Reply: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// The stable number of this request.
    const TOPIC: Topic;
    /// The name that logs and errors use.
    const NAME: &'static str;
    /// Grows whenever the encoding of the request or its reply changes.
    const SCHEMA: u16 = 1;
    /// What a plugin needs to have been granted to send it.
    const CAPABILITY: Capability;
}

/// A fact announced to whoever listens. Cloning must be cheap (`Arc` inside).
pub trait Event: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// The stable number of this event.
    const TOPIC: Topic;
    /// The name that logs and errors use.
    const NAME: &'static str;
    /// Grows whenever the encoding changes.
    const SCHEMA: u16 = 1;
    /// What a plugin needs to have been granted to receive it.
    const CAPABILITY: Capability;
}
