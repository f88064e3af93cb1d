//! Packets: envelope, types and contents (`docs/spec/p2p.md` 4.1, 4.2, `docs/spec/upgrades.md` 12.3).

use std::net::IpAddr;

use alloy_primitives::{B256, keccak256};
use alloy_rlp::{Decodable, Encodable, Header};
use tenon_network_identity::{Endpoint, KeyError, NodeId, NodeKey, NodeRecord, recover};

/// Maximum size of a packet in bytes.
pub const MAX_PACKET_BYTES: usize = 1280;
/// Maximum number of nodes in a Neighbors packet: twelve with IPv6 addresses fill 1,201 bytes.
pub const MAX_PACKET_NODES: usize = 12;
/// Hash, signature and type.
const HEAD: usize = 32 + 65 + 1;
/// The version that a Ping names; nobody checks it.
const PING_VERSION: u64 = 4;

/// What a packet is.
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

/// The numbers of packets, which differ between chain families.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketTypes {
    rows: [(u8, PacketKind); 6],
}

impl PacketTypes {
    /// The numbers on chains 50, 51 and 551: Ping is 5, and records have numbers of their own.
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

/// Why a datagram is dropped. Nothing is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Below 98 bytes.
    #[error("too small")]
    TooSmall,
    /// Above 1,280 bytes.
    #[error("too long")]
    TooLong,
    /// The hash does not belong to the content.
    #[error("bad hash")]
    Hash,
    /// The signature is wrong.
    #[error(transparent)]
    Signature(#[from] KeyError),
    /// A number that is no packet.
    #[error("unknown type: {0}")]
    Type(u8),
    /// Malformed.
    #[error("packet is malformed: {0}")]
    Rlp(alloy_rlp::Error),
}

impl From<alloy_rlp::Error> for PacketError {
    fn from(error: alloy_rlp::Error) -> Self {
        Self::Rlp(error)
    }
}

/// An endpoint in a Ping or Pong. The address may be missing: receivers take the datagram's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketEndpoint {
    /// Address.
    pub ip: Option<IpAddr>,
    /// UDP port.
    pub udp: u16,
    /// TCP port.
    pub tcp: u16,
}

/// What a packet says. `expiration` is in Unix seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Asks for a Pong.
    Ping {
        /// The sender, as it sees itself.
        from: PacketEndpoint,
        /// The receiver, as the sender sees it.
        to: PacketEndpoint,
        /// When the packet is void.
        expiration: u64,
        /// Number of the sender's record.
        record: Option<u64>,
    },
    /// Answers a Ping.
    Pong {
        /// The receiver, as the sender sees it.
        to: PacketEndpoint,
        /// Hash of the Ping.
        ping: B256,
        /// When the packet is void.
        expiration: u64,
        /// Number of the sender's record.
        record: Option<u64>,
    },
    /// Asks for nodes close to a target.
    FindNode {
        /// The target.
        target: NodeId,
        /// When the packet is void.
        expiration: u64,
    },
    /// Answers a FindNode.
    Neighbors {
        /// Nodes; `None` where the address was neither 4 nor 16 bytes long.
        nodes: Vec<(Option<Endpoint>, NodeId)>,
        /// When the packet is void.
        expiration: u64,
    },
    /// Asks for the receiver's record.
    RecordRequest {
        /// When the packet is void.
        expiration: u64,
    },
    /// Answers a request for a record.
    RecordResponse {
        /// Hash of the request.
        request: B256,
        /// The record's RLP, not yet checked.
        record: Vec<u8>,
    },
}

impl Content {
    /// Which packet it is.
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

    /// When the packet is void; answers with a record never are.
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

    /// Reads a content; more elements and bytes after the list are ignored.
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
                // The field has any length on the wire; another than 32 answers nothing.
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

/// An optional last element; anything else in its place is ignored as a further element.
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

    /// The address as written: an IPv4 address in 16 bytes stays one of IPv6 here, and unspecified ones are kept.
    fn decode_items(items: &mut &[u8]) -> Result<Self, PacketError> {
        let ip = match Header::decode_bytes(items, false)? {
            bytes if bytes.len() == 4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
            bytes if bytes.len() == 16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
            _ => None,
        };
        Ok(Self { ip, udp: u16::decode(items)?, tcp: u16::decode(items)? })
    }
}

/// A packet that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its hash.
    pub hash: B256,
    /// Who signed it.
    pub sender: NodeId,
    /// What it says.
    pub content: Content,
}

impl Packet {
    /// Reads a datagram. The cheap checks come first: size, hash, type; then the content, and the signature last.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn decode(types: &PacketTypes, datagram: &[u8]) -> Result<Self, PacketError> {
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
        let sender = recover(keccak256(signed), signature)?;
        Ok(Self { hash: B256::new(*hash), sender, content })
    }

    /// A datagram and its hash.
    ///
    /// # Errors
    /// What the key answers; none for a key that can sign.
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

/// The record in an answer, if it is the sender's own.
pub(crate) fn own_record(record: &[u8], sender: &NodeId) -> Option<NodeRecord> {
    NodeRecord::decode(record).ok().filter(|record| record.id() == *sender)
}
