//! Any bytes are decoded or refused, and a decoded message encodes to the same bytes.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use alloy_primitives::hex;
use proptest::prelude::*;
use tenon_network_wire::{Message, VERSIONS};

/// Codes and payloads of recorded messages.
fn recorded() -> Vec<(u64, Vec<u8>)> {
    let mut messages = Vec::new();
    for file in ["p2p/dialed-staged.json.gz", "p2p/consensus.json.gz"] {
        let file: serde_json::Value = tenon_test_data::json(file);
        for frame in
            file["sessions"].as_array().unwrap().iter().flat_map(|session| session["frames"].as_array().unwrap())
        {
            if let Some(code) = frame["code"].as_u64().unwrap().checked_sub(16) {
                messages.push((code, hex::decode(frame["payload"].as_str().unwrap()).unwrap()));
            }
        }
    }
    messages
}

/// Decodes with every version. The encoding of the result must be a prefix of the input, except for requests, whose
/// excess hashes are ignored.
fn check(code: u64, payload: &[u8]) {
    for version in &VERSIONS {
        if let Ok(message) = Message::decode(version, code, payload)
            && let Some((kind, encoded)) = message.encode()
        {
            assert_eq!(version.code(kind), Some(code));
            let is_request = matches!(
                message,
                Message::GetBlockBodies(_)
                    | Message::GetNodeData(_)
                    | Message::GetReceipts(_)
                    | Message::GetPooledTransactions(_)
            );
            assert!(
                is_request || matches!(message, Message::Status(_)) || payload.starts_with(&encoded),
                "{message:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_are_decoded_or_refused(code in 0..256_u64, payload in proptest::collection::vec(any::<u8>(), 0..300)) {
        check(code, &payload);
    }

    #[test]
    fn damaged_messages_are_decoded_or_refused(index in any::<usize>(), changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4), code in proptest::option::of(0..256_u64)) {
        thread_local!(static RECORDED: Vec<(u64, Vec<u8>)> = recorded());
        let (own_code, mut payload) = RECORDED.with(|all| all[index % all.len()].clone());
        for (position, byte) in changes {
            let position = position % payload.len();
            payload[position] = byte;
        }
        check(code.unwrap_or(own_code), &payload);
    }
}
