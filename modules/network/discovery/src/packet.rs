//! Packets: envelope, types and contents (`docs/spec/p2p.md` 4.1, 4.2, `docs/spec/upgrades.md` 12.3).

use std::net::IpAddr;

use alloy_primitives::{B256, keccak256};
use alloy_rlp::{Decodable, Encodable, Header};
use tenon_network_identity::{Endpoint, KeyError, NodeId, NodeKey, recover};

/// Maximum size of a packet in bytes.
pub const MAX_PACKET_BYTES: usize = 1280;
/// Maximum number of nodes in a Neighbors packet: twelve with IPv6 addresses fill 1,201 bytes.
pub const MAX_PACKET_NODES: usize = 12;
/// Length of hash, signature and type.
const HEAD: usize = 32 + 65 + 1;
/// The version in a Ping; receivers ignore it.
const PING_VERSION: u64 = 4;

/// The kinds of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the protocol's")]
pub enum PacketKind {
    Ping,
    Pong,
    FindNode,
    Neighbors,
    RecordRequest,
    RecordResponse,
}

/// The type bytes of packets, which differ between chain families.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketTypes {
    rows: [(u8, PacketKind); 6],
}

impl PacketTypes {
    /// The type bytes of chains 50, 51 and 551: Ping is 5, and records have numbers of their own.
    pub const NATIVE: Self = Self {
        rows: [
            (2, PacketKind::Pong),
            (3, PacketKind::FindNode),
            (4, PacketKind::Neighbors),
            (5, PacketKind::Ping),
            (6, PacketKind::RecordRequest),
            (7, PacketKind::RecordResponse),
        ],
    };

    fn kind(&self, number: u8) -> Option<PacketKind> {
        self.rows.iter().find(|(row, _)| *row == number).map(|(_, kind)| *kind)
    }

    fn number(&self, kind: PacketKind) -> u8 {
        // Every kind has a row.
        self.rows.iter().find(|(_, row)| *row == kind).map(|(number, _)| *number).unwrap_or_default()
    }
}

/// Why a datagram is dropped. No answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::From, thiserror::Error)]
pub enum PacketError {
    /// Less than 98 bytes.
    #[error("too small")]
    TooSmall,
    /// More than 1,280 bytes.
    #[error("too long")]
    TooLong,
    /// The hash does not match the content.
    #[error("bad hash")]
    Hash,
    /// The signature is invalid.
    #[error(transparent)]
    Signature(#[from] KeyError),
    /// The type byte is unknown.
    #[error("unknown type: {0}")]
    Type(u8),
    /// The content is malformed.
    #[error("packet is malformed: {0}")]
    #[from(alloy_rlp::Error)]
    Rlp(alloy_rlp::Error),
}

/// An endpoint in a Ping or Pong. If it has no address, receivers use the datagram's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketEndpoint {
    /// Address.
    pub ip: Option<IpAddr>,
    /// UDP port.
    pub udp: u16,
    /// TCP port.
    pub tcp: u16,
}

/// The content of a packet. `expiration` is in Unix seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Requests a Pong.
    Ping {
        /// The sender's own endpoint, as it knows it.
        from: PacketEndpoint,
        /// The receiver, as the sender sees it.
        to: PacketEndpoint,
        /// When the packet expires.
        expiration: u64,
        /// Sequence number of the sender's record.
        record: Option<u64>,
    },
    /// Answers a Ping.
    Pong {
        /// The receiver, as the sender sees it.
        to: PacketEndpoint,
        /// Hash of the Ping.
        ping: B256,
        /// When the packet expires.
        expiration: u64,
        /// Sequence number of the sender's record.
        record: Option<u64>,
    },
    /// Requests nodes close to a target.
    FindNode {
        /// The target.
        target: NodeId,
        /// When the packet expires.
        expiration: u64,
    },
    /// Answers a FindNode.
    Neighbors {
        /// Nodes; the endpoint is `None` if the address was neither 4 nor 16 bytes long.
        nodes: Vec<(Option<Endpoint>, NodeId)>,
        /// When the packet expires.
        expiration: u64,
    },
    /// Requests the receiver's record.
    RecordRequest {
        /// When the packet expires.
        expiration: u64,
    },
    /// Answers a request for a record.
    RecordResponse {
        /// Hash of the request.
        request: B256,
        /// The record's RLP, not verified.
        record: Vec<u8>,
    },
}

