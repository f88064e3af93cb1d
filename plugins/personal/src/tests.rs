//! Methods against a node whose answers the test sets.

use std::sync::Arc;

use serde_json::{Value, json};
use tenon_sdk::testing::FakeHost;

use super::*;

const ACCOUNT: &str = "0x0c2c51a0990aee1d73c1228de158688341557508";

fn account() -> Address {
    ACCOUNT.parse().expect("address")
}

fn call_method(host: &FakeHost, method: &str, params: &Value) -> Result<Value, Failure> {
    let answer = host.call_method(&table(), &Arc::new(Personal), method, &params.to_string())?;
    Ok(serde_json::from_str(&answer).expect("JSON"))
}

fn refusal(host: &FakeHost, method: &str, params: &Value) -> String {
    call_method(host, method, params).unwrap_err().message
}

/// A node whose answer to unlocking contains the request.
fn node() -> FakeHost {
    FakeHost::new()
        .answer(|_: ListAccounts| Ok(vec![account()]))
        .answer(|request: UnlockAccount| {
            assert_eq!((request.address, request.password.expose()), (account(), "päss"));
            Err(Failure::server(format!("for {}", request.seconds)))
        })
        .answer(|request: SignMessage| {
            let password = request.password.map(|password| password.expose().to_owned());
            Err(Failure::server(format!("{password:?}")))
        })
}

#[test]
fn unlocking_lasts_three_hundred_seconds_by_default() {
    let unlock = |rest: &[Value]| {
        let params = [&[json!(ACCOUNT), json!("päss")], rest].concat();
        refusal(&node(), "personal_unlockAccount", &json!(params))
    };

    assert_eq!(unlock(&[]), "for 300");
    assert_eq!(unlock(&[Value::Null]), "for 300");
    assert_eq!(unlock(&[json!(0)]), "for 0");
    assert_eq!(unlock(&[json!(9_999_999_999_u64)]), "for 9999999999");
    assert_eq!(
        unlock(&[json!("0x1")]),
        "invalid argument 2: json: cannot unmarshal string into Go value of type uint64"
    );
    assert_eq!(refusal(&node(), "personal_unlockAccount", &json!([ACCOUNT])), "missing value for required argument 1");
}

#[test]
fn a_message_is_signed_with_the_password_or_without_one() {
    let sign = |params: Value| refusal(&node(), "personal_sign", &params);

    assert_eq!(sign(json!(["0x01", ACCOUNT, "secret"])), "Some(\"secret\")");
    assert_eq!(sign(json!(["0x01", ACCOUNT, ""])), "Some(\"\")");
    assert_eq!(sign(json!(["0x01", ACCOUNT])), "None");
    assert_eq!(sign(json!(["0x01", ACCOUNT, null])), "None");
}

#[test]
fn a_transaction_to_sign_must_be_complete() {
    let whole = json!({ "from": ACCOUNT, "to": ACCOUNT, "gas": "0x5208", "gasPrice": "0x1", "nonce": "0x0" });
    let without = |member: &str| {
        let mut transaction = whole.clone();
        transaction.as_object_mut().expect("an object").remove(member);
        refusal(&node(), "personal_signTransaction", &json!([transaction, "x"]))
    };

    assert_eq!(without("from"), "sender not specified");
    assert_eq!(without("gas"), "gas not specified");
    assert_eq!(without("gasPrice"), "missing gasPrice or maxFeePerGas/maxPriorityFeePerGas");
    assert_eq!(without("nonce"), "nonce not specified");
}

#[test]
fn an_account_without_a_key_in_this_node_sends_nothing() {
    let params = json!([{ "from": "0x0100000000000000000000000000000000000000" }, "x"]);

    for method in ["personal_sendTransaction", "personal_signAndSendTransaction"] {
        assert_eq!(refusal(&node(), method, &params), "unknown account");
    }
}

#[test]
fn wallets_are_listed_with_their_accounts_and_two_texts_are_ignored() {
    let host = FakeHost::new().answer(|_: ListWallets| {
        let url = "keystore:///k/1".to_owned();
        let accounts = vec![WalletAccount { address: account(), url: url.clone() }];
        let failure = Some(WalletFailure::Device(DeviceProblem::Failed("PIN invalid".to_owned())));
        let status = WalletStatus::Device(DeviceStatus::Closed);
        let device = Wallet { url: "trezor://1".to_owned(), status, failure, accounts: vec![] };
        let failure = Some(WalletFailure::Text("no answer".to_owned()));
        let status = WalletStatus::Text("not reached".to_owned());
        let signer = Wallet { url: "extapi:///s".to_owned(), status, failure, accounts: vec![] };
        Ok(vec![Wallet { url, status: WalletStatus::Locked, failure: None, accounts }, device, signer])
    });
    let wanted = json!([
        { "url": "keystore:///k/1", "status": "Locked", "accounts": [{ "address": ACCOUNT, "url": "keystore:///k/1" }] },
        { "url": "trezor://1", "status": "Failed: PIN invalid", "failure": "PIN invalid" },
        { "url": "extapi:///s", "status": "not reached", "failure": "no answer" },
    ]);

    assert_eq!(call_method(&host, "personal_listWallets", &json!([])), Ok(wanted.clone()));
    assert_eq!(call_method(&host, "personal_listWallets", &json!(["key", "password"])), Ok(wanted));
    assert_eq!(refusal(&host, "personal_listWallets", &json!(["1", "2", "3"])), "too many arguments, want at most 2");
}

#[test]
fn answers_about_wallets_have_the_form_of_the_reference() {
    let host = FakeHost::new().answer(|request: UseWallet| match request.operation {
        WalletOperation::Derive { path, is_pinned } => {
            Ok(WalletAnswer::Account(WalletAccount { address: account(), url: format!("{path} {is_pinned}") }))
        }
        WalletOperation::Initialize => Ok(WalletAnswer::Mnemonic(SecretText::from("some words"))),
        _ => Ok(WalletAnswer::Done),
    });

    assert_eq!(call_method(&host, "personal_openWallet", &json!(["trezor://1"])), Ok(Value::Null));
    assert_eq!(call_method(&host, "personal_unpair", &json!(["trezor://1", "1234"])), Ok(Value::Null));
    assert_eq!(call_method(&host, "personal_initializeWallet", &json!(["trezor://1"])), Ok(json!("some words")));
    let derived = call_method(&host, "personal_deriveAccount", &json!(["trezor://1", "m/0", true]));
    assert_eq!(derived, Ok(json!({ "address": ACCOUNT, "url": "m/0 true" })));
}
