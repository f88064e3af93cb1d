//! How long a decision with 10,000 rules takes. The bound is 1 ms.

use std::fmt::Write as _;
use std::hint::black_box;

use alloy_primitives::{Address, B256, Bytes, U256};
use criterion::{Criterion, criterion_group, criterion_main};
use tenon_api::{Transaction, TransactionPayload, TransactionSignature};
use tenon_signing_policy::{NoHistory, Policy, Request, Subject};

const RULES: u64 = 10_000;

fn address(number: u64) -> Address {
    Address::from_word(B256::from(U256::from(number)))
}

/// Rules that differ by recipient, or by client only.
fn policy(by_recipient: bool) -> Policy {
    let mut text = "version = 1\n".to_owned();
    for number in 0..RULES {
        let (recipients, client) = match by_recipient {
            true => (format!("[\"{}\"]", address(number)), 0),
            false => ("\"any\"".to_owned(), number),
        };
        let _ = write!(
            text,
            "[[rules]]\nname = \"{number}\"\noutcome = \"allow\"\nkinds = [\"transaction\"]\nclients = [\"c{client}\"]\n\
             accounts = \"any\"\nchains = [50]\nrecipients = {recipients}\nfunctions = \"none\"\nmax-value = 1\n"
        );
    }
    Policy::parse(&text, |_| Ok(String::new())).unwrap_or_else(|error| panic!("{error}"))
}

fn request(client: u64) -> Request {
    let transaction = Transaction {
        hash: B256::ZERO,
        chain_id: Some(50),
        nonce: 0,
        gas_limit: 21_000,
        to: Some(address(RULES - 1)),
        value: U256::from(1),
        input: Bytes::new(),
        payload: TransactionPayload::Legacy { gas_price: U256::from(1) },
        signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
    };
    let subject = Subject::Transaction { transaction: Box::new(transaction), hash: B256::ZERO };
    Request { client: format!("c{client}"), account: Address::ZERO, subject }
}

fn decide(criterion: &mut Criterion) {
    for (name, by_recipient, client) in [("by recipient", true, 0), ("by client only", false, RULES - 1)] {
        let (policy, request) = (policy(by_recipient), request(client));
        criterion.bench_function(&format!("decide, 10,000 rules, {name}"), |bencher| {
            bencher.iter(|| black_box(policy.decide(&request, &NoHistory, 1_800_000_000)));
        });
    }
}

criterion_group!(benches, decide);
criterion_main!(benches);