impl Content {
    /// The kind of the packet.
    pub const fn kind(&self) -> PacketKind {
        match self {
            Self::Ping { .. } => PacketKind::Ping,
            Self::Pong { .. } => PacketKind::Pong,
            Self::FindNode { .. } => PacketKind::FindNode,
            Self::Neighbors { .. } => PacketKind::Neighbors,
            Self::RecordRequest { .. } => PacketKind::RecordRequest,
            Self::RecordResponse { .. } => PacketKind::RecordResponse,
        }
    }

    /// When the packet expires; `None` for answers with a record, which never expire.
    pub const fn expiration(&self) -> Option<u64> {
        match self {
            Self::Ping { expiration, .. }
            | Self::Pong { expiration, .. }
            | Self::FindNode { expiration, .. }
            | Self::Neighbors { expiration, .. }
            | Self::RecordRequest { expiration } => Some(*expiration),
            Self::RecordResponse { .. } => None,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut items = Vec::with_capacity(256);
        match self {
            Self::Ping { from, to, expiration, record } => {
                PING_VERSION.encode(&mut items);
                from.encode(&mut items);
                to.encode(&mut items);
                expiration.encode(&mut items);
                record.iter().for_each(|number| number.encode(&mut items));
            }
            Self::Pong { to, ping, expiration, record } => {
                to.encode(&mut items);
                ping.encode(&mut items);
                expiration.encode(&mut items);
                record.iter().for_each(|number| number.encode(&mut items));
            }
            Self::FindNode { target, expiration } => {
                target.0.encode(&mut items);
                expiration.encode(&mut items);
            }
            Self::Neighbors { nodes, expiration } => {
                let mut list = Vec::new();
                for (endpoint, id) in nodes {
                    let Some(endpoint) = endpoint else { continue };
                    let mut node = Vec::new();
                    PacketEndpoint::from(*endpoint).encode_items(&mut node);
                    id.0.encode(&mut node);
                    write_list(&node, &mut list);
                }
                write_list(&list, &mut items);
                expiration.encode(&mut items);
            }
            Self::RecordRequest { expiration } => expiration.encode(&mut items),
            Self::RecordResponse { request, record } => {
                request.encode(&mut items);
                items.extend_from_slice(record);
            }
        }
        let mut out = Vec::with_capacity(items.len() + 3);
        write_list(&items, &mut out);
        out
    }

    /// Decodes a content. Further elements, and bytes after the list, are ignored.
    fn decode(kind: PacketKind, input: &[u8]) -> Result<Self, PacketError> {
        let mut list = Header::decode_bytes(&mut &*input, true)?;
        let list = &mut list;
        Ok(match kind {
            PacketKind::Ping => {
                u64::decode(list)?;
                let (from, to) = (PacketEndpoint::decode(list)?, PacketEndpoint::decode(list)?);
                Self::Ping { from, to, expiration: u64::decode(list)?, record: record_number(list) }
            }
            PacketKind::Pong => {
                let to = PacketEndpoint::decode(list)?;
                // The field may have any length on the wire. A hash that does not have 32 bytes matches no Ping.
                let ping = B256::try_from(Header::decode_bytes(list, false)?).unwrap_or_default();
                Self::Pong { to, ping, expiration: u64::decode(list)?, record: record_number(list) }
            }
            PacketKind::FindNode => {
                Self::FindNode { target: NodeId(<[u8; 64]>::decode(list)?), expiration: u64::decode(list)? }
            }
            PacketKind::Neighbors => {
                let nodes = read_nodes(Header::decode_bytes(list, true)?)?;
                Self::Neighbors { nodes, expiration: u64::decode(list)? }
            }
            PacketKind::RecordRequest => Self::RecordRequest { expiration: u64::decode(list)? },
            PacketKind::RecordResponse => {
                let request = B256::decode(list)?;
                let before = *list;
                let header = Header::decode(list)?;
                let length = before.len() - list.len() + header.payload_length;
                Self::RecordResponse { request, record: before.get(..length).unwrap_or_default().to_vec() }
            }
        })
    }
}

/// Decodes an optional last element. Anything else in its place is ignored, as a further element.
fn record_number(list: &mut &[u8]) -> Option<u64> {
    if list.is_empty() { None } else { u64::decode(list).ok() }
}

fn read_nodes(mut list: &[u8]) -> Result<Vec<(Option<Endpoint>, NodeId)>, PacketError> {
    let mut nodes = Vec::new();
    while !list.is_empty() {
        let mut node = Header::decode_bytes(&mut list, true)?;
        let endpoint = PacketEndpoint::decode_items(&mut node)?;
        let id = NodeId(<[u8; 64]>::decode(&mut node)?);
        let known = endpoint.ip.map(|ip| Endpoint { ip, udp: endpoint.udp, tcp: endpoint.tcp });
        nodes.push((known, id));
    }
    Ok(nodes)
}

fn write_list(content: &[u8], out: &mut Vec<u8>) {
    Header { list: true, payload_length: content.len() }.encode(out);
    out.extend_from_slice(content);
}

impl From<Endpoint> for PacketEndpoint {
    fn from(endpoint: Endpoint) -> Self {
        Self { ip: Some(endpoint.ip), udp: endpoint.udp, tcp: endpoint.tcp }
    }
}

impl PacketEndpoint {
    fn encode(&self, out: &mut Vec<u8>) {
        let mut items = Vec::with_capacity(24);
        self.encode_items(&mut items);
        write_list(&items, out);
    }

