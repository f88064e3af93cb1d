//! The vectors measured on real firmware (`docs/spec/device.md 12.2`), bit for bit.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

mod support;

use support::{EARLY_MODELS, Host, account, settings};
use tenon_device_framing::Packets;
use tenon_device_simulator::{Model, SimulatorSettings};
use tenon_proto::common::{ButtonAck, PassphraseAck, PassphraseRequest};
use tenon_proto::encode;
use tenon_proto::ethereum::{
    EthereumAddress, EthereumGetAddress, EthereumGetPublicKey, EthereumMessageSignature, EthereumPublicKey,
    EthereumSignMessage, EthereumSignTx, EthereumTxAck, EthereumTxRequest,
};
use tenon_test_data::device::{MeasuredTransaction, measured};

async fn address(host: &mut Host, address_n: Vec<u32>) -> String {
    let answer: EthereumAddress = host.call(&EthereumGetAddress { address_n, show_display: None }).await;
    answer.address().to_owned()
}

#[tokio::test]
async fn derives_the_addresses() {
    let short = account(0)[..4].to_vec();
    for model in Model::ALL {
        let mut host = Host::new(settings(model));
        for (path, expected) in [
            (account(0), "0x73d0385F4d8E00C5e6504C6030F47BF6212736A8"),
            (account(1), "0xFA01a39f8Abaeb660c3137f14A310d0b414b2A15"),
            (account(2), "0x574BbB36871bA6b78E27f4B4dCFb76eA0091880B"),
            (short.clone(), "0x1ec5C1854e3E9F1674c34D6C2Be1bf13DFc0Fd8F"),
        ] {
            assert_eq!(address(&mut host, path).await, expected, "{model}");
        }
        let words = format!("{}about", "abandon ".repeat(11));
        let mut host = Host::new(SimulatorSettings { time_scale: 0.0, ..SimulatorSettings::new(model, &words) });
        assert_eq!(address(&mut host, account(0)).await, "0x9858EfFD232B4033E47d90003D41EC34EcaEda94", "{model}");
    }
}

#[tokio::test]
async fn derives_the_address_behind_a_passphrase() {
    let mut host = Host::new(SimulatorSettings { has_passphrase_protection: true, ..settings(Model::One) });
    let _: PassphraseRequest = host.ask(&EthereumGetAddress { address_n: account(0), show_display: None }).await;
    let mut answer = PassphraseAck::default();
    answer.passphrase = Some("trezor".into());

    let address: EthereumAddress = host.call(&answer).await;

    assert_eq!(address.address(), "0xE5b1C3D91d7f877Cd628c0A9768Ad6d91fa51cE9");
}

#[tokio::test]
async fn returns_the_public_keys() {
    for model in EARLY_MODELS {
        let mut host = Host::new(settings(model));

        let key: EthereumPublicKey =
            host.call(&EthereumGetPublicKey { address_n: account(0), show_display: None }).await;
        let upper: EthereumPublicKey =
            host.call(&EthereumGetPublicKey { address_n: account(0)[..3].to_vec(), show_display: None }).await;

        let node = key.node.as_ref().unwrap();
        assert_eq!((node.depth, node.fingerprint, node.child_num), (Some(5), Some(370_640_308), Some(0)));
        assert_eq!(hex::encode(node.chain_code()), "31781a3a614d466d80e9bb16b5dd55eec981f4ef79b8ecfa29fb9d5954a76a70");
        assert_eq!(
            hex::encode(node.public_key()),
            "03ad8e7eb4f3a7d1a409fa7bdc7b79d8840fe746d3fa9ee17fee4f84631ec1430b"
        );
        assert_eq!(node.private_key, None);
        assert_eq!(
            key.xpub(),
            "xpub6FaTWSkwxJHxFmbunkSXxsBdQ2HF3q2yiuW8rRj2BQHNy4fwYmWCiju31zWrum3A4YioNTWUjvp77R3yGYisBeczeSMuSYWvFBdA1qr2KAc"
        );
        assert_eq!(
            upper.xpub(),
            "xpub6CNFa58kEQJu2hwMVoofpDEKVVSg6gfwqBqE2zHAianaUnQkrJzJJ42iLDp7Dmg2aP88qCKoFZ4jidk3tECdQuF4567NGHDfe7iBRwHxgke"
        );
    }
}

/// The packets of a message.
fn packets(id: u16, body: &[u8]) -> Vec<String> {
    Packets::new(id, body).unwrap().map(|packet| hex::encode(packet.as_bytes())).collect()
}

/// A packet with its trailing zeros.
fn padded(digits: &str) -> String {
    format!("{digits:0<128}")
}

