//! `TransactionTests`: a single transaction, judged under every fork.

use std::{collections::BTreeMap, sync::Arc};

use alloy_primitives::{Address, B256, U256};
use serde::Deserialize;
use serde_json::Value;
use tenon_api::{Header, Transaction};
use tenon_chain::{ChainSpec, Fork, Genesis, GenesisAccount, decode_transaction, intrinsic_gas};
use tenon_execution_block::Executor;
use tenon_execution_interface::EthereumFamily;

use super::{Cases, FileReports, cases_of, parse_case};
use crate::{
    Difference,
    expectation::{PRICE_TOO_HIGH, compare_refusal},
    lenient::{HexBytes, Number},
    memory::state_of,
    network::at_fork,
    outcome::{Check, Passed, require_equal},
};

#[derive(Deserialize)]
struct TransactionCase {
    txbytes: HexBytes,
    result: BTreeMap<String, ResultFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultFile {
    hash: Option<B256>,
    sender: Option<Address>,
    intrinsic_gas: Option<Number>,
    exception: Option<String>,
}

pub(super) fn run(text: &[u8], cases: &Cases<'_>) -> FileReports {
    let mut reports = Vec::new();
    for (name, raw) in cases_of(text)? {
        let case: TransactionCase = match parse_case(raw) {
            Ok(case) => case,
            Err(unmet) => {
                reports.extend(cases.unmet(&name, unmet));
                continue;
            }
        };
        for (fork, wanted) in &case.result {
            reports.extend(cases.run(&format!("{name} {fork}"), || check_transaction(&case.txbytes.0, fork, wanted)));
        }
    }
    Ok(reports)
}

fn check_transaction(encoded: &[u8], fork: &str, wanted: &ResultFile) -> Check {
    let (fork, spec) = at_fork(fork)?;
    match (accept(encoded, fork, spec), &wanted.exception) {
        (Ok((transaction, sender)), None) => {
            require_equal("hash", transaction.hash, wanted.hash.unwrap_or_default())?;
            require_equal("sender", sender, wanted.sender.unwrap_or_default())?;
            let gas = wanted.intrinsic_gas.unwrap_or_default().to_u64();
            require_equal("intrinsic gas", intrinsic_gas(&transaction, fork), gas)?;
            Ok(Passed::default())
        }
        (Err(refusal), Some(exception)) => compare_refusal(exception, &refusal),
        (Ok(_), Some(exception)) => Err(Difference::new("transaction", "accepted", exception).into()),
        (Err(refusal), None) => Err(Difference::new("transaction", refusal, "accepted").into()),
    }
}

/// Decodes the transaction, recovers its sender, and executes it with an unlimited balance and the right nonce, so that
/// only a rule on the transaction itself can refuse it. Its value is set to zero: whether that is available depends on
/// the account.
fn accept(encoded: &[u8], fork: Fork, spec: ChainSpec) -> Result<(Transaction, Address), String> {
    let transaction = decode_transaction(encoded).map_err(|error| error.to_string())?;
    let sender = spec.signer_rules(0, 0).sender(&transaction).map_err(|error| error.to_string())?;
    let spec = Arc::new(spec);
    let account = GenesisAccount { balance: U256::MAX, nonce: transaction.nonce, ..GenesisAccount::default() };
    let alloc = [(sender, account)].into();
    let genesis = Genesis { spec: Arc::clone(&spec), header: Header::default(), alloc, config: Value::Null };
    let commit = genesis.commit().map_err(|error| error.to_string())?;
    let header = Header {
        gas_limit: u64::MAX,
        base_fee_per_gas: (fork >= Fork::London).then_some(0),
        excess_blob_gas: (fork >= Fork::Cancun).then_some(0),
        parent_beacon_block_root: (fork >= Fork::Cancun).then_some(B256::ZERO),
        ..Header::default()
    };
    let executor = Executor::new(Arc::new(EthereumFamily::new(spec)));
    let without_value = Transaction { value: U256::ZERO, ..transaction.clone() };
    let transition =
        executor.transition(&header, &without_value, sender, &state_of(&commit)).map_err(|error| error.to_string())?;
    match transition.receipt.map_err(|rejection| rejection.to_string()) {
        // This node refuses a price that no balance can pay, but by the rules the transaction is valid.
        Err(words) if words.contains(PRICE_TOO_HIGH) => Ok((transaction, sender)),
        Err(words) => Err(words),
        Ok(_) => Ok((transaction, sender)),
    }
}
