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
use tenon_api::{AccessListItem, SecretText, TransactionType};
use tenon_device_simulator::{Approval, Fault, FaultPlan, Model, SimulatorSettings};

/// Name, chain id, v, r, s and the differences from [`measured`] (`docs/spec/device.md 12.2`).
type Vector = (&'static str, u64, u64, &'static str, &'static str, fn(&mut CallRequest));

const VECTORS: [Vector; 12] = [
    (
        "chain 1",
        1,
        37,
        "b18ae293158a203135802d101c2ffe69d435bf51020cc432e9663ca5881749e8",
        "4fb252a95ddd117fe4b415b9e2b107b2dfa3ae2be4dab1a9eca7352f0f854321",
        |_| {},
    ),
    (
        "chain 50",
        50,
        136,
        "9d74b5d455a58b05cb41da6cb482e1d9e4356b97a68c3c54d99c556e4ab2d582",
        "54ba298246c9d07a1fb737fe09418ba59db1cf7e8ce4e6aab54f77674cfab95a",
        |_| {},
    ),
    (
        "chain 51",
        51,
        138,
        "5726caef859633c0f746d71061efeaa07eae848a483a3c425c9b78802dc30025",
        "192e8520c5ab2f75196f974836c3ef240874b7484a388ee9e02dfa08e6443270",
        |_| {},
    ),
    (
        "chain 2147483629",
        2_147_483_629,
        4_294_967_294,
        "78a4a8c80a42f2375e8cb5f6faebd6e078f1e8b11180e7eed0e3a29774cee729",
        "0cb3b99ae6a1bc19881c6174d962a116e21de3ea7edb67b4eacfc4071a9a24cd",
        |_| {},
    ),
    (
        "chain 2147483630",
        2_147_483_630,
        2 * 2_147_483_630 + 36,
        "24c13b831bf0a9392d2dc7095d75ee5d7f3621923742424e73b084a622a1ac5d",
        "638cdbe2839ef91d6905bfe92c06a3570884f660b8403beb5869b195085931c9",
        |_| {},
    ),
    (
        "chain 4294967295",
        4_294_967_295,
        2 * 4_294_967_295 + 36,
        "87b1c59a7f155a296e5e83657a8bb7c1dab5af0a738dad5c1e67d36d7942f253",
        "573c5c06bb61275cc3445916c6ba9c426197bbec40a1dfc991582de0828f3a0d",
        |_| {},
    ),
    (
        "256 bytes of data",
        50,
        136,
        "107957299219ec7777165baf758114854ad86f1d1dc7d822bc0b3bdd9e7897f3",
        "2b38492606479554c28541ef22457119235ae5124e8d85075d51e6cbf582eda8",
        |request| request.input = Bytes::from(b"abcdefghijklmnop".repeat(16)),
    ),
    (
        "1024 bytes of data",
        50,
        136,
        "2b69b4b850999d61c941590b2c49b8b89fe44ed728141bcac60bb38f6c9fdf47",
        "632450cabf8c5e66204fe2814a7700182e727bd34c61b3787326699cd26cf9e3",
        |request| request.input = Bytes::from(b"ABCDEFGHIJKLMNOP".repeat(64)),
    ),
    (
        "4099 bytes of data",
        50,
        135,
        "3ceb27b4bb8c7cf34db723633feaba1994f37e8607948d62bd75de8262fa0788",
        "6312e7f773f778ab0feb5f0bb2f3203413129401666e27e104bcf127ca3854e9",
        |request| request.input = Bytes::from([b"ABCDEFGHIJKLMNOP".repeat(256), b"!!!".to_vec()].concat()),
    ),
    (
        "creation",
        50,
        136,
        "214c6594d6ea64361f68f35ef0a336251448bfd4a23d0afc0ae4bb1aeb96b633",
        "4f1d50c8eacf4067f8d0ba1893eab47be412d68fa6641f887e38a602f6ab7b73",
        |request| {
            request.to = None;
            request.input = Bytes::from(hex!("6000").repeat(10));
        },
    ),
    (
        "value 0",
        50,
        135,
        "6564973e7c368ddc87d4a6385b412831955daec56419c8d25fa59c7e65444fc7",
        "24ebd2dd79ff39fd1392221e375b655f93aef939d6ffbe593660d0999e938ffd",
        |request| request.value = Some(U256::ZERO),
    ),
    (
        "large numbers",
        50,
        135,
        "35fe64f2e422a1192b69eddbe4d0de2e04cb6afd6dbe27e2134fd5025d0de610",
        "529705261b5b3e1890d1988f70f3944d733e453df8b30b759eb5e0fe8a2118ae",
        |request| {
            request.nonce = Some(u64::MAX);
            request.gas_price = Some(U256::from(250_000_000_000_u64));
            request.gas = Some(21_000);
            request.value = Some(U256::from(12_345_678_901_234_567_890_u64));
        },
    ),
];

fn word(digits: &str) -> U256 {
    U256::from_str_radix(digits, 16).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_model_reproduces_the_measured_signatures() {
    for model in Model::ALL {
        let mut nodes = BTreeMap::new();
        for (name, chain_id, v, r, s, change) in VECTORS {
            let node = match nodes.entry(chain_id) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(Node::open(chain_id, settings(model)).await),
            };
            let mut request = measured();
            change(&mut request);

            let signed = node.sign(request).await.unwrap_or_else(|error| panic!("{model}, {name}: {error}"));

            let signature = signed.signature;
            assert_eq!((signature.v, signature.r, signature.s), (v, word(r), word(s)), "{model}, {name}");
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
        for (message, wanted) in [
            (
                &b"hello"[..],
                hex!(
                    "2a91d411ed68262c5143f284d8add365d7797136f2cd7e05173b340d2e2f4e5031813bbac1252d5ef54d996011a72756300841626eecdeb7f1dee918184cf2db1b"
                ),
            ),
            (
                b"",
                hex!(
                    "dfbf4a19fed035245d54b630fb70acce97991913941d1f03b3de47a245ffe69a2f291b1d4235cf861af5f3d198e253d05a53bd9c73834119283d92ac812bfc561c"
                ),
            ),
            (
                b"yyyyyyyyyyy",
                hex!(
                    "636fbe8afde7650d12d71b2d9cd086f1305c8f8fb5b15c735276c1697d8416165e3de74004c30374909b3fc30a2f4edf2c043dc4d6df13b9bcae2fad88d778c61c"
                ),
            ),
        ] {
            assert_eq!(node.sign_message(message).await.unwrap()[..], wanted[..], "{model}");
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
                // Shows only the hashes.
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

    let hash = node.call(SendTransaction { request, password: Some(SecretText::from("x")) }).await.unwrap();

    let sent = node.sent.lock().unwrap().clone();
    assert_eq!(sent.iter().map(|sent| (sent.hash, sent.nonce)).collect::<Vec<_>>(), [(hash, 7)]);
    let digest = node.directory.sign_block(address(FIRST), B256::ZERO);
    assert_eq!(digest.map_err(|error| error.to_string()), Err("not supported".into()));
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
                // Listing reads snapshots.
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

    let ended = signing.await.unwrap().map_err(|failure| failure.to_string());
    assert_eq!(ended, Err("wallet closed".into()));
    assert_eq!(node.simulator.observed().signatures, 0);
}
