//! Explains why a block fails: all results of execution, compared with the header and, if given, with another node's
//! results.

use std::{collections::BTreeMap, fmt, sync::Arc};

use alloy_primitives::{Address, B256, Bloom, BloomInput, Bytes, U256};
use serde::Deserialize;
use tenon_api::{
    AccountChange, BlockNumber, ChainReader, ConsensusEngine, Log, Receipt, ReceiptOutcome, RecoveredBlock,
    SealedHeader, WholeBalance,
};
use tenon_execution_interface::{BlockOrigin, ExecutionError, TransactionRejection};

use crate::{executor::Executor, executor::StateChanges};

/// Another node's results for a block: receipts as returned by `eth_getBlockReceipts`, and accounts after the block.
/// Absent members are not compared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReferenceBlock {
    /// By position.
    pub receipts: Vec<ReferenceReceipt>,
    /// By address.
    pub accounts: BTreeMap<Address, ReferenceAccount>,
}

/// A receipt of another node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReferenceReceipt {
    /// 1 for success.
    pub status: Option<U256>,
    /// Gas used by the transaction.
    pub gas_used: Option<U256>,
    /// Its logs.
    pub logs: Option<Vec<ReferenceLog>>,
}

/// A log of another node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReferenceLog {
    /// The emitting contract.
    pub address: Address,
    /// Compared if present.
    pub topics: Option<Vec<B256>>,
    /// Compared if present.
    pub data: Option<Bytes>,
}

/// An account of another node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReferenceAccount {
    /// Wei, at its full width.
    pub balance: Option<WholeBalance>,
    /// Next nonce.
    pub nonce: Option<U256>,
    /// Slots.
    pub storage: BTreeMap<U256, U256>,
}

/// The results of executing a block. `Display` prints a report, the first difference first.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Number of the block.
    pub number: BlockNumber,
    /// Its hash.
    pub hash: B256,
    /// All differences, in order of occurrence.
    pub differences: Vec<String>,
    /// Receipts of the transactions executed.
    pub receipts: Vec<Receipt>,
    /// Changed accounts; empty if a transaction stopped the block.
    pub accounts: Vec<AccountChange>,
    transactions: Vec<B256>,
}

impl Executor {
    /// Executes a block like [`Executor::execute`], but continues after the first difference, and compares with another
    /// node's results.
    ///
    /// # Errors
    /// [`ExecutionError`] if the block could not be begun.
    pub fn explain(
        &self,
        chain: &dyn ChainReader,
        engine: &dyn ConsensusEngine,
        block: &Arc<RecoveredBlock>,
        parent: &SealedHeader,
        reference: &ReferenceBlock,
    ) -> Result<Explanation, ExecutionError> {
        let origin = BlockOrigin::Whole { chain, engine, block, parent };
        let mut execution = self.begin(chain, engine, &block.header, parent, origin)?;
        let mut explanation = Explanation {
            number: block.number(),
            hash: block.hash(),
            differences: Vec::new(),
            receipts: Vec::new(),
            accounts: Vec::new(),
            transactions: block.transactions.iter().map(|transaction| transaction.hash).collect(),
        };
        for (index, (transaction, sender)) in block.transactions.iter().zip(&block.senders).enumerate() {
            let result = execution.run_transaction(transaction, *sender);
            explanation.receipts = execution.receipts().to_vec();
            if let Err(reason) = result {
                let reason = reason.unless_unreadable(block.number())?;
                explanation.compare_receipts(block, reference);
                explanation.reject(index, transaction.hash, &reason);
                return Ok(explanation);
            }
        }
        let rewards = engine.rewards(block, chain)?;
        let outcome = execution.finish(block, &rewards)?;
        explanation.compare_receipts(block, reference);
        let results = outcome.results();
        let header = block.header.header();
        explanation.compare("gas used", outcome.gas_used, header.gas_used);
        explanation.compare("receipts root", results.receipts_root, header.receipts_root);
        if results.logs_bloom != header.logs_bloom {
            explanation.differences.push("logs bloom differs".to_owned());
        }
        let changes = self.state_changes(chain, parent, &outcome.state)?;
        explanation.compare_accounts(&changes, reference);
        explanation.compare("state root", changes.root, header.state_root);
        explanation.accounts = changes.into_accounts();
        Ok(explanation)
    }
}

impl Explanation {
    fn reject(&mut self, index: usize, hash: B256, reason: &TransactionRejection) {
        let verdict =
            if reason.is_validity_unknown() { "cannot be executed" } else { "is not allowed at this position" };
        self.differences.push(format!("transaction {index} ({hash}) {verdict}: {reason}"));
    }

    fn compare<T: PartialEq + fmt::Display>(&mut self, what: &str, computed: T, expected: T) {
        if computed != expected {
            self.differences.push(format!("{what} is {computed}, the header says {expected}"));
        }
    }

    /// Compares receipts with another node's, and each log with the header's bloom, which reveals a wrong log even
    /// without another node.
    fn compare_receipts(&mut self, block: &RecoveredBlock, reference: &ReferenceBlock) {
        for index in 0..self.receipts.len() {
            let found = receipt_differences(&self.receipts[index], reference.receipts.get(index));
            let unexpected = unexpected_log(&self.receipts[index], &block.header.logs_bloom);
            let hash = self.transactions[index];
            for text in found.into_iter().chain(unexpected) {
                self.differences.push(format!("transaction {index} ({hash}): {text}"));
            }
        }
    }

    fn compare_accounts(&mut self, changes: &StateChanges, reference: &ReferenceBlock) {
        for (address, expected) in &reference.accounts {
            let Some(change) = changes.accounts().iter().find(|change| change.address == *address) else {
                self.differences.push(format!("account {address} was not changed"));
                continue;
            };
            self.differences.extend(
                account_differences(change, expected).into_iter().map(|text| format!("account {address}: {text}")),
            );
        }
    }
}

