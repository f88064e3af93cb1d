//! Orders and lendings of the exchange, which is switched off (`docs/spec/p2p.md` 14.5, 14.6). They are decoded, so
//! that a peer that sends them is not penalised, and never sent: other nodes do not handle them safely.

use alloy_primitives::{Address, B256, Bytes};
use alloy_rlp::{Decodable, Encodable, Header, RlpDecodable, RlpEncodable};

/// An integer of any length in its shortest form, as big-endian bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Integer(pub Bytes);

impl Decodable for Integer {
    fn decode(input: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let bytes = Header::decode_bytes(input, false)?;
        if bytes.first() == Some(&0) {
            return Err(alloy_rlp::Error::LeadingZero);
        }
        Ok(Self(Bytes::copy_from_slice(bytes)))
    }
}

impl Encodable for Integer {
    fn encode(&self, out: &mut dyn alloy_rlp::BufMut) {
        self.0.encode(out);
    }

    fn length(&self) -> usize {
        self.0.length()
    }
}

/// An order. Texts may contain any bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
#[expect(missing_docs, reason = "the names are the protocol's, and the fields are not used")]
pub struct Order {
    pub nonce: u64,
    pub quantity: Integer,
    pub price: Integer,
    pub exchange: Address,
    pub user: Address,
    pub base_token: Address,
    pub quote_token: Address,
    pub status: Bytes,
    pub side: Bytes,
    pub kind: Bytes,
    pub order_id: u64,
    pub v: Integer,
    pub r: Integer,
    pub s: Integer,
    pub hash: B256,
}

/// A lending. Texts may contain any bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
#[expect(missing_docs, reason = "the names are the protocol's, and the fields are not used")]
pub struct Lending {
    pub nonce: u64,
    pub quantity: Integer,
    pub interest: u64,
    pub relayer: Address,
    pub user: Address,
    pub collateral_token: Address,
    pub tops_up: bool,
    pub lending_token: Address,
    pub term: u64,
    pub status: Bytes,
    pub side: Bytes,
    pub kind: Bytes,
    pub lending_id: u64,
    pub trade_id: u64,
    pub extra: Bytes,
    pub v: Integer,
    pub r: Integer,
    pub s: Integer,
    pub hash: B256,
}