    fn encode_items(&self, out: &mut Vec<u8>) {
        match self.ip {
            Some(IpAddr::V4(ip)) => ip.octets().encode(out),
            Some(IpAddr::V6(ip)) => ip.octets().encode(out),
            None => [0_u8; 16].encode(out),
        }
        self.udp.encode(out);
        self.tcp.encode(out);
    }

    fn decode(list: &mut &[u8]) -> Result<Self, PacketError> {
        let mut items = Header::decode_bytes(list, true)?;
        Self::decode_items(&mut items)
    }

    /// Keeps the address as encoded: an IPv4 address in 16 bytes remains an IPv6 address here, and an unspecified
    /// address is kept.
    fn decode_items(items: &mut &[u8]) -> Result<Self, PacketError> {
        let ip = match Header::decode_bytes(items, false)? {
            bytes if bytes.len() == 4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
            bytes if bytes.len() == 16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
            _ => None,
        };
        Ok(Self { ip, udp: u16::decode(items)?, tcp: u16::decode(items)? })
    }
}

/// A received packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its hash.
    pub hash: B256,
    /// The signer.
    pub sender: NodeId,
    /// The content.
    pub content: Content,
}

/// A packet whose signature was not checked.
pub(crate) struct UnverifiedPacket<'a> {
    hash: B256,
    pub(crate) content: Content,
    /// The signed digest.
    digest: B256,
    signature: &'a [u8; 65],
}

impl UnverifiedPacket<'_> {
    /// Recovers the sender.
    ///
    /// # Errors
    /// [`PacketError`] of the signature.
    pub(crate) fn verify(self) -> Result<Packet, PacketError> {
        let sender = recover(self.digest, self.signature)?;
        Ok(Packet { hash: self.hash, sender, content: self.content })
    }
}

impl Packet {
    /// Decodes a datagram. The cheap checks are made first: size, hash and type; then the content, and the signature
    /// last.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn decode(types: &PacketTypes, datagram: &[u8]) -> Result<Self, PacketError> {
        Self::parse(types, datagram)?.verify()
    }

    /// Decodes a datagram without its signature, which costs more than the rest.
    ///
    /// # Errors
    /// [`PacketError`].
    pub(crate) fn parse<'a>(types: &PacketTypes, datagram: &'a [u8]) -> Result<UnverifiedPacket<'a>, PacketError> {
        if datagram.len() > MAX_PACKET_BYTES {
            return Err(PacketError::TooLong);
        }
        if datagram.len() < HEAD {
            return Err(PacketError::TooSmall);
        }
        let (hash, rest) = datagram.split_first_chunk::<32>().ok_or(PacketError::TooSmall)?;
        if keccak256(rest) != *hash {
            return Err(PacketError::Hash);
        }
        let (signature, signed) = rest.split_first_chunk::<65>().ok_or(PacketError::TooSmall)?;
        let (number, content) = signed.split_first().ok_or(PacketError::TooSmall)?;
        let kind = types.kind(*number).ok_or(PacketError::Type(*number))?;
        let content = Content::decode(kind, content)?;
        Ok(UnverifiedPacket { hash: B256::new(*hash), content, digest: keccak256(signed), signature })
    }

    /// Encodes a datagram, and returns it with its hash.
    ///
    /// # Errors
    /// Errors of the key; none for a valid key.
    pub fn encode(types: &PacketTypes, key: &NodeKey, content: &Content) -> Result<(Vec<u8>, B256), KeyError> {
        let mut signed = vec![types.number(content.kind())];
        signed.extend_from_slice(&content.encode());
        let signature = key.sign(keccak256(&signed))?;
        let mut datagram = vec![0; 32];
        datagram.extend_from_slice(&signature);
        datagram.extend_from_slice(&signed);
        let hash = keccak256(&datagram[32..]);
        datagram[..32].copy_from_slice(hash.as_slice());
        Ok((datagram, hash))
    }
}
