//! The namespace from its callers' view: raw parameters in, JSON out, over a fake node.

mod additions;
mod filters;
mod native;
mod recorded;
mod sending;
mod shapes;
mod suite;

use std::sync::Arc;

use tenon_sdk::{prelude::*, testing::FakeHost};

use crate::{Eth, table::table};

/// Chain id of the recorded chain.
const CHAIN_ID: u64 = 3_503_995_874_084_926;

fn chain_info(profile: Profile) -> Arc<ChainInfo> {
    let genesis_hash = "0x44fd89d504659cd58f48f4796b77a7e7012cf296a2409afa2f6c3cb99b5b3d99".parse().expect("hash");
    Arc::new(ChainInfo { chain_id: CHAIN_ID, network_id: CHAIN_ID, genesis_hash, profile })
}

fn host(profile: Profile) -> FakeHost {
    FakeHost::new()
        .answer(move |_: GetChainInfo| Ok(chain_info(profile)))
        .answer(|_: GetSealing| Ok(SealingState::default()))
}

fn plugin(host: &FakeHost) -> Arc<Eth> {
    Arc::new(Eth::start(host.host(), "{}", &[]).expect("default settings"))
}

fn call_method(host: &FakeHost, method: &str, params: &str) -> Result<serde_json::Value, Failure> {
    call_on(host, &plugin(host), method, params)
}

fn call_on(host: &FakeHost, eth: &Arc<Eth>, method: &str, params: &str) -> Result<serde_json::Value, Failure> {
    host.call_method(&table(), eth, method, params).map(|text| serde_json::from_str(&text).expect("JSON"))
}

fn header(number: u64) -> Header {
    Header { number, timestamp: number * 10, ..Header::default() }
}

/// A header whose hash contains its number.
fn sealed(number: u64) -> Arc<SealedHeader> {
    let parent_hash = hash_of(number.wrapping_sub(1));
    Arc::new(SealedHeader::new_unchecked(Header { parent_hash, ..header(number) }, hash_of(number)))
}

fn hash_of(number: u64) -> B256 {
    B256::from(U256::from(number + 1) << 128)
}

/// A node that returns one block for every request.
fn with_block(host: FakeHost, find: impl Fn() -> Option<StoredBlock> + Clone + Send + Sync + 'static) -> FakeHost {
    let [whole, header, outline, count, part] = [(); 5].map(|()| find.clone());
    host.answer(move |_: GetBlock| Ok(whole()))
        .answer(move |_: GetHeader| {
            Ok(header().map(|stored| StoredHeader {
                header: Arc::new(stored.block.header.clone()),
                ..stored_header(1, stored.is_canonical)
            }))
        })
        .answer(move |_: GetBlockOutline| Ok(outline().as_ref().map(BlockOutline::from)))
        .answer(move |_: CountTransactions| Ok(count().map(|stored| stored.block.transactions.len() as u64)))
        .answer(move |request: GetTransactionInBlock| {
            let Some(stored) = part() else { return Ok(None) };
            let position = request.index as usize;
            let (transactions, senders) = (&stored.block.transactions, &stored.block.senders);
            let pair = transactions.get(position).zip(senders.get(position));
            Ok(pair.map(|(transaction, sender)| LocatedTransaction {
                transaction: RecoveredTransaction { transaction: transaction.clone(), sender: *sender },
                header: Arc::new(stored.block.header.clone()),
                index: request.index,
            }))
        })
}

fn head(number: u64) -> Arc<Head> {
    Arc::new(Head { header: sealed(number), total_difficulty: U256::ZERO, finalized: None, safe: None })
}

fn stored_header(number: u64, is_canonical: bool) -> StoredHeader {
    StoredHeader { header: sealed(number), total_difficulty: U256::ZERO, is_canonical }
}
