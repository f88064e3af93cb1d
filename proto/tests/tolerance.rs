//! Messages of earlier and later firmware, which must be decoded without loss (`docs/spec/device.md 9`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::field_reassign_with_default,
    reason = "tests fail by panicking"
)]

use tenon_proto::common::{ButtonRequest, Failure, PassphraseAck, PinMatrixRequest, failure::FailureType};
use tenon_proto::debug::DebugLinkDecision;
use tenon_proto::ethereum::{EthereumAddress, EthereumGetAddress};
use tenon_proto::management::Features;
use tenon_proto::{BodyError, WireMessage, decode, encode};

fn read<M: WireMessage>(body: &[u8]) -> M {
    decode(M::ID, body).unwrap()
}

#[test]
fn reads_a_button_request_of_either_year() {
    let of_the_era: ButtonRequest = read(b"\x08\x0a\x12\x04text");
    let of_today: ButtonRequest = read(b"\x08\x0a\x10\x02\x22\x04name");

    assert_eq!(of_the_era, of_today);
    assert_eq!(of_today.code, Some(10));
}

#[test]
fn keeps_unknown_enum_values() {
    let failure: Failure = read(b"\x08\x11");
    let question: PinMatrixRequest = read(b"\x08\x05");

    assert_eq!(failure.code, Some(17));
    assert!(FailureType::try_from(17).is_err());
    assert_eq!(question.r#type, Some(5));
    assert_eq!(encode(&failure).1.as_slice(), b"\x08\x11");
}

#[test]
fn reads_numbers_in_place_of_earlier_booleans() {
    let features: Features = read(b"\x98\x01\x02");
    let decision: DebugLinkDecision = read(b"\x08\x02");

    assert_eq!(features.needs_backup, Some(true));
    assert_eq!(decision.yes_no, Some(true));
}

#[test]
fn reads_features_of_current_firmware() {
    let body = b"\x0a\x09trezor.io\xf0\x01\x11\xf0\x01\x02\x9a\x02\x02id\xe2\x02\x04T3T1";

    let features: Features = read(body);

    assert_eq!(features.vendor.as_deref(), Some("trezor.io"));
    assert_eq!(features.capabilities, [17, 2]);
    assert_eq!(features.session_id.as_deref(), Some(b"id".as_slice()));
}

#[test]
fn reads_a_failure_and_a_label_whose_text_is_damaged() {
    let failure: Failure = read(b"\x12\x03\xffno\x08\x04");
    let features: Features = read(b"\x52\x02\x41\xc3");

    assert_eq!(tenon_proto::shown_text(failure.message()), "\u{fffd}no");
    assert_eq!(failure.code(), FailureType::FailureActionCancelled);
    assert_eq!(tenon_proto::shown_text(features.label()), "A\u{fffd}");
}

#[test]
fn reads_addresses_as_text_and_as_bytes() {
    let old: EthereumAddress = read(b"\x0a\x02\x01\x02");
    let new: EthereumAddress = read(b"\x12\x040x01");

    assert_eq!((old.address_binary(), old.address()), ([1, 2].as_slice(), ""));
    assert_eq!((new.address_binary(), new.address()), ([].as_slice(), "0x01"));
}

#[test]
fn encodes_only_fields_that_are_set() {
    let empty = PassphraseAck::default();
    let mut standard = PassphraseAck::default();
    standard.passphrase = Some(String::new());
    let path = EthereumGetAddress { address_n: vec![0], show_display: None };

    assert_eq!(encode(&empty).1.as_slice(), b"");
    assert_eq!(encode(&standard).1.as_slice(), b"\x0a\x00");
    assert_eq!((encode(&path).0, encode(&path).1.as_slice()), (56, b"\x08\x00".as_slice()));
}

#[test]
fn reports_which_message_arrived_in_place_of_another() {
    let error = decode::<EthereumAddress>(3, b"").unwrap_err();

    assert_eq!(error, BodyError::OtherMessage { got: 3, expected: 57 });
    let words = "the device sent message 3 (MessageType_Failure) instead of 57 (MessageType_EthereumAddress)";
    assert_eq!(error.to_string(), words);
}
