//! The service from a client's request to the log, with unlocked key files and a policy in a temporary folder.

use std::path::Path;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
use async_trait::async_trait;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tenon_accounts::{
    Accounts, AccountsError, Authority, HashSignature, KeyPlace, Signable, Signer, WalletBackend, WalletDirectory,
};
use tenon_api::messages::Wallet;
use tenon_bus::{Bus, CallContext};
use tenon_config::DEVELOPMENT_MNEMONIC;
use tenon_signing_audit::{Line, Step, verify};
use tokio::task::JoinHandle;

use crate::{ApproveError, Service, Settings, methods};

mod served;

const POLICY: &str = r#"
version = 1

[[rules]]
name = "small"
outcome = "allow"
kinds = ["transaction"]
clients = ["payroll"]
accounts = "any"
chains = [50]
recipients = ["0x7070707070707070707070707070707070707070"]
functions = "none"
max-value = "1 ether"
max-fee = "0.01 ether"
window = "24h"
max-value-in-window = "2 ether"

[[rules]]
name = "asked"
outcome = "ask"
kinds = ["transaction", "message"]
clients = ["payroll", "alice"]
accounts = "any"
chains = [51]
recipients = "any"
functions = "any"
prefixes = "any"

[[rules]]
name = "votes"
outcome = "allow"
kinds = ["seal", "vote", "timeout", "sync-info"]
clients = ["node"]
accounts = "any"
chains = "any"

[[rules]]
name = "stated blocks"
outcome = "allow"
kinds = ["transaction"]
clients = ["node"]
accounts = "any"
chains = "any"
recipients = "any"
functions = "any"

[[rules]]
name = "blind"
outcome = "allow"
kinds = ["raw"]
clients = ["blind"]
accounts = "any"
"#;

/// The account of a device on which no request is confirmed.
const ON_DEVICE: Address = Address::repeat_byte(0xde);

/// Number of requests that wait at the device.
static AT_DEVICE: AtomicUsize = AtomicUsize::new(0);

/// A device on which no request is confirmed.
struct Silent;

#[async_trait]
impl WalletBackend for Silent {
    fn scheme(&self) -> &'static str {
        "silent"
    }

    fn key_place(&self) -> KeyPlace {
        KeyPlace::Device
    }

    fn wallets(&self) -> Vec<Wallet> {
        Vec::new()
    }

    fn addresses(&self) -> Vec<Address> {
        vec![ON_DEVICE]
    }

    fn has_key(&self, address: Address) -> bool {
        address == ON_DEVICE
    }

    async fn signer(&self, _: Address, _: Authority<'_>) -> Result<Box<dyn Signer>, AccountsError> {
        Ok(Box::new(Self) as Box<dyn Signer>)
    }
}

#[async_trait]
impl Signer for Silent {
    async fn sign(&self, _: Signable<'_>) -> Result<HashSignature, AccountsError> {
        AT_DEVICE.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }
}

struct Setup {
    folder: tempfile::TempDir,
    service: Service,
    accounts: Vec<Address>,
}

fn setup(more: &str) -> Setup {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("policy.toml"), POLICY).unwrap();
    let service = open(folder.path(), more);
    let accounts = service.accounts();
    Setup { folder, service, accounts }
}

fn open(folder: &Path, more: &str) -> Service {
    let mnemonic = Accounts::from_mnemonic(DEVELOPMENT_MNEMONIC, 3, 50).unwrap();
    let validator = mnemonic.addresses()[2];
    let path = folder.join("signer.toml");
    let text = format!(
        "version = 1\npolicy = \"policy.toml\"\nlog = \"log\"\n{more}\n[validators]\n\"{validator}\" = 50\n\
         [approvers.alice]\nsocket = \"a\"\n[approvers.bob]\nsocket = \"b\"\nclients = [\"payroll\"]\n\
         [approvers.carol]\nsocket = \"c\"\n"
    );
    std::fs::write(&path, text).unwrap();
    let settings = Settings::read(&path).unwrap();
    let directory = WalletDirectory::new(0, Bus::new(), Some(mnemonic), None).with_backend(Arc::new(Silent));
    Service::open(&settings, directory, None).unwrap().0
}

impl Setup {
    async fn call(&self, client: &str, method: &str, params: Value) -> Result<Value, String> {
        let params = params.to_string();
        let answer = methods::answer(&self.service, client, method, Some(&params), &CallContext::new()).await;
        answer.map(|json| serde_json::from_slice(&json).unwrap()).map_err(|failure| failure.message)
    }

