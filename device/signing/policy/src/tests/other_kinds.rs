//! Rules about messages, typed data and the messages of masternodes.

use super::*;

fn about(subject: Subject) -> Request {
    Request { subject, ..request(transaction()) }
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
        let asked = about(subject);
        assert_eq!(outcome(&policy(PAYROLL), &asked), Outcome::Deny, "{:?}", asked.kind());
    }
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
    let asked = |text: &[u8]| outcome(&policy, &about(Subject::Message(Bytes::copy_from_slice(text))));
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
        outcome(&policy, &about(Subject::TypedData(Box::new(data))))
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
