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

const TO: &str = "0x1d1c328764a41bda0492b66baa30c4a339ff85ef";

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
    host.send(&EthereumGetAddress { address_n: account(0), show_display: None }).await;
    let _: PassphraseRequest = host.expect().await;
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

/// Nonce 0, gas price 20, gas limit 20, value 10, no data.
fn request(chain_id: Option<u64>) -> EthereumSignTx {
    EthereumSignTx {
        address_n: account(0),
        nonce: Some(Vec::new()),
        gas_price: Some(vec![20]),
        gas_limit: Some(vec![20]),
        to: Some(TO.into()),
        value: Some(vec![10]),
        data_length: Some(0),
        chain_id,
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
    let creation = EthereumSignTx { to: None, ..request(Some(50)) };
    let no_value = EthereumSignTx { value: Some(Vec::new()), ..request(Some(50)) };
    let large = EthereumSignTx {
        nonce: Some(vec![0xff; 8]),
        gas_price: Some(250_000_000_000u64.to_be_bytes()[3..].to_vec()),
        gas_limit: Some(vec![0x52, 0x08]),
        value: Some(12_345_678_901_234_567_890u64.to_be_bytes().to_vec()),
        ..request(Some(50))
    };
    let typed = |kind| EthereumSignTx { tx_type: Some(kind), ..request(Some(50)) };
    let streamed = [b"ABCDEFGHIJKLMNOP".repeat(256).as_slice(), b"!!!"].concat();
    let none: &[u8] = b"";
    let cases: [(EthereumSignTx, &[u8], u32, &str, &str); 15] = [
        (
            request(None),
            none,
            28,
            "0fd6c6b3e8d0b17d4aa9f6e600ceab7cc03dce1159521f7533a7f8b73d566458",
            "26a7b4cba1723c62953d320d5c00ab0e36a36343d1801b2acaef943c170fb01a",
        ),
        (
            request(Some(1)),
            none,
            37,
            "b18ae293158a203135802d101c2ffe69d435bf51020cc432e9663ca5881749e8",
            "4fb252a95ddd117fe4b415b9e2b107b2dfa3ae2be4dab1a9eca7352f0f854321",
        ),
        (
            request(Some(50)),
            none,
            136,
            "9d74b5d455a58b05cb41da6cb482e1d9e4356b97a68c3c54d99c556e4ab2d582",
            "54ba298246c9d07a1fb737fe09418ba59db1cf7e8ce4e6aab54f77674cfab95a",
        ),
        (
            request(Some(51)),
            none,
            138,
            "5726caef859633c0f746d71061efeaa07eae848a483a3c425c9b78802dc30025",
            "192e8520c5ab2f75196f974836c3ef240874b7484a388ee9e02dfa08e6443270",
        ),
        (
            request(Some(2_147_483_629)),
            none,
            4_294_967_294,
            "78a4a8c80a42f2375e8cb5f6faebd6e078f1e8b11180e7eed0e3a29774cee729",
            "0cb3b99ae6a1bc19881c6174d962a116e21de3ea7edb67b4eacfc4071a9a24cd",
        ),
        (
            request(Some(2_147_483_630)),
            none,
            1,
            "24c13b831bf0a9392d2dc7095d75ee5d7f3621923742424e73b084a622a1ac5d",
            "638cdbe2839ef91d6905bfe92c06a3570884f660b8403beb5869b195085931c9",
        ),
        (
            request(Some(4_294_967_295)),
            none,
            1,
            "87b1c59a7f155a296e5e83657a8bb7c1dab5af0a738dad5c1e67d36d7942f253",
            "573c5c06bb61275cc3445916c6ba9c426197bbec40a1dfc991582de0828f3a0d",
        ),
        (
            request(Some(50)),
            &b"abcdefghijklmnop".repeat(16),
            136,
            "107957299219ec7777165baf758114854ad86f1d1dc7d822bc0b3bdd9e7897f3",
            "2b38492606479554c28541ef22457119235ae5124e8d85075d51e6cbf582eda8",
        ),
        (
            request(Some(50)),
            &b"ABCDEFGHIJKLMNOP".repeat(64),
            136,
            "2b69b4b850999d61c941590b2c49b8b89fe44ed728141bcac60bb38f6c9fdf47",
            "632450cabf8c5e66204fe2814a7700182e727bd34c61b3787326699cd26cf9e3",
        ),
        (
            request(Some(50)),
            &streamed,
            135,
            "3ceb27b4bb8c7cf34db723633feaba1994f37e8607948d62bd75de8262fa0788",
            "6312e7f773f778ab0feb5f0bb2f3203413129401666e27e104bcf127ca3854e9",
        ),
        (
            creation,
            &[0x60, 0].repeat(10),
            136,
            "214c6594d6ea64361f68f35ef0a336251448bfd4a23d0afc0ae4bb1aeb96b633",
            "4f1d50c8eacf4067f8d0ba1893eab47be412d68fa6641f887e38a602f6ab7b73",
        ),
        (
            no_value,
            none,
            135,
            "6564973e7c368ddc87d4a6385b412831955daec56419c8d25fa59c7e65444fc7",
            "24ebd2dd79ff39fd1392221e375b655f93aef939d6ffbe593660d0999e938ffd",
        ),
        (
            large,
            none,
            135,
            "35fe64f2e422a1192b69eddbe4d0de2e04cb6afd6dbe27e2134fd5025d0de610",
            "529705261b5b3e1890d1988f70f3944d733e453df8b30b759eb5e0fe8a2118ae",
        ),
        (
            typed(1),
            none,
            135,
            "53fd0e4bb370e64d4722cc5a82fcc2a7e10d739bfd78b0a461cb97bc385c0bde",
            "19b6f78bca35df9be6c701eabdef57106e635a98a9727dff3f0406c3de1374d1",
        ),
        (
            typed(6),
            none,
            136,
            "452855385e2383aaba40206d10fe713a6ede11ea658c63c73198c94d8c8f316d",
            "055caec56643fa391fd57596b2cff26573b8dbf855616e1b95443e50693b6734",
        ),
    ];
    for model in EARLY_MODELS {
        let mut host = Host::new(settings(model));
        for (number, (request, data, v, r, s)) in cases.iter().enumerate() {
            let (signature, asked) = sign(&mut host, request.clone(), data).await;

            assert_eq!(signature, (*v, (*r).to_owned(), (*s).to_owned()), "{model}, case {number}");
            let expected: &[u32] = if data.len() == 4099 { &[1024, 1024, 1024, 3] } else { &[] };
            assert_eq!(asked, expected, "{model}, case {number}");
        }
    }
}

#[tokio::test]
async fn signs_the_messages() {
    let long = [b"y".repeat(11), Vec::new(), b"hello".to_vec()];
    let expected = [
        "636fbe8afde7650d12d71b2d9cd086f1305c8f8fb5b15c735276c1697d8416165e3de74004c30374909b3fc30a2f4edf2c043dc4d6df13b9bcae2fad88d778c61c",
        "dfbf4a19fed035245d54b630fb70acce97991913941d1f03b3de47a245ffe69a2f291b1d4235cf861af5f3d198e253d05a53bd9c73834119283d92ac812bfc561c",
        "2a91d411ed68262c5143f284d8add365d7797136f2cd7e05173b340d2e2f4e5031813bbac1252d5ef54d996011a72756300841626eecdeb7f1dee918184cf2db1b",
    ];
    for model in Model::ALL {
        let mut host = Host::new(settings(model));
        for (message, expected) in long.iter().zip(expected) {
            let request = EthereumSignMessage { address_n: account(0), message: Some(message.clone()) };

            let answer: EthereumMessageSignature = host.call(&request).await;

            assert_eq!(hex::encode(answer.signature()), expected, "{model}");
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
