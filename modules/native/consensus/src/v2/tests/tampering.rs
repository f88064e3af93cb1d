//! Headers of the recorded chain with changes specific to v2, and certificates sent alone. For every field of every
//! kind see `native/tampering.rs`.

use std::sync::LazyLock;

use alloy_primitives::{Address, B64, B256, Bloom, Bytes, U256, hex};
use proptest::prelude::*;
use tenon_api::{Header, NativeSeal, SealedHeader};

use crate::{
    extra::ExtraFields,
    messages::TimeoutCertificate,
    recorded_chain::{RecordedChain, key, key_of, resealed, sign},
    v2::{
        V2Engine, extra_of,
        testing::{Listed, NoState, engine},
    },
};

/// An ordinary block of the first configuration: four masternodes, three signatures needed.
const ORDINARY: u64 = 100;
/// An epoch switch with a penalty.
const EPOCH_SWITCH: u64 = 168;

static LOCAL: LazyLock<RecordedChain> = LazyLock::new(RecordedChain::local);

fn seal_of(header: &mut Header) -> &mut NativeSeal {
    header.native_seal.as_mut().unwrap()
}

/// The error for a changed header with the original's parent.
fn refusal(engine: &V2Engine, number: u64, header: &SealedHeader) -> String {
    let now = Some(LOCAL.at(673).timestamp);
    match engine.verify_header(header, LOCAL.at(number - 1), &**LOCAL, now) {
        Ok(()) => "accepted".into(),
        Err(error) => error.to_string(),
    }
}

type Change = fn(&mut Header);

const STRANGER: &str = "validator address is not in the master node list";

#[test]
fn every_field_of_an_ordinary_header_is_covered_by_a_rule_or_by_the_seal() {
    let rows: [(&str, Change, &str); 31] = [
        ("parent", |header| header.parent_hash.0[0] ^= 1, "unknown ancestor"),
        ("uncles", |header| header.ommers_hash.0[0] ^= 1, "non empty uncle hash"),
        ("beneficiary", |header| header.beneficiary.0[0] ^= 1, STRANGER),
        ("state", |header| header.state_root.0[0] ^= 1, STRANGER),
        ("transactions", |header| header.transactions_root.0[0] ^= 1, STRANGER),
        ("receipts", |header| header.receipts_root.0[0] ^= 1, STRANGER),
        ("bloom", |header| header.logs_bloom = Bloom::repeat_byte(1), STRANGER),
        ("difficulty", |header| header.difficulty = U256::from(2), "invalid difficulty"),
        ("no difficulty", |header| header.difficulty = U256::ZERO, "invalid difficulty"),
        ("number", |header| header.number += 1, "unknown ancestor"),
        ("gas limit", |header| header.gas_limit += 1, STRANGER),
        (
            "gas limit up",
            |header| header.gas_limit += header.gas_limit / 1024,
            "invalid gas limit: have 50048828, want 50000000 +-= 48827",
        ),
        (
            "gas limit down",
            |header| header.gas_limit -= header.gas_limit / 1024,
            "invalid gas limit: have 49951172, want 50000000 +-= 48827",
        ),
        (
            "gas used",
            |header| header.gas_used = 50_000_001,
            "gas used exceeded gaslimit, gas used: 50000001, gas limit: 50000000",
        ),
        ("less gas used", |header| header.gas_used += 1, STRANGER),
        ("later", |header| header.timestamp += 1, STRANGER),
        ("much later", |header| header.timestamp += 100_000, "block in the future"),
        ("earlier", |header| header.timestamp -= 100, "invalid timestamp"),
        ("no extra", |header| header.extra_data = Bytes::new(), "invalid v2 extra in the block"),
        ("short extra", |header| header.extra_data = vec![2].into(), "invalid v2 extra in the block"),
        ("v1 extra", |header| header.extra_data = vec![0; 97].into(), "invalid v2 extra in the block"),
        (
            "longer extra",
            |header| header.extra_data = [&header.extra_data[..], &[0]].concat().into(),
            "invalid v2 extra in the block",
        ),
        ("long extra", |header| header.extra_data = vec![2; 20_001].into(), "invalid v2 extra in the block"),
        ("mix digest", |header| header.mix_hash = B256::repeat_byte(1), "non-zero mix digest"),
        ("nonce", |header| header.nonce = B64::repeat_byte(0x7b), "vote nonce not 0x00..0 or 0xff..f"),
        ("vote", |header| header.nonce = B64::repeat_byte(0xff), STRANGER),
        (
            "validators",
            |header| seal_of(header).validators = vec![1; 20].into(),
            "invalid field exist in a non-epoch swtich block",
        ),
        (
            "penalties",
            |header| seal_of(header).penalties = vec![1; 20].into(),
            "invalid field exist in a non-epoch swtich block",
        ),
        ("no validator", |header| seal_of(header).validator = Bytes::new(), "no validator in v2 header"),
        ("base fee", |header| header.base_fee_per_gas = Some(1), "invalid baseFee: have 1, want 12500000000"),
        ("no base fee", |header| header.base_fee_per_gas = None, "header is missing baseFee"),
    ];
    let engine = engine(&LOCAL, NoState);
    for (name, change, wanted) in rows {
        let mut header = LOCAL.at(ORDINARY).header().clone();
        change(&mut header);
        assert_eq!(refusal(&engine, ORDINARY, &tenon_chain::seal(header)), wanted, "{name}");
    }
    assert_eq!(refusal(&engine, ORDINARY, LOCAL.at(ORDINARY)), "accepted");
}