#[tokio::test]
async fn exchanges_the_measured_packets() {
    let mut host = Host::new(settings(Model::One));

    let (id, body) = encode(&EthereumGetAddress { address_n: account(0), show_display: None });
    let measured = padded("3f232300380000001608ac8080800808bc808080080880808080080800080000");
    assert_eq!(packets(id, &body), [measured]);
    host.send_raw(id, &body).await;
    let answer = host.receive().await;
    let measured = "3f2323003900000\
                    02c122a307837336430333835463464384530304335653635303443363033304634374246363231323733364138";
    assert_eq!(packets(answer.id, &answer.body), [padded(measured)]);

    // The fields of the measured request are in another order than those of our encoder; devices accept any order.
    let measured = [
        "3f2323003a0000005108ac8080800808bc808080080880808080080800080012001a011422011432010a400048325a2a30783164316333323837363461343162",
        "3f646130343932623636626161333063346133333966663835656600",
    ];
    for packet in measured {
        host.send_packet(hex::decode(padded(packet)).unwrap().try_into().unwrap()).await;
    }
    for _ in 0..2 {
        let button = host.receive().await;
        assert_eq!(packets(button.id, &button.body), [padded("3f2323001a000000020808")]);
        let (id, body) = encode(&ButtonAck {});
        assert_eq!(packets(id, &body), [padded("3f2323001b00000000")]);
        host.send_raw(id, &body).await;
    }
    let signature = host.receive().await;
    assert_eq!(
        packets(signature.id, &signature.body),
        [
            "3f2323003b000000471088011a209d74b5d455a58b05cb41da6cb482e1d9e4356b97a68c3c54d99c556e4ab2d582222054ba298246c9d07a1fb737fe09418ba5",
            &padded("3f9db1cf7e8ce4e6aab54f77674cfab95a")
        ]
    );
}

fn request(measured: &MeasuredTransaction) -> EthereumSignTx {
    // Without leading zeros.
    let number = |number: u64| Some(number.to_be_bytes()[number.leading_zeros() as usize / 8..].to_vec());
    EthereumSignTx {
        address_n: account(0),
        nonce: number(measured.nonce),
        gas_price: number(measured.gas_price),
        gas_limit: number(measured.gas_limit),
        to: measured.to.clone(),
        value: number(measured.value),
        chain_id: measured.chain_id,
        tx_type: measured.tx_type,
        ..Default::default()
    }
}

/// Signs, sending the data as the device requests it; returns v, r and s, and the requested lengths.
async fn sign(host: &mut Host, mut request: EthereumSignTx, data: &[u8]) -> ((u32, String, String), Vec<u32>) {
    let (first, mut rest) = data.split_at(data.len().min(1024));
    request.data_length = Some(data.len() as u32);
    request.data_initial_chunk = (!first.is_empty()).then(|| first.to_vec());
    let mut answer: EthereumTxRequest = host.call(&request).await;
    let mut asked = Vec::new();
    while let Some(length) = answer.data_length {
        asked.push(length);
        let (chunk, after) = rest.split_at(length as usize);
        rest = after;
        answer = host.call(&EthereumTxAck { data_chunk: Some(chunk.to_vec()) }).await;
    }
    let (r, s) = (hex::encode(answer.signature_r()), hex::encode(answer.signature_s()));
    ((answer.signature_v.unwrap(), r, s), asked)
}

#[tokio::test]
async fn produces_the_signatures() {
    for model in EARLY_MODELS {
        let mut host = Host::new(settings(model));
        for measured in measured().transactions {
            let data = measured.data();

            let (signature, asked) = sign(&mut host, request(&measured), &data).await;

            assert_eq!(signature, (measured.v, measured.r, measured.s), "{model}, {}", measured.name);
            let expected: &[u32] = if data.len() == 4099 { &[1024, 1024, 1024, 3] } else { &[] };
            assert_eq!(asked, expected, "{model}, {}", measured.name);
        }
    }
}

#[tokio::test]
async fn signs_the_messages() {
    for model in Model::ALL {
        let mut host = Host::new(settings(model));
        for measured in measured().messages {
            let message = Some(measured.message.into_bytes());

            let answer: EthereumMessageSignature =
                host.call(&EthereumSignMessage { address_n: account(0), message }).await;

            assert_eq!(hex::encode(answer.signature()), measured.signature, "{model}");
            assert_eq!(answer.address(), "0x73d0385F4d8E00C5e6504C6030F47BF6212736A8");
        }
    }
}

#[tokio::test]
async fn reproduces_the_length_bug_of_model_one_if_set() {
    let request = EthereumSignMessage { address_n: account(0), message: Some(b"0123456789".to_vec()) };
    let buggy = "1989ec993343f915501dc74797bca711a6388e2e64e424661627bd1e1e45e5c4309c3c3e18caf2a12ff355f9270c97f3184d8edb07d4391a042b39152c28e55d1c";
    let with_bug = SimulatorSettings { has_message_length_bug: true, ..settings(Model::One) };

    let answer: EthereumMessageSignature = Host::new(with_bug).call(&request).await;
    let sound: EthereumMessageSignature = Host::new(settings(Model::One)).call(&request).await;

    assert_eq!(hex::encode(answer.signature()), buggy);
    assert_ne!(hex::encode(sound.signature()), buggy);
}
