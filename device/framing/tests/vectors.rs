//! Frames measured on devices (`docs/spec/device.md 12.2`), converted bit for bit from messages to packets and back.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use tenon_device_framing::{PACKET_LENGTH, Packets, Reader, Wire};
use tenon_proto::bitcoin::PublicKey;
use tenon_proto::common::{ButtonAck, ButtonRequest};
use tenon_proto::ethereum::{EthereumAddress, EthereumGetAddress, EthereumSignTx, EthereumTxRequest};
use tenon_proto::{WireMessage, decode, encode};

/// `m/44'/60'/0'/0/0`.
const PATH: [u32; 5] = [44 | HARDENED, 60 | HARDENED, HARDENED, 0, 0];
const HARDENED: u32 = 1 << 31;

/// Parses packets in hexadecimal, each without its trailing zeros.
fn frames(lines: &[&str]) -> Vec<[u8; PACKET_LENGTH]> {
    let frame = |line: &&str| {
        let bytes = hex::decode(line.replace(' ', "")).unwrap();
        let mut frame = [0; PACKET_LENGTH];
        frame[..bytes.len()].copy_from_slice(&bytes);
        frame
    };
    lines.iter().map(frame).collect()
}

/// Asserts that the message is split into these frames and that joining them returns the message.
fn assert_frames<M: WireMessage + PartialEq>(message: &M, lines: &[&str]) {
    let expected = frames(lines);

    let (id, body) = encode(message);
    let packets: Vec<_> = Packets::new(id, &body).unwrap().map(|packet| *packet.as_bytes()).collect();
    assert_eq!(packets, expected);

    let mut reader = Reader::new(Wire::Main);
    let mut read = expected.iter().map(|frame| reader.push(frame).unwrap()).collect::<Vec<_>>();
    let last = read.pop().flatten().expect("the last frame ends the message");
    assert!(read.iter().all(Option::is_none));
    assert!(decode::<M>(last.id, &last.body).unwrap() == *message);
}

#[test]
fn an_address_request_and_its_response() {
    let question = EthereumGetAddress { address_n: PATH.to_vec(), show_display: None };
    assert_frames(&question, &["3f2323 0038 00000016 08ac80808008 08bc80808008 088080808008 0800 0800"]);

    let address = "0x73d0385F4d8E00C5e6504C6030F47BF6212736A8".to_owned();
    let answer = EthereumAddress { address_binary: None, address: Some(address) };
    assert_frames(
        &answer,
        &["3f2323 0039 0000002c 122a \
           307837336430333835463464384530304335653635303443363033304634374246363231323733364138"],
    );
}

#[test]
fn a_transaction_to_sign_and_its_signature() {
    let question = EthereumSignTx {
        address_n: PATH.to_vec(),
        nonce: Some(Vec::new()),
        gas_price: Some(vec![20]),
        gas_limit: Some(vec![20]),
        value: Some(vec![10]),
        data_length: Some(0),
        chain_id: Some(50),
        to: Some("0x1d1c328764a41bda0492b66baa30c4a339ff85ef".into()),
        ..EthereumSignTx::default()
    };
    assert_frames(
        &question,
        &[
            "3f2323003a0000005108ac8080800808bc808080080880808080080800080012001a011422011432010a400048325a2a3078\
             3164316333323837363461343162",
            "3f6461303439326236366261613330633461333339666638356566",
        ],
    );

    assert_frames(&ButtonRequest { code: Some(8) }, &["3f2323001a000000020808"]);
    assert_frames(&ButtonAck {}, &["3f2323001b00000000"]);

    let half = |digits| Some(hex::decode(digits).unwrap());
    let answer = EthereumTxRequest {
        data_length: None,
        signature_v: Some(136),
        signature_r: half("9d74b5d455a58b05cb41da6cb482e1d9e4356b97a68c3c54d99c556e4ab2d582"),
        signature_s: half("54ba298246c9d07a1fb737fe09418ba59db1cf7e8ce4e6aab54f77674cfab95a"),
    };
    assert_frames(
        &answer,
        &[
            "3f2323003b000000471088011a209d74b5d455a58b05cb41da6cb482e1d9e4356b97a68c3c54d99c556e4ab2d582222054ba\
             298246c9d07a1fb737fe09418ba5",
            "3f9db1cf7e8ce4e6aab54f77674cfab95a",
        ],
    );
}

#[test]
fn distinguishes_messages_with_equal_frames() {
    let mut reader = Reader::new(Wire::Main);
    let message = reader.push(&frames(&["3f2323001a000000020808"])[0]).unwrap().unwrap();

    assert!(decode::<PublicKey>(message.id, &message.body).is_err());
}
