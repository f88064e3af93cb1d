//! Messages of the base protocol (`docs/spec/p2p.md` 8).

use std::fmt;

use alloy_rlp::{Decodable, Encodable, Header};
use tenon_network_identity::NodeId;

use crate::{Capability, HelloError};

/// The version in this node's Hello. From this version on, payloads are compressed.
pub const BASE_PROTOCOL_VERSION: u64 = 5;
/// Maximum size of Hello's payload in bytes.
pub const MAX_HELLO_BYTES: usize = 2048;
/// Maximum number of bytes of a peer's name; the rest is cut off.
const MAX_NAME_BYTES: usize = 256;

/// Codes of the base protocol.
pub(crate) mod code {
    pub(crate) const HELLO: u64 = 0;
    pub(crate) const DISCONNECT: u64 = 1;
    pub(crate) const PING: u64 = 2;
    pub(crate) const PONG: u64 = 3;
}

/// The payload of Ping and Pong.
pub(crate) const EMPTY_LIST: [u8; 1] = [0xc0];

/// The contents of a Hello message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version of the base protocol.
    pub version: u64,
    /// The client's name; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// Sub-protocols, in the peer's order.
    pub capabilities: Vec<Capability>,
    /// TCP port; the reference sends 0.
    pub listen_port: u64,
    /// The node.
    pub id: NodeId,
}

impl Hello {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut capabilities = Vec::new();
        for capability in &self.capabilities {
            let payload_length = capability.name.as_str().length() + capability.version.length();
            Header { list: true, payload_length }.encode(&mut capabilities);
            capability.name.as_str().encode(&mut capabilities);
            capability.version.encode(&mut capabilities);
        }
        let mut content = Vec::new();
        self.version.encode(&mut content);
        self.name.as_str().encode(&mut content);
        Header { list: true, payload_length: capabilities.len() }.encode(&mut content);
        content.extend_from_slice(&capabilities);
        self.listen_port.encode(&mut content);
        self.id.0.encode(&mut content);
        let mut out = Vec::with_capacity(content.len() + 3);
        Header { list: true, payload_length: content.len() }.encode(&mut out);
        out.extend_from_slice(&content);
        out
    }

    /// Decodes a payload. Further elements, and bytes after the list, are ignored.
    ///
    /// # Errors
    /// [`HelloError::TooLong`], [`HelloError::Rlp`].
    pub fn decode(payload: &[u8]) -> Result<Self, HelloError> {
        if payload.len() > MAX_HELLO_BYTES {
            return Err(HelloError::TooLong);
        }
        let mut list = Header::decode_bytes(&mut &*payload, true)?;
        let version = u64::decode(&mut list)?;
        let name = text(Header::decode_bytes(&mut list, false)?);
        let mut offered = Header::decode_bytes(&mut list, true)?;
        let mut capabilities = Vec::new();
        while !offered.is_empty() {
            let mut pair = Header::decode_bytes(&mut offered, true)?;
            let name = text(Header::decode_bytes(&mut pair, false)?);
            capabilities.push(Capability { name, version: u64::decode(&mut pair)? });
            if !pair.is_empty() {
                return Err(alloy_rlp::Error::UnexpectedLength.into());
            }
        }
        let listen_port = u64::decode(&mut list)?;
        let id = NodeId(<[u8; 64]>::decode(&mut list)?);
        Ok(Self { version, name, capabilities, listen_port, id })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_NAME_BYTES)]).into_owned()
}

/// Why a side ends the connection (`docs/spec/p2p.md` 8.1). Unknown numbers are preserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DisconnectReason(pub u64);

impl DisconnectReason {
    /// Requested by the operator. The reference sends it for every drop.
    pub const REQUESTED: Self = Self(0x00);
    /// No capability in common.
    pub const USELESS_PEER: Self = Self(0x03);
    /// No free slot.
    pub const TOO_MANY_PEERS: Self = Self(0x04);
    /// An identifier whose bytes are all zero.
    pub const INVALID_IDENTITY: Self = Self(0x07);
    /// The node is stopping.
    pub const CLIENT_QUITTING: Self = Self(0x08);
    /// The identifier is not the expected one.
    pub const UNEXPECTED_IDENTITY: Self = Self(0x09);
    /// The peer is the node itself.
    pub const CONNECTED_TO_SELF: Self = Self(0x0a);
    /// No Status within the time limit.
    pub const READ_TIMEOUT: Self = Self(0x0b);
    /// A rule of the sub-protocol was broken.
    pub const SUBPROTOCOL_ERROR: Self = Self(0x10);

    /// The payload of a Disconnect.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(10);
        Header { list: true, payload_length: self.0.length() }.encode(&mut out);
        self.0.encode(&mut out);
        out
    }
}

impl fmt::Display for DisconnectReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            0x00 => "disconnect requested",
            0x01 => "network error",
            0x02 => "breach of protocol",
            0x03 => "useless peer",
            0x04 => "too many peers",
            0x05 => "already connected",
            0x06 => "incompatible p2p protocol version",
            0x07 => "invalid node identity",
            0x08 => "client quitting",
            0x09 => "unexpected identity",
            0x0a => "connected to self",
            0x0b => "read timeout",
            0x0c => "pair peer connection stop",
            0x10 => "subprotocol error",
            other => return write!(formatter, "unknown disconnect reason {other}"),
        };
        formatter.write_str(text)
    }
}

/// Returns the reason in a Disconnect's payload: the first element of the list, or 0 if the payload is not such a list.
pub fn read_disconnect(payload: &[u8]) -> DisconnectReason {
    let reason = Header::decode_bytes(&mut &*payload, true).and_then(|mut list| u64::decode(&mut list));
    DisconnectReason(reason.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use alloy_primitives::hex;

    use super::*;

    #[test]
    fn the_reason_is_the_first_element_of_a_list_and_0_otherwise() {
        let cases =
            [("c180", 0), ("c104", 4), ("c110", 16), ("c155", 85), ("c0", 0), ("04", 0), ("c20405", 4), ("", 0)];
        for (payload, reason) in cases {
            assert_eq!(read_disconnect(&hex::decode(payload).unwrap()), DisconnectReason(reason), "{payload}");
        }
        assert_eq!(DisconnectReason(0x10).encode(), [0xc1, 0x10]);
    }
}
