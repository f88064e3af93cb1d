//! Orders in batches and in the trie of orders, and their signers (`docs/spec/chain.md` 6.2).

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rlp::{Encodable, Header as Prefix};
use tenon_chain::{HighS, SignedHash, signed_hash};

use super::amounts::{Wide, list_of, low_word, put_number};

/// Maximum length of a number in bytes. A longer one is read as the largest number, which is refused.
const MAX_NUMBER: usize = 256;

/// The side of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Buys the base token.
    Buy,
    /// Sells it.
    Sell,
}

impl Side {
    /// The opposite side.
    pub(super) const fn opposite(self) -> Self {
        match self {
            Self::Buy => Self::Sell,
            Self::Sell => Self::Buy,
        }
    }
}

/// An order; members are in the order of its RLP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) quantity: Wide,
    pub(super) price: Wide,
    /// The relayer.
    pub(super) exchange: Address,
    pub(super) user: Address,
    pub(super) base: Address,
    pub(super) quote: Address,
    status: Bytes,
    side: Bytes,
    kind: Bytes,
    pub(super) hash: B256,
    transaction_hash: B256,
    signature: (u8, B256, B256),
    /// A big-endian number of any length; never used.
    filled: Bytes,
    pub(super) nonce: Wide,
    pub(super) id: u64,
    note: Bytes,
}

/// Returns, for each order, whether its user signed it; recovers all signers in one batch. As in the reference, the
/// signer of an invalid signature is the zero address.
pub(super) fn are_signed(orders: &[Order]) -> Vec<bool> {
    let signed: Vec<Option<SignedHash>> = orders.iter().map(Order::signed_hash).collect();
    let batch: Vec<SignedHash> = signed.iter().copied().flatten().collect();
    let mut recovered = tenon_recovery::recover_batch(&batch).into_iter();
    let signer = |signed: &Option<SignedHash>| signed.and_then(|_| recovered.next()?.ok()).unwrap_or_default();
    let signers: Vec<Address> = signed.iter().map(signer).collect();
    signers.iter().zip(orders).map(|(signer, order)| *signer == order.user).collect()
}

/// The bytes are not an order. The reference skips such list entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedOrder;

impl From<alloy_rlp::Error> for MalformedOrder {
    fn from(_: alloy_rlp::Error) -> Self {
        Self
    }
}

impl Order {
    /// Decodes an order from all of `bytes`.
    pub(super) fn decode(mut bytes: &[u8]) -> Result<Self, MalformedOrder> {
        let mut input = Prefix::decode_bytes(&mut bytes, true)?;
        if !bytes.is_empty() {
            return Err(MalformedOrder);
        }
        let input = &mut input;
        let order = Self {
            quantity: number(input)?,
            price: number(input)?,
            exchange: address(input)?,
            user: address(input)?,
            base: address(input)?,
            quote: address(input)?,
            status: text(input)?,
            side: text(input)?,
            kind: text(input)?,
            hash: word(input)?,
            transaction_hash: word(input)?,
            signature: signature(input)?,
            filled: digits(input)?,
            nonce: number(input)?,
            id: {
                time(input)?;
                time(input)?;
                u64::try_from(number(input)?).map_err(|_| MalformedOrder)?
            },
            note: text(input)?,
        };
        if input.is_empty() { Ok(order) } else { Err(MalformedOrder) }
    }