/// Only the step from the genesis block's limit is free (`docs/spec/upgrades.md` 6).
#[test]
fn the_first_block_may_have_any_gas_limit_that_is_not_too_low() {
    let engine = engine(&LOCAL, NoState);
    let with = |number, gas_limit| {
        let original = LOCAL.at(number).header().clone();
        let key = key_of(original.beneficiary);
        refusal(&engine, number, &resealed(Header { gas_limit, gas_used: 0, ..original }, &key))
    };

    assert_eq!(with(1, 420_000_000), "accepted");
    assert_eq!(with(1, 5_000), "accepted");
    assert_eq!(with(1, 4_999), "invalid gas limit below 5000");
    assert_eq!(with(2, 420_000_000), "invalid gas limit: have 420000000, want 50000000 +-= 48827");
}

#[test]
fn the_proposers_signature_must_be_the_leaders_with_low_s() {
    let engine = engine(&LOCAL, NoState);
    let original = LOCAL.at(ORDINARY).header().clone();
    let leader = original.beneficiary;
    let other = LOCAL.at(ORDINARY + 1).beneficiary;
    let with = |signature: Vec<u8>| {
        let mut header = original.clone();
        seal_of(&mut header).validator = signature.into();
        tenon_chain::seal(header)
    };
    let signature = original.native_seal.as_ref().unwrap().validator.to_vec();
    let with_byte = |index: usize, value: u8| {
        let mut changed = signature.clone();
        changed[index] = value;
        with(changed)
    };
    let by_other = resealed(original.clone(), &key_of(other));
    let for_other = resealed(Header { beneficiary: other, ..original.clone() }, &key_of(other));
    let by_stranger = resealed(original.clone(), &key(29));
    let cases = [
        (with(signature[..64].to_vec()), "invalid validator signature length 64, want 65"),
        (with([&signature[..], &[0]].concat()), "invalid validator signature length 66, want 65"),
        (with(high_s(&signature)), "invalid signature"),
        (with_byte(64, 4), "error while verifying message: invalid signature recovery id"),
        (with([&[0; 64][..], &[0]].concat()), "error while verifying message: recovery failed"),
        (with_byte(64, signature[64] ^ 1), STRANGER),
        (by_stranger, STRANGER),
        (by_other, "validator and coinbase address in header does not match"),
        (for_other, "not validator's turn to mine this block"),
        (resealed(original.clone(), &key_of(leader)), "accepted"),
    ];
    for (header, wanted) in cases {
        assert_eq!(refusal(&engine, ORDINARY, &header), wanted);
    }
}

/// The same signature with S negated: it recovers the same address.
fn high_s(signature: &[u8]) -> Vec<u8> {
    let order = U256::from_be_bytes(hex!("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"));
    let high = order - U256::from_be_slice(&signature[32..64]);
    [&signature[..32], &high.to_be_bytes::<32>(), &[signature[64] ^ 1]].concat()
}

#[test]
fn a_round_may_be_skipped_only_to_its_own_leader() {
    let engine = engine(&LOCAL, NoState);
    let original = LOCAL.at(ORDINARY).header().clone();
    let in_round = |round: u64, proposer: usize| {
        let extra = ExtraFields { round, ..extra_of(&original).unwrap() };
        let beneficiary = crate::recorded_chain::address_of(&key(proposer));
        resealed(Header { extra_data: extra.encode(), beneficiary, ..original.clone() }, &key(proposer))
    };
    let epoch = engine.epoch_info(LOCAL.at(ORDINARY - 1), &**LOCAL).unwrap();
    for round in 100..110 {
        let leader = epoch.masternodes[usize::try_from(round % 60 % 4).unwrap()];
        for proposer in 0..4 {
            let is_leader = crate::recorded_chain::address_of(&key(proposer)) == leader;
            let wanted = if is_leader { "accepted" } else { "not validator's turn to mine this block" };
            assert_eq!(refusal(&engine, ORDINARY, &in_round(round, proposer)), wanted, "{round} {proposer}");
        }
    }
    // A round of the next epoch makes it an epoch switch, which needs lists.
    assert_eq!(refusal(&engine, ORDINARY, &in_round(120, 0)), "empty validators list on epoch switch block");
}

