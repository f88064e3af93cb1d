//! Applies transfers to the stored records.

use std::collections::BTreeMap;

use tenon_sdk::prelude::*;

use crate::{
    keys::{self, Cursor},
    transfer::Transfer,
};

/// Number of keys per read.
const KEYS_READ: usize = 1_000;

/// Whether transfers are applied or undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Apply,
    Undo,
}

/// A balance before and after the batch.
#[derive(Clone, Copy, Debug, Default)]
struct Balance {
    before: U256,
    now: U256,
}

/// Record counts of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) holders: u64,
    pub(crate) transfers: u64,
}

impl Counts {
    pub(crate) fn decode(record: Option<&Bytes>) -> Result<Self, Failure> {
        let Some(record) = record else { return Ok(Self::default()) };
        let damaged = || Failure::server("the index is damaged: counts of a token");
        let (holders, transfers) = record.split_first_chunk::<8>().ok_or_else(damaged)?;
        let transfers = transfers.try_into().map_err(|_| damaged())?;
        Ok(Self { holders: u64::from_be_bytes(*holders), transfers: u64::from_be_bytes(transfers) })
    }

    fn encode(self) -> Vec<u8> {
        [self.holders.to_be_bytes(), self.transfers.to_be_bytes()].concat()
    }
}

pub(crate) fn decode_balance(record: Option<&Bytes>) -> U256 {
    record.map(|value| U256::from_be_slice(value)).unwrap_or_default()
}

/// Builds the batch that applies or undoes these transfers and moves the cursor. It expects the old cursor, so that
/// nothing changes if another task has moved it.
pub(crate) async fn batch(
    storage: &Storage,
    transfers: &[Transfer],
    direction: Direction,
    old: Cursor,
    new: Cursor,
) -> Result<Batch, Failure> {
    let mut balances = read_balances(storage, transfers).await?;
    let mut counts = read_counts(storage, transfers).await?;
    let mut batch = Batch::new();
    batch.expect(keys::CURSOR, Some(&old.encode()));
    batch.put(keys::CURSOR, &new.encode());
    for transfer in transfers {
        record(&mut batch, transfer, direction);
        let count = counts.entry(transfer.token).or_default();
        let (from, to) = match direction {
            Direction::Apply => (transfer.from, transfer.to),
            Direction::Undo => (transfer.to, transfer.from),
        };
        count.transfers = match direction {
            Direction::Apply => count.transfers.saturating_add(1),
            Direction::Undo => count.transfers.saturating_sub(1),
        };
        // Wrapping, so that undoing is exact even for a token whose events do not add up.
        if let Some(balance) = balances.get_mut(&(transfer.token, from)) {
            balance.now = balance.now.wrapping_sub(transfer.value);
        }
        if let Some(balance) = balances.get_mut(&(transfer.token, to)) {
            balance.now = balance.now.wrapping_add(transfer.value);
        }
    }
    for ((token, holder), balance) in balances {
        write_balance(&mut batch, token, holder, balance, counts.entry(token).or_default());
    }
    for (token, counts) in counts {
        batch.put(&keys::counts(token), &counts.encode());
    }
    Ok(batch)
}

fn record(batch: &mut Batch, transfer: &Transfer, direction: Direction) {
    let key = keys::transfer(transfer.token, transfer.position);
    let of_holders = transfer.holders().map(|holder| keys::transfer_of(transfer.token, holder, transfer.position));
    match direction {
        Direction::Apply => {
            batch.put(&key, &transfer.encode());
            of_holders.for_each(|key| batch.put(&key, &[]));
        }
        Direction::Undo => {
            batch.delete(&key);
            of_holders.for_each(|key| batch.delete(&key));
        }
    }
}

fn write_balance(batch: &mut Batch, token: Address, holder: Address, balance: Balance, counts: &mut Counts) {
    let Balance { before, now } = balance;
    if before == now {
        return;
    }
    if before.is_zero() {
        counts.holders = counts.holders.saturating_add(1);
    } else {
        batch.delete(&keys::rank(token, before, holder));
    }
    if now.is_zero() {
        counts.holders = counts.holders.saturating_sub(1);
        batch.delete(&keys::balance(token, holder));
    } else {
        batch.put(&keys::balance(token, holder), &now.to_be_bytes::<32>());
        batch.put(&keys::rank(token, now, holder), &[]);
    }
}

async fn read_balances(
    storage: &Storage,
    transfers: &[Transfer],
) -> Result<BTreeMap<(Address, Address), Balance>, Failure> {
    let touched = |transfer: &Transfer| {
        let token = transfer.token;
        transfer.holders().map(move |holder| ((token, holder), Balance::default())).collect::<Vec<_>>()
    };
    let mut balances: BTreeMap<_, _> = transfers.iter().flat_map(touched).collect();
    let wanted: Vec<_> = balances.keys().copied().collect();
    for wanted in wanted.chunks(KEYS_READ) {
        let records = storage.get_many(wanted.iter().map(|(token, holder)| keys::balance(*token, *holder))).await?;
        for (key, record) in wanted.iter().zip(records) {
            let before = decode_balance(record.as_ref());
            balances.insert(*key, Balance { before, now: before });
        }
    }
    Ok(balances)
}

async fn read_counts(storage: &Storage, transfers: &[Transfer]) -> Result<BTreeMap<Address, Counts>, Failure> {
    let mut tokens: Vec<Address> = transfers.iter().map(|transfer| transfer.token).collect();
    tokens.sort_unstable();
    tokens.dedup();
    let records = storage.get_many(tokens.iter().map(|token| keys::counts(*token))).await?;
    let decode = |(token, record): (Address, Option<Bytes>)| Ok((token, Counts::decode(record.as_ref())?));
    tokens.into_iter().zip(records).map(decode).collect()
}
