//! `GeneralStateTests`: one transaction on a state, under every fork listed in the case.

use std::{collections::BTreeMap, fmt::Display, sync::Arc};

use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use tenon_accounts::address_of_secret;
use tenon_api::{AccessListItem, Header, Log, Transaction, TransactionPayload};
use tenon_chain::{
    ChainSpec, Fork, Genesis,
    codec::{RlpItem, encode_item},
};
use tenon_execution_block::{Executor, StateBefore, Transition};
use tenon_execution_interface::EthereumFamily;

use super::{Cases, FileReports, cases_of, parse_case};
use crate::{
    CaseReport, Difference,
    expectation::compare_refusal,
    lenient::{HexBytes, Number, StateFile},
    memory::state_of,
    network::{CHAIN_ID, ConfigFile, at_fork},
    outcome::{Check, Passed, Unmet, require_equal},
};

/// Base fee of cases without one.
const DEFAULT_BASE_FEE: u64 = 10;

#[derive(Deserialize)]
struct StateCase {
    #[serde(default)]
    config: ConfigFile,
    env: Environment,
    pre: StateFile,
    transaction: MessageFile,
    post: BTreeMap<String, Vec<PostFile>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Environment {
    current_coinbase: Address,
    current_difficulty: Option<Number>,
    current_gas_limit: Number,
    current_number: Number,
    current_timestamp: Number,
    current_base_fee: Option<Number>,
    current_random: Option<Number>,
    current_excess_blob_gas: Option<Number>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageFile {
    data: Vec<HexBytes>,
    gas_limit: Vec<Number>,
    value: Vec<Number>,
    nonce: Number,
    to: String,
    sender: Option<Address>,
    secret_key: Option<B256>,
    gas_price: Option<Number>,
    max_fee_per_gas: Option<Number>,
    max_priority_fee_per_gas: Option<Number>,
    max_fee_per_blob_gas: Option<Number>,
    blob_versioned_hashes: Option<Vec<B256>>,
    access_lists: Option<Vec<Option<Vec<AccessFile>>>>,
    authorization_list: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccessFile {
    address: Address,
    storage_keys: Vec<B256>,
}

#[derive(Deserialize)]
struct PostFile {
    indexes: Indexes,
    hash: B256,
    logs: B256,
    txbytes: Option<HexBytes>,
    #[serde(rename = "expectException")]
    exception: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
struct Indexes {
    data: usize,
    gas: usize,
    value: usize,
}

pub(super) fn run(text: &[u8], cases: &Cases<'_>) -> FileReports {
    let mut reports = Vec::new();
    for (name, raw) in cases_of(text)? {
        match parse_case(raw).and_then(|case| run_case(&name, &case, cases)) {
            Ok(entries) => reports.extend(entries),
            Err(unmet) => reports.extend(cases.unmet(&name, unmet)),
        }
    }
    Ok(reports)
}

fn run_case(name: &str, case: &StateCase, cases: &Cases<'_>) -> FileReports {
    let before = state_before(&case.pre)?;
    let entries: Vec<_> =
        case.post.iter().flat_map(|(fork, posts)| posts.iter().map(move |post| (fork, post))).collect();
    let run_entry = |(fork, post): (&String, &PostFile)| -> Option<CaseReport> {
        let Indexes { data, gas, value } = post.indexes;
        let name = format!("{name} {fork} data {data} gas {gas} value {value}");
        cases.run(&name, || run_entry(case, fork, post, &before))
    };
    Ok(entries.into_par_iter().filter_map(run_entry).collect())
}

/// The state of `pre`, built like a genesis state.
fn state_before(pre: &StateFile) -> Result<StateBefore, Difference> {
    let alloc = pre.iter().map(|(address, account)| (*address, account.into())).collect();
    let spec = Arc::new(ChainSpec::ethereum_at(CHAIN_ID, Fork::Frontier));
    let genesis = Genesis { spec, header: Header::default(), alloc, config: Value::Null };
    let commit = genesis.commit().map_err(|error| Difference::new("pre", error, "a state"))?;
    Ok(state_of(&commit))
}

fn run_entry(case: &StateCase, fork: &str, post: &PostFile, before: &StateBefore) -> Check {
    let (fork, spec) = at_fork(fork)?;
    let spec = case.config.apply(spec)?;
    if post.txbytes.is_none() && case.transaction.authorization_list.is_some() {
        return Err(Unmet::NotBuilt("transactions that delegate, without signed bytes".to_owned()));
    }
    let message = case.transaction.at(post.indexes, spec.chain_id)?;
    match (execute(case, fork, spec, post, &message, before)?, &post.exception) {
        (Ok((logs, state_root)), None) => {
            require_equal("logs hash", logs_hash(&logs), post.logs)?;
            require_equal("state root", state_root, post.hash)?;
            Ok(Passed::default())
        }
        (Err(Refusal { words, state_root }), Some(exception)) => {
            if let Some(state_root) = state_root {
                require_equal("state root of a refused transaction", state_root, post.hash)?;
            }
            compare_refusal(exception, &words)
        }
        (Ok(_), Some(exception)) => Err(Difference::new("transaction", "executed", exception).into()),
        (Err(Refusal { words, .. }), None) => Err(Difference::new("transaction", words, "executed").into()),
    }
}

/// A transaction that was refused.
struct Refusal {
    words: String,
    /// The state root after it; `None` if the bytes were refused before there was a state.
    state_root: Option<B256>,
}

impl Refusal {
    fn before_execution(error: impl Display) -> Self {
        Self { words: error.to_string(), state_root: None }
    }
}

/// The logs and the state root after the transaction, or why it was refused; or the difference from the case.
fn execute(
    case: &StateCase,
    fork: Fork,
    spec: ChainSpec,
    post: &PostFile,
    message: &Message,
    before: &StateBefore,
) -> Result<Result<(Vec<Log>, B256), Refusal>, Difference> {
    let header = case.env.header(fork);
    let rules = spec.signer_rules(header.number, header.timestamp);
    let (transaction, sender) = match &post.txbytes {
        Some(bytes) => {
            let transaction = match tenon_chain::decode_transaction(&bytes.0) {
                Ok(transaction) => transaction,
                Err(error) => return Ok(Err(Refusal::before_execution(error))),
            };
            message.compare(&transaction)?;
            match rules.sender(&transaction) {
                Ok(sender) => (transaction, sender),
                Err(error) => return Ok(Err(Refusal::before_execution(error))),
            }
        }
        None => {
            let sender = message.sender.ok_or_else(|| Difference::new("sender", "none", "one, or signed bytes"))?;
            (message.unsigned(), sender)
        }
    };
    if let Some(wanted) = message.sender {
        require_equal("sender", sender, wanted)?;
    }
    let Transition { receipt, state_root } = Executor::new(Arc::new(EthereumFamily::new(Arc::new(spec))))
        .transition(&header, &transaction, sender, before)
        .map_err(|error| Difference::new("execution", error, "a result"))?;
    Ok(match receipt {
        Ok(receipt) => Ok((receipt.logs, state_root)),
        Err(rejection) => Err(Refusal { words: rejection.to_string(), state_root: Some(state_root) }),
    })
}

impl Environment {
    /// The header of the transaction's block.
    fn header(&self, fork: Fork) -> Header {
        let is_merged = fork >= Fork::Paris;
        let difficulty = self.current_difficulty.unwrap_or_default().saturated();
        let base_fee = self.current_base_fee.map_or(DEFAULT_BASE_FEE, Number::to_u64);
        let has_blobs = fork >= Fork::Cancun;
        Header {
            beneficiary: self.current_coinbase,
            number: self.current_number.to_u64(),
            timestamp: self.current_timestamp.to_u64(),
            gas_limit: self.current_gas_limit.to_u64(),
            difficulty: if is_merged { U256::ZERO } else { difficulty },
            mix_hash: if is_merged { self.current_random.unwrap_or_default().saturated().into() } else { B256::ZERO },
            base_fee_per_gas: (fork >= Fork::London).then_some(base_fee),
            withdrawals_root: (fork >= Fork::Shanghai).then_some(B256::ZERO),
            blob_gas_used: has_blobs.then_some(0),
            excess_blob_gas: has_blobs.then(|| self.current_excess_blob_gas.unwrap_or_default().to_u64()),
            parent_beacon_block_root: has_blobs.then_some(B256::ZERO),
            ..Header::default()
        }
    }
}

/// The type determined by a transaction's members, if there are no signed bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UnsignedKind {
    Legacy,
    AccessList,
    DynamicFee,
    Blob,
}

/// The transaction described by the indexed values.
struct Message {
    kind: UnsignedKind,
    chain_id: u64,
    sender: Option<Address>,
    to: Option<Address>,
    nonce: Number,
    gas_limit: Number,
    value: Number,
    data: Bytes,
    price: Number,
    priority_price: Number,
    blob_price: Number,
    access_list: Vec<AccessListItem>,
    blob_hashes: Vec<B256>,
}

impl MessageFile {
    fn at(&self, indexes: Indexes, chain_id: u64) -> Result<Message, Difference> {
        let outside = || Difference::new("indexes", "outside the lists", "inside");
        let access_list = match &self.access_lists {
            Some(lists) => lists.get(indexes.data).ok_or_else(outside)?.as_deref().unwrap_or_default(),
            None => &[],
        };
        let item =
            |item: &AccessFile| AccessListItem { address: item.address, storage_keys: item.storage_keys.clone() };
        let kind = if self.max_fee_per_blob_gas.is_some() {
            UnsignedKind::Blob
        } else if self.max_fee_per_gas.is_some() {
            UnsignedKind::DynamicFee
        } else if self.access_lists.as_ref().is_some_and(|lists| lists.iter().any(Option::is_some)) {
            UnsignedKind::AccessList
        } else {
            UnsignedKind::Legacy
        };
        let to = (!self.to.is_empty() && self.to != "0x").then(|| self.to.parse::<Address>());
        let price = self.max_fee_per_gas.or(self.gas_price).unwrap_or_default();
        Ok(Message {
            kind,
            chain_id,
            sender: self.sender.or_else(|| self.secret_key.and_then(|key| address_of_secret(key.0.into()))),
            to: to.transpose().map_err(|error| Difference::new("to", error, "an address"))?,
            nonce: self.nonce,
            gas_limit: *self.gas_limit.get(indexes.gas).ok_or_else(outside)?,
            value: *self.value.get(indexes.value).ok_or_else(outside)?,
            data: self.data.get(indexes.data).ok_or_else(outside)?.0.clone(),
            price,
            priority_price: self.max_priority_fee_per_gas.unwrap_or(price),
            blob_price: self.max_fee_per_blob_gas.unwrap_or_default(),
            access_list: access_list.iter().map(item).collect(),
            blob_hashes: self.blob_versioned_hashes.clone().unwrap_or_default(),
        })
    }
}

impl Message {
    /// The signed bytes must be equivalent.
    fn compare(&self, transaction: &Transaction) -> Result<(), Difference> {
        let number = |number: Number| number.saturated();
        let show = |to: Option<Address>| to.map_or_else(|| "a new contract".to_owned(), |to| to.to_string());
        require_equal("transaction nonce", U256::from(transaction.nonce), number(self.nonce))?;
        require_equal("transaction gas limit", U256::from(transaction.gas_limit), number(self.gas_limit))?;
        require_equal("transaction receiver", show(transaction.to), show(self.to))?;
        require_equal("transaction value", transaction.value, number(self.value))?;
        require_equal("transaction data", &transaction.input, &self.data)?;
        require_equal("transaction price", transaction.max_fee_per_gas(), number(self.price))?;
        let tip = transaction.max_priority_fee_per_gas();
        require_equal("transaction priority price", tip, number(self.priority_price))?;
        if transaction.access_list() != self.access_list {
            let (found, wanted) = (format!("{:?}", transaction.access_list()), format!("{:?}", self.access_list));
            return Err(Difference::new("transaction access list", found, wanted));
        }
        if transaction.blob_versioned_hashes() != self.blob_hashes {
            let found = hex::encode_prefixed(transaction.blob_versioned_hashes().concat());
            return Err(Difference::new("blob hashes", found, hex::encode_prefixed(self.blob_hashes.concat())));
        }
        if let TransactionPayload::Blob { max_fee_per_blob_gas, .. } = &transaction.payload {
            require_equal("transaction blob price", *max_fee_per_blob_gas, number(self.blob_price))?;
        }
        Ok(())
    }

    /// Old cases have no signed bytes. The given members determine the type.
    fn unsigned(&self) -> Transaction {
        Transaction {
            hash: B256::ZERO,
            chain_id: (self.kind != UnsignedKind::Legacy).then_some(self.chain_id),
            nonce: self.nonce.to_u64(),
            gas_limit: self.gas_limit.to_u64(),
            to: self.to,
            value: self.value.saturated(),
            input: self.data.clone(),
            payload: self.payload(),
            signature: tenon_api::TransactionSignature { v: 27, r: U256::ZERO, s: U256::ZERO },
        }
    }

    fn payload(&self) -> TransactionPayload {
        let (price, access_list) = (self.price.saturated(), self.access_list.clone());
        let max_priority_fee_per_gas = self.priority_price.saturated();
        match self.kind {
            UnsignedKind::Legacy => TransactionPayload::Legacy { gas_price: price },
            UnsignedKind::AccessList => TransactionPayload::AccessList { gas_price: price, access_list },
            UnsignedKind::Blob => TransactionPayload::Blob {
                max_fee_per_gas: price,
                max_priority_fee_per_gas,
                access_list,
                max_fee_per_blob_gas: self.blob_price.saturated(),
                blob_versioned_hashes: self.blob_hashes.clone(),
            },
            UnsignedKind::DynamicFee => {
                TransactionPayload::DynamicFee { max_fee_per_gas: price, max_priority_fee_per_gas, access_list }
            }
        }
    }
}

/// keccak256 of the RLP of all logs.
fn logs_hash(logs: &[Log]) -> B256 {
    let log = |log: &Log| {
        let topics = log.topics.iter().map(|topic| RlpItem::String(topic.to_vec())).collect();
        RlpItem::List(vec![
            RlpItem::String(log.address.to_vec()),
            RlpItem::List(topics),
            RlpItem::String(log.data.to_vec()),
        ])
    };
    keccak256(encode_item(&RlpItem::List(logs.iter().map(log).collect())))
}
