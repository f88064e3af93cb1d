//! Changes to every part of a certificate, and to rounds in certificates and headers.

use alloy_primitives::{B256, Bytes};
use tenon_api::{Address, Header};

use super::{ACCEPTED, V2, kinds, signatures::high_s};
use crate::{
    ExtraFields, QuorumCertificate,
    recorded_chain::{address_of, key, key_of, sign},
    v2::{extra_of, reaches_threshold},
};

/// A change to a certificate with the required number of signatures; `sign` lets all masternodes of its epoch sign it.
type CertificateChange = fn(&mut QuorumCertificate, &dyn Fn(&mut QuorumCertificate));

const MISMATCH: &str = "fail to verify QC due to signature mis-match";
const TOO_FEW: &str = "invalid QC Signatures";

const CERTIFICATES: [(&str, CertificateChange, &str); 22] = [
    ("as many as are needed", |_, _| (), ACCEPTED),
    ("all", |certificate, sign| sign(certificate), ACCEPTED),
    ("another order", |certificate, _| certificate.signatures.reverse(), ACCEPTED),
    ("one twice, besides", |certificate, _| certificate.signatures.push(certificate.signatures[0].clone()), ACCEPTED),
    ("one twice, instead", |certificate, _| certificate.signatures[1] = certificate.signatures[0].clone(), TOO_FEW),
    ("one less", |certificate, _| drop(certificate.signatures.pop()), TOO_FEW),
    ("none", |certificate, _| certificate.signatures.clear(), TOO_FEW),
    (
        "a stranger besides",
        |certificate, _| certificate.signatures.push(sign(certificate.digest(), &key(25)).into()),
        MISMATCH,
    ),
    (
        "a stranger instead",
        |certificate, _| certificate.signatures[0] = sign(certificate.digest(), &key(25)).into(),
        MISMATCH,
    ),
    (
        "votes of another block",
        |certificate, sign| {
            let wrong = QuorumCertificate { gap_number: certificate.gap_number + 1, ..certificate.clone() };
            let mut signed = wrong;
            sign(&mut signed);
            certificate.signatures = signed.signatures;
        },
        MISMATCH,
    ),
    (
        "high S",
        |certificate, _| certificate.signatures[1] = high_s(&certificate.signatures[1]).into(),
        "invalid signature",
    ),
    (
        "a short signature",
        |certificate, _| certificate.signatures[0] = Bytes::from_static(&[1]),
        "error while verifying message: invalid signature length",
    ),
    (
        "recovery id",
        |certificate, _| {
            let good = certificate.signatures[0].clone();
            certificate.signatures[0] = [&good[..64], &[4]].concat().into();
        },
        "error while verifying message: invalid signature recovery id",
    ),
    ("hash, unsigned", |certificate, _| certificate.block.hash.0[0] ^= 1, MISMATCH),
    (
        "hash",
        |certificate, sign| {
            certificate.block.hash.0[0] ^= 1;
            sign(certificate);
        },
        "[VerifyBlockInfo] Provided blockheader does not match what's in the blockInfo",
    ),
    ("number, unsigned", |certificate, _| certificate.block.number -= 1, MISMATCH),
    (
        "number",
        |certificate, sign| {
            certificate.block.number -= 1;
            sign(certificate);
        },
        "[VerifyBlockInfo] chain header number does not match for the received blockInfo at hash: PARENT",
    ),
    ("gap number, unsigned", |certificate, _| certificate.gap_number += 1, MISMATCH),
    (
        "gap number",
        |certificate, sign| {
            certificate.gap_number += 1;
            sign(certificate);
        },
        "gap number mismatch QC Gap WRONG, shouldBe GAP",
    ),
    (
        "round of the block's own",
        |certificate, sign| {
            certificate.block.round += 5;
            sign(certificate);
        },
        "invalid Round, it shall be bigger than QC round",
    ),
    (
        "round 0 without signatures",
        |certificate, _| {
            certificate.block.round = 0;
            certificate.signatures.clear();
        },
        "[VerifyBlockInfo] chain block's round does not match from blockInfo at hash: PARENT and block round: ROUND, blockInfo Round: 0",
    ),
    (
        "a later gap number and no signature of a masternode",
        |certificate, _| {
            certificate.gap_number += 900;
            certificate.signatures.clear();
        },
        TOO_FEW,
    ),
];

