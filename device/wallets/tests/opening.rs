//! Listing, opening and deriving, with the texts and states that clients see (`docs/spec/device.md 10.4` to `10.7`).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

mod support;

use support::{FIRST, HIDDEN, Node, SECOND, THIRD, address, settings};
use tenon_api::messages::*;
use tenon_api::{DeviceProblem, U256, WholeBalance, join_balance};
use tenon_device_simulator::{Model, PassphraseSource, SimulatorSettings};
use zeroize::Zeroizing;

fn with_pin(model: Model) -> SimulatorSettings {
    SimulatorSettings { pin: Some(Zeroizing::new("1234".into())), ..settings(model) }
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_are_listed_only_while_started() {
    let mut node = Node::off(50, settings(Model::TLater)).await;
    assert_eq!((node.wallets().await, node.call(ListAccounts).await), (vec![], Ok(vec![])));
    assert_eq!(node.open_wallet("").await, Err("unknown wallet".into()));
    assert!(node.simulator.observed().received.is_empty());

    node.switch_on();
    node.until(WalletChange::Opened).await;
    assert_eq!(node.derive("0", true).await, Ok(FIRST.into()));
    assert_eq!(node.call(ListAccounts).await, Ok(vec![address(FIRST)]));
    node.devices.stop().await;

    assert_eq!((node.wallets().await, node.call(ListAccounts).await), (vec![], Ok(vec![])));
    assert_eq!(node.sign_message(b"hello").await, Err("unknown account".into()));
    node.switch_on();
    node.until(WalletChange::Opened).await;
    assert_eq!(node.derive("0", true).await, Ok(FIRST.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_without_protection_opens_by_itself() {
    for model in Model::ALL {
        let mut node = Node::with(50, settings(model)).await;
        node.until(WalletChange::Opened).await;

        let (major, minor, patch) = model.version();
        assert_eq!(node.status().await, format!("Trezor v{major}.{minor}.{patch} 'mine' online"));
        assert_eq!(node.open_wallet("").await, Err("wallet already open".into()));
        let operation = WalletOperation::Derive { path: "1".into(), is_pinned: false };
        let derived = node.call(UseWallet { url: node.url.clone(), operation }).await;
        let url = format!("{}/m/44'/60'/0'/0/1", node.url);
        assert_eq!(derived, Ok(WalletAnswer::Account(WalletAccount { address: address(SECOND), url })));
        assert_eq!(node.derive("m/44'/60'/0'/0", false).await, Ok("0x1ec5C1854e3E9F1674c34D6C2Be1bf13DFc0Fd8F".into()));
        for (path, words) in [
            ("", "empty derivation path"),
            ("/1", "ambiguous path: use 'm/' prefix for absolute paths, or no leading '/' for relative ones"),
            ("m/x", "invalid component: x"),
        ] {
            assert_eq!(node.derive(path, false).await, Err(words.into()));
        }
        node.simulator.unplug();
        node.until(WalletChange::Dropped).await;
        assert_eq!(node.wallets().await, vec![]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_is_brought_by_the_next_call() {
    for model in [Model::One, Model::OneLater] {
        let mut node = Node::with(50, with_pin(model)).await;
        node.until_prompt(WalletPrompt::Pin).await;
        node.until_status("'mine' waiting for PIN").await;
        assert_eq!(node.derive("0", false).await, Err("wallet closed".into()));

        assert_eq!(node.open_wallet("").await, Err("trezor: pin needed".into()));
        assert_eq!(node.open_wallet("999").await, Err("trezor: PIN invalid".into()));
        assert_eq!(node.status().await, "Failed: PIN invalid");
        let problem = DeviceProblem::Failed("PIN invalid".to_owned());
        assert_eq!(node.wallets().await.remove(0).failure, Some(WalletFailure::Device(problem)));
        assert_eq!(node.open_wallet("").await, Err("trezor: pin needed".into()));
        let typed = node.positions("1234").await;
        assert_eq!(node.open_wallet(&typed).await, Ok(()));

        node.until_status("'mine' online").await;
        assert_eq!(node.derive("0", true).await, Ok(FIRST.into()));
        assert!(node.sign_message(b"hello").await.is_ok());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_call_supplies_the_passphrase() {
    for model in Model::ALL {
        let settings = SimulatorSettings {
            has_passphrase_protection: true,
            passphrase_source: PassphraseSource::Host,
            ..settings(model)
        };
        let mut node = Node::with(50, settings).await;
        node.until_prompt(WalletPrompt::Passphrase).await;
        node.until_status("'mine' online").await;

        assert_eq!(node.open_wallet("trezor").await, Ok(()), "{model}");

        assert_eq!(node.derive("0", false).await, Ok(HIDDEN.into()), "{model}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn used_accounts_are_found_up_to_the_first_unused_one() {
    let node = Node::off(50, settings(Model::T)).await;
    // The low part of the second balance is zero: 2^256 wei (`docs/spec/chain.md` 8.1).
    let balances = [(address(FIRST), WholeBalance::from(1)), (address(SECOND), join_balance(U256::ZERO, 1))];
    node.used.lock().unwrap().extend(balances);
    let mut node = node;
    node.switch_on();
    node.until(WalletChange::Opened).await;

    let wanted = vec![address(FIRST), address(SECOND), address(THIRD)];
    let found = async {
        while node.call(ListAccounts).await.unwrap() != wanted {
            // Listing also starts a search, at most once a second.
            node.wallets().await;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), found).await.expect("the accounts are not found");

    let urls: Vec<_> = node.wallets().await.remove(0).accounts.into_iter().map(|account| account.url).collect();
    assert_eq!(urls, [0, 1, 2].map(|index| format!("{}/m/44'/60'/0'/0/{index}", node.url)));
    assert_eq!(node.simulator.observed().confirmations, 0, "nothing was shown");
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_that_devices_lack_have_their_texts() {
    let node = Node::open(50, settings(Model::One)).await;
    let ask = |operation| node.call(UseWallet { url: node.url.clone(), operation });

    let initialize = ask(WalletOperation::Initialize).await;
    let unpair = ask(WalletOperation::Unpair { pin: tenon_api::SecretText::from("1") }).await;
    let unlock = UnlockAccount { address: address(FIRST), password: tenon_api::SecretText::from("x"), seconds: 1 };

    assert_eq!(initialize, Err("specified wallet does not support initialization".into()));
    assert_eq!(unpair, Err("specified wallet does not support pairing".into()));
    assert_eq!(node.call(unlock).await, Err("no key for given address or file".into()));
}

/// Listing devices must not interfere with a request's response, whenever the request begins.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_begins_during_a_look_gets_its_answer() {
    use std::time::{Duration, Instant};
    let mut node = Node::with(50, settings(Model::T)).await;
    node.until(WalletChange::Opened).await;

    // Long enough for several listings.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        let derived = tokio::time::timeout(Duration::from_secs(10), node.derive("1", false)).await;
        assert_eq!(derived, Ok(Ok(SECOND.into())));
    }
}