#[test]
fn an_epoch_switch_lists_exactly_the_computed_masternodes_and_penalties() {
    let rows: [(&str, Change, &str); 11] = [
        ("nothing", |_| (), "accepted"),
        ("vote", |header| header.nonce = B64::repeat_byte(0xff), "vote nonce in checkpoint block non-zero"),
        ("nonce", |header| header.nonce = B64::from([0x7b, 0, 0, 0, 0, 0, 0, 0]), "vote nonce not 0x00..0 or 0xff..f"),
        (
            "no validators",
            |header| seal_of(header).validators = Bytes::new(),
            "empty validators list on epoch switch block",
        ),
        ("one byte", |header| seal_of(header).validators = vec![1].into(), "invalid signer list on checkpoint block"),
        (
            "one masternode more",
            |header| {
                let seal = seal_of(header);
                seal.validators = [&seal.validators[..], Address::repeat_byte(1).as_slice()].concat().into();
            },
            "validators does not match what's stored in snapshot minus its penalty",
        ),
        (
            "one masternode less",
            |header| {
                let seal = seal_of(header);
                seal.validators = seal.validators.slice(20..);
            },
            "validators does not match what's stored in snapshot minus its penalty",
        ),
        ("no penalties", |header| seal_of(header).penalties = Bytes::new(), "penalties does not match"),
        (
            "a penalty twice",
            |header| {
                let seal = seal_of(header);
                seal.penalties = [&seal.penalties[..], &seal.penalties[..]].concat().into();
            },
            "penalties does not match",
        ),
        (
            "a tail behind the penalties",
            |header| {
                let seal = seal_of(header);
                seal.penalties = [&seal.penalties[..], &[1; 19]].concat().into();
            },
            "accepted",
        ),
        (
            "another order of masternodes",
            |header| {
                let seal = seal_of(header);
                seal.validators = [&seal.validators[20..], &seal.validators[..20]].concat().into();
            },
            "accepted",
        ),
    ];
    let engine = engine(&LOCAL, Listed::from_headers(&LOCAL));
    for (name, change, wanted) in rows {
        let mut header = LOCAL.at(EPOCH_SWITCH).header().clone();
        change(&mut header);
        let leader = key_of(header.beneficiary);
        assert_eq!(refusal(&engine, EPOCH_SWITCH, &resealed(header, &leader)), wanted, "{name}");
    }
}

#[test]
fn a_header_of_an_unknown_branch_is_refused() {
    let engine = engine(&LOCAL, NoState);
    let header = LOCAL.at(ORDINARY);

    let error = engine.verify_header(header, LOCAL.at(ORDINARY - 2), &**LOCAL, None).unwrap_err();

    assert_eq!(error.to_string(), "unknown ancestor");
}

#[test]
fn a_timeout_certificate_needs_a_quorum_of_candidates() {
    let engine = engine(&LOCAL, Listed::from_headers(&LOCAL));
    let epoch = engine.epoch_info(LOCAL.at(130), &**LOCAL).unwrap();
    let verdict = |round: u64, gap_number: u64, signers: &[usize]| {
        let mut certificate = TimeoutCertificate { round, signatures: Vec::new(), gap_number };
        let digest = certificate.digest();
        certificate.signatures = signers.iter().map(|n| sign(digest, &key(*n)).into()).collect();
        match engine.verify_timeout_certificate(&certificate, &epoch, &**LOCAL) {
            Ok(()) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        }
    };

    // Five masternodes: four signatures.
    assert_eq!(verdict(130, 90, &[0, 1, 2, 4]), "accepted");
    assert_eq!(verdict(130, 90, &[0, 1, 2]), "invalid TC Signatures");
    assert_eq!(verdict(130, 90, &[0, 1, 2, 2]), "invalid TC Signatures");
    assert_eq!(verdict(130, 90, &[0, 1, 2, 4, 25]), "fail to verify TC due to signature mis-match");
    assert_eq!(
        verdict(130, 91, &[0, 1, 2, 4]),
        "[verifyTC] Unable to get snapshot, getSnapshot fail to get header by number: 91"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// With any single bit of a sealed header flipped it is no longer accepted; nothing panics.
    #[test]
    fn no_bit_of_an_encoded_header_can_be_flipped(position in 0_usize..100_000, bit in 0_u8..8) {
        let engine = engine(&LOCAL, NoState);
        let mut encoded = Vec::new();
        tenon_chain::encode_header(LOCAL.at(ORDINARY), &mut encoded);
        let position = position % encoded.len();
        encoded[position] ^= 1 << bit;
        if let Ok(header) = tenon_chain::decode_header(&mut &encoded[..]) {
            let verdict = refusal(&engine, ORDINARY, &tenon_chain::seal(header));
            prop_assert_ne!(verdict, "accepted", "byte {} bit {}", position, bit);
        }
    }

    /// Extra data has exactly one encoding, and no input panics its decoder.
    #[test]
    fn extra_data_is_decoded_strictly(position in 0_usize..100_000, value: u8) {
        let mut extra = LOCAL.at(ORDINARY).extra_data.to_vec();
        let position = position % extra.len();
        extra[position] = value;
        if let Ok(fields) = ExtraFields::decode(&extra) {
            prop_assert_eq!(fields.encode().to_vec(), extra);
        }
    }
}