#[test]
fn every_certificate_must_be_correct_and_signed_by_a_quorum() {
    let certified = kinds()
        .into_iter()
        .filter(|kind| !kind.is_v1() && !extra_of(kind.header()).unwrap().quorum.signatures.is_empty());
    let mut checked = 0;
    for kind in certified {
        let engine = kind.engine();
        let epoch = engine.v2().epoch_info(kind.parent(), kind.chain).unwrap();
        let original = extra_of(kind.header()).unwrap();
        let threshold = engine.consensus().at_round(original.quorum.block.round).certificate_threshold;
        let needed = (0..).find(|count| reaches_threshold(*count, epoch.masternodes.len(), threshold)).unwrap();
        let sign_by = |count: usize| {
            let masternodes = epoch.masternodes.clone();
            move |certificate: &mut QuorumCertificate| {
                let digest = certificate.digest();
                let sign = |masternode: &Address| sign(digest, &key_of(*masternode)).into();
                certificate.signatures = masternodes.iter().take(count).map(sign).collect();
            }
        };
        for (name, change, wanted) in CERTIFICATES {
            let mut extra = original.clone();
            sign_by(needed)(&mut extra.quorum);
            change(&mut extra.quorum, &sign_by(usize::MAX));
            // A certificate of an earlier epoch's round would make another header its epoch switch.
            let wanted = wanted
                .replace("PARENT", &format!("{:#x}", kind.parent().hash()))
                .replace("ROUND", &original.quorum.block.round.to_string())
                .replace("WRONG", &extra.quorum.gap_number.to_string())
                .replace("GAP", &original.quorum.gap_number.to_string());
            let header = Header { extra_data: extra.encode(), ..kind.header().header().clone() };
            let verdict = kind.verdict(&engine, &kind.signed(&engine, header));
            assert_eq!(verdict, wanted, "{name}: {} ({})", kind.name, kind.number);
            checked += 1;
        }
    }
    println!("{checked} changed certificates");
    assert!(checked > 100);
}

/// A round has one leader, which must be the header's author; with a round of another epoch the block becomes an epoch
/// switch.
#[test]
fn every_v2_header_has_a_round_of_its_leader() {
    for kind in kinds().into_iter().filter(|kind| !kind.is_v1()) {
        let (engine, extra) = (kind.engine(), extra_of(kind.header()).unwrap());
        let count = engine.v2().epoch_info(kind.header(), kind.chain).unwrap().masternodes.len() as u64;
        let verdict = |round: u64| {
            let extra = ExtraFields { round, ..extra.clone() };
            // Late enough for the parameters of any round.
            let timestamp = kind.header().timestamp.max(kind.parent().timestamp + 20);
            let header = Header { extra_data: extra.encode(), timestamp, ..kind.header().header().clone() };
            kind.verdict(&engine, &kind.signed(&engine, header))
        };
        let place = format!("{} ({})", kind.name, kind.number);

        assert_eq!(verdict(extra.round), ACCEPTED, "{place}");
        assert_eq!(verdict(extra.round + 1), "not validator's turn to mine this block", "{place}");
        assert_eq!(verdict(extra.round + count), ACCEPTED, "{place}: rounds may be missed");
        assert_eq!(verdict(extra.quorum.block.round), "invalid Round, it shall be bigger than QC round", "{place}");
        assert_eq!(verdict(0), "invalid Round, it shall be bigger than QC round", "{place}");
        if kind.class == V2 {
            let next_epoch = extra.round + engine.consensus().epoch;
            assert_eq!(verdict(next_epoch), "empty validators list on epoch switch block", "{place}");
        }
    }
}

/// The first v2 header follows the last of v1: the switch block has round 0, needs no votes, and supplies the list.
#[test]
fn the_first_v2_header_certifies_the_switch_block() {
    for kind in kinds().into_iter().filter(|kind| kind.name.starts_with("v2, the first, on")) {
        let engine = kind.engine();
        let gap = extra_of(kind.header()).unwrap().quorum.gap_number;
        let verdict = |change: &dyn Fn(&mut ExtraFields)| {
            let mut extra = extra_of(kind.header()).unwrap();
            change(&mut extra);
            let header = Header { extra_data: extra.encode(), ..kind.header().header().clone() };
            kind.verdict(&engine, &kind.signed(&engine, header))
        };

        assert_eq!(
            verdict(&|extra| extra.quorum.gap_number += 1),
            format!("gap number mismatch QC Gap {}, shouldBe {gap}", gap + 1)
        );
        assert_eq!(
            verdict(&|extra| extra.quorum.block.hash = B256::ZERO),
            "[VerifyBlockInfo] Provided blockheader does not match what's in the blockInfo"
        );
        let quorum_of_strangers = |extra: &mut ExtraFields| {
            extra.quorum.signatures = vec![sign(extra.quorum.digest(), &key(25)).into()];
        };
        assert_eq!(verdict(&quorum_of_strangers), MISMATCH);
        let in_a_round = |extra: &mut ExtraFields| {
            (extra.round, extra.quorum.block.round) = (2, 1);
        };
        assert_eq!(verdict(&in_a_round), TOO_FEW);
        let all_in_a_round = |extra: &mut ExtraFields| {
            in_a_round(extra);
            let digest = extra.quorum.digest();
            let masternodes = engine.v2().epoch_info(kind.parent(), kind.chain).unwrap().masternodes.clone();
            extra.quorum.signatures = masternodes.iter().map(|who| sign(digest, &key_of(*who)).into()).collect();
        };
        assert_eq!(verdict(&all_in_a_round), "[VerifyBlockInfo] switch block round have to be 0");
        assert_eq!(address_of(&key_of(kind.author(&engine))), kind.header().beneficiary);
    }
}
