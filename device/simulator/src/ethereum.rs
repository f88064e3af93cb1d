//! Ethereum addresses, public keys and messages (`docs/spec/device.md 6.6`, `6.9`).

use alloy_primitives::{Address, keccak256};
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{Message as Digest, SECP256K1};
use tenon_device_framing::Message;
use tenon_proto::ethereum::{
    EthereumAddress, EthereumGetAddress, EthereumGetPublicKey, EthereumMessageSignature, EthereumPublicKey,
    EthereumSignMessage, EthereumVerifyMessage,
};

use crate::device::{Device, FlowResult, Stop, code};
use crate::keys::{HARDENED, Node, checksummed};
use crate::model::Line;
use crate::prompts::button;

/// Coin types of Ethereum-like chains that a Model T knows.
const KNOWN_COINS: [u32; 12] = [60, 1, 61, 137, 37310, 40, 108, 163, 164, 820, 6060, 1987];

/// The last address index without a warning.
const MAX_PLAIN_INDEX: u32 = 1_000_000;

impl Device {
    /// The key at a path, after the model's checks.
    pub(crate) async fn key(&mut self, path: &[u32]) -> FlowResult<Node> {
        self.words()?;
        self.check_path(path).await?;
        let seed = self.seed().await?;
        Node::at(&seed, path).ok_or(Stop::Failure(code::PROCESS_ERROR, "Failed to derive private key"))
    }

    /// A Model T accepts only paths of known coins and warns of unusual ones.
    async fn check_path(&mut self, path: &[u32]) -> FlowResult<()> {
        if self.line == Line::One {
            return Ok(());
        }
        let is_known = match path {
            [purpose, coin, ..] => {
                let coin_is_known = KNOWN_COINS.iter().any(|known| known | HARDENED == *coin);
                *purpose == 44 | HARDENED && coin_is_known && path.len() <= 8
            }
            _ => false,
        };
        if !is_known {
            return Err(Stop::Failure(code::DATA_ERROR, "Forbidden key path"));
        }
        const FIRST_ACCOUNT: u32 = HARDENED;
        let is_plain = matches!(path, [_, _, FIRST_ACCOUNT, 0, index] if *index <= MAX_PLAIN_INDEX);
        if is_plain { Ok(()) } else { self.confirm(button::UNKNOWN_PATH).await }
    }

    pub(crate) async fn get_ethereum_address(&mut self, message: &Message) -> FlowResult<()> {
        let request: EthereumGetAddress = self.read(message)?;
        let node = self.key(&request.address_n).await?;
        if request.show_display() {
            self.confirm(button::ADDRESS).await?;
        }
        let address = checksummed(node.address(), &request.address_n);
        self.send(&EthereumAddress { address_binary: None, address: Some(address) }).await;
        Ok(())
    }

    pub(crate) async fn get_ethereum_public_key(&mut self, message: &Message) -> FlowResult<()> {
        let request: EthereumGetPublicKey = self.read(message)?;
        let node = self.key(&request.address_n).await?;
        if request.show_display() {
            self.confirm(button::PUBLIC_KEY).await?;
        }
        let mut answer = EthereumPublicKey::default();
        answer.node = Some(node.to_message());
        answer.xpub = Some(node.xpub());
        self.send(&answer).await;
        Ok(())
    }

    pub(crate) async fn sign_message(&mut self, message: &Message) -> FlowResult<()> {
        let request: EthereumSignMessage = self.read(message)?;
        let kind = if self.line == Line::One { button::PROTECT_CALL } else { button::OTHER };
        let node = match self.line {
            Line::One => {
                self.words()?;
                self.confirm(kind).await?;
                self.key(&request.address_n).await?
            }
            Line::T => {
                let node = self.key(&request.address_n).await?;
                self.confirm(kind).await?;
                node
            }
        };
        let hash = message_hash(request.message(), self.settings.has_message_length_bug);
        let signature = self.make_signature(&node, hash);
        let address = Some(checksummed(node.address(), &request.address_n));
        let signature = Some(signature.to_bytes());
        self.send(&EthereumMessageSignature { address_binary: None, signature, address }).await;
        Ok(())
    }

    pub(crate) async fn verify_message(&mut self, message: &Message) -> FlowResult<()> {
        let request: EthereumVerifyMessage = self.read(message)?;
        let signature: Option<[u8; 65]> = request.signature().try_into().ok();
        let address: Option<Address> = request.address().parse().ok();
        let malformed = match (signature, address) {
            (None, _) => Some("Malformed signature"),
            (_, None) => Some("Malformed address"),
            _ => None,
        };
        if let Some(text) = malformed.filter(|_| self.line == Line::One) {
            // Model One sends this failure and continues to the next one.
            self.fail(code::DATA_ERROR, text).await;
        }
        let hash = message_hash(request.message(), self.settings.has_message_length_bug);
        let signer = signature.and_then(|signature| recover(hash, &signature));
        if signer.is_none() || signer != address {
            return Err(Stop::Failure(code::DATA_ERROR, "Invalid signature"));
        }
        self.confirm(button::OTHER).await?;
        self.confirm(button::OTHER).await?;
        self.succeed("Message verified", "Message verified").await;
        Ok(())
    }
}

/// The hash to sign for a message. With the bug of Model One 1.8.1, the first digit of the length is missing for
/// messages of 10, 100 or 1000 bytes.
fn message_hash(message: &[u8], has_length_bug: bool) -> [u8; 32] {
    let mut length = message.len().to_string();
    if has_length_bug && matches!(message.len(), 10 | 100 | 1000) {
        length.remove(0);
    }
    keccak256([b"\x19Ethereum Signed Message:\n", length.as_bytes(), message].concat()).0
}

fn recover(hash: [u8; 32], signature: &[u8; 65]) -> Option<Address> {
    let bit = if signature[64] >= 27 { signature[64] - 27 } else { signature[64] };
    let id = RecoveryId::try_from(i32::from(bit)).ok()?;
    let signature = RecoverableSignature::from_compact(&signature[..64], id).ok()?;
    let public = SECP256K1.recover_ecdsa(Digest::from_digest(hash), &signature).ok()?;
    Some(Address::from_slice(&keccak256(&public.serialize_uncompressed()[1..])[12..]))
}
