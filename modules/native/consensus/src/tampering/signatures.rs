//! Replaces every signature by invalid ones.

use alloy_primitives::hex;
use tenon_api::U256;

use super::{ACCEPTED, COINBASE, STRANGER, kinds};
use crate::{
    recorded_chain::{key, key_of, sign},
    recover, v1_seal_hash, v2_seal_hash,
};

pub(super) fn high_s(signature: &[u8]) -> Vec<u8> {
    let order = U256::from_be_bytes(hex!("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"));
    let high = order - U256::from_be_slice(&signature[32..64]);
    [&signature[..32], &high.to_be_bytes::<32>(), &[signature[64] ^ 1]].concat()
}

/// Signatures that their owner did not make, with the verdict for v1's creator, v1's second signer and v2's author. In
/// v1 another signer means a wrong turn or an unknown address; `OTHER` covers both.
fn wrong_signatures(
    good: &[u8],
    by_other: &[u8],
    by_stranger: &[u8],
) -> Vec<(&'static str, Vec<u8>, [&'static str; 3])> {
    const PAIR: &str = "wrong pair of creator-validator in double validation";
    const ID: [&str; 3] = [
        "invalid signature recovery id",
        "invalid signature recovery id",
        "error while verifying message: invalid signature recovery id",
    ];
    let with_id = |id: u8| [&good[..64], &[id]].concat();
    vec![
        ("its own", good.to_vec(), [ACCEPTED; 3]),
        ("recovery id 4", with_id(4), ID),
        ("recovery id 27", with_id(good[64] + 27), ID),
        (
            "zeros",
            vec![0; 65],
            ["recovery failed", "recovery failed", "error while verifying message: recovery failed"],
        ),
        ("the other recovery id", with_id(good[64] ^ 1), ["OTHER", PAIR, STRANGER]),
        ("a stranger's", by_stranger.to_vec(), ["OTHER", PAIR, STRANGER]),
        ("another masternode's", by_other.to_vec(), ["OTHER", PAIR, COINBASE]),
        // Engine v1 has no rule about S (1.3).
        ("high S", high_s(good), [ACCEPTED, ACCEPTED, "invalid signature"]),
    ]
}

#[test]
fn every_signature_of_every_kind_of_header_must_be_valid() {
    for kind in kinds() {
        let (engine, original) = (kind.engine(), kind.header().header().clone());
        let digest = if kind.is_v1() { v1_seal_hash(&original) } else { v2_seal_hash(&original) };
        let start = original.extra_data.len().saturating_sub(65);
        let second = original.native_seal.as_ref().unwrap().validator.clone();
        // The three places: the creator's seal (v1), the second signature (v1), the author's seal (v2).
        let places = if kind.is_v1() {
            [Some(original.extra_data.slice(start..)), Some(second.clone()), None]
        } else {
            [None, None, Some(second)]
        };
        for (place, good) in places.into_iter().enumerate().filter_map(|(place, good)| Some((place, good?))) {
            if good.is_empty() {
                continue;
            }
            let owner = recover(digest, &good).unwrap();
            let masternodes = if kind.is_v1() {
                engine.v1().masternodes(kind.header(), kind.chain).unwrap()
            } else {
                engine.v2().epoch_info(kind.header(), kind.chain).unwrap().masternodes.to_vec()
            };
            let other = masternodes.iter().find(|masternode| **masternode != owner).unwrap();
            let by_other = sign(digest, &key_of(*other));
            for (name, signature, by_place) in wrong_signatures(&good, &by_other, &sign(digest, &key(29))) {
                let mut header = original.clone();
                if place == 0 {
                    header.extra_data = [&header.extra_data[..start], &signature].concat().into();
                } else {
                    header.native_seal.as_mut().unwrap().validator = signature.into();
                }
                let verdict = kind.verdict(&engine, &tenon_chain::seal(header));
                let told = format!("{name}: {} ({}), place {place}: {verdict}", kind.name, kind.number);
                match by_place[place] {
                    "OTHER" => assert!(
                        ["invalid difficulty", "unauthorized", "wrong pair of creator-validator in double validation"]
                            .contains(&&*verdict),
                        "{told}"
                    ),
                    wanted => assert_eq!(verdict, wanted, "{told}"),
                }
            }
        }
    }
}
