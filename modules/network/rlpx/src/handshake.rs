//! The packets of the handshake in both formats, and the secrets derived from them (`docs/spec/p2p.md` 6.2, 6.3).

use alloy_primitives::{B256, keccak256};
use alloy_rlp::{Decodable, Encodable, Header};
use rand::{Rng, TryRngCore, rngs::OsRng};
use tenon_network_identity::{KeyError, NodeId, NodeKey, recover};
use zeroize::Zeroizing;

use crate::HandshakeError;
use crate::ecies::{OVERHEAD, decrypt, encrypt};
use crate::secrets::{Agreement, Secrets};

/// Content of a plain auth: signature, hash of the ephemeral key, key, nonce, and a zero byte.
const PLAIN_AUTH_CONTENT: usize = 65 + 32 + 64 + 32 + 1;
/// Content of a plain ack: ephemeral key, nonce, and a zero byte.
const PLAIN_ACK_CONTENT: usize = 64 + 32 + 1;
/// Size of an encrypted plain auth. No auth packet is shorter.
const PLAIN_AUTH: usize = PLAIN_AUTH_CONTENT + OVERHEAD;
/// Size of an encrypted plain ack.
const PLAIN_ACK: usize = PLAIN_ACK_CONTENT + OVERHEAD;
/// The version in packets; receivers ignore it.
const HANDSHAKE_VERSION: u64 = 4;
/// Length of the size prefix of an EIP-8 packet.
const SIZE_PREFIX: usize = 2;

/// The random values of one handshake. They must not be reused.
pub struct HandshakeRandom {
    /// Ephemeral key of this connection.
    pub ephemeral: NodeKey,
    /// This side's nonce.
    pub nonce: [u8; 32],
    /// Ephemeral key for encrypting the packet.
    pub packet_key: NodeKey,
    /// Initial vector of the packet.
    pub packet_iv: [u8; 16],
    /// Number of zero bytes after the content, 100 to 299, so that a packet is never shorter than a plain one.
    pub padding: usize,
}

impl HandshakeRandom {
    /// New values from the operating system.
    ///
    /// # Errors
    /// [`KeyError::NoRandomNumbers`].
    pub fn generate() -> Result<Self, KeyError> {
        let (mut nonce, mut packet_iv) = ([0; 32], [0; 16]);
        for bytes in [nonce.as_mut_slice(), packet_iv.as_mut_slice()] {
            OsRng.try_fill_bytes(bytes).map_err(|_| KeyError::NoRandomNumbers)?;
        }
        Ok(Self {
            ephemeral: NodeKey::random()?,
            nonce,
            packet_key: NodeKey::random()?,
            packet_iv,
            padding: rand::rng().random_range(100..300),
        })
    }
}

/// The content of the initiator's packet.
pub struct AuthContent {
    /// Signature of the ephemeral key over the shared secret mixed with the nonce.
    pub signature: [u8; 65],
    /// The initiator.
    pub id: NodeId,
    /// Its nonce.
    pub nonce: [u8; 32],
}

/// The content of the responder's packet.
pub struct AckContent {
    /// Its ephemeral key.
    pub ephemeral: NodeId,
    /// Its nonce.
    pub nonce: [u8; 32],
}

/// Format of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// With a size prefix and padding (EIP-8). This node sends it, except in response to a plain auth.
    Sized,
    /// Of fixed size.
    Plain,
}

/// Decodes the content of an EIP-8 auth. Further elements, and bytes after the list, are ignored.
///
/// # Errors
/// [`HandshakeError::Rlp`].
pub fn decode_auth_content(content: &[u8]) -> Result<AuthContent, HandshakeError> {
    let mut list = Header::decode_bytes(&mut &*content, true)?;
    let signature = <[u8; 65]>::decode(&mut list)?;
    let id = NodeId(<[u8; 64]>::decode(&mut list)?);
    let nonce = <[u8; 32]>::decode(&mut list)?;
    u64::decode(&mut list)?;
    Ok(AuthContent { signature, id, nonce })
}

/// Decodes the content of an EIP-8 ack. Further elements, and bytes after the list, are ignored.
///
/// # Errors
/// [`HandshakeError::Rlp`].
pub fn decode_ack_content(content: &[u8]) -> Result<AckContent, HandshakeError> {
    let mut list = Header::decode_bytes(&mut &*content, true)?;
    let ephemeral = NodeId(<[u8; 64]>::decode(&mut list)?);
    let nonce = <[u8; 32]>::decode(&mut list)?;
    u64::decode(&mut list)?;
    Ok(AckContent { ephemeral, nonce })
}

