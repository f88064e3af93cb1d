//! The signing service's policy, and what it decides and shows.

use alloy_primitives::{Address, B256, U256};
use tenon_api::{Transaction, TransactionPayload, TransactionSignature};
use tenon_signing_policy::{
    Interfaces, MAX_SHOWN_CHARACTERS, NoHistory, Outcome, Policy, Presentation, Request, Subject,
};

/// The policy that calls are held against: it decodes them.
const POLICY: &str = r#"
version = 1
[interfaces.token]
file = "token.json"
[[rules]]
name = "transfers"
outcome = "allow"
kinds = ["transaction"]
clients = ["fuzz"]
accounts = "any"
chains = [50]
recipients = "any"
functions = ["token.transfer", "token.note"]
arguments = [{ function = "token.transfer", name = "amount", max = 1000 }]
"#;

const INTERFACE: &str = r#"[
    {"type": "function", "name": "transfer", "stateMutability": "view", "outputs": [],
        "inputs": [{"name": "to", "type": "address"}, {"name": "amount", "type": "uint256"}]},
    {"type": "function", "name": "note", "stateMutability": "view", "outputs": [],
        "inputs": [{"name": "text", "type": "string"}, {"name": "list", "type": "bytes[][]"}]}
]"#;

fn request(data: &[u8]) -> Request {
    let transaction = Transaction {
        hash: B256::ZERO,
        chain_id: Some(50),
        nonce: 0,
        gas_limit: 100_000,
        to: Some(Address::ZERO),
        value: U256::ZERO,
        input: data.to_vec().into(),
        payload: TransactionPayload::Legacy { gas_price: U256::from(1) },
        signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
    };
    let subject = Subject::Transaction { transaction: Box::new(transaction), hash: B256::ZERO };
    Request { client: "fuzz".to_owned(), account: Address::ZERO, subject }
}

/// A policy decides the same each time, and says why.
pub(crate) fn policy(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Policy::parse(text, |_| Ok(INTERFACE.to_owned())) {
        Ok(policy) => {
            let asked = request(&[0xa9, 0x05, 0x9c, 0xbb]);
            let decision = policy.decide(&asked, &NoHistory, 1);
            assert_eq!(decision, policy.explain(&asked, &NoHistory, 1).decision);
            assert_eq!(decision.outcome == Outcome::Allow, decision.reason.ends_with("\" allows it"), "{decision:?}");
        }
        Err(problem) => assert!(!problem.to_string().is_empty()),
    }
}

/// What is shown of a call is bounded, and only calls that would be written as they are come through.
pub(crate) fn call(input: &[u8]) {
    let policy = Policy::parse(POLICY, |_| Ok(INTERFACE.to_owned())).expect("a policy");
    for data in [input.to_vec(), [&[0xa9, 0x05, 0x9c, 0xbb], input].concat()] {
        let asked = request(&data);
        let shown = Presentation::new(&asked, policy.interfaces());
        assert!(shown.lines.iter().all(|line| is_plain(&line.value) && is_plain(&line.label)), "{shown:?}");
        let is_known = !policy.interfaces().decode(Address::ZERO, &data).is_empty();
        let is_allowed = policy.decide(&asked, &NoHistory, 1).outcome == Outcome::Allow;
        assert!(is_known || !is_allowed);
    }
    let message = Subject::Message(input.to_vec().into());
    let shown = Presentation::new(&Request { subject: message, ..request(&[]) }, &Interfaces::default());
    assert!(shown.lines.iter().all(|line| is_plain(&line.value)), "{shown:?}");
}

fn is_plain(text: &str) -> bool {
    text.chars().count() <= MAX_SHOWN_CHARACTERS && !text.chars().any(char::is_control)
}

/// Policies as operators write them.
pub(crate) fn policies() -> Vec<Vec<u8>> {
    let messages = "version = 1\n[[rules]]\nname = \"logins\"\noutcome = \"ask\"\nkinds = [\"message\"]\nclients = \"any\"\n\
                    accounts = \"any\"\nprefixes = [\"Login: \"]\n";
    let windows = POLICY.replace("arguments", "window = \"24h\"\nmax-value-in-window = \"1.5 ether\"\narguments");
    [POLICY, messages, &windows, "version = 1\n"].iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Data of calls, and texts.
pub(crate) fn calls() -> Vec<Vec<u8>> {
    let mut transfer = vec![0; 64];
    transfer[31] = 7;
    transfer[63] = 9;
    vec![transfer, vec![0xff; 68], "pay \u{202e}0001".as_bytes().to_vec()]
}
