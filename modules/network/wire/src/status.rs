//! Status, the first message of a session (`docs/spec/p2p.md` 12.1, `docs/spec/upgrades.md` 12.1).

use alloy_primitives::{B256, U256};
use alloy_rlp::{Decodable, Encodable, Header};
use tenon_chain::ForkId;

use crate::error::{StatusMismatch, WireError};
use crate::read;

/// Layout of Status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusForm {
    /// Five elements.
    Plain,
    /// With the fork identifier as a sixth element.
    WithForkId,
}

/// The state of a node's chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Version of the protocol.
    pub version: u32,
    /// Network id; the chain id unless configured otherwise.
    pub network: u64,
    /// Total difficulty of the head. A number of more than 256 bits is decoded as the largest one.
    pub total_difficulty: U256,
    /// Hash of the head.
    pub head: B256,
    /// Hash of the genesis block.
    pub genesis: B256,
    /// Fork identifier, in versions that have it. A peer's identifier is not compared: the values that other
    /// implementations send are not confirmed (`docs/spec/upgrades.md` 12.2).
    pub fork_id: Option<ForkId>,
}

impl Status {
    pub(crate) fn decode(form: StatusForm, payload: &[u8]) -> Result<Self, WireError> {
        let mut list = read::list(&mut &*payload)?;
        let mut status = Self {
            version: u32::decode(&mut list)?,
            network: u64::decode(&mut list)?,
            total_difficulty: read::saturating(&mut list)?,
            head: B256::decode(&mut list)?,
            genesis: B256::decode(&mut list)?,
            fork_id: None,
        };
        if form == StatusForm::WithForkId {
            let mut id = read::list(&mut list)?;
            status.fork_id = Some(ForkId { hash: <[u8; 4]>::decode(&mut id)?, next: u64::decode(&mut id)? });
            read::end(id)?;
        }
        read::end(list)?;
        Ok(status)
    }

    /// Encodes the payload, with the fork identifier if there is one.
    pub fn encode(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(128);
        self.version.encode(&mut content);
        self.network.encode(&mut content);
        self.total_difficulty.encode(&mut content);
        self.head.encode(&mut content);
        self.genesis.encode(&mut content);
        if let Some(id) = &self.fork_id {
            Header { list: true, payload_length: id.hash.length() + id.next.length() }.encode(&mut content);
            id.hash.encode(&mut content);
            id.next.encode(&mut content);
        }
        let mut out = Vec::with_capacity(content.len() + 3);
        Header { list: true, payload_length: content.len() }.encode(&mut out);
        out.extend_from_slice(&content);
        out
    }

    /// Checks that a peer with this Status is on the same chain.
    ///
    /// # Errors
    /// [`StatusMismatch`], the first difference.
    pub fn accepts(&self, theirs: &Self) -> Result<(), StatusMismatch> {
        if theirs.genesis != self.genesis {
            return Err(StatusMismatch::Genesis { theirs: theirs.genesis, ours: self.genesis });
        }
        if theirs.network != self.network {
            return Err(StatusMismatch::Network { theirs: theirs.network, ours: self.network });
        }
        if theirs.version != self.version {
            return Err(StatusMismatch::Version { theirs: theirs.version, ours: self.version });
        }
        Ok(())
    }
}