fn plain_auth_content(content: &[u8]) -> Option<AuthContent> {
    let (signature, rest) = content.split_first_chunk::<65>()?;
    let (id, rest) = rest.get(32..)?.split_first_chunk::<64>()?;
    let nonce = rest.first_chunk::<32>()?;
    Some(AuthContent { signature: *signature, id: NodeId(*id), nonce: *nonce })
}

fn plain_ack_content(content: &[u8]) -> Option<AckContent> {
    let (ephemeral, rest) = content.split_first_chunk::<64>()?;
    let nonce = rest.first_chunk::<32>()?;
    Some(AckContent { ephemeral: NodeId(*ephemeral), nonce: *nonce })
}

/// A list of items, followed by padding.
fn padded_list(items: &[u8], padding: usize) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(items.len() + padding + 3));
    Header { list: true, payload_length: items.len() }.encode(&mut *out);
    out.extend_from_slice(items);
    let length = out.len() + padding;
    out.resize(length, 0);
    out
}

fn seal(
    random: &HandshakeRandom,
    receiver: &NodeId,
    content: &[u8],
    format: Format,
) -> Result<Vec<u8>, HandshakeError> {
    if format == Format::Plain {
        return encrypt(&random.packet_key, &random.packet_iv, receiver, content, &[]);
    }
    let size = u16::try_from(content.len() + OVERHEAD).map_err(|_| HandshakeError::Rlp(alloy_rlp::Error::Overflow))?;
    let prefix = size.to_be_bytes();
    let mut packet = prefix.to_vec();
    packet.extend_from_slice(&encrypt(&random.packet_key, &random.packet_iv, receiver, content, &prefix)?);
    Ok(packet)
}

/// Decodes one packet from the bytes of a connection as they arrive.
pub(crate) struct PacketReader {
    plain_size: usize,
    /// Total size of the packet, once it is known not to be a plain one.
    sized: Option<usize>,
}

/// A decrypted packet.
pub(crate) struct OpenedPacket {
    pub(crate) content: Zeroizing<Vec<u8>>,
    pub(crate) format: Format,
    /// Its size on the wire.
    pub(crate) size: usize,
}

impl PacketReader {
    pub(crate) const fn auth() -> Self {
        Self { plain_size: PLAIN_AUTH, sized: None }
    }

    pub(crate) const fn ack() -> Self {
        Self { plain_size: PLAIN_ACK, sized: None }
    }

    /// Tries to decode the packet at the start of `received`; `None` until enough bytes have arrived. Decryption is
    /// attempted once per format and connection, and each attempt costs one multiplication on the curve.
    pub(crate) fn open(&mut self, key: &NodeKey, received: &[u8]) -> Result<Option<OpenedPacket>, HandshakeError> {
        let size = match self.sized {
            Some(size) => size,
            None => {
                let Some(plain) = received.get(..self.plain_size) else { return Ok(None) };
                if let Ok(content) = decrypt(key, plain, &[]) {
                    return Ok(Some(OpenedPacket { content, format: Format::Plain, size: self.plain_size }));
                }
                let announced = usize::from(u16::from_be_bytes([plain[0], plain[1]]));
                if announced < self.plain_size {
                    return Err(HandshakeError::SizeUnderflow { minimum: self.plain_size });
                }
                *self.sized.insert(announced + SIZE_PREFIX)
            }
        };
        let Some(packet) = received.get(..size) else { return Ok(None) };
        let (prefix, encrypted) = packet.split_at(SIZE_PREFIX);
        let content = decrypt(key, encrypted, prefix)?;
        Ok(Some(OpenedPacket { content, format: Format::Sized, size }))
    }
}

/// The dialing side, before the responder's packet.
pub(crate) struct Initiator {
    random: HandshakeRandom,
    /// The packet as sent.
    auth: Vec<u8>,
    pub(crate) reader: PacketReader,
}

impl Initiator {
    pub(crate) fn new(
        key: &NodeKey,
        remote: &NodeId,
        random: HandshakeRandom,
        format: Format,
    ) -> Result<Self, HandshakeError> {
        Self::with_content(key, remote, random, format, HANDSHAKE_VERSION, &[])
    }

