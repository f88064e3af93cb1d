//! Node records (EIP-778, identity scheme `v4`): signed pairs of key and value, which nodes exchange through discovery
//! (`docs/spec/upgrades.md` 12.3).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use alloy_primitives::keccak256;
use alloy_rlp::{Decodable, Encodable, Header};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use secp256k1::{Message, PublicKey, SECP256K1, ecdsa::Signature};

use crate::{Endpoint, KeyError, NodeId, NodeKey};

/// Maximum size of a record in bytes (EIP-778).
pub const MAX_RECORD_BYTES: usize = 300;
const TEXT_PREFIX: &str = "enr:";

/// Keys with the RLP of their values, ascending by key.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A record whose signature and form are valid.
#[derive(Clone, PartialEq, Eq, derive_more::Display, derive_more::Debug)]
#[display("{TEXT_PREFIX}{}", URL_SAFE_NO_PAD.encode(encoded))]
#[debug("{self}")]
pub struct NodeRecord {
    sequence: u64,
    id: NodeId,
    pairs: Pairs,
    encoded: Vec<u8>,
}

/// Why bytes or a text are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::From, thiserror::Error)]
pub enum RecordError {
    /// The record has more than [`MAX_RECORD_BYTES`] bytes.
    #[error("record has more than 300 bytes")]
    TooLong,
    /// The bytes are not the RLP of a record.
    #[error("record is malformed: {0}")]
    #[from(alloy_rlp::Error)]
    Rlp(alloy_rlp::Error),
    /// The keys are not ascending, or a key has no value.
    #[error("record's keys are not ascending, or one has no value")]
    Order,
    /// The identity scheme is not `v4`, or there is no public key.
    #[error("record's identity scheme is not v4, or it has no public key")]
    Scheme,
    /// The signature does not match the content.
    #[error("record's signature is wrong")]
    Signature,
    /// The text does not begin with `enr:`, or is not base 64.
    #[error("record's text does not begin with enr: or is not base 64")]
    Text,
    /// Signing failed.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl NodeRecord {
    /// Decodes a record and checks its signature. `input` must contain nothing else.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn decode(input: &[u8]) -> Result<Self, RecordError> {
        if input.len() > MAX_RECORD_BYTES {
            return Err(RecordError::TooLong);
        }
        let mut rest = input;
        let mut list = Header::decode_bytes(&mut rest, true)?;
        if !rest.is_empty() {
            return Err(alloy_rlp::Error::UnexpectedLength.into());
        }
        let signature = <[u8; 64]>::decode(&mut list)?;
        let content = list;
        let sequence = u64::decode(&mut list)?;
        let pairs = read_pairs(list)?;
        let key = public_key(&pairs).ok_or(RecordError::Scheme)?;
        let signature = Signature::from_compact(&signature).map_err(|_| RecordError::Signature)?;
        let message = Message::from_digest(keccak256(signed_list(content)).0);
        SECP256K1.verify_ecdsa(message, &signature, &key).map_err(|_| RecordError::Signature)?;
        Ok(Self { sequence, id: NodeId::from(&key), pairs, encoded: input.to_vec() })
    }

    /// The record's sequence number, which grows with every change.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The node that signed it.
    pub const fn id(&self) -> NodeId {
        self.id
    }

    /// The record's RLP.
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// The RLP of the value of a key.
    pub fn value(&self, key: &[u8]) -> Option<&[u8]> {
        self.pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_slice())
    }

    /// Address and ports; IPv4 is preferred. A missing UDP port is replaced by the TCP port, and vice versa.
    pub fn endpoint(&self) -> Option<Endpoint> {
        let port = |key: &[u8]| self.value(key).and_then(|mut value| u16::decode(&mut value).ok());
        let at = |ip: IpAddr, udp: Option<u16>, tcp: Option<u16>| {
            Some(Endpoint { ip, udp: udp.or(tcp)?, tcp: tcp.or(udp)? })
        };
        if let Some(ip) = self.value(b"ip").and_then(|mut value| <[u8; 4]>::decode(&mut value).ok()) {
            return at(Ipv4Addr::from(ip).into(), port(b"udp"), port(b"tcp"));
        }
        let ip = self.value(b"ip6").and_then(|mut value| <[u8; 16]>::decode(&mut value).ok())?;
        at(Ipv6Addr::from(ip).into(), port(b"udp6").or(port(b"udp")), port(b"tcp6").or(port(b"tcp")))
    }
}

fn read_pairs(mut list: &[u8]) -> Result<Pairs, RecordError> {
    let mut pairs = Pairs::new();
    while !list.is_empty() {
        let key = Header::decode_bytes(&mut list, false)?.to_vec();
        if list.is_empty() || pairs.last().is_some_and(|(last, _)| *last >= key) {
            return Err(RecordError::Order);
        }
        let before = list;
        let header = Header::decode(&mut list)?;
        // `Header::decode` has checked that the payload is complete.
        list = &list[header.payload_length..];
        pairs.push((key, before[..before.len() - list.len()].to_vec()));
    }
    Ok(pairs)
}

