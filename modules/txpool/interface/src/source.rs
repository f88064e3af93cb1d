//! Sources of transactions.

/// Where a transaction came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The node itself, its operator over the Unix socket, or the journal. These transactions are local while the local
    /// share lasts: kept when the pool is full, not counted against their sender, and journalled.
    Operator,
    /// A client over HTTP or WebSocket. Its transactions are local only if the node has the sender's key.
    Client,
    /// A peer.
    Peer,
    /// The node itself, as a masternode: a signing transaction. Local, and not journalled, because it has no use after
    /// a restart.
    Masternode,
    /// A block that left the canonical chain: exempt from the minimum tip.
    Reorganisation,
}

impl Source {
    /// Returns whether it came through this node's interfaces, where more is checked than in the pool.
    pub const fn is_interface(self) -> bool {
        matches!(self, Self::Operator | Self::Client)
    }
}
