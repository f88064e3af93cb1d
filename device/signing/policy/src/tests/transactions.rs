//! Rules about transactions, and attempts to get around them.

use super::*;

#[test]
fn without_a_rule_everything_is_denied() {
    let decision = policy("").decide(&request(transaction()), &NoHistory, NOW);

    assert_eq!(decision, Decision { outcome: Outcome::Deny, rule: None, reason: "no rule allows it".to_owned() });
}

#[test]
fn a_rule_allows_matching_requests() {
    let decision = policy(PAYROLL).decide(&request(transaction()), &NoHistory, NOW);

    assert_eq!(decision.outcome, Outcome::Allow);
    assert_eq!((decision.rule.as_deref(), &*decision.reason), (Some("salaries"), "rule \"salaries\" allows it"));
    assert_eq!(outcome(&policy(TOKENS), &transfer(FRIEND, 1_000)), Outcome::Allow);
}

/// Requests that differ from an allowed one in a single respect, each with the condition that it fails.
fn around_payroll() -> Vec<(&'static str, Request, Mismatch)> {
    let as_client = |client: &str| Request { client: client.to_owned(), ..request(transaction()) };
    vec![
        ("another client", as_client("website"), Mismatch::Client),
        ("a client without a name", as_client(""), Mismatch::Client),
        ("the name in capitals", as_client("Payroll"), Mismatch::Client),
        ("the name with a space", as_client("payroll "), Mismatch::Client),
        ("a name that looks alike", as_client("p\u{430}yroll"), Mismatch::Client),
        ("the name and a zero", as_client("payroll\0"), Mismatch::Client),
        ("another account", Request { account: STRANGER, ..request(transaction()) }, Mismatch::Account),
        ("another chain", with(|it| it.chain_id = Some(51)), Mismatch::Chain),
        ("the chain id modulo 2^32", with(|it| it.chain_id = Some((1 << 32) + 50)), Mismatch::Chain),
        ("another recipient", with(|it| it.to = Some(STRANGER)), Mismatch::Recipient),
        ("a creation", with(|it| it.to = None), Mismatch::Recipient),
        ("the zero address", with(|it| it.to = Some(Address::ZERO)), Mismatch::Recipient),
        ("data", with(|it| it.input = vec![0].into()), Mismatch::Function),
        ("a value above the bound", with(|it| it.value = U256::from(2 * COIN) + U256::from(1)), Mismatch::Value),
        ("the highest value", with(|it| it.value = U256::MAX), Mismatch::Value),
        ("a fee above the bound", with(|it| it.gas_limit = 1_000_001), Mismatch::Fee),
        ("a fee beyond 2^256", with(|it| (it.gas_limit, it.payload) = (u64::MAX, price(U256::MAX))), Mismatch::Fee),
        (
            "a fee that wraps to zero",
            with(|it| (it.gas_limit, it.payload) = (1 << 32, price(U256::from(1) << 224))),
            Mismatch::Fee,
        ),
        ("a fee of type 2", with(|it| it.payload = dynamic(U256::from(COIN))), Mismatch::Fee),
        ("delegations", with(|it| it.payload = set_code()), Mismatch::Delegation),
    ]
}

/// Requests that differ in a single respect from one that a token rule allows, each with the condition that it fails.
fn around_tokens() -> Vec<(&'static str, Request, Mismatch)> {
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut asked = transfer(FRIEND, 1_000);
        if let Subject::Transaction { transaction, .. } = &mut asked.subject {
            let mut data = transaction.input.to_vec();
            change(&mut data);
            transaction.input = data.into();
        }
        asked
    };
    vec![
        ("another receiver of tokens", transfer(STRANGER, 1), Mismatch::Argument),
        ("too many tokens", transfer(FRIEND, 1_001), Mismatch::Argument),
        ("all tokens", token_call(TRANSFER, FRIEND, U256::MAX), Mismatch::Argument),
        ("an approval", token_call(APPROVE, FRIEND, U256::from(1)), Mismatch::Function),
        ("no data", changed(&Vec::clear), Mismatch::Function),
        ("half a selector", changed(&|data| data.truncate(2)), Mismatch::Function),
        ("a selector alone", changed(&|data| data.truncate(4)), Mismatch::Function),
        ("a cut argument", changed(&|data| data.truncate(67)), Mismatch::Function),
        ("bytes after the arguments", changed(&|data| data.push(0)), Mismatch::Function),
        ("a second call after the first", changed(&|data| data.extend_from_within(..)), Mismatch::Function),
        ("dirty bits above the address", changed(&|data| data[4] = 1), Mismatch::Function),
        ("another selector", changed(&|data| data[0] ^= 1), Mismatch::Function),
        ("another token", other_contract(transfer(FRIEND, 1)), Mismatch::Recipient),
        ("coins besides the tokens", paying(transfer(FRIEND, 1)), Mismatch::Value),
    ]
}

