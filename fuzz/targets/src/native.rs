//! Encodings of native chains only: extra data, certificates, votes, timeouts, lists inside headers.

use std::fmt::Debug;

use alloy_rlp::{Decodable, Encodable};
use tenon_native_consensus::{
    BlockInfo, ExtraFields, QuorumCertificate, SyncInfo, Timeout, TimeoutCertificate, Vote, addresses_of, recover,
    timeout_digest, v1, v1_masternodes,
};

/// Extra data of both engines, and the lists of the other items.
pub(crate) fn extra(input: &[u8]) {
    match ExtraFields::decode(input) {
        Ok(fields) => {
            assert_eq!(fields.encode().as_ref(), input, "extra data has one encoding");
            certificate(&fields.quorum);
        }
        Err(problem) => assert!(!problem.to_string().is_empty()),
    }
    assert_eq!(addresses_of(input).len(), input.len() / 20);
    assert!(v1_masternodes(input).len() <= input.len() / 20);
    if let Ok(numbers) = v1::decode_numbers(input) {
        let plain: Option<Vec<u32>> =
            numbers.iter().map(|number| u32::try_from(*number).ok().filter(|number| *number < 10_000)).collect();
        if let Some(plain) = plain {
            let again = v1::decode_numbers(&v1::encode_numbers(&plain)).expect("what was encoded decodes");
            assert_eq!(again, numbers);
        }
    }
}

/// A message by its number, then its RLP.
pub(crate) fn messages(input: &[u8]) {
    let Some((kind, rlp)) = input.split_first() else { return };
    match kind % 6 {
        0 => drop(canonical::<BlockInfo>(rlp)),
        1 => {
            if let Some(found) = canonical::<QuorumCertificate>(rlp) {
                certificate(&found);
            }
        }
        2 => {
            if let Some(found) = canonical::<TimeoutCertificate>(rlp) {
                let _ = found.signatures.first().map(|signature| recover(found.digest(), signature));
            }
        }
        3 => {
            if let Some(vote) = canonical::<Vote>(rlp) {
                assert_ne!(vote.hash(), vote.block.hash);
            }
        }
        4 => {
            if let Some(timeout) = canonical::<Timeout>(rlp) {
                assert_ne!(timeout.hash(), timeout_digest(timeout.round, timeout.gap_number));
            }
        }
        _ => {
            if let Some(info) = canonical::<SyncInfo>(rlp) {
                let _ = info.hash();
                certificate(&info.quorum);
            }
        }
    }
}

fn certificate(certificate: &QuorumCertificate) {
    let digest = certificate.digest();
    // One is enough: a recovery costs more than everything else.
    let _ = certificate.signatures.first().map(|signature| recover(digest, signature));
}

fn canonical<T: Decodable + Encodable + PartialEq + Debug>(rlp: &[u8]) -> Option<T> {
    let mut rest = rlp;
    let value = T::decode(&mut rest).ok()?;
    assert_eq!(alloy_rlp::encode(&value), rlp[..rlp.len() - rest.len()], "a message has one encoding");
    Some(value)
}
