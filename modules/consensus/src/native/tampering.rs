//! Every kind of header with one thing changed, and what it is refused with: every field, every signature, every part of
//! a certificate. Changed alone, and signed again by those who may, so that it is the rule that is found and not the seal.

use std::sync::{Arc, LazyLock};

use alloy_primitives::{B64, B256, Bloom, Bytes, hex};
use tenon_api::{Address, Header, NativeSeal, SealedHeader, U256};

use super::{
    ContractCandidates, ExtraFields, NativeEngine, QuorumCertificate,
    recorded_chain::{address_of, key, key_of, resealed, sign},
    recorded_state::ModelledChain,
    v1_seal_hash,
    v2::{extra_of, reaches_threshold},
    v2_seal_hash,
};

/// Headers for which the same rules hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    V1,
    V1Checkpoint,
    V2,
    V2EpochSwitch,
}
use Class::{V1, V1Checkpoint, V2, V2EpochSwitch};

static LOCAL: LazyLock<ModelledChain> = LazyLock::new(|| ModelledChain::read("local"));

/// A header of a recorded chain.
struct Kind {
    name: &'static str,
    class: Class,
    chain: &'static ModelledChain,
    number: u64,
}

fn kinds() -> Vec<Kind> {
    let (v1switch, local) = (ModelledChain::v1switch(), &*LOCAL);
    let rows = [
        ("v1, first epoch, one signature", V1, v1switch, 500),
        ("v1 checkpoint, one signature", V1Checkpoint, v1switch, 900),
        ("v1, first of an epoch, two signatures", V1, v1switch, 901),
        ("v1, two signatures", V1, v1switch, 1_010),
        ("v1 checkpoint, two signatures, the last of v1", V1Checkpoint, v1switch, 1_800),
        ("v2, the first, on the last of v1", V2EpochSwitch, v1switch, 1_801),
        ("v2, the first with a certificate", V2, v1switch, 1_802),
        ("v2, epoch switch after the engines' switch, pays", V2EpochSwitch, v1switch, 2_700),
        ("v2, the first, on block 0", V2EpochSwitch, local, 1),
        ("v2", V2, local, 100),
        ("v2, after a round that failed", V2, local, 122),
        ("v2, epoch switch", V2EpochSwitch, local, 60),
        ("v2, epoch switch with a penalty", V2EpochSwitch, local, 168),
        ("v2, first of an epoch", V2, local, 169),
    ];
    rows.map(|(name, class, chain, number)| Kind { name, class, chain, number }).into()
}

impl Kind {
    fn header(&self) -> &SealedHeader {
        self.chain.chain.at(self.number)
    }

    fn parent(&self) -> &SealedHeader {
        self.chain.chain.at(self.number - 1)
    }

    /// An engine whose clock stands at the chain's end.
    fn engine(&self) -> NativeEngine {
        let now = self.chain.chain.blocks.last().unwrap().header.timestamp;
        let source = Arc::new(ContractCandidates);
        NativeEngine::with(&self.chain.chain.spec, source, Arc::new(move || now)).unwrap()
    }

    fn verdict(&self, engine: &NativeEngine, header: &SealedHeader) -> String {
        match engine.check_header(header, self.parent(), self.chain) {
            Ok(()) => ACCEPTED.to_owned(),
            Err(error) => error.to_string(),
        }
    }

    const fn is_v1(&self) -> bool {
        matches!(self.class, V1 | V1Checkpoint)
    }

    fn author(&self, engine: &NativeEngine) -> Address {
        tenon_api::ConsensusEngine::author(engine, self.header()).unwrap()
    }

    /// The changed header, signed again by its own creator and, where there is one, the creator's partner.
    fn signed(&self, engine: &NativeEngine, mut header: Header) -> SealedHeader {
        let author = key_of(self.author(engine));
        if header.native_seal.is_none() {
            return tenon_chain::seal(header);
        }
        if !self.is_v1() {
            return resealed(header, &author);
        }
        let Some(start) = header.extra_data.len().checked_sub(65) else { return tenon_chain::seal(header) };
        header.extra_data = [&header.extra_data[..start], &sign(v1_seal_hash(&header), &author)].concat().into();
        let once = tenon_chain::seal(header.clone());
        let partner = engine.v1().second_signer(&once, self.parent(), self.chain).unwrap_or_default();
        if self.number > 900 && !partner.is_zero() {
            header.native_seal.as_mut().unwrap().validator = sign(v1_seal_hash(&header), &key_of(partner)).into();
        }
        tenon_chain::seal(header)
    }
}

