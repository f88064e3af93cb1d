//! The request for headers (`docs/spec/p2p.md` 13, 15).

use alloy_primitives::B256;
use alloy_rlp::{Decodable, Encodable, Header};

use crate::{WireError, read};

/// The block at which a request for headers begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderOrigin {
    /// The block with this hash.
    Hash(B256),
    /// The canonical block at this height.
    Number(u64),
}

/// A request for headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderRequest {
    /// The first header.
    pub origin: HeaderOrigin,
    /// Maximum number of headers.
    pub amount: u64,
    /// Number of headers to skip between two.
    pub skip: u64,
    /// Whether the headers lead towards the genesis block.
    pub is_reverse: bool,
}

impl HeaderRequest {
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut list = read::list(&mut &*payload)?;
        let request = Self {
            origin: HeaderOrigin::decode(&mut list)?,
            amount: u64::decode(&mut list)?,
            skip: u64::decode(&mut list)?,
            is_reverse: bool::decode(&mut list)?,
        };
        read::end(list)?;
        Ok(request)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(48);
        match self.origin {
            HeaderOrigin::Hash(hash) => hash.encode(&mut content),
            HeaderOrigin::Number(number) => number.encode(&mut content),
        }
        self.amount.encode(&mut content);
        self.skip.encode(&mut content);
        self.is_reverse.encode(&mut content);
        let mut out = Vec::with_capacity(content.len() + 1);
        Header { list: true, payload_length: content.len() }.encode(&mut out);
        out.extend_from_slice(&content);
        out
    }
}

impl HeaderOrigin {
    fn decode(list: &mut &[u8]) -> Result<Self, WireError> {
        let mut rest = *list;
        let bytes = read::string(&mut rest)?.len();
        match bytes {
            32 => Ok(Self::Hash(B256::decode(list)?)),
            0..=8 => Ok(Self::Number(u64::decode(list)?)),
            bytes => Err(WireError::OriginSize { bytes }),
        }
    }
}
