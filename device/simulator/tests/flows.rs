//! Flows as they were measured on real firmware (`docs/spec/device.md 3.2`, `6`, `8.1`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::field_reassign_with_default,
    reason = "tests fail by panicking"
)]

mod support;

use support::{EARLY_MODELS, Host, account, settings};
use tenon_device_framing::{Packet, Packets, Wire};
use tenon_device_simulator::{Approval, Model, PassphraseSource, SimulatorSettings};
use tenon_device_transport::Link as _;
use tenon_proto::common::{
    ButtonAck, ButtonRequest, PassphraseAck, PassphraseRequest, PassphraseStateAck, PassphraseStateRequest,
    PinMatrixAck, PinMatrixRequest, Success,
};
use tenon_proto::debug::{DebugLinkDecision, DebugLinkGetState, DebugLinkState};
use tenon_proto::ethereum::{
    EthereumAddress, EthereumGetAddress, EthereumSignTx, EthereumTxAck, EthereumTxRequest, EthereumVerifyMessage,
};
use tenon_proto::management::{
    ApplySettings, Cancel, ChangePin, ClearSession, Entropy, EntropyAck, EntropyRequest, Features, GetEntropy,
    GetFeatures, Initialize, LoadDevice, Ping, ResetDevice, WipeDevice,
};
use tenon_proto::{decode, encode};
use zeroize::Zeroizing;

fn get_address() -> EthereumGetAddress {
    EthereumGetAddress { address_n: account(0), show_display: None }
}

fn passphrase(text: &str) -> PassphraseAck {
    let mut answer = PassphraseAck::default();
    answer.passphrase = Some(text.into());
    answer
}

fn sign_tx(data: usize) -> EthereumSignTx {
    EthereumSignTx {
        address_n: account(0),
        gas_price: Some(vec![20]),
        gas_limit: Some(vec![20]),
        to: Some("0x1d1c328764a41bda0492b66baa30c4a339ff85ef".into()),
        data_length: Some(data as u32),
        data_initial_chunk: (data > 0).then(|| vec![1; data.min(1024)]),
        chain_id: Some(50),
        ..Default::default()
    }
}

