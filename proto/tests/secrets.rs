//! Messages with secrets are wiped on drop, and `Debug` shows only their names.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::field_reassign_with_default,
    reason = "tests fail by panicking"
)]

mod support;

use std::any::type_name;
use std::fmt::Debug;

use tenon_proto::common::{HdNodeType, PassphraseAck, PassphraseStateRequest, PinMatrixAck};
use tenon_proto::crypto::{CipherKeyValue, CipheredKeyValue, EcdhSessionKey};
use tenon_proto::debug::DebugLinkState;
use tenon_proto::ethereum::EthereumPublicKey;
use tenon_proto::management::{Entropy, EntropyAck, Features, Initialize, LoadDevice, WordAck};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Asserts that wiping leaves an empty message and that `Debug` shows only the name.
fn assert_hidden<M: Debug + Default + PartialEq + Zeroize + ZeroizeOnDrop>(mut message: M) {
    let name = type_name::<M>().rsplit("::").next().unwrap().to_lowercase();
    assert_eq!(format!("{message:?}").to_lowercase(), format!("{name} {{ .. }}"));
    assert_ne!(message, M::default(), "{name} has nothing to hide");

    message.zeroize();

    assert_eq!(message, M::default(), "{name}");
}

macro_rules! assert_all_hidden {
    ($($message:ident { $field:ident: $value:expr })*) => {
        $({
            let mut message = $message::default();
            message.$field = Some($value.into());
            assert_hidden(message);
        })*
    };
}

#[test]
fn messages_with_secrets_are_wiped_and_not_shown() {
    assert_all_hidden! {
        PinMatrixAck { pin: "1234" }
        PassphraseAck { passphrase: "secret" }
        PassphraseStateRequest { state: b"secret" }
        Initialize { state: b"secret" }
        LoadDevice { mnemonic: "all all all" }
        EntropyAck { entropy: b"secret" }
        Entropy { entropy: b"secret" }
        WordAck { word: "all" }
        DebugLinkState { pin: "1234" }
        CipherKeyValue { value: b"secret" }
        CipheredKeyValue { value: b"secret" }
        EcdhSessionKey { session_key: b"secret" }
        HdNodeType { private_key: b"secret" }
        Features { label: b"private" }
        EthereumPublicKey { xpub: "xpub" }
    }
}

#[test]
fn a_message_around_a_secret_does_not_show_it() {
    let mut node = HdNodeType::default();
    node.private_key = Some(b"secret".to_vec());

    let outer =
        tenon_proto::bitcoin::multisig_redeem_script_type::HdNodePathType { node: Some(node), address_n: vec![1] };

    assert_eq!(format!("{outer:?}"), "HdNodePathType { node: Some(HDNodeType { .. }), address_n: [1] }");
}

#[test]
fn every_field_that_is_named_like_a_secret_is_in_a_marked_message() {
    const NAMES: [&str; 13] = [
        "pin",
        "passphrase",
        "state",
        "mnemonic",
        "private_key",
        "entropy",
        "word",
        "session_key",
        "session_id",
        "xpub",
        "label",
        "spend_key",
        "watch_key",
    ];
    for message in support::pool().all_messages().filter(|message| message.package_name().starts_with("tenon.device")) {
        let found = message.fields().find(|field| NAMES.contains(&field.name()));
        assert!(found.is_none() || support::is_secret(&message), "{}", message.full_name());
    }
}