    /// Like [`Initiator::new`], with another version and with further elements, which receivers ignore.
    pub(crate) fn with_content(
        key: &NodeKey,
        remote: &NodeId,
        random: HandshakeRandom,
        format: Format,
        version: u64,
        more_elements: &[u8],
    ) -> Result<Self, HandshakeError> {
        let mut token = key.shared_x(remote)?;
        token.iter_mut().zip(random.nonce).for_each(|(byte, nonce)| *byte ^= nonce);
        let signature = random.ephemeral.sign(B256::new(*token))?;
        let mut content = Vec::with_capacity(PLAIN_AUTH_CONTENT + 8);
        let content = match format {
            Format::Plain => {
                content.extend_from_slice(&signature);
                content.extend_from_slice(keccak256(random.ephemeral.id().0).as_slice());
                content.extend_from_slice(&key.id().0);
                content.extend_from_slice(&random.nonce);
                content.push(0);
                Zeroizing::new(content)
            }
            Format::Sized => {
                signature.encode(&mut content);
                key.id().0.encode(&mut content);
                random.nonce.encode(&mut content);
                version.encode(&mut content);
                content.extend_from_slice(more_elements);
                padded_list(&content, random.padding)
            }
        };
        let auth = seal(&random, remote, &content, format)?;
        Ok(Self { random, auth, reader: PacketReader::ack() })
    }

    pub(crate) fn packet(&self) -> &[u8] {
        &self.auth
    }

    /// Derives the secrets from the responder's packet. `ack` contains its bytes on the wire.
    pub(crate) fn finish(&self, opened: &OpenedPacket, ack: &[u8]) -> Result<Secrets, HandshakeError> {
        let content = match opened.format {
            Format::Plain => plain_ack_content(&opened.content).ok_or(HandshakeError::Undecryptable)?,
            Format::Sized => decode_ack_content(&opened.content)?,
        };
        let ecdhe = self.random.ephemeral.shared_x(&content.ephemeral)?;
        Ok(Secrets::derive(&Agreement {
            ecdhe: &ecdhe,
            initiator_nonce: &self.random.nonce,
            responder_nonce: &content.nonce,
            auth: &self.auth,
            ack,
        }))
    }
}

/// The responder's result after receiving the auth.
pub(crate) struct Responded {
    pub(crate) remote: NodeId,
    /// The packet to send.
    pub(crate) ack: Vec<u8>,
    pub(crate) secrets: Secrets,
}

/// Responds to an auth in the format of that auth.
pub(crate) fn respond(
    key: &NodeKey,
    random: &HandshakeRandom,
    opened: &OpenedPacket,
    auth: &[u8],
) -> Result<Responded, HandshakeError> {
    let content = match opened.format {
        Format::Plain => plain_auth_content(&opened.content).ok_or(HandshakeError::Undecryptable)?,
        Format::Sized => decode_auth_content(&opened.content)?,
    };
    let mut token = key.shared_x(&content.id)?;
    token.iter_mut().zip(content.nonce).for_each(|(byte, nonce)| *byte ^= nonce);
    let remote_ephemeral = recover(B256::new(*token), &content.signature)?;
    let ecdhe = random.ephemeral.shared_x(&remote_ephemeral)?;
    let ack = encode_ack(random, &content.id, opened.format)?;
    let secrets = Secrets::derive(&Agreement {
        ecdhe: &ecdhe,
        initiator_nonce: &content.nonce,
        responder_nonce: &random.nonce,
        auth,
        ack: &ack,
    });
    Ok(Responded { remote: content.id, ack, secrets })
}

fn encode_ack(random: &HandshakeRandom, remote: &NodeId, format: Format) -> Result<Vec<u8>, HandshakeError> {
    let mut content = Vec::with_capacity(PLAIN_ACK_CONTENT + 8);
    let content = match format {
        Format::Plain => {
            content.extend_from_slice(&random.ephemeral.id().0);
            content.extend_from_slice(&random.nonce);
            content.push(0);
            Zeroizing::new(content)
        }
        Format::Sized => {
            random.ephemeral.id().0.encode(&mut content);
            random.nonce.encode(&mut content);
            HANDSHAKE_VERSION.encode(&mut content);
            padded_list(&content, random.padding)
        }
    };
    seal(random, remote, &content, format)
}
