//! The stored records and their keys. Numbers are big-endian, so that keys sort by their meaning.
//!
//! | Key | Value |
//! |---|---|
//! | `C` | cursor: number u64 ‖ hash of the last indexed block |
//! | `S` | hash of the settings with which the index was made |
//! | `N` token | holders u64 ‖ transfers u64 |
//! | `B` token holder | balance, 32 bytes; no record means zero |
//! | `R` token !balance holder | empty: the ranking, largest balance first |
//! | `T` token position | transaction hash ‖ sender ‖ receiver ‖ value |
//! | `A` token holder position | empty: the transfers of one account |
//!
//! A position is: block number u64 ‖ position of the log in the block u64.

use tenon_sdk::prelude::*;

/// Position of a transfer in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TransferPosition {
    pub(crate) block: u64,
    pub(crate) log: u64,
}

impl TransferPosition {
    pub(crate) const LENGTH: usize = 16;

    pub(crate) fn encode(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.block.to_be_bytes());
        bytes[8..].copy_from_slice(&self.log.to_be_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (block, log) = bytes.split_first_chunk::<8>()?;
        Some(Self { block: u64::from_be_bytes(*block), log: u64::from_be_bytes(log.try_into().ok()?) })
    }
}

/// The last indexed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) number: u64,
    pub(crate) hash: B256,
}

impl Cursor {
    pub(crate) fn encode(self) -> Vec<u8> {
        [self.number.to_be_bytes().as_slice(), self.hash.as_slice()].concat()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (number, hash) = bytes.split_first_chunk::<8>()?;
        Some(Self { number: u64::from_be_bytes(*number), hash: B256::try_from(hash).ok()? })
    }
}

pub(crate) const CURSOR: &[u8] = b"C";
pub(crate) const SETTINGS: &[u8] = b"S";

/// The prefix of a token's keys for one kind of record.
pub(crate) fn of_token(kind: u8, token: Address) -> Vec<u8> {
    [&[kind], token.as_slice()].concat()
}

/// The first key after all keys with this prefix. Kinds are letters, so the first byte never overflows.
pub(crate) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while end.last() == Some(&u8::MAX) {
        end.pop();
    }
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

pub(crate) fn counts(token: Address) -> Vec<u8> {
    of_token(b'N', token)
}

pub(crate) fn balance(token: Address, holder: Address) -> Vec<u8> {
    [of_token(b'B', token).as_slice(), holder.as_slice()].concat()
}

pub(crate) fn rank(token: Address, balance: U256, holder: Address) -> Vec<u8> {
    [of_token(b'R', token).as_slice(), &(!balance).to_be_bytes::<32>(), holder.as_slice()].concat()
}

/// Balance and holder from the part of a ranking's key after the token.
pub(crate) fn decode_rank(rest: &[u8]) -> Option<(U256, Address)> {
    let (balance, holder) = rest.split_first_chunk::<32>()?;
    Some((!U256::from_be_bytes(*balance), Address::try_from(holder).ok()?))
}

pub(crate) fn transfer(token: Address, position: TransferPosition) -> Vec<u8> {
    [of_token(b'T', token).as_slice(), &position.encode()].concat()
}

pub(crate) fn of_holder(token: Address, holder: Address) -> Vec<u8> {
    [of_token(b'A', token).as_slice(), holder.as_slice()].concat()
}

pub(crate) fn transfer_of(token: Address, holder: Address, position: TransferPosition) -> Vec<u8> {
    [of_holder(token, holder).as_slice(), &position.encode()].concat()
}