fn other_contract(mut asked: Request) -> Request {
    if let Subject::Transaction { transaction, .. } = &mut asked.subject {
        transaction.to = Some(STRANGER);
    }
    asked
}

fn paying(mut asked: Request) -> Request {
    if let Subject::Transaction { transaction, .. } = &mut asked.subject {
        transaction.value = U256::from(1);
    }
    asked
}

fn price(gas_price: U256) -> TransactionPayload {
    TransactionPayload::Legacy { gas_price }
}

fn dynamic(max_fee_per_gas: U256) -> TransactionPayload {
    TransactionPayload::DynamicFee { max_fee_per_gas, max_priority_fee_per_gas: U256::ZERO, access_list: vec![] }
}

#[test]
fn a_request_that_differs_in_one_respect_is_denied() {
    for (rules, cases) in [(PAYROLL, around_payroll()), (TOKENS, around_tokens())] {
        let policy = policy(rules);
        for (name, asked, mismatch) in cases {
            let ExplainedDecision { decision, rules } = policy.explain(&asked, &NoHistory, NOW);
            assert_eq!((decision.outcome, decision.rule), (Outcome::Deny, None), "{name}");
            assert_eq!(rules[0].1, Err(mismatch), "{name}");
        }
    }
}

#[test]
fn some_transactions_are_signed_under_no_rule() {
    let anything = policy(
        r#"
        [[rules]]
        name = "anything"
        outcome = "allow"
        kinds = ["transaction"]
        clients = "any"
        accounts = "any"
        chains = "any"
        recipients = "any"
        functions = "any"
        delegations = true
        replace = true
        "#,
    );
    assert_eq!(outcome(&anything, &with(|it| it.payload = set_code())), Outcome::Allow);
    let blobs = TransactionPayload::Blob {
        max_fee_per_gas: U256::from(1),
        max_priority_fee_per_gas: U256::ZERO,
        access_list: vec![],
        max_fee_per_blob_gas: U256::from(1),
        blob_versioned_hashes: vec![B256::ZERO],
    };

    let without_chain = anything.decide(&with(|it| it.chain_id = None), &NoHistory, NOW);
    assert!(without_chain.reason.contains("every chain"), "{without_chain:?}");
    assert_eq!(without_chain.outcome, Outcome::Deny);
    assert_eq!(outcome(&anything, &with(|it| it.payload = blobs)), Outcome::Deny);
    assert_eq!(outcome(&anything, &with(|it| it.to = None)), Outcome::Deny, "a creation must be named");
}

#[test]
fn a_rule_that_denies_takes_precedence_at_any_position() {
    let deny = r#"
        [[rules]]
        name = "not to them"
        outcome = "deny"
        kinds = ["transaction"]
        recipients = ["0xbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"]
        "#;
    for rules in [format!("{PAYROLL}{deny}"), format!("{deny}{PAYROLL}")] {
        let decision = policy(&rules).decide(&request(transaction()), &NoHistory, NOW);
        assert_eq!((decision.outcome, decision.rule.as_deref()), (Outcome::Deny, Some("not to them")));
    }
    let function = r#"
        [[rules]]
        name = "no approvals"
        outcome = "deny"
        kinds = ["transaction"]
        functions = ["erc20.approve"]
        "#;
    let all = r#"
        [[rules]]
        name = "all"
        outcome = "allow"
        kinds = ["transaction"]
        clients = "any"
        accounts = "any"
        chains = "any"
        recipients = "any"
        functions = "any"
        "#;
    let both = policy(&format!("{all}{function}"));
    let mut malformed = token_call(APPROVE, FRIEND, U256::MAX);
    if let Subject::Transaction { transaction, .. } = &mut malformed.subject {
        transaction.input = [&transaction.input[..], &[1]].concat().into();
    }
    assert_eq!(outcome(&both, &transfer(FRIEND, 1)), Outcome::Allow);
    assert_eq!(outcome(&both, &token_call(APPROVE, FRIEND, U256::MAX)), Outcome::Deny);
    assert_eq!(outcome(&both, &malformed), Outcome::Deny, "a contract may read it all the same");
}

#[test]
fn the_first_matching_rule_decides_if_none_denies() {
    let ask = PAYROLL
        .replace("salaries", "large ones")
        .replace("\"allow\"", "\"ask\"")
        .replace("2 ether", "10 ether")
        .replace("3 ether", "20 ether");
    let policy = policy(&format!("{PAYROLL}{ask}"));

    assert_eq!(outcome(&policy, &request(transaction())), Outcome::Allow);
    assert_eq!(outcome(&policy, &with(|it| it.value = U256::from(5 * COIN))), Outcome::Ask);
    assert_eq!(outcome(&policy, &with(|it| it.value = U256::from(11) * U256::from(COIN))), Outcome::Deny);
}