/// Code and text of a failure.
type Refusal = (i32, &'static str);

const DEFAULT_ADDRESS: &str = "0x73d0385F4d8E00C5e6504C6030F47BF6212736A8";

/// The default address, with all buttons acknowledged.
async fn default_address(host: &mut Host) -> String {
    let answer: EthereumAddress = host.call(&get_address()).await;
    answer.address().to_owned()
}

#[tokio::test]
async fn reads_packets_like_the_real_model() {
    for model in EARLY_MODELS {
        let is_one = model == Model::One;
        let mut host = Host::new(settings(model));

        // A packet that does not begin a message is dropped.
        host.send_packet([0; 64]).await;
        host.expect_silence().await;
        // An unknown message.
        host.send_raw(9999, b"").await;
        host.expect_failure(1, if is_one { "Unknown message" } else { "Unexpected message" }).await;
        // A long unknown message: its continuation is dropped, or read to the end.
        host.send_raw(9999, &[0; 300]).await;
        host.expect_failure(1, if is_one { "Unknown message" } else { "Unexpected message" }).await;
        host.expect_silence().await;
        // An unexpected response.
        host.expect_refusal(&ButtonAck {}, 1, if is_one { "Unknown message" } else { "Unexpected message" }).await;
        host.expect_refusal(
            &EthereumTxAck { data_chunk: Some(vec![1]) },
            1,
            if is_one { "Not in Ethereum signing mode" } else { "Unexpected message" },
        )
        .await;
        // A packet that is not a continuation: Model One drops the message, Model T keeps waiting.
        let (id, body) = encode(&Ping { message: Some("x".repeat(100)), ..Ping::default() });
        let packets: Vec<Packet> = Packets::new(id, &body).unwrap().collect();
        host.send_packet(*packets[0].as_bytes()).await;
        host.send_packet([0; 64]).await;
        host.send_packet(*packets[1].as_bytes()).await;
        if is_one {
            host.expect_silence().await;
        } else {
            assert_eq!(host.expect::<Success>().await.message().len(), 100);
        }
        // A body that can't be decoded: a failure, or no response.
        host.send_raw(1, b"\x0a\x7fcut").await;
        if is_one {
            host.expect_failure(3, "end-of-stream").await;
        } else {
            host.expect_silence().await;
        }
        // Several pipelined requests are handled in order.
        host.send(&Ping { message: Some("1".into()), ..Ping::default() }).await;
        host.send(&Ping { message: Some("2".into()), ..Ping::default() }).await;
        assert_eq!(host.expect::<Success>().await.message(), b"1");
        assert_eq!(host.expect::<Success>().await.message(), b"2");
        host.expect_refusal(&Cancel {}, 4, if is_one { "Action cancelled by user" } else { "Cancelled" }).await;
    }
}

#[tokio::test]
async fn model_one_refuses_fields_that_exceed_its_limits() {
    let mut host = Host::new(settings(Model::One));
    let mut packet = *Packets::new(1, b"").unwrap().next().unwrap().as_bytes();
    packet[5..9].copy_from_slice(&15_361u32.to_be_bytes());

    host.send_packet(packet).await;
    host.expect_failure(3, "Message too big").await;
    host.expect_refusal(&EthereumGetAddress { address_n: vec![1; 9], show_display: None }, 3, "array overflow").await;
    host.send_raw(56, &[[0x0a, 9].as_slice(), &[1; 9]].concat()).await;
    host.expect_failure(3, "array overflow").await;
    host.expect_refusal(&EthereumSignTx { to: Some("x".repeat(43)), ..sign_tx(0) }, 3, "string overflow").await;
    host.expect_refusal(
        &EthereumSignTx { data_initial_chunk: Some(vec![1; 1025]), ..sign_tx(1025) },
        3,
        "bytes overflow",
    )
    .await;
}

#[tokio::test]
async fn accepts_packed_and_unpacked_paths() {
    let mut host = Host::new(settings(Model::One));

    host.send_raw(56, b"\x0a\x11\xac\x80\x80\x80\x08\xbc\x80\x80\x80\x08\x80\x80\x80\x80\x08\x00\x00").await;

    assert_eq!(host.expect::<EthereumAddress>().await.address(), DEFAULT_ADDRESS);
}

#[tokio::test]
async fn reports_its_features() {
    for model in Model::ALL {
        let mut host = Host::new(SimulatorSettings { label: Some("mine".into()), ..settings(model) });

        let features: Features = host.call(&Initialize::default()).await;

        let (major, minor, patch) = model.version();
        assert_eq!(features.vendor(), "trezor.io");
        assert_eq!(
            (features.major_version, features.minor_version, features.patch_version),
            (Some(major), Some(minor), Some(patch))
        );
        assert_eq!(features.device_id(), host.simulator.device_id());
        assert_eq!(features.device_id().len(), 24);
        assert_eq!((features.label(), features.initialized), (b"mine".as_slice(), Some(true)));
        assert_eq!(features.session_id.is_some(), !EARLY_MODELS.contains(&model), "{model}");
    }
}

#[tokio::test]
async fn asks_for_the_pin_by_positions() {
    let pin = Some(Zeroizing::new("1234".to_owned()));
    let mut host = Host::new(SimulatorSettings { pin, ..settings(Model::One) });
    let mut debug = host.simulator.link(Wire::Debug);

    assert_eq!(host.ask::<_, PinMatrixRequest>(&get_address()).await.r#type, Some(1));
    let matrix = matrix(&mut debug).await;
    assert_eq!(host.ask::<_, EthereumAddress>(&positions(&matrix, "1234")).await.address(), DEFAULT_ADDRESS);
    assert_eq!(default_address(&mut host).await, DEFAULT_ADDRESS, "it stays unlocked");

    let _: Success = host.call(&ClearSession {}).await;
    for wrong in ["9999", "x", ""] {
        let _: PinMatrixRequest = host.ask(&get_address()).await;
        let mut answer = PinMatrixAck::default();
        answer.pin = Some(wrong.into());
        host.expect_refusal(&answer, 7, "PIN invalid").await;
    }
    let _: PinMatrixRequest = host.ask(&get_address()).await;
    host.expect_refusal(&Cancel {}, 6, "PIN cancelled").await;
}

async fn matrix(debug: &mut tenon_device_simulator::MemoryLink) -> String {
    for packet in Packets::new(101, &encode(&DebugLinkGetState {}).1).unwrap() {
        debug.send(&packet).await.unwrap();
    }
    let mut reader = tenon_device_framing::Reader::new(Wire::Debug);
    loop {
        if let Some(message) = reader.push(debug.receive().await.unwrap().as_bytes()).unwrap() {
            return decode::<DebugLinkState>(message.id, &message.body).unwrap().matrix().to_owned();
        }
    }
}

/// The positions of a PIN's digits on the keypad.
fn positions(matrix: &str, pin: &str) -> PinMatrixAck {
    let position = |digit: char| char::from(b'1' + matrix.find(digit).unwrap() as u8);
    let mut answer = PinMatrixAck::default();
    answer.pin = Some(pin.chars().map(position).collect());
    answer
}

#[tokio::test]
async fn wipes_itself_after_sixteen_wrong_pins() {
    let pin = Some(Zeroizing::new("1".to_owned()));
    let mut host = Host::new(SimulatorSettings { pin, ..settings(Model::One) });
    let before = host.simulator.device_id();
    let mut wrong = PinMatrixAck::default();
    wrong.pin = Some("123456789".into());

    for _ in 0..16 {
        let _: PinMatrixRequest = host.ask(&get_address()).await;
        host.expect_refusal(&wrong, 7, "PIN invalid").await;
    }

    assert_ne!(host.simulator.device_id(), before);
    host.expect_refusal(&get_address(), 11, "Device not initialized").await;
}

#[tokio::test]
async fn answers_twice_when_the_wait_after_wrong_pins_is_cancelled() {
    let pin = Some(Zeroizing::new("1".to_owned()));
    let mut host = Host::new(SimulatorSettings { pin, time_scale: 0.5, ..settings(Model::One) });
    let mut wrong = PinMatrixAck::default();
    wrong.pin = Some("123456789".into());
    let _: PinMatrixRequest = host.ask(&get_address()).await;
    host.expect_refusal(&wrong, 7, "PIN invalid").await;

    let _: PinMatrixRequest = host.ask(&get_address()).await;
    host.send(&wrong).await;
    host.expect_refusal(&Cancel {}, 6, "PIN cancelled").await;
    host.expect_failure(7, "PIN invalid").await;

    let _: PinMatrixRequest = host.ask(&get_address()).await;
    host.send(&wrong).await;
    let _: Features = host.ask(&Initialize::default()).await;
    host.expect_failure(7, "PIN invalid").await;
}

#[tokio::test]
async fn model_one_asks_for_the_passphrase_and_keeps_it() {
    let mut host = Host::new(SimulatorSettings { has_passphrase_protection: true, ..settings(Model::One) });

    let _: PassphraseRequest = host.ask(&get_address()).await;
    host.expect_refusal(&passphrase(&"x".repeat(51)), 3, "string overflow").await;
    host.send(&passphrase(&"x".repeat(60))).await;
    host.expect_silence().await;
    host.expect_refusal(&Ping::default(), 1, "Unknown message").await;
    assert_eq!(host.ask::<_, EthereumAddress>(&passphrase("")).await.address(), DEFAULT_ADDRESS);
    assert_eq!(default_address(&mut host).await, DEFAULT_ADDRESS);

    let _: Features = host.call(&Initialize::default()).await;
    let _: PassphraseRequest = host.ask(&get_address()).await;
    host.expect_refusal(&Cancel {}, 11, "Device not initialized or passphrase request cancelled or unsupported curve")
        .await;
    let _: PassphraseRequest = host.ask(&Ping { passphrase_protection: Some(true), ..Ping::default() }).await;
    let _: Features = host.ask(&Initialize::default()).await;
    host.expect_silence().await;
}

#[tokio::test]
async fn model_t_asks_for_the_passphrase_and_sends_its_state() {
    let with = |source| SimulatorSettings {
        has_passphrase_protection: true,
        passphrase_source: source,
        passphrase_on_device: Zeroizing::new("trezor".into()),
        ..settings(Model::T)
    };
    let mut host = Host::new(with(PassphraseSource::Host));
    assert_eq!(host.ask::<_, PassphraseRequest>(&get_address()).await.on_device, Some(false));
    let state = host.ask::<_, PassphraseStateRequest>(&passphrase("")).await.state().to_vec();
    assert_eq!(host.ask::<_, EthereumAddress>(&PassphraseStateAck {}).await.address(), DEFAULT_ADDRESS);

    let mut keep = Initialize::default();
    keep.state = Some(state.clone());
    let _: Features = host.call(&keep).await;
    assert_eq!(default_address(&mut host).await, DEFAULT_ADDRESS, "the state keeps the passphrase");
    keep.state = Some([&state[..63], &[state[63] ^ 1]].concat());
    let _: Features = host.call(&keep).await;
    let _: PassphraseRequest = host.ask(&get_address()).await;
    let _: PassphraseStateRequest = host.ask(&passphrase(&"x".repeat(51))).await;
    host.expect_refusal(&PassphraseStateAck {}, 3, "Maximum passphrase length is 50").await;
    let mut skip = Initialize::default();
    skip.skip_passphrase = Some(true);
    let _: Features = host.call(&skip).await;
    assert_eq!(default_address(&mut host).await, DEFAULT_ADDRESS, "no passphrase is asked for");

    let mut host = Host::new(with(PassphraseSource::Device));
    assert_eq!(host.ask::<_, PassphraseRequest>(&get_address()).await.on_device, Some(true));
    host.expect_refusal(&passphrase("x"), 9, "Passphrase provided when it should not be").await;
    let _: PassphraseRequest = host.ask(&get_address()).await;
    let _: PassphraseStateRequest = host.ask(&PassphraseAck::default()).await;
    // As measured, it counts as the acknowledgement.
    assert_eq!(
        host.ask::<_, EthereumAddress>(&Cancel {}).await.address(),
        "0xE5b1C3D91d7f877Cd628c0A9768Ad6d91fa51cE9"
    );

    let mut host = Host::new(with(PassphraseSource::Ask));
    assert_eq!(host.ask::<_, ButtonRequest>(&get_address()).await.code, Some(14));
    host.expect_refusal(&Cancel {}, 4, "Passphrase cancelled").await;
}

#[tokio::test]
async fn later_models_keep_passphrases_in_sessions() {
    for model in [Model::OneLater, Model::TLater] {
        let mut host = Host::new(SimulatorSettings { has_passphrase_protection: true, ..settings(model) });
        let first = host.call::<_, Features>(&Initialize::default()).await.session_id().to_vec();
        assert_eq!(host.ask::<_, PassphraseRequest>(&get_address()).await.on_device, None);
        let standard: EthereumAddress = host.call(&passphrase("")).await;

        let second = host.call::<_, Features>(&Initialize::default()).await.session_id().to_vec();
        let _: PassphraseRequest = host.ask(&get_address()).await;
        let hidden: EthereumAddress = host.call(&passphrase("trezor")).await;
        let mut back = Initialize::default();
        back.state = Some(first.clone());
        let again = host.call::<_, Features>(&back).await.session_id().to_vec();

        assert_ne!(first, second);
        assert_eq!(first, again);
        assert_eq!(default_address(&mut host).await, DEFAULT_ADDRESS);
        assert_eq!(standard.address(), DEFAULT_ADDRESS);
        assert_eq!(hidden.address(), "0xE5b1C3D91d7f877Cd628c0A9768Ad6d91fa51cE9");
    }
}

#[tokio::test]
async fn a_person_decides_at_the_device() {
    for model in EARLY_MODELS {
        let mut host = Host::new(SimulatorSettings { approval: Approval::Asked, ..settings(model) });
        let shown = EthereumGetAddress { show_display: Some(true), ..get_address() };

        // The button may be pressed before or after the acknowledgement.
        let _: ButtonRequest = host.ask(&shown).await;
        host.simulator.decide(true).await;
        host.expect_silence().await;
        let _: EthereumAddress = host.ask(&ButtonAck {}).await;
        let _: ButtonRequest = host.ask(&shown).await;
        host.send(&ButtonAck {}).await;
        host.expect_silence().await;
        host.simulator.decide(false).await;
        host.expect_failure(4, if model == Model::One { "Action cancelled by user" } else { "Cancelled" }).await;

        // The debug link can press it too.
        let _: ButtonRequest = host.ask(&shown).await;
        host.send(&ButtonAck {}).await;
        let mut debug = host.simulator.link(Wire::Debug);
        let mut decision = DebugLinkDecision::default();
        decision.yes_no = Some(true);
        let press = encode(&decision);
        debug.send(&Packets::new(press.0, &press.1).unwrap().next().unwrap()).await.unwrap();
        let _: EthereumAddress = host.expect().await;
        assert_eq!(host.simulator.observed().confirmations, 2);
    }
}

#[tokio::test]
async fn signing_asks_for_the_measured_number_of_buttons() {
    let transfer = [hex::decode("a9059cbb000000000000000000000000").unwrap(), vec![1; 52]].concat();
    let tokens = EthereumSignTx { data_initial_chunk: Some(transfer), ..sign_tx(68) };
    for model in EARLY_MODELS {
        let mut host = Host::new(settings(model));
        for (request, expected) in [(sign_tx(0), 2), (sign_tx(68), 3), (tokens.clone(), 2)] {
            let (_, buttons) = host.call_with_buttons::<_, EthereumTxRequest>(&request).await;

            assert_eq!(buttons, vec![8; expected], "{model}");
        }
    }
}

#[tokio::test]
async fn parameters_are_checked_as_on_the_real_model() {
    let bad_to = Some(format!("0x{}", "g".repeat(40)));
    let cases: [(EthereumSignTx, Refusal, Option<Refusal>); 9] = [
        (EthereumSignTx { chain_id: Some(0), ..sign_tx(0) }, (3, "Chain Id out of bounds"), None),
        (
            EthereumSignTx { tx_type: Some(2), ..sign_tx(0) },
            (3, "Txtype out of bounds"),
            Some((3, "tx_type out of bounds")),
        ),
        (
            EthereumSignTx { data_length: Some(5), ..sign_tx(0) },
            (3, "Data length provided, but no initial chunk"),
            Some((3, "Data length provided, but no initial chunk")),
        ),
        (
            EthereumSignTx { data_length: Some(16_000_001), ..sign_tx(1) },
            (3, "Data length exceeds limit"),
            Some((3, "Data length exceeds limit")),
        ),
        (
            EthereumSignTx { data_length: Some(1), ..sign_tx(2) },
            (3, "Invalid size of initial chunk"),
            Some((3, "Invalid size of initial chunk")),
        ),
        (
            EthereumSignTx { gas_price: None, ..sign_tx(0) },
            (3, "Safety check failed"),
            Some((3, "Safety check failed")),
        ),
        (EthereumSignTx { to: None, ..sign_tx(0) }, (3, "Safety check failed"), Some((3, "Safety check failed"))),
        (
            EthereumSignTx { gas_price: Some(vec![1; 31]), ..sign_tx(0) },
            (3, "Safety check failed"),
            Some((3, "Safety check failed")),
        ),
        (EthereumSignTx { to: bad_to.clone(), ..sign_tx(0) }, (3, "Safety check failed"), Some((99, "Firmware error"))),
    ];
    for (request, one, t) in &cases {
        let mut host = Host::new(settings(Model::One));
        host.expect_refusal(request, one.0, one.1).await;
        let Some((code, text)) = t else { continue };
        let mut host = Host::new(settings(Model::T));
        host.expect_refusal(request, *code, text).await;
    }
    // The pitfall: Model One signs the creation of a contract if the recipient is not an address.
    let mut host = Host::new(settings(Model::One));
    let trap = host.call::<_, EthereumTxRequest>(&EthereumSignTx { to: bad_to, ..sign_tx(4) }).await;
    let creation = host.call::<_, EthereumTxRequest>(&EthereumSignTx { to: None, ..sign_tx(4) }).await;
    assert_eq!(trap, creation);
}

#[tokio::test]
async fn data_is_sent_in_parts_with_other_requests_in_between() {
    let mut one = Host::new(settings(Model::One));
    let request: EthereumTxRequest = one.call(&sign_tx(1500)).await;
    assert_eq!(request.data_length, Some(476));
    assert_eq!(default_address(&mut one).await, DEFAULT_ADDRESS);
    let _: Features = one.call(&Initialize::default()).await;
    let fewer: EthereumTxRequest = one.call(&EthereumTxAck { data_chunk: Some(vec![1; 400]) }).await;
    assert_eq!(fewer.data_length, Some(76), "Model One asks again, and Initialize does not end it");
    let signed: EthereumTxRequest = one.call(&EthereumTxAck { data_chunk: Some(vec![1; 76]) }).await;
    assert!(signed.signature_v.is_some());

    for chunk in [0, 477] {
        let text = if chunk == 0 { "Empty data chunk received" } else { "Too much data" };
        let _: EthereumTxRequest = one.call(&sign_tx(1500)).await;
        one.expect_refusal(&EthereumTxAck { data_chunk: Some(vec![1; chunk]) }, 3, text).await;
        one.expect_refusal(&EthereumTxAck { data_chunk: Some(vec![1; 476]) }, 1, "Not in Ethereum signing mode").await;
    }
    let _: EthereumTxRequest = one.call(&sign_tx(1500)).await;
    one.expect_refusal(&Cancel {}, 4, "Action cancelled by user").await;
    one.expect_refusal(&EthereumTxAck { data_chunk: Some(vec![1; 476]) }, 1, "Not in Ethereum signing mode").await;

    let mut t = Host::new(settings(Model::T));
    let _: EthereumTxRequest = t.call(&sign_tx(1500)).await;
    assert_eq!(default_address(&mut t).await, DEFAULT_ADDRESS);
    t.expect_refusal(&EthereumTxAck { data_chunk: Some(vec![1; 476]) }, 1, "Unexpected message").await;
}

#[tokio::test]
async fn another_request_ends_a_prompt_as_on_the_real_model() {
    let shown = EthereumGetAddress { show_display: Some(true), ..get_address() };
    let mut one = Host::new(settings(Model::One));
    let _: ButtonRequest = one.ask(&shown).await;
    one.expect_refusal(&GetFeatures {}, 1, "Unknown message").await;
    let _: EthereumAddress = one.ask(&ButtonAck {}).await;

    let mut t = Host::new(settings(Model::T));
    let _: ButtonRequest = t.ask(&shown).await;
    let _: Features = t.ask(&GetFeatures {}).await;
    t.expect_silence().await;

    for host in [&mut one, &mut t] {
        let _: ButtonRequest = host.ask(&shown).await;
        let _: Features = host.ask(&Initialize::default()).await;
        host.expect_silence().await;
    }
}

#[tokio::test]
async fn model_t_checks_paths() {
    const H: u32 = 0x8000_0000;
    let mut host = Host::new(settings(Model::T));

    for forbidden in [vec![], vec![44 | H], vec![44 | H, 550 | H, H, 0, 0], vec![44, 60 | H, H, 0, 0]] {
        host.expect_refusal(&EthereumGetAddress { address_n: forbidden, show_display: None }, 3, "Forbidden key path")
            .await;
    }
    let unusual = EthereumGetAddress { address_n: vec![44 | H, 60 | H, 1 | H, 0, 0], show_display: None };
    assert_eq!(host.call_with_buttons::<_, EthereumAddress>(&unusual).await.1, [15]);
    let plain = EthereumGetAddress { address_n: account(1_000_000), show_display: None };
    assert_eq!(host.call_with_buttons::<_, EthereumAddress>(&plain).await.1, []);
    // On the path of RSK, the checksum includes the chain id.
    let rsk = EthereumGetAddress { address_n: vec![44 | H, 137 | H, H, 0, 0], show_display: None };
    let answer: EthereumAddress = host.call(&rsk).await;
    let address: alloy_primitives::Address = answer.address().parse().unwrap();
    assert_eq!(answer.address(), address.to_checksum(Some(30)));
}

#[tokio::test]
async fn verifies_messages_and_fails_twice_as_measured() {
    let signature = hex::decode("2a91d411ed68262c5143f284d8add365d7797136f2cd7e05173b340d2e2f4e5031813bbac1252d5ef54d996011a72756300841626eecdeb7f1dee918184cf2db1b").unwrap();
    let request = EthereumVerifyMessage {
        address_binary: None,
        signature: Some(signature.clone()),
        message: Some(b"hello".to_vec()),
        address: Some(DEFAULT_ADDRESS.into()),
    };
    for model in EARLY_MODELS {
        let mut host = Host::new(settings(model));
        let (verified, buttons) = host.call_with_buttons::<_, Success>(&request).await;
        assert_eq!((verified.message(), buttons), (b"Message verified".as_slice(), vec![1, 1]));
        host.expect_refusal(
            &EthereumVerifyMessage { message: Some(b"other".to_vec()), ..request.clone() },
            3,
            "Invalid signature",
        )
        .await;
        host.send(&EthereumVerifyMessage { signature: Some(vec![1; 64]), ..request.clone() }).await;
        if model == Model::One {
            host.expect_failure(3, "Malformed signature").await;
        }
        host.expect_failure(3, "Invalid signature").await;
    }
}

#[tokio::test]
async fn a_device_is_set_up_and_wiped() {
    for model in EARLY_MODELS {
        let mut host = Host::new(settings(model));
        let before = host.simulator.device_id();
        let wiped: Success = host.call(&WipeDevice {}).await;
        assert_eq!(wiped.message(), b"Device wiped");
        assert_ne!(host.simulator.device_id(), before);
        host.send(&get_address()).await;
        match model {
            Model::One => host.expect_failure(11, "Device not initialized").await,
            _ => host.expect_failure(9, "Device is not initialized").await,
        }

        let mut load = LoadDevice::default();
        load.mnemonic = Some("all all all".into());
        host.send(&load).await;
        let (failure, _) = host.after_buttons().await;
        assert_eq!(failure.id, 3);
        load.mnemonic = Some(support::ALL.into());
        load.label = Some("loaded".into());
        let loaded: Success = host.call(&load).await;
        assert_eq!(loaded.message(), b"Device loaded");
        assert_eq!(default_address(&mut host).await, DEFAULT_ADDRESS);

        let _: Success = host.call(&WipeDevice {}).await;
        let mut reset = ResetDevice::default();
        reset.strength = Some(128);
        let (_, buttons) = host.call_with_buttons::<_, EntropyRequest>(&reset).await;
        assert_eq!(buttons.len(), 1);
        let mut entropy = EntropyAck::default();
        entropy.entropy = Some(vec![7; 32]);
        let (done, buttons) = host.call_with_buttons::<_, Success>(&entropy).await;
        assert_eq!(buttons.len(), if model == Model::One { 24 } else { 1 });
        let text = if model == Model::One { "Device successfully initialized" } else { "Initialized" };
        assert_eq!(done.message(), text.as_bytes());
        assert_ne!(default_address(&mut host).await, DEFAULT_ADDRESS);
    }
}

#[tokio::test]
async fn settings_and_entropy() {
    let mut host = Host::new(settings(Model::One));
    host.expect_refusal(&ApplySettings::default(), 3, "No setting provided").await;
    let mut change = ApplySettings::default();
    change.label = Some("new".into());
    change.use_passphrase = Some(true);
    let (_, buttons) = host.call_with_buttons::<_, Success>(&change).await;
    assert_eq!(buttons, [7, 7]);
    let features: Features = host.call(&Initialize::default()).await;
    assert_eq!((features.label(), features.passphrase_protection), (b"new".as_slice(), Some(true)));

    let entropy: Entropy = host.call(&GetEntropy { size: Some(2000) }).await;
    assert_eq!(entropy.entropy().len(), 1024);

    let _: ButtonRequest = host.ask(&ChangePin { remove: None }).await;
    assert_eq!(host.ask::<_, PinMatrixRequest>(&ButtonAck {}).await.r#type, Some(2));
    let mut one = PinMatrixAck::default();
    one.pin = Some("123".into());
    assert_eq!(host.ask::<_, PinMatrixRequest>(&one).await.r#type, Some(3));
    host.expect_refusal(&Cancel {}, 6, "PIN cancelled").await;
}