    /// The encoding in the trie of orders.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut items = Vec::with_capacity(512);
        put_number(self.quantity, &mut items);
        put_number(self.price, &mut items);
        for address in [self.exchange, self.user, self.base, self.quote] {
            address.encode(&mut items);
        }
        for text in [&self.status, &self.side, &self.kind] {
            text.encode(&mut items);
        }
        self.hash.encode(&mut items);
        self.transaction_hash.encode(&mut items);
        let mut signature = Vec::with_capacity(70);
        self.signature.0.encode(&mut signature);
        self.signature.1.encode(&mut signature);
        self.signature.2.encode(&mut signature);
        items.extend_from_slice(&list_of(&signature));
        self.filled.encode(&mut items);
        put_number(self.nonce, &mut items);
        // Times of creation and update: both are encoded as empty lists.
        items.extend_from_slice(&[0xc0, 0xc0]);
        self.id.encode(&mut items);
        self.note.encode(&mut items);
        list_of(&items)
    }

    /// The order book: first 16 bytes of the base token, last 16 of the quote token (`docs/spec/chain.md` 6.3).
    pub(super) fn book(&self) -> B256 {
        book_of(self.base, self.quote)
    }

    /// Its side; `None` if the value is invalid.
    pub(super) fn side(&self) -> Option<Side> {
        match self.side.as_ref() {
            b"BUY" => Some(Side::Buy),
            b"SELL" => Some(Side::Sell),
            _ => None,
        }
    }

    pub(super) fn is_new(&self) -> bool {
        self.status.as_ref() == b"NEW"
    }

    pub(super) fn is_cancellation(&self) -> bool {
        self.status.as_ref() == b"CANCELLED"
    }

    /// Returns whether it accepts any price.
    pub(super) fn is_market(&self) -> bool {
        self.kind.as_ref() == b"MO"
    }

    pub(super) fn is_limit(&self) -> bool {
        self.kind.as_ref() == b"LO"
    }

    /// The input for recovering its signer; `None` if its recovery id is invalid.
    fn signed_hash(&self) -> Option<SignedHash> {
        let (v @ (27 | 28), r, s) = self.signature else { return None };
        let hash = if self.is_cancellation() { self.hash_of_cancellation() } else { self.hash_of_new() };
        let message = keccak256([b"\x19Ethereum Signed Message:\n32".as_slice(), hash.as_slice()].concat());
        let (r, s) = (U256::from_be_bytes(r.0), U256::from_be_bytes(s.0));
        signed_hash(message, v == 28, r, s, HighS::Allowed).ok()
    }

    fn hash_of_new(&self) -> B256 {
        let mut signed = Vec::with_capacity(256);
        for address in [self.exchange, self.user, self.base, self.quote] {
            signed.extend_from_slice(address.as_slice());
        }
        signed.extend_from_slice(&low_word(self.quantity).to_be_bytes::<32>());
        if self.is_limit() {
            signed.extend_from_slice(&low_word(self.price).to_be_bytes::<32>());
        }
        let side = U256::from(u8::from(self.side() != Some(Side::Buy)));
        signed.extend_from_slice(&side.to_be_bytes::<32>());
        signed.extend_from_slice(&self.status);
        signed.extend_from_slice(&self.kind);
        signed.extend_from_slice(&low_word(self.nonce).to_be_bytes::<32>());
        keccak256(signed)
    }

    fn hash_of_cancellation(&self) -> B256 {
        let mut signed = Vec::with_capacity(256);
        signed.extend_from_slice(self.hash.as_slice());
        signed.extend_from_slice(&low_word(self.nonce).to_be_bytes::<32>());
        signed.extend_from_slice(self.user.as_slice());
        signed.extend_from_slice(&U256::from(self.id).to_be_bytes::<32>());
        signed.extend_from_slice(&self.status);
        for address in [self.exchange, self.base, self.quote] {
            signed.extend_from_slice(address.as_slice());
        }
        keccak256(signed)
    }
}

/// The order book of a pair: keys of the trading state's trie (`docs/spec/chain.md` 6.3).
pub(super) fn book_of(base: Address, quote: Address) -> B256 {
    let mut book = B256::ZERO;
    book[..16].copy_from_slice(&base[..16]);
    book[16..].copy_from_slice(&quote[4..]);
    book
}

fn text(input: &mut &[u8]) -> Result<Bytes, MalformedOrder> {
    Ok(Bytes::copy_from_slice(Prefix::decode_bytes(input, false)?))
}

/// A number's bytes without leading zeros.
fn digits(input: &mut &[u8]) -> Result<Bytes, MalformedOrder> {
    let digits = text(input)?;
    if digits.first() == Some(&0) { Err(MalformedOrder) } else { Ok(digits) }
}

fn number(input: &mut &[u8]) -> Result<Wide, MalformedOrder> {
    let digits = digits(input)?;
    Ok(if digits.len() > MAX_NUMBER { Wide::MAX } else { Wide::from_be_slice(&digits) })
}

fn address(input: &mut &[u8]) -> Result<Address, MalformedOrder> {
    Address::try_from(Prefix::decode_bytes(input, false)?).map_err(|_| MalformedOrder)
}

fn word(input: &mut &[u8]) -> Result<B256, MalformedOrder> {
    B256::try_from(Prefix::decode_bytes(input, false)?).map_err(|_| MalformedOrder)
}

fn signature(input: &mut &[u8]) -> Result<(u8, B256, B256), MalformedOrder> {
    let mut items = Prefix::decode_bytes(input, true)?;
    let items = &mut items;
    let v = u8::try_from(number(items)?).map_err(|_| MalformedOrder)?;
    let signature = (v, word(items)?, word(items)?);
    if items.is_empty() { Ok(signature) } else { Err(MalformedOrder) }
}

/// A time, which is encoded as an empty list.
fn time(input: &mut &[u8]) -> Result<(), MalformedOrder> {
    if Prefix::decode_bytes(input, true)?.is_empty() { Ok(()) } else { Err(MalformedOrder) }
}