fn public_key(pairs: &[(Vec<u8>, Vec<u8>)]) -> Option<PublicKey> {
    let value = |key: &[u8]| pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_slice());
    let scheme = Header::decode_bytes(&mut value(b"id")?, false).ok()?;
    let key = <[u8; 33]>::decode(&mut value(b"secp256k1")?).ok()?;
    (scheme == b"v4").then(|| PublicKey::from_byte_array_compressed(key).ok()).flatten()
}

/// The list of sequence number and pairs, which is the signed content.
fn signed_list(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 3);
    Header { list: true, payload_length: content.len() }.encode(&mut out);
    out.extend_from_slice(content);
    out
}

/// Builds this node's own record.
#[derive(Clone, Debug)]
pub struct RecordBuilder {
    sequence: u64,
    pairs: Vec<(&'static str, Vec<u8>)>,
}

impl RecordBuilder {
    /// A record with this sequence number that contains only the identity scheme.
    pub fn new(sequence: u64) -> Self {
        Self { sequence, pairs: Vec::new() }.with("id", &b"v4".as_slice())
    }

    /// Adds a pair, or replaces the value of its key.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: &dyn Encodable) -> Self {
        let mut encoded = Vec::new();
        value.encode(&mut encoded);
        self.pairs.retain(|(name, _)| *name != key);
        self.pairs.push((key, encoded));
        self
    }

    /// Adds address and ports.
    #[must_use]
    pub fn endpoint(self, endpoint: &Endpoint) -> Self {
        match endpoint.ip {
            IpAddr::V4(ip) => self.with("ip", &ip.octets()).with("tcp", &endpoint.tcp).with("udp", &endpoint.udp),
            IpAddr::V6(ip) => self.with("ip6", &ip.octets()).with("tcp6", &endpoint.tcp).with("udp6", &endpoint.udp),
        }
    }

    /// Signs the record.
    ///
    /// # Errors
    /// [`RecordError::TooLong`], and errors of the key.
    pub fn sign(self, key: &NodeKey) -> Result<NodeRecord, RecordError> {
        let compressed = key.compressed()?;
        let mut builder = self.with("secp256k1", &compressed);
        builder.pairs.sort_unstable_by_key(|(name, _)| *name);
        let mut content = Vec::new();
        builder.sequence.encode(&mut content);
        for (name, value) in &builder.pairs {
            name.as_bytes().encode(&mut content);
            content.extend_from_slice(value);
        }
        let signature = key.sign(keccak256(signed_list(&content)))?;
        let mut list = Vec::new();
        signature[..64].encode(&mut list);
        list.extend_from_slice(&content);
        NodeRecord::decode(&signed_list(&list))
    }
}

impl FromStr for NodeRecord {
    type Err = RecordError;

    fn from_str(text: &str) -> Result<Self, RecordError> {
        let text = text.strip_prefix(TEXT_PREFIX).ok_or(RecordError::Text)?;
        // Base 64 has four characters for three bytes.
        if text.len() > MAX_RECORD_BYTES.div_ceil(3) * 4 {
            return Err(RecordError::TooLong);
        }
        Self::decode(&URL_SAFE_NO_PAD.decode(text).map_err(|_| RecordError::Text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_key;

    /// The example of EIP-778.
    const EXAMPLE: &str = "enr:-IS4QHCYrYZbAKWCBRlAy5zzaDZXJBGkcnh4MHcBFZntXNFrdvJjX04jRzjzCBOonrkTfj499SZuOh8R33Ls8RRcy5wBgmlkgnY0gmlwhH8AAAGJc2VjcDI1NmsxoQPKY0yuDUmstAHYpMa2_oxVtw0RW_QAdpzBQA8yWM0xOIN1ZHCCdl8";
    const SECRET: &str = "b71c71a67e1177ad4e901695e1b4b9ee17ae16c6668d313eac2f96dbcda3f291";

    #[test]
    fn the_example_of_the_standard_is_decoded_and_signed_again() {
        let key = parse_key(SECRET).unwrap();

        let record: NodeRecord = EXAMPLE.parse().unwrap();

        assert_eq!((record.id(), record.sequence()), (key.id(), 1));
        let endpoint = Endpoint { ip: Ipv4Addr::LOCALHOST.into(), udp: 30303, tcp: 30303 };
        assert_eq!(record.endpoint(), Some(endpoint));
        let made = RecordBuilder::new(1).with("ip", &[127_u8, 0, 0, 1]).with("udp", &30303_u16).sign(&key).unwrap();
        assert_eq!(made.to_string(), EXAMPLE);
    }

    #[test]
    fn a_record_with_any_byte_changed_or_cut_is_refused() {
        let record: NodeRecord = EXAMPLE.parse().unwrap();
        for position in 0..record.encoded().len() {
            let mut bytes = record.encoded().to_vec();
            bytes[position] ^= 1;
            assert!(NodeRecord::decode(&bytes).is_err(), "byte {position}");
            assert!(NodeRecord::decode(&record.encoded()[..position]).is_err(), "cut at {position}");
        }
    }

    #[test]
    fn a_record_is_not_made_longer_than_allowed() {
        let key = parse_key(SECRET).unwrap();
        let long = RecordBuilder::new(1).with("x", &[7_u8; 200].as_slice());
        assert_eq!(long.sign(&key).err(), Some(RecordError::TooLong));
    }
}
