//! The policies, requests and history that the tests share.

mod any_input;
mod other_kinds;
mod parsing;
mod presentation;
mod transactions;
mod windows;

use std::{cell::RefCell, path::Path};

use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
use tenon_api::{AccessListItem, Transaction, TransactionPayload, TransactionSignature};

use super::*;

const ACCOUNT: Address = Address::repeat_byte(0xaa);
const FRIEND: Address = Address::repeat_byte(0xbb);
const STRANGER: Address = Address::repeat_byte(0xcc);
const TOKEN: Address = Address::repeat_byte(0x70);
const NOW: u64 = 1_800_000_000;
const COIN: u64 = 1_000_000_000_000_000_000;

/// A token's interface.
pub(crate) const ERC20: &str = r#"[
    {"type": "function", "name": "transfer", "stateMutability": "nonpayable", "outputs": [],
        "inputs": [{"name": "to", "type": "address"}, {"name": "amount", "type": "uint256"}]},
    {"type": "function", "name": "approve", "stateMutability": "nonpayable", "outputs": [],
        "inputs": [{"name": "spender", "type": "address"}, {"name": "amount", "type": "uint256"}]},
    {"type": "function", "name": "note", "stateMutability": "nonpayable", "outputs": [],
        "inputs": [{"name": "text", "type": "string"}, {"name": "list", "type": "uint256[]"}]}
]"#;

fn parse(text: &str) -> Result<Policy, PolicyError> {
    Policy::parse(text, |file| match file == Path::new("erc20.json") {
        true => Ok(ERC20.to_owned()),
        false => Err(PolicyError::Unreadable { path: file.to_owned(), reason: "not found".to_owned() }),
    })
}

fn policy(rules: &str) -> Policy {
    parse(&format!("version = 1\n[interfaces.erc20]\nfile = \"erc20.json\"\n{rules}")).unwrap()
}

fn transaction() -> Transaction {
    Transaction {
        hash: B256::ZERO,
        chain_id: Some(50),
        nonce: 7,
        gas_limit: 21_000,
        to: Some(FRIEND),
        value: U256::from(COIN),
        input: Bytes::new(),
        payload: TransactionPayload::Legacy { gas_price: U256::from(1_000_000_000) },
        signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
    }
}

fn request(transaction: Transaction) -> Request {
    let hash = keccak256(format!("{transaction:?}"));
    Request {
        client: "payroll".to_owned(),
        account: ACCOUNT,
        subject: Subject::Transaction { transaction: Box::new(transaction), hash },
    }
}

fn with(change: impl FnOnce(&mut Transaction)) -> Request {
    let mut changed = transaction();
    change(&mut changed);
    request(changed)
}

/// A call of a function of the token.
fn token_call(selector: [u8; 4], first: Address, amount: U256) -> Request {
    let data = [&selector[..], first.into_word().as_slice(), &amount.to_be_bytes::<32>()].concat();
    with(|transaction| {
        transaction.to = Some(TOKEN);
        transaction.value = U256::ZERO;
        transaction.gas_limit = 60_000;
        transaction.input = data.into();
    })
}

const TRANSFER: [u8; 4] = hex!("a9059cbb");
const APPROVE: [u8; 4] = hex!("095ea7b3");

fn transfer(to: Address, amount: u64) -> Request {
    token_call(TRANSFER, to, U256::from(amount))
}

/// A history with one rule's entries: time, value, fee.
#[derive(Default)]
struct Entries {
    spent: RefCell<Vec<(u64, U256, U256)>>,
    signed: Option<(u64, B256)>,
}

impl Entries {
    fn add(&self, time: u64, value: u64) {
        self.spent.borrow_mut().push((time, U256::from(value), U256::ZERO));
    }
}

impl History for Entries {
    fn spent(&self, _rule: &str, after: u64) -> Spent {
        let mut sum = Spent::default();
        for (_, value, fee) in self.spent.borrow().iter().filter(|(time, ..)| *time > after) {
            sum = Spent { value: sum.value + value, fee: sum.fee + fee, requests: sum.requests + 1 };
        }
        sum
    }

    fn latest(&self) -> u64 {
        self.spent.borrow().iter().map(|(time, ..)| *time).max().unwrap_or_default()
    }

    fn signed_for_nonce(&self, chain_id: u64, account: Address, nonce: u64) -> Option<B256> {
        let (signed, hash) = self.signed?;
        (chain_id == 50 && account == ACCOUNT && nonce == signed).then_some(hash)
    }
}

fn outcome(policy: &Policy, request: &Request) -> Outcome {
    policy.decide(request, &NoHistory, NOW).outcome
}

const PAYROLL: &str = r#"
[[rules]]
name = "salaries"
outcome = "allow"
kinds = ["transaction"]
clients = ["payroll"]
accounts = ["0xaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]
chains = [50]
recipients = ["0xbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"]
functions = "none"
max-value = "2 ether"
max-fee = "0.001 ether"
window = "24h"
max-value-in-window = "3 ether"
max-requests-in-window = 3
"#;

const TOKENS: &str = r#"
[[rules]]
name = "tokens"
outcome = "allow"
kinds = ["transaction"]
clients = ["payroll"]
accounts = "any"
chains = [50]
recipients = ["0x7070707070707070707070707070707070707070"]
functions = ["erc20.transfer"]
max-value = 0
max-fee = "1 ether"
arguments = [
    { function = "erc20.transfer", name = "to", one-of = ["0xbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"] },
    { function = "erc20.transfer", name = "amount", max = 1000 },
]
"#;

fn set_code() -> TransactionPayload {
    TransactionPayload::SetCode {
        max_fee_per_gas: U256::from(1),
        max_priority_fee_per_gas: U256::ZERO,
        access_list: vec![],
        authorization_list: vec![],
    }
}