    /// Asks for the signature of a message, which needs an approval.
    fn ask(self: &Arc<Self>, client: &'static str) -> JoinHandle<Result<Value, String>> {
        let setup = Arc::clone(self);
        tokio::spawn(async move {
            let params = json!([setup.accounts[1], hex::encode_prefixed("hello")]);
            setup.call(client, "eth_sign", params).await
        })
    }

    fn transfer(&self, changes: &[(&str, Value)]) -> Value {
        let mut transaction = json!({
            "from": self.accounts[0], "to": "0x7070707070707070707070707070707070707070", "gas": "0x5208",
            "gasPrice": "0x3b9aca00", "value": "0xde0b6b3a7640000", "nonce": "0x0", "chainId": "0x32",
        });
        for (name, value) in changes {
            transaction[*name] = value.clone();
        }
        json!([transaction])
    }

    fn log(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        verify(&self.folder.path().join("log"), None, |line| lines.push(line.clone())).unwrap();
        lines
    }

    fn signatures(&self) -> usize {
        let is_signed = |line: &&Line| {
            matches!(line.entry, Step::Signed { .. } | Step::SignedTransaction { .. } | Step::SignedForConsensus { .. })
        };
        self.log().iter().filter(is_signed).count()
    }

    /// Waits until a request waits for people; returns its number and hash.
    async fn waiting(&self) -> (u64, B256) {
        let mut changes = self.service.approvals().changes();
        loop {
            if let Some(waiting) = self.service.approvals().list().first() {
                return (waiting.number, waiting.hash);
            }
            changes.changed().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_transaction_within_its_rule_is_signed_and_logged() {
    let setup = setup("");

    let signed = setup.call("payroll", "eth_signTransaction", setup.transfer(&[])).await.unwrap();

    let raw: Bytes = signed["raw"].as_str().unwrap().parse().unwrap();
    let transaction = tenon_chain::decode_transaction(&raw).unwrap();
    assert_eq!(tenon_chain::recover_sender(&transaction).unwrap(), setup.accounts[0]);
    assert_eq!(signed["tx"]["hash"], json!(keccak256(&raw)));
    let steps: Vec<Value> =
        setup.log().iter().map(|line| serde_json::to_value(&line.entry).unwrap()["step"].clone()).collect();
    assert_eq!(steps, ["started", "asked", "decided", "signed-transaction"]);
}

#[tokio::test]
async fn windows_and_nonces_survive_a_restart() {
    let mut setup = setup("");
    setup.call("payroll", "eth_signTransaction", setup.transfer(&[])).await.unwrap();
    setup.call("payroll", "eth_signTransaction", setup.transfer(&[("nonce", json!("0x1"))])).await.unwrap();
    // Signing the same transaction again is not a replacement and spends nothing more of the window.
    setup.call("payroll", "eth_signTransaction", setup.transfer(&[])).await.unwrap();

    let other = setup.transfer(&[("value", json!("0x1")), ("nonce", json!("0x0"))]);
    let next = setup.transfer(&[("value", json!("0x1")), ("nonce", json!("0x2"))]);
    for _ in 0..2 {
        assert!(setup.call("payroll", "eth_signTransaction", other.clone()).await.is_err());
        assert!(setup.call("payroll", "eth_signTransaction", next.clone()).await.is_err());
        let folder = setup.folder;
        drop(setup.service);
        let service = open(folder.path(), "");
        setup = Setup { accounts: service.accounts(), folder, service };
    }
    assert_eq!(setup.signatures(), 3);
}

#[tokio::test]
async fn two_concurrent_requests_cannot_spend_the_same_remainder_of_a_window() {
    let setup = Arc::new(setup(""));
    let call = |nonce: u64| {
        let setup = Arc::clone(&setup);
        tokio::spawn(async move {
            let transfer = setup.transfer(&[("nonce", json!(format!("{nonce:#x}")))]);
            setup.call("payroll", "eth_signTransaction", transfer).await.is_ok()
        })
    };
    let calls: Vec<_> = (0..10).map(call).collect();
    let mut signed = 0;
    for call in calls {
        signed += u32::from(call.await.unwrap());
    }
    assert_eq!(signed, 2);
}

#[tokio::test]
async fn an_approval_is_for_one_hash_and_counts_once() {
    let setup = Arc::new(setup(""));
    let asked = setup.ask("payroll");
    let (number, hash) = setup.waiting().await;
    let approve = |by: &'static str, number: u64, hash: B256| {
        let setup = Arc::clone(&setup);
        async move { setup.service.approve(by, number, hash).await }
    };

    assert!(matches!(approve("alice", number, B256::ZERO).await, Err(ApproveError::OtherHash { .. })));
    assert!(matches!(approve("alice", number + 1, hash).await, Err(ApproveError::NotWaiting(_))));
    assert!(matches!(approve("bob", number, hash).await, Err(ApproveError::Requester(_))));
    assert_eq!(approve("alice", number, hash).await, Ok(()));

    let signature = asked.await.unwrap().unwrap();
    assert_eq!(signature.as_str().unwrap().len(), 132);
    assert!(matches!(approve("alice", number, hash).await, Err(ApproveError::NotWaiting(_))));
    assert_eq!(setup.signatures(), 1);
}

#[tokio::test]
async fn two_approvals_must_come_from_two_people() {
    let setup = Arc::new(setup("approvals = 2"));
    let asked = setup.ask("alice");
    let (number, hash) = setup.waiting().await;

    assert!(matches!(setup.service.approve("alice", number, hash).await, Err(ApproveError::Requester(_))));
    assert_eq!(setup.service.approve("bob", number, hash).await, Ok(()));
    assert!(matches!(setup.service.approve("bob", number, hash).await, Err(ApproveError::Twice(_))));
    assert!(!asked.is_finished());
    assert_eq!(setup.service.approve("carol", number, hash).await, Ok(()));
    assert!(asked.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_refusal_a_timeout_or_a_departed_client_ends_a_request() {
    let setup = Arc::new(setup("approval-seconds = 1"));
    let asked = setup.ask("payroll");
    let (number, _) = setup.waiting().await;
    setup.service.refuse("bob", number).unwrap();
    assert_eq!(asked.await.unwrap().unwrap_err(), "request denied: bob refused it");

    let asked = setup.ask("payroll");
    assert_eq!(asked.await.unwrap().unwrap_err(), "request denied: it was not approved in time");

    let asked = setup.ask("payroll");
    let (number, hash) = setup.waiting().await;
    asked.abort();
    assert!(asked.await.is_err());
    assert!(matches!(setup.service.approve("alice", number, hash).await, Err(ApproveError::NotWaiting(_))));
    assert_eq!(setup.signatures(), 0);
}

#[tokio::test]
async fn a_policy_replaced_during_an_approval_is_applied() {
    let setup = Arc::new(setup(""));
    let asked = setup.ask("payroll");
    let (number, hash) = setup.waiting().await;
    std::fs::write(setup.folder.path().join("policy.toml"), "version = 1").unwrap();
    setup.service.reload().await.unwrap();

    setup.service.approve("alice", number, hash).await.unwrap();

    assert_eq!(asked.await.unwrap().unwrap_err(), "request denied: no rule allows it");
    assert_eq!(setup.signatures(), 0);
}

#[tokio::test]
async fn an_invalid_policy_leaves_the_old_one_in_force() {
    let setup = setup("");
    std::fs::write(setup.folder.path().join("policy.toml"), "version = 2").unwrap();
    assert!(setup.service.reload().await.is_err());
    assert!(setup.call("payroll", "eth_signTransaction", setup.transfer(&[])).await.is_ok());
}

#[tokio::test]
async fn nothing_is_signed_if_the_log_cannot_be_written() {
    let setup = setup("");
    // The folder is gone, so the checkpoint can't be written.
    std::fs::remove_dir_all(setup.folder.path().join("log")).unwrap();

    for nonce in ["0x0", "0x1"] {
        let transfer = setup.transfer(&[("nonce", json!(nonce)), ("value", json!("0x1"))]);
        let error = setup.call("payroll", "eth_signTransaction", transfer).await.unwrap_err();
        assert!(error.starts_with("cannot use the audit log, so nothing is signed: "), "{error}");
    }
}

#[tokio::test]
async fn validators_sign_once_per_round_and_only_for_their_chain() {
    let setup = setup("");
    let validator = setup.accounts[2];
    let vote = |chain: u64, round: u64, block: u8| {
        let info = json!({ "hash": B256::repeat_byte(block), "round": round, "number": 900 + round });
        json!([validator, chain, { "proposedBlockInfo": info, "gapNumber": 450 }])
    };

    let first = setup.call("node", "consensus_signVote", vote(50, 5, 1)).await.unwrap();
    assert_eq!(setup.call("node", "consensus_signVote", vote(50, 5, 1)).await.unwrap(), first);
    assert!(setup.call("node", "consensus_signVote", vote(50, 5, 2)).await.is_err());
    assert!(setup.call("node", "consensus_signVote", vote(50, 4, 1)).await.is_err());
    // The signed bytes do not include the chain, so another chain id must not permit a second vote.
    assert!(setup.call("node", "consensus_signVote", vote(51, 5, 2)).await.is_err());
    assert!(setup.call("node", "consensus_signVote", vote(50, 6, 2)).await.is_ok());
    let timeout = json!([validator, 50, { "round": "0x6", "gapNumber": "0x1c2" }]);
    assert!(setup.call("node", "consensus_signTimeout", timeout).await.is_ok());
    // A validator's key signs nothing else, and no other key signs consensus messages.
    assert!(setup.call("alice", "eth_sign", json!([validator, "0x00"])).await.is_err());
    let other = json!([setup.accounts[0], 50, { "round": 1, "gapNumber": 0 }]);
    assert!(setup.call("node", "consensus_signTimeout", other).await.is_err());
    assert_eq!(setup.signatures(), 4);
}

/// Masternodes are paid for signing transactions; their keys sign no other transactions.
#[tokio::test]
async fn validators_sign_transactions_that_state_a_block_and_no_others() {
    let setup = setup("");
    let validator = setup.accounts[2];
    let stated = format!("0xe341eaa4{:064x}{:064x}", 915, 7);
    let transaction = |changes: &[(&str, Value)]| {
        let mut transaction = json!({
            "from": validator, "to": "0x0000000000000000000000000000000000000089", "gas": "0x30d40", "gasPrice": "0x0",
            "value": "0x0", "nonce": "0x0", "input": stated, "chainId": "0x32",
        });
        changes.iter().for_each(|(name, value)| transaction[*name] = value.clone());
        json!([transaction])
    };

    assert!(setup.call("node", "account_signTransaction", transaction(&[])).await.is_ok());
    for change in [
        ("to", json!(setup.accounts[0])),
        ("value", json!("0x1")),
        ("gasPrice", json!("0x1")),
        ("input", json!("0xe341eaa4")),
        ("chainId", json!("0x33")),
    ] {
        let refused = setup.call("node", "account_signTransaction", transaction(std::slice::from_ref(&change))).await;
        let reason = refused.expect_err(&format!("{change:?}"));
        assert!(reason.contains("signing transactions only"), "{change:?}: {reason}");
    }
    assert_eq!(setup.signatures(), 1);
}

#[tokio::test]
async fn bytes_that_encode_a_transaction_are_decided_as_one() {
    let setup = setup("");
    let sign = async |data: Vec<u8>| {
        let context = CallContext::new();
        methods::sign_raw(&setup.service, "blind", setup.accounts[0], data, &context).await
    };
    assert!(sign(b"anything".to_vec()).await.is_ok());
    // nonce 0, price 0, gas 0, no recipient, value 0, no data, chain 50
    let transaction = hex::decode("c9808080808080328080").unwrap();
    assert!(sign(transaction).await.is_err());
    assert!(sign(b"\x19Ethereum Signed Message:\n2hi".to_vec()).await.is_err());
    assert_eq!(setup.signatures(), 1);
}

#[tokio::test]
async fn a_client_has_a_limited_number_of_requests_per_minute() {
    let setup = setup("requests-per-minute = 3");
    for _ in 0..3 {
        let error = setup.call("stranger", "eth_sign", json!([setup.accounts[0], "0x00"])).await.unwrap_err();
        assert!(error.starts_with("request denied"), "{error}");
    }
    let error = setup.call("stranger", "eth_sign", json!([setup.accounts[0], "0x00"])).await.unwrap_err();
    assert!(error.starts_with("too many requests"), "{error}");
}

#[tokio::test]
async fn a_request_for_an_account_without_key_has_the_text_of_clients() {
    let setup = setup("");

    let error = setup.call("payroll", "eth_sign", json!([Address::repeat_byte(9), "0x00"])).await.unwrap_err();

    assert_eq!(error, "request denied: unknown account");
}

#[tokio::test]
async fn every_method_of_the_discovery_document_exists() {
    let setup = setup("");
    let document = setup.call("payroll", "rpc_discover", json!([])).await.unwrap();
    for method in document["methods"].as_array().unwrap() {
        let name = method["name"].as_str().unwrap();
        let error = setup.call("payroll", name, json!([])).await.err().unwrap_or_default();
        assert!(!error.contains("does not exist"), "{name}: {error}");
    }
    assert!(setup.call("payroll", "eth_sendTransaction", json!([])).await.unwrap_err().contains("does not exist"));
    assert_eq!(setup.call("payroll", "eth_accounts", json!([])).await.unwrap(), json!(setup.accounts));
}

#[tokio::test]
async fn typed_data_is_signed_only_under_its_rule() {
    let setup = setup("");
    let data = json!({
        "types": { "EIP712Domain": [{ "name": "name", "type": "string" }], "T": [{ "name": "a", "type": "uint256" }] },
        "primaryType": "T", "domain": { "name": "Program" }, "message": { "a": 1 },
    });
    let error = setup.call("payroll", "eth_signTypedData_v4", json!([setup.accounts[0], data])).await.unwrap_err();
    assert_eq!(error, "request denied: no rule allows it");
    assert!(U256::from(setup.signatures()).is_zero());
}

#[tokio::test]
async fn a_client_has_a_limited_number_of_requests_waiting_at_devices() {
    let setup = Arc::new(setup(""));
    let ask = |client: &'static str, nonce: usize| {
        let setup = Arc::clone(&setup);
        tokio::spawn(async move {
            let transfer = setup.transfer(&[
                ("from", json!(ON_DEVICE)),
                ("nonce", json!(format!("{nonce:#x}"))),
                ("value", json!("0x0")),
            ]);
            setup.call(client, "eth_signTransaction", transfer).await
        })
    };
    let asked: Vec<_> = (0..16).map(|nonce| ask("payroll", nonce)).collect();
    while AT_DEVICE.load(Ordering::SeqCst) < 16 {
        tokio::task::yield_now().await;
    }

    let refused = ask("payroll", 16).await.unwrap().unwrap_err();
    assert_eq!(refused, "too many requests: the maximum number of requests is waiting for a device");
    for request in &asked {
        request.abort();
    }
    for request in asked {
        assert!(request.await.is_err());
    }
    let again = ask("payroll", 17);
    while AT_DEVICE.load(Ordering::SeqCst) < 17 {
        tokio::task::yield_now().await;
    }
    again.abort();
    assert_eq!(setup.signatures(), 0);
}

#[tokio::test]
async fn concurrent_approvals_of_one_person_are_logged_once() {
    let setup = Arc::new(setup("approvals = 2"));
    let asked = setup.ask("alice");
    let (number, hash) = setup.waiting().await;
    let approvals = (0..6).map(|_| setup.service.approve("bob", number, hash));

    let outcomes = futures_util::future::join_all(approvals).await;

    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    let twice = |outcome: &&Result<(), ApproveError>| matches!(outcome, Err(ApproveError::Twice(_)));
    assert_eq!(outcomes.iter().filter(twice).count(), 5);
    let approved = setup.log().iter().filter(|line| matches!(line.entry, Step::Approved { .. })).count();
    assert_eq!(approved, 1);
    setup.service.approve("carol", number, hash).await.unwrap();
    assert!(asked.await.unwrap().is_ok());
}

#[tokio::test]
async fn requests_are_counted_before_they_are_parsed() {
    let setup = setup("requests-per-minute = 3");
    let sign = async |params: Value| setup.call("payroll", "eth_signTypedData_v4", params).await.unwrap_err();

    for _ in 0..3 {
        let error = sign(json!([setup.accounts[0], { "types": {} }])).await;
        assert!(error.starts_with("typed data: "), "{error}");
    }
    assert!(sign(json!(["no account"])).await.starts_with("too many requests"));
    assert!(setup.call("payroll", "eth_accounts", json!([])).await.is_ok());
}

#[tokio::test]
async fn a_policy_that_others_can_change_is_not_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let setup = setup("");
    let set = |name: &str, mode: u32| {
        std::fs::set_permissions(setup.folder.path().join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let json = r#"[{"type":"function","name":"f","inputs":[],"outputs":[],"stateMutability":"view"}]"#;
    std::fs::write(setup.folder.path().join("f.json"), json).unwrap();
    std::fs::write(setup.folder.path().join("policy.toml"), "version = 1\n[interfaces.f]\nfile = \"f.json\"").unwrap();
    let refusal = async || setup.service.reload().await.err().map(|error| error.to_string()).unwrap_or_default();

    for (name, wrong, right) in [("f.json", 0o664, 0o644), ("policy.toml", 0o646, 0o644), ("", 0o770, 0o700)] {
        set(name, wrong);
        let refused = refusal().await;
        assert!(
            refused.contains("others can change it: run chmod go-w on it") && refused.contains(name),
            "{name}: {refused}"
        );
        set(name, right);
    }
    assert_eq!(refusal().await, "");
}
