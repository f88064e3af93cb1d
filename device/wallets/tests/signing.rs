//! Signing through directory, session, framing, UDP and simulator: the measured vectors, requests that models can't
//! sign, and cancellation.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

mod support;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use alloy_primitives::{B256, Bytes, U256, hex};
use support::{FIRST, Node, address, measured, settings};
use tenon_api::messages::*;
use tenon_api::{AccessListItem, DeviceProblem, RequestError, SecretText, TransactionType};
use tenon_device_simulator::{Approval, Fault, FaultPlan, Model, SimulatorSettings};
use tenon_test_data::device;

fn word(digits: &str) -> U256 {
    U256::from_str_radix(digits, 16).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_model_reproduces_the_measured_signatures() {
    for model in Model::ALL {
        let mut nodes = BTreeMap::new();
        for vector in device::measured().transactions {
            let (Some(chain_id), None) = (vector.chain_id, vector.tx_type) else { continue };
            let node = match nodes.entry(chain_id) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(Node::open(chain_id, settings(model)).await),
            };
            let request = CallRequest {
                to: vector.to.as_deref().map(address),
                gas: Some(vector.gas_limit),
                gas_price: Some(U256::from(vector.gas_price)),
                value: Some(U256::from(vector.value)),
                nonce: Some(vector.nonce),
                input: vector.data().into(),
                ..measured()
            };
            // For longer chain ids the device returns only the parity as `v`.
            let v = if vector.v == 1 { 2 * chain_id + 36 } else { vector.v.into() };
            let name = vector.name;

            let signed = node.sign(request).await.unwrap_or_else(|error| panic!("{model}, {name}: {error}"));

            let signature = signed.signature;
            assert_eq!(
                (signature.v, signature.r, signature.s),
                (v, word(&vector.r), word(&vector.s)),
                "{model}, {name}"
            );
            assert_eq!(tenon_chain::recover_sender(&signed).unwrap(), address(FIRST), "{model}, {name}");
        }
        let shown = nodes[&50].simulator.observed();
        assert!(shown.confirmations >= shown.signatures, "{model}: signed without confirmation");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_model_reproduces_the_measured_message_signatures() {
    for model in Model::ALL {
        let node = Node::open(51, settings(model)).await;
        for vector in device::measured().messages {
            let signature = node.sign_message(vector.message.as_bytes()).await.unwrap();

            assert_eq!(hex::encode(signature), vector.signature, "{model}");
        }
    }
}

fn fee_market() -> CallRequest {
    let access_list = vec![AccessListItem { address: address(FIRST), storage_keys: vec![B256::repeat_byte(7)] }];
    CallRequest {
        gas_price: None,
        max_fee_per_gas: Some(U256::from(50)),
        max_priority_fee_per_gas: Some(U256::from(2)),
        access_list: Some(access_list),
        ..measured()
    }
}

const MAIL: &str = r#"{
    "types": {
        "EIP712Domain": [{"name": "name", "type": "string"}, {"name": "version", "type": "string"},
            {"name": "chainId", "type": "uint256"}, {"name": "verifyingContract", "type": "address"}],
        "Person": [{"name": "name", "type": "string"}, {"name": "wallet", "type": "address"}],
        "Mail": [{"name": "from", "type": "Person"}, {"name": "to", "type": "Person"}, {"name": "contents", "type": "string"}]
    },
    "primaryType": "Mail",
    "domain": {"name": "Ether Mail", "version": "1", "chainId": 1,
        "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC"},
    "message": {
        "from": {"name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"},
        "to": {"name": "Bob", "wallet": "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"},
        "contents": "Hello, Bob!"
    }
}"#;

fn mail(contents: &str) -> SignTypedData {
    let hash = |digits: &str| digits.parse::<B256>().unwrap();
    SignTypedData {
        address: address(FIRST),
        domain: hash("0xf2cee375fa42b42143804025fc449deafd50cc031ca257e0b194a650a912090f"),
        message: Some(hash("0xc52c0ee5d84264471806290a3f2c4cecfc5490626bf912d01f240d7a274b371e")),
        data: Some(MAIL.replace("Hello, Bob!", contents)),
        password: Some(SecretText::from("passed over")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn current_firmware_signs_type_2_and_typed_data_and_old_firmware_is_not_contacted() {
    for model in Model::ALL {
        let has_recent_firmware = [Model::OneLater, Model::TLater].contains(&model);
        let node = Node::open(50, settings(model)).await;
        let abilities = node.call(DescribeSigner { address: address(FIRST) }).await.unwrap();
        assert_eq!(abilities.signs_fee_market, has_recent_firmware, "{model}");
        let before = node.simulator.observed().signatures;

        let signed = node.sign(fee_market()).await;
        let typed = node.call(mail("Hello, Bob!")).await;
        let access_list = CallRequest { gas_price: Some(U256::from(1)), access_list: Some(vec![]), ..measured() };
        assert_eq!(node.sign(access_list).await.err().as_deref(), Some("transaction type not supported"), "{model}");

        if has_recent_firmware {
            assert_eq!(signed.unwrap().transaction_type(), TransactionType::DynamicFee);
            assert!(typed.is_ok(), "{model}: {typed:?}");
            // The signature must be for the data that the person saw.
            let other = node.call(mail("Hello, Eve!")).await;
            match model {
                Model::TLater => {
                    assert!(other.as_ref().is_err_and(|error| error.starts_with("signer mismatch")), "{other:?}")
                }
                // This model gets and shows only the hashes, which are the same.
                _ => assert_eq!(other, typed),
            }
        } else {
            assert_eq!(signed.err().as_deref(), Some("transaction type not supported"), "{model}");
            assert!(typed.is_err_and(|error| error.contains("not supported")), "{model}");
            assert_eq!(node.simulator.observed().signatures, before, "{model}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sending_takes_the_next_nonce_and_ignores_the_password() {
    let node = Node::open(551, settings(Model::One)).await;
    let request = CallRequest { nonce: None, ..measured() };

    let hash = node.call(SendTransaction { request, password: Some(SecretText::from("x")) }).await.unwrap().unwrap();

    let sent = node.sent.lock().unwrap().clone();
    assert_eq!(sent.iter().map(|sent| (sent.hash, sent.nonce)).collect::<Vec<_>>(), [(hash, 7)]);
    let digest = node.directory.sign_block(address(FIRST), B256::ZERO);
    let refused = digest.map_err(|error| error.into_refusal().unwrap());
    assert_eq!(refused, Err(DeviceProblem::RawHash.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn listing_works_during_a_prompt_and_dropping_a_request_cancels_it() {
    for model in Model::ALL {
        let asked = SimulatorSettings { approval: Approval::Asked, ..settings(model) };
        let mut node = Node::open(50, asked).await;
        for request in [measured(), CallRequest { input: Bytes::from(vec![1; 4099]), ..measured() }] {
            {
                let bus = node.bus.clone();
                let context = tenon_bus::CallContext::new();
                let signing = bus.call(SignTransaction { request, password: None }, &context);
                tokio::pin!(signing);
                tokio::select! {
                    result = &mut signing => panic!("{model}: {result:?}"),
                    () = node.until_prompt(WalletPrompt::Button) => {}
                }
                // The listing comes from a snapshot, so it does not wait for the device.
                assert_eq!(node.call(ListAccounts).await, Ok(vec![address(FIRST)]));
                assert_eq!(node.wallets().await.len(), 1);
                let pressed = tokio::time::timeout(Duration::from_millis(50), signing).await;
                assert!(pressed.is_err(), "{model}: {pressed:?}");
            }
            assert_eq!(node.simulator.observed().signatures, 0, "{model}: signed without confirmation");
        }

        let hello = node.confirming(node.sign_message(b"hello")).await;

        assert!(hello.is_ok(), "{model}: {hello:?}");
        assert_eq!(node.simulator.observed().signatures, 1, "{model}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_disconnected_at_any_message_signs_the_next_time() {
    let model = Model::TLater;
    for after in 0..5 {
        let mut node = Node::open(50, settings(model)).await;
        node.simulator.plan_fault(FaultPlan { fault: Fault::Disconnect, after });
        let request = CallRequest { input: Bytes::from(vec![1; 1500]), ..measured() };

        let context = tenon_bus::CallContext::with_timeout(Duration::from_secs(3));
        let leaves = tokio::time::timeout(
            Duration::from_secs(3),
            node.bus.call(SignTransaction { request: request.clone(), password: None }, &context),
        );
        assert!(!matches!(leaves.await, Ok(Ok(_))), "after {after}");

        node.until(WalletChange::Dropped).await;
        node.simulator.plug().await;
        node.until(WalletChange::Opened).await;
        assert_eq!(node.derive("0", true).await, Ok(FIRST.to_owned()));
        assert!(node.sign(request).await.is_ok(), "after {after}");
        let observed = node.simulator.observed();
        assert!(observed.confirmations >= observed.signatures, "after {after}: signed without confirmation");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_cancels_pending_prompts() {
    let asked = SimulatorSettings { approval: Approval::Asked, ..settings(Model::T) };
    let mut node = Node::open(50, asked).await;
    let (bus, devices) = (node.bus.clone(), node.devices.clone());
    let signing = tokio::spawn(async move {
        let request = SignMessage { address: address(FIRST), message: Bytes::new(), password: None };
        bus.call(request, &tenon_bus::CallContext::new()).await
    });
    node.until_prompt(WalletPrompt::Button).await;

    devices.stop().await;

    let ended = signing.await.unwrap();
    assert_eq!(ended, Err(RequestError::Account(DeviceProblem::Closed.into()).into()));
    assert_eq!(node.simulator.observed().signatures, 0);
}