fn receipt_differences(receipt: &Receipt, expected: Option<&ReferenceReceipt>) -> Vec<String> {
    let Some(expected) = expected else { return Vec::new() };
    let mut found = Vec::new();
    let status = match receipt.outcome {
        ReceiptOutcome::Status(has_succeeded) => Some(U256::from(has_succeeded)),
        ReceiptOutcome::StateRoot(_) => None,
    };
    if let (Some(computed), Some(expected)) = (status, expected.status)
        && computed != expected
    {
        found.push(format!("status is {computed}, not {expected}"));
    }
    if let Some(expected) = expected.gas_used.filter(|expected| *expected != U256::from(receipt.gas_used)) {
        found.push(format!("gas used is {}, not {expected}", receipt.gas_used));
    }
    if let Some(expected) = &expected.logs {
        if receipt.logs.len() != expected.len() {
            found.push(format!("{} logs, not {}", receipt.logs.len(), expected.len()));
        }
        let pairs = receipt.logs.iter().zip(expected).enumerate();
        found.extend(pairs.filter_map(|(position, (log, expected))| {
            log_difference(log, expected).map(|text| format!("log {position}: {text}"))
        }));
    }
    found
}

fn log_difference(log: &Log, expected: &ReferenceLog) -> Option<String> {
    if log.address != expected.address {
        return Some(format!("has address {}, not {}", log.address, expected.address));
    }
    if let Some(topics) = expected.topics.as_ref().filter(|topics| **topics != log.topics) {
        return Some(format!("topics are {:?}, not {topics:?}", log.topics));
    }
    let data = expected.data.as_ref().filter(|data| **data != log.data)?;
    Some(format!("data is {}, not {data}", log.data))
}

fn unexpected_log(receipt: &Receipt, bloom: &Bloom) -> Option<String> {
    let is_there = |bytes: &[u8]| bloom.contains_input(BloomInput::Raw(bytes));
    let position = receipt.logs.iter().position(|log| {
        !is_there(log.address.as_slice()) || !log.topics.iter().all(|topic| is_there(topic.as_slice()))
    })?;
    Some(format!("log {position} is not in the header's bloom"))
}

fn account_differences(change: &AccountChange, expected: &ReferenceAccount) -> Vec<String> {
    let account = change.account.unwrap_or_default();
    let mut found = Vec::new();
    if let Some(expected) = expected.balance.filter(|expected| *expected != account.whole_balance()) {
        found.push(format!("balance is {}, not {expected}", account.whole_balance()));
    }
    if let Some(expected) = expected.nonce.filter(|expected| *expected != U256::from(account.nonce)) {
        found.push(format!("nonce is {}, not {expected}", account.nonce));
    }
    for (slot, expected) in &expected.storage {
        let key = B256::from(*slot);
        let changed = change.slots.iter().find(|change| change.slot == key).map(|change| change.value);
        if let Some(value) = changed.filter(|value| value != expected) {
            found.push(format!("slot {key} is {value}, not {expected}"));
        }
    }
    found
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.differences.first() {
            None => writeln!(formatter, "nothing differs")?,
            Some(_) => writeln!(formatter, "differences, the most important first:")?,
        }
        for difference in &self.differences {
            writeln!(formatter, "  {difference}")?;
        }
        writeln!(formatter, "transactions:")?;
        for (index, receipt) in self.receipts.iter().enumerate() {
            let outcome = match receipt.outcome {
                ReceiptOutcome::Status(true) => "succeeded".to_owned(),
                ReceiptOutcome::Status(false) => "failed".to_owned(),
                ReceiptOutcome::StateRoot(root) => root.to_string(),
            };
            let (hash, gas, logs) = (self.transactions[index], receipt.gas_used, receipt.logs.len());
            writeln!(formatter, "  {index} {hash} {outcome}, {gas} gas, {logs} logs")?;
        }
        writeln!(formatter, "accounts after the block:")?;
        for change in &self.accounts {
            match change.account {
                None => writeln!(formatter, "  {} is gone", change.address)?,
                Some(account) => {
                    let (address, nonce, balance) = (change.address, account.nonce, account.whole_balance());
                    writeln!(formatter, "  {address} nonce {nonce}, balance {balance}")?;
                }
            }
            for slot in &change.slots {
                writeln!(formatter, "    {} = {:#x}", slot.slot, slot.value)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differences(reference: &str) -> Vec<String> {
        let log = Log { address: Address::ZERO, topics: vec![B256::ZERO], data: Bytes::from_static(&[1]) };
        let receipt = Receipt {
            transaction_type: tenon_api::TransactionType::Legacy,
            outcome: ReceiptOutcome::Status(true),
            cumulative_gas_used: 1,
            gas_used: 1,
            logs: vec![log],
        };
        receipt_differences(&receipt, Some(&serde_json::from_str(reference).unwrap()))
    }

    #[test]
    fn logs_are_compared_with_topics_and_data() {
        let (address, topic) = (Address::ZERO, B256::ZERO);
        let same = format!(r#"{{"logs": [{{"address": "{address}", "topics": ["{topic}"], "data": "0x01"}}]}}"#);
        assert!(differences(&same).is_empty());
        assert_eq!(differences(&same.replace("0x01", "0x02")), ["log 0: data is 0x01, not 0x02"]);
        assert!(differences(&same.replace(&format!("\"{topic}\""), ""))[0].starts_with("log 0: topics are"));
        assert_eq!(differences(r#"{"logs": []}"#), ["1 logs, not 0"]);
        assert!(differences(&format!(r#"{{"logs": [{{"address": "{address}"}}]}}"#)).is_empty());
    }
}