fn seal_of(header: &mut Header) -> &mut NativeSeal {
    header.native_seal.as_mut().unwrap()
}

const ACCEPTED: &str = "accepted";
const NO_ANCESTOR: &str = "unknown ancestor";
const STRANGER: &str = "validator address is not in the master node list";
const COINBASE: &str = "validator and coinbase address in header does not match";
const LISTS: &str = "invalid field exist in a non-epoch swtich block";
const MASTERNODES: &str = "validators does not match what's stored in snapshot minus its penalty";
const EXTRA: &str = "invalid v2 extra in the block";
const NOT_NATIVE: &str = "not a native header: no validators, validator and penalties";

type Change = fn(&mut Header);

/// What is changed; whether v1's seals cover it; the refusal once it is signed again, by class.
type Row = (&'static str, Change, bool, [&'static str; 4]);

/// Every item of a header, in their order, each in the ways that a rule speaks of. What is accepted here is execution's to
/// judge (roots, bloom, gas used), or free.
const FIELDS: [Row; 37] = [
    ("parent hash", |header| header.parent_hash.0[0] ^= 1, true, [NO_ANCESTOR; 4]),
    ("uncle hash", |header| header.ommers_hash.0[0] ^= 1, true, ["non empty uncle hash"; 4]),
    (
        "beneficiary",
        |header| header.beneficiary.0[0] ^= 1,
        true,
        [ACCEPTED, "beneficiary in checkpoint block non-zero", COINBASE, COINBASE],
    ),
    ("state root", |header| header.state_root.0[0] ^= 1, true, [ACCEPTED; 4]),
    ("transactions root", |header| header.transactions_root.0[0] ^= 1, true, [ACCEPTED; 4]),
    ("receipts root", |header| header.receipts_root.0[0] ^= 1, true, [ACCEPTED; 4]),
    ("bloom", |header| header.logs_bloom = Bloom::repeat_byte(1), true, [ACCEPTED; 4]),
    ("difficulty up", |header| header.difficulty += U256::ONE, true, ["invalid difficulty"; 4]),
    ("difficulty down", |header| header.difficulty -= U256::ONE, true, ["invalid difficulty"; 4]),
    (
        "number",
        |header| header.number -= 1,
        true,
        [NO_ANCESTOR, "non-checkpoint block contains extra signer list", NO_ANCESTOR, NO_ANCESTOR],
    ),
    ("gas limit", |header| header.gas_limit += 1, true, [ACCEPTED; 4]),
    (
        "gas limit far up",
        |header| header.gas_limit += header.gas_limit / 1_024,
        true,
        [
            ACCEPTED,
            ACCEPTED,
            "invalid gas limit: have 50048828, want 50000000 +-= 48827",
            "invalid gas limit: have 50048828, want 50000000 +-= 48827",
        ],
    ),
    (
        "gas limit far down",
        |header| header.gas_limit -= header.gas_limit / 1_024,
        true,
        [
            ACCEPTED,
            ACCEPTED,
            "invalid gas limit: have 49951172, want 50000000 +-= 48827",
            "invalid gas limit: have 49951172, want 50000000 +-= 48827",
        ],
    ),
    ("gas used", |header| header.gas_used += 1, true, [ACCEPTED; 4]),
    (
        "gas used beyond the limit",
        |header| header.gas_used = 50_000_001,
        true,
        [
            ACCEPTED,
            ACCEPTED,
            "gas used exceeded gaslimit, gas used: 50000001, gas limit: 50000000",
            "gas used exceeded gaslimit, gas used: 50000001, gas limit: 50000000",
        ],
    ),
    ("later", |header| header.timestamp += 1, true, [ACCEPTED; 4]),
    ("much later", |header| header.timestamp = u64::MAX, true, ["block in the future"; 4]),
    ("earlier", |header| header.timestamp -= 1_000, true, ["invalid timestamp"; 4]),
    (
        "no extra data",
        |header| header.extra_data = Bytes::new(),
        true,
        ["extra-data 32 byte vanity prefix missing", "extra-data 32 byte vanity prefix missing", EXTRA, EXTRA],
    ),
    (
        "short extra data",
        |header| header.extra_data = header.extra_data.slice(..header.extra_data.len() - 1),
        true,
        ["extra-data 65 byte suffix signature missing", "invalid signer list on checkpoint block", EXTRA, EXTRA],
    ),
    (
        "long extra data",
        |header| header.extra_data = [&header.extra_data[..], &[0]].concat().into(),
        true,
        ["non-checkpoint block contains extra signer list", "invalid signer list on checkpoint block", EXTRA, EXTRA],
    ),
    (
        "first byte of the extra data",
        |header| header.extra_data = [&[header.extra_data[0] ^ 1], &header.extra_data[1..]].concat().into(),
        true,
        [ACCEPTED, ACCEPTED, EXTRA, EXTRA],
    ),
    (
        "a masternode left out",
        |header| {
            header.extra_data =
                [&header.extra_data[..32], header.extra_data.get(52..).unwrap_or_default()].concat().into()
        },
        true,
        ["extra-data 65 byte suffix signature missing", "invalid signer list on checkpoint block", EXTRA, EXTRA],
    ),
    ("mix digest", |header| header.mix_hash.0[31] = 1, true, ["non-zero mix digest"; 4]),
    ("nonce", |header| header.nonce = B64::with_last_byte(1), true, ["vote nonce not 0x00..0 or 0xff..f"; 4]),
    (
        "vote",
        |header| header.nonce = B64::repeat_byte(0xff),
        true,
        [ACCEPTED, "vote nonce in checkpoint block non-zero", ACCEPTED, "vote nonce in checkpoint block non-zero"],
    ),
    ("no native items", |header| header.native_seal = None, false, [NOT_NATIVE; 4]),
    (
        "no validators",
        |header| seal_of(header).validators = Bytes::new(),
        false,
        [
            ACCEPTED,
            "invalid validators list on checkpoint block",
            ACCEPTED,
            "empty validators list on epoch switch block",
        ],
    ),
    (
        "other validators",
        |header| seal_of(header).validators = [9; 20].into(),
        false,
        [ACCEPTED, "invalid validators list on checkpoint block", LISTS, MASTERNODES],
    ),
    (
        "half a validator more",
        |header| seal_of(header).validators = [&seal_of(header).validators[..], &[9; 10]].concat().into(),
        false,
        [ACCEPTED, "invalid validators list on checkpoint block", LISTS, "invalid signer list on checkpoint block"],
    ),
    (
        "a validator twice",
        |header| {
            seal_of(header).validators =
                [&seal_of(header).validators[..], &hex!("29bb8adaaec585b4d437e1997a4ba60bde226f13")].concat().into()
        },
        false,
        [ACCEPTED, "invalid validators list on checkpoint block", LISTS, MASTERNODES],
    ),
    (
        "no validator",
        |header| seal_of(header).validator = Bytes::new(),
        false,
        ["SECOND", "SECOND", "AUTHOR", "AUTHOR"],
    ),
    (
        "a penalty more",
        |header| seal_of(header).penalties = [&seal_of(header).penalties[..], &[9; 20]].concat().into(),
        false,
        [ACCEPTED, "invalid penalty list on checkpoint block", LISTS, "penalties does not match"],
    ),
    (
        "half a penalty more",
        |header| seal_of(header).penalties = [&seal_of(header).penalties[..], &[9; 10]].concat().into(),
        false,
        [ACCEPTED, "invalid penalty list on checkpoint block", LISTS, ACCEPTED],
    ),
    ("no base fee", |header| header.base_fee_per_gas = None, true, ["header is missing baseFee"; 4]),
    ("base fee", |header| header.base_fee_per_gas = Some(1), true, ["invalid baseFee: have 1, want 12500000000"; 4]),
    (
        "base fee of nothing",
        |header| header.base_fee_per_gas = Some(0),
        true,
        ["invalid baseFee: have 0, want 12500000000"; 4],
    ),
];

