//! The signing service's policy, its decisions, and the texts that approvers see.

use alloy_primitives::{Address, B256, U256};
use tenon_api::{Transaction, TransactionPayload, TransactionSignature};
use tenon_signing_policy::{
    Interfaces, MAX_SHOWN_CHARACTERS, NoHistory, Outcome, Policy, Presentation, Request, Subject,
};

/// The policy that decodes the calls.
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

/// A policy makes the same decision each time, and gives a reason.
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

/// The shown text of a call has a bounded length, and only canonically encoded calls are recognised.
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

/// A request of any bytes is refused with a reason, or has one hash and a text of bounded length.
pub(crate) fn service_request(input: &[u8]) {
    tenon_signing_service::fuzzing::request(input);
}

/// Requests of every method, and data whose hash is signed.
pub(crate) fn service_requests() -> Vec<Vec<u8>> {
    let account = Address::repeat_byte(7);
    let transaction = format!(
        r#"[{{"from":"{account}","to":"{account}","gas":"0x5208","gasPrice":"0x1","value":"0x1","nonce":"0x0","chainId":"0x32"}}]"#
    );
    let data = r#"{"types":{"EIP712Domain":[{"name":"name","type":"string"}],"T":[{"name":"a","type":"uint256"}]},"primaryType":"T","domain":{"name":"x"},"message":{"a":1}}"#;
    let info = format!(r#"{{"hash":"{}","round":5,"number":905}}"#, B256::ZERO);
    let certificate = format!(r#"{{"proposedBlockInfo":{info},"signatures":[],"gapNumber":450}}"#);
    let texts = [
        format!(r#"["{account}","0x68656c6c6f"]"#),
        transaction,
        format!(r#"["{account}",{data}]"#),
        format!(r#"["data/typed","{account}",{data}]"#),
        format!(r#"["{account}",50,"0xc0"]"#),
        format!(r#"["{account}",50,{{"proposedBlockInfo":{info},"gapNumber":"0x1c2"}}]"#),
        format!(r#"["{account}",50,{{"round":5,"gapNumber":450}}]"#),
        format!(
            r#"["{account}",50,{{"highestQuorumCert":{certificate},"highestTimeoutCert":{{"round":4,"signatures":[],"gapNumber":450}}}}]"#
        ),
    ];
    let requests = (0_u8..).zip(texts).map(|(method, text)| [vec![method], text.into_bytes()].concat());
    let raw = [&b"\xff\xc9\x80\x80\x80\x80\x80\x80\x32\x80\x80"[..], b"\xff\x19Ethereum Signed Message:\n2hi"];
    requests.chain(raw.into_iter().map(<[u8]>::to_vec)).collect()
}

/// A log of any bytes is read or refused; the entries of a log that is read match its lines.
pub(crate) fn audit_log(input: &[u8]) {
    let mut lines = input.split_inclusive(|byte| *byte == b'\n');
    let mut memory = tenon_signing_audit::Memory::default();
    for line in lines.by_ref().filter_map(|line| serde_json::from_slice::<tenon_signing_audit::Line>(line).ok()) {
        let written = serde_json::to_vec(&line).expect("a line is written");
        assert_eq!(serde_json::from_slice::<tenon_signing_audit::Line>(&written).ok().as_ref(), Some(&line));
        memory.take(&line);
        assert!(tenon_signing_policy::History::latest(&memory) >= line.time);
    }
}

/// Lines of every kind.
pub(crate) fn audit_lines() -> Vec<Vec<u8>> {
    use tenon_signing_audit::{Line, Step};
    let rule = || "transfers".to_owned();
    let (account, hash) = (Address::ZERO, B256::ZERO);
    let steps = [
        Step::Started { policy: hash },
        Step::Asked { request: 1, client: rule(), account, kind: tenon_signing_policy::Kind::Transaction, hash },
        Step::Decided { request: 1, outcome: "allow".to_owned(), rule: Some(rule()), reason: "a rule".to_owned() },
        Step::SignedTransaction {
            request: 1,
            rule: rule(),
            account,
            chain_id: 50,
            nonce: 7,
            value: U256::from(9),
            fee: U256::from(1),
            hash,
        },
        Step::SignedForConsensus {
            request: 2,
            rule: rule(),
            account,
            chain_id: 50,
            kind: tenon_signing_policy::Kind::Vote,
            round: 12,
            hash,
        },
        Step::Failed { request: 3, reason: "gone".to_owned() },
    ];
    let line = |(number, entry)| Line { number, time: 1_800_000_000, previous: B256::ZERO, entry, signature: None };
    let texts = (1..).zip(steps).map(line).map(|line| serde_json::to_vec(&line).unwrap_or_default());
    let lines: Vec<Vec<u8>> = texts.map(|text| [text, vec![b'\n']].concat()).collect();
    [vec![lines.concat()], lines].concat()
}
