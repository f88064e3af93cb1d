//! Decisions: what rules permit, and attempts to get around them.

use std::{cell::RefCell, path::Path};

use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
use proptest::prelude::*;
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

fn set_code() -> TransactionPayload {
    TransactionPayload::SetCode {
        max_fee_per_gas: U256::from(1),
        max_priority_fee_per_gas: U256::ZERO,
        access_list: vec![],
        authorization_list: vec![],
    }
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
fn other_kinds_of_requests_need_rules_of_their_own() {
    let typed = TypedMessage {
        domain: Domain::default(),
        primary_type: "Permit".to_owned(),
        hash: B256::ZERO,
        members: vec![],
    };
    let vote = ValidatorMessage { kind: Kind::Vote, chain_id: 50, round: 1, number: Some(1), hash: B256::ZERO };
    for subject in [
        Subject::Message(Bytes::from_static(b"hello")),
        Subject::TypedData(Box::new(typed)),
        Subject::Raw(Bytes::from_static(&[1])),
        Subject::Validator(vote),
    ] {
        let asked = Request { subject, ..request(transaction()) };
        assert_eq!(outcome(&policy(PAYROLL), &asked), Outcome::Deny, "{:?}", asked.kind());
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

#[test]
fn a_window_counts_signatures_until_they_are_older_than_it() {
    let (policy, entries) = (policy(PAYROLL), Entries::default());
    let ask = |now| policy.explain(&request(transaction()), &entries, now).rules[0].1;
    entries.add(NOW, COIN);
    entries.add(NOW + 10, COIN);

    assert_eq!(ask(NOW + 20), Ok(()));
    entries.add(NOW + 20, 1);
    assert_eq!(ask(NOW + 30), Err(Mismatch::ValueInWindow));
    assert_eq!(ask(NOW + 86_400 - 1), Err(Mismatch::ValueInWindow));
    assert_eq!(ask(NOW + 86_400), Ok(()), "the first entry is a day old");
    entries.add(NOW + 86_400, 0);
    assert_eq!(ask(NOW + 86_400), Err(Mismatch::RequestsInWindow));
}

#[test]
fn setting_the_clock_back_does_not_reopen_a_window() {
    let (policy, entries) = (policy(PAYROLL), Entries::default());
    entries.add(NOW, 3 * COIN);

    for now in [0, NOW - 10 * 86_400, NOW - 1, NOW] {
        let explained = policy.explain(&request(transaction()), &entries, now);
        assert_eq!(explained.rules[0].1, Err(Mismatch::ValueInWindow), "{now}");
        assert_eq!(explained.decision.outcome, Outcome::Deny);
    }
}

#[test]
fn a_second_transaction_for_a_nonce_needs_a_rule_with_replace() {
    let first = request(transaction());
    let Subject::Transaction { hash, .. } = first.subject else { panic!("a transaction") };
    let entries = Entries { signed: Some((7, hash)), ..Entries::default() };
    let second = with(|it| it.value = U256::from(1));
    let explain = |rules: &str, asked: &Request| policy(rules).explain(asked, &entries, NOW).rules[0].1;

    assert_eq!(explain(PAYROLL, &first), Ok(()), "the same again");
    assert_eq!(explain(PAYROLL, &second), Err(Mismatch::Replacement));
    assert_eq!(explain(&PAYROLL.replace("max-fee =", "replace = true\nmax-fee ="), &second), Ok(()));
    assert_eq!(explain(PAYROLL, &with(|it| it.nonce = 8)), Ok(()));
}

#[test]
fn messages_are_allowed_by_prefix() {
    let policy = policy(
        r#"
        [[rules]]
        name = "logins"
        outcome = "allow"
        kinds = ["message"]
        clients = ["payroll"]
        accounts = "any"
        prefixes = ["Login to example.org: "]
        "#,
    );
    let asked = |text: &[u8]| {
        let subject = Subject::Message(Bytes::copy_from_slice(text));
        outcome(&policy, &Request { subject, ..request(transaction()) })
    };
    assert_eq!(asked(b"Login to example.org: 1234"), Outcome::Allow);
    for text in [&b"Login to example.com: 1234"[..], b" Login to example.org: 1", b"", b"Login to example.org: \xff"] {
        assert_eq!(asked(text), Outcome::Deny, "{text:?}");
    }
}

#[test]
fn typed_data_is_allowed_by_domain_chain_and_structure() {
    let policy = policy(
        r#"
        [[rules]]
        name = "orders"
        outcome = "allow"
        kinds = ["typed-data"]
        clients = ["payroll"]
        accounts = "any"
        chains = [50]
        primary-types = ["Order"]
        domains = [{ name = "Market", contract = "0x7070707070707070707070707070707070707070" }]
        "#,
    );
    let order = TypedMessage {
        domain: Domain {
            name: Some("Market".to_owned()),
            version: None,
            chain_id: Some(U256::from(50)),
            contract: Some(TOKEN),
            others: vec![],
        },
        primary_type: "Order".to_owned(),
        hash: B256::ZERO,
        members: vec![],
    };
    let asked = |change: &dyn Fn(&mut TypedMessage)| {
        let mut data = order.clone();
        change(&mut data);
        outcome(&policy, &Request { subject: Subject::TypedData(Box::new(data)), ..request(transaction()) })
    };
    assert_eq!(asked(&|_| {}), Outcome::Allow);
    assert_eq!(asked(&|data| data.domain.version = Some("2".to_owned())), Outcome::Allow, "not named");
    let program = |name: Option<&str>| asked(&|data| data.domain.name = name.map(str::to_owned));
    let contract = |contract| asked(&|data| data.domain.contract = contract);
    let chain = |chain_id| asked(&|data| data.domain.chain_id = chain_id);
    assert_eq!([program(Some("Bazaar")), program(None)], [Outcome::Deny; 2]);
    assert_eq!([contract(Some(STRANGER)), contract(None)], [Outcome::Deny; 2]);
    let beyond_64_bits = (U256::from(1) << 64) + U256::from(50);
    assert_eq!([chain(Some(U256::from(51))), chain(None), chain(Some(beyond_64_bits))], [Outcome::Deny; 3]);
    assert_eq!(asked(&|data| data.primary_type = "Permit".to_owned()), Outcome::Deny);
}

#[test]
fn validators_sign_by_rule_and_chain() {
    let policy = policy(
        r#"
        [[rules]]
        name = "votes"
        outcome = "allow"
        kinds = ["vote", "timeout"]
        clients = ["node"]
        accounts = ["0xaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]
        chains = [50]
        "#,
    );
    let asked = |kind, chain_id, client: &str| {
        let subject = Subject::Validator(ValidatorMessage { kind, chain_id, round: 9, number: None, hash: B256::ZERO });
        outcome(&policy, &Request { client: client.to_owned(), account: ACCOUNT, subject })
    };
    assert_eq!(asked(Kind::Vote, 50, "node"), Outcome::Allow);
    assert_eq!(asked(Kind::Timeout, 50, "node"), Outcome::Allow);
    assert_eq!(asked(Kind::Seal, 50, "node"), Outcome::Deny);
    assert_eq!(asked(Kind::Vote, 51, "node"), Outcome::Deny);
    assert_eq!(asked(Kind::Vote, 50, "payroll"), Outcome::Deny);
}

#[test]
fn an_invalid_policy_is_refused_with_the_place_of_the_error() {
    let rule = |lines: &str| {
        format!(
            "version = 1\n[interfaces.erc20]\nfile = \"erc20.json\"\n[[rules]]\nname = \"one\"\noutcome = \"allow\"\n{lines}"
        )
    };
    let complete =
        "kinds = [\"transaction\"]\nclients = \"any\"\naccounts = \"any\"\nchains = \"any\"\nrecipients = \"any\"\n";
    let cases = [
        ("".to_owned(), "version"),
        ("version = 2".to_owned(), "`version` is 2"),
        ("version = 1\nrule = []".to_owned(), "unknown field `rule`"),
        (rule("kind = [\"transaction\"]"), "unknown field `kind`"),
        (rule("kinds = [\"payment\"]"), "payment"),
        (rule("kinds = []"), "`kinds` is empty"),
        (rule("kinds = [\"transaction\"]"), "`functions` is missing"),
        (rule(&format!("{complete}functions = \"any\"").replace("clients = \"any\"\n", "")), "`clients` is missing"),
        (rule(&format!("{complete}functions = \"some\"")), "\"some\" is not known"),
        (rule(&format!("{complete}functions = []")), "the rule would never match"),
        (rule(&format!("{complete}functions = [\"erc20.burn\"]")), "no interface has \"erc20.burn\""),
        (rule(&format!("{complete}functions = [\"0xa9059c\"]")), "not a selector"),
        (rule(&format!("{complete}functions = \"any\"\nmax-value = \"1 coin\"")), "`1 coin` is not an amount"),
        (rule(&format!("{complete}functions = \"any\"\nmax-value = -1")), "negative"),
        (rule(&format!("{complete}functions = \"any\"\nwindow = \"1 day\"")), "`1 day` is not a duration"),
        (rule(&format!("{complete}functions = \"any\"\nwindow = \"1d\"")), "`window` needs"),
        (rule(&format!("{complete}functions = \"any\"\nmax-requests-in-window = 1")), "needs `window`"),
        (
            rule(&format!("{complete}functions = \"any\"\nprefixes = \"any\"")),
            "`prefixes` applies only to the kind \"message\"",
        ),
        (
            rule(&format!(
                "{complete}functions = [\"erc20.transfer\"]\narguments = [{{ function = \"erc20.transfer\", name = \"from\", max = 1 }}]"
            )),
            "has no argument \"from\"",
        ),
        (
            rule(&format!(
                "{complete}functions = [\"erc20.transfer\"]\narguments = [{{ function = \"erc20.transfer\", name = \"to\" }}]"
            )),
            "either `one-of` or `max`",
        ),
        (
            rule(&format!(
                "{complete}functions = \"any\"\narguments = [{{ function = \"erc20.transfer\", name = \"to\", max = 1 }}]"
            )),
            "do not name \"erc20.transfer\"",
        ),
        (
            rule(&format!(
                "{complete}functions = \"any\"\n[[rules]]\nname = \"one\"\noutcome = \"deny\"\nkinds = [\"raw\"]"
            )),
            "another rule has this name",
        ),
        (rule("").replace("allow", "deny") + "kinds = [\"transaction\"]\nmax-value = 1", "can't have it"),
        (rule("").replace("\"one\"", "\" \"") + complete + "functions = \"any\"", "a name has"),
        ("version = 1\n[interfaces.other]\nfile = \"other.json\"".to_owned(), "other.json: not found"),
    ];
    for (text, expected) in cases {
        let error = parse(&text).map(|_| ()).expect_err(expected).to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let error = parse("version = 1\n\n[[rules]]\nnam = 1").map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("line 4"), "{error}");
}

#[test]
fn the_hash_changes_with_the_text_and_the_interfaces() {
    let read = |text: &str, interface: &str| Policy::parse(text, |_| Ok(interface.to_owned())).unwrap().hash();
    let text = "version = 1\n[interfaces.a]\nfile = \"a.json\"\n";

    assert_eq!(read(text, ERC20), read(text, ERC20));
    assert_ne!(read(text, ERC20), read(&format!("{text}# and more"), ERC20));
    assert_ne!(read(text, ERC20), read(text, "[]"));
}

#[test]
fn the_presentation_shows_the_content_to_be_signed() {
    let policy = policy("");
    let shown = |asked: &Request| Presentation::new(asked, policy.interfaces());
    let value = |shown: &Presentation, label: &str| {
        shown.lines.iter().find(|line| line.label == label).map(|line| line.value.clone()).unwrap_or_default()
    };

    let payment = shown(&request(transaction()));
    assert_eq!(payment.title, "Send 1 coin");
    assert_eq!(value(&payment, "To"), FRIEND.to_checksum(None));
    assert_eq!(value(&payment, "Highest fee"), "0.000021 coins");
    assert_eq!((value(&payment, "Chain").as_str(), payment.warnings.as_slice()), ("50", &[][..]));

    let call = shown(&transfer(FRIEND, 5));
    assert_eq!((call.title.as_str(), value(&call, "amount (uint256)").as_str()), ("Call erc20.transfer", "5"));
    assert_eq!(call.warnings, []);

    let approval = shown(&token_call(APPROVE, STRANGER, U256::MAX));
    assert_eq!(approval.warnings, [Warning::UnlimitedApproval]);
    assert_eq!(value(&approval, "Unlimited approval for"), STRANGER.to_checksum(None));

    let blind = shown(&token_call([1, 2, 3, 4], FRIEND, U256::ZERO));
    assert_eq!(blind.warnings, [Warning::Blind]);
    assert_eq!(shown(&with(|it| it.to = None)).warnings, [Warning::Creation]);
    assert_eq!(shown(&with(|it| it.payload = set_code())).warnings, [Warning::Delegation]);
    assert_eq!(
        shown(&with(|it| (it.to, it.input) = (None, vec![1; 129].into()))).warnings,
        [Warning::Creation, Warning::Cut]
    );
}

#[test]
fn an_access_list_is_shown_completely_or_marked_as_cut() {
    let policy = policy("");
    let shown = |accounts: u8, keys: u8| {
        let entry = |account: u8| AccessListItem {
            address: Address::repeat_byte(account),
            storage_keys: (0..keys).map(B256::repeat_byte).collect(),
        };
        let access_list: Vec<_> = (0..accounts).map(entry).collect();
        let payload = TransactionPayload::AccessList { gas_price: U256::from(1), access_list };
        Presentation::new(&with(|it| it.payload = payload.clone()), policy.interfaces())
    };
    let listed = |shown: &Presentation| shown.lines.iter().filter(|line| line.label == "Access list").count();

    let whole = shown(2, 1);
    assert_eq!((listed(&whole), whole.warnings.as_slice()), (2, &[][..]));
    assert!(whole.lines.iter().any(|line| line.value.ends_with(&B256::ZERO.to_string())));
    assert_eq!((listed(&shown(9, 0)), shown(9, 0).warnings), (8, vec![Warning::Cut]));
    assert_eq!(shown(1, 9).warnings, [Warning::Cut]);
}

#[test]
fn the_last_nonce_is_never_signed() {
    let policy = policy(PAYROLL);
    assert_eq!(outcome(&policy, &with(|it| it.nonce = u64::MAX - 1)), Outcome::Allow);
    assert_eq!(outcome(&policy, &with(|it| it.nonce = u64::MAX)), Outcome::Deny);
}

#[test]
fn shown_text_has_no_misleading_characters() {
    let subject = Subject::Message(Bytes::from_static("pay \u{202e}0001\nand \u{1b}[2J".as_bytes()));
    let asked = Request { client: "evil\u{200b}".to_owned(), account: ACCOUNT, subject };

    let shown = Presentation::new(&asked, &Interfaces::default());

    assert_eq!(shown.warnings, [Warning::HiddenCharacters]);
    let values: Vec<&str> = shown.lines.iter().map(|line| line.value.as_str()).collect();
    assert_eq!(values[0], "evil");
    assert_eq!(&values[2..], ["pay 0001", "and [2J", "20 bytes"]);
}

proptest! {
    #[test]
    fn a_request_that_no_rule_names_is_denied(
        client in "[a-z]{0,8}", account: [u8; 20], to: Option<[u8; 20]>, chain: Option<u64>, nonce: u64, gas: u64,
        value: [u64; 4], data in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut asked = with(|it| {
            *it = Transaction {
                chain_id: chain, nonce, gas_limit: gas, to: to.map(Address::from), value: U256::from_limbs(value),
                input: data.into(), ..it.clone()
            };
        });
        (asked.client, asked.account) = (client, Address::from(account));
        let named = asked.client == "payroll";
        prop_assume!(!named);
        let policy = policy(&format!("{PAYROLL}{TOKENS}"));
        prop_assert_eq!(outcome(&policy, &asked), Outcome::Deny);
        let shown = Presentation::new(&asked, policy.interfaces());
        prop_assert!(shown.lines.len() <= 200);
        prop_assert!(shown.lines.iter().all(|line| !line.value.chars().any(char::is_control)));
    }

    #[test]
    fn any_text_is_a_policy_or_an_error(text in "\\PC{0,200}") {
        let _ = parse(&text);
        let _ = parse(&format!("version = 1\n{text}"));
    }

    #[test]
    fn decoding_any_data_does_not_panic(data in prop::collection::vec(any::<u8>(), 0..300), which in 0..3_usize) {
        let selector = [TRANSFER, APPROVE, hex!("bd1f3b5e")][which];
        let data = [&selector[..], &data].concat();
        let policy = policy("");
        for call in policy.interfaces().decode(TOKEN, &data) {
            prop_assert!(call.arguments.iter().all(|argument| argument.shown().chars().count() <= MAX_SHOWN_CHARACTERS));
        }
    }
}