/// Where a kind differs from its class: a height down, the first header of v2 is one of v1, and a checkpoint.
fn exception(kind: &Kind, change: &str) -> Option<&'static str> {
    let is_first_of_v2 = change == "number" && matches!((kind.number, kind.class), (1 | 1_801, V2EpochSwitch));
    is_first_of_v2.then_some("beneficiary in checkpoint block non-zero")
}

#[test]
fn every_field_of_every_kind_of_header_is_held_by_a_rule_or_by_a_seal() {
    let mut checked = 0;
    for kind in kinds() {
        let engine = kind.engine();
        assert_eq!(kind.verdict(&engine, kind.header()), ACCEPTED, "{}", kind.name);
        for (change_name, change, is_sealed_in_v1, by_class) in FIELDS {
            let place = format!("{change_name}: {} ({})", kind.name, kind.number);
            let mut header = kind.header().header().clone();
            change(&mut header);
            let wanted = exception(&kind, change_name).unwrap_or(by_class[kind.class as usize]);
            let alone = kind.verdict(&engine, &tenon_chain::seal(header.clone()));
            checked += 1;
            if matches!(wanted, "SECOND" | "AUTHOR") {
                let missing = match wanted {
                    "AUTHOR" => "no validator in v2 header",
                    _ if kind.number > 900 => "no validator in header",
                    _ => ACCEPTED,
                };
                assert_eq!(alone, missing, "{place}");
                continue;
            }

            assert_eq!(kind.verdict(&engine, &kind.signed(&engine, header)), wanted, "{place}, signed");
            if kind.is_v1() {
                // The seal recovers a stranger: no place in the turns gives that difficulty, or nobody knows him.
                let by_seal = ["invalid difficulty", "unauthorized"];
                let is_refused =
                    if is_sealed_in_v1 { alone == wanted || by_seal.contains(&&*alone) } else { alone == wanted };
                assert!(is_refused && (alone != ACCEPTED || !is_sealed_in_v1), "{place}: {alone}");
            } else {
                let is_left_to_the_seal = matches!(wanted, ACCEPTED | COINBASE) && header_is_changed(&kind, change);
                assert_eq!(alone, if is_left_to_the_seal { STRANGER } else { wanted }, "{place}");
            }
        }
    }
    println!("{checked} changed headers of {} kinds", kinds().len());
}

/// Whether the change changes anything: a list that is empty anyway cannot be left out.
fn header_is_changed(kind: &Kind, change: Change) -> bool {
    let mut header = kind.header().header().clone();
    change(&mut header);
    header != *kind.header().header()
}

fn high_s(signature: &[u8]) -> Vec<u8> {
    let order = U256::from_be_bytes(hex!("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"));
    let high = order - U256::from_be_slice(&signature[32..64]);
    [&signature[..32], &high.to_be_bytes::<32>(), &[signature[64] ^ 1]].concat()
}

/// A signature in ways that are none of its owner's, with the verdict of v1's creator, v1's second signer, v2's author.
/// In v1 a signature of somebody else is a wrong turn or a stranger's; `OTHER` stands for either.
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
fn every_signature_of_every_kind_of_header_must_be_its_owners() {
    for kind in kinds() {
        let (engine, original) = (kind.engine(), kind.header().header().clone());
        let digest = if kind.is_v1() { v1_seal_hash(&original) } else { v2_seal_hash(&original) };
        let start = original.extra_data.len().saturating_sub(65);
        let second = original.native_seal.as_ref().unwrap().validator.clone();
        // Places: the creator's seal of v1, the second signature of v1, the author's of v2.
        let places = if kind.is_v1() {
            [Some(original.extra_data.slice(start..)), Some(second.clone()), None]
        } else {
            [None, None, Some(second)]
        };
        for (place, good) in places.into_iter().enumerate().filter_map(|(place, good)| Some((place, good?))) {
            if good.is_empty() {
                continue;
            }
            let owner = super::recover(digest, &good).unwrap();
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

/// What is done to a certificate of as many signatures as are needed; `sign` lets all masternodes of its epoch sign it.
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
        "a later gap number and nobody's signature",
        |certificate, _| {
            certificate.gap_number += 900;
            certificate.signatures.clear();
        },
        TOO_FEW,
    ),
];

#[test]
fn every_certificate_must_be_a_quorums_and_tell_the_truth() {
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
            // A certificate of an earlier epoch's round would make another header an epoch switch of it.
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

/// A round has one leader, the header's own; a round of another epoch makes another kind of block.
#[test]
fn every_v2_header_is_of_the_round_of_its_leader() {
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

/// The first v2 header on the last one of v1: the switch block has round 0, needs no votes, and lends its list.
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
