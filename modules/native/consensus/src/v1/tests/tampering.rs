//! Headers of a recorded chain with one thing changed, unsigned and signed again by legitimate signers.

use alloy_primitives::hex;
use proptest::prelude::*;
use tenon_api::{B64, B256, Bytes, U256};

use super::*;
use crate::recorded_chain::{key_of, sign};

/// An ordinary header of the second epoch whose creator is not its own partner, the checkpoint at its end, and an
/// ordinary header of the first epoch.
const ORDINARY: u64 = 1_010;
const CHECKPOINT: u64 = 1_800;
const FIRST_EPOCH: u64 = 500;

/// The recorded chain and an engine for it.
struct Fixture {
    chain: &'static ModelledChain,
    engine: V1Engine,
}

impl Fixture {
    fn new() -> Self {
        let chain = ModelledChain::v1switch();
        let engine = engine(chain);
        Self { chain, engine }
    }

    fn recorded(&self, number: u64) -> &SealedHeader {
        self.chain.chain.at(number)
    }

    fn creator(&self, number: u64) -> Address {
        self.engine.author(self.recorded(number)).unwrap()
    }

    /// Verifies `header` in the place of block `number`.
    fn verify(&self, number: u64, header: Header, now: Option<u64>) -> Result<(), V1Error> {
        self.engine.verify_header(&tenon_chain::seal(header), self.recorded(number - 1), self.chain, now)
    }

    /// The header signed by `creator`, and by its partner.
    fn signed(&self, number: u64, mut header: Header, creator: Address) -> Header {
        let Some(start) = header.extra_data.len().checked_sub(65) else { return header };
        let seal = sign(v1_seal_hash(&header), &key_of(creator));
        header.extra_data = [&header.extra_data[..start], &seal].concat().into();
        let partner = self
            .engine
            .second_signer(&tenon_chain::seal(header.clone()), self.recorded(number - 1), self.chain)
            .unwrap_or_default();
        if !partner.is_zero() {
            let signature = sign(v1_seal_hash(&header), &key_of(partner));
            header.native_seal.as_mut().unwrap().validator = signature.into();
        }
        header
    }

    /// The result for block `number` after a change, signed again by its own creator.
    fn changed(&self, number: u64, change: impl Fn(&mut Header)) -> Result<(), V1Error> {
        let mut header = self.recorded(number).header().clone();
        change(&mut header);
        let header = self.signed(number, header, self.creator(number));
        self.verify(number, header, NOW)
    }
}

type Change = fn(&mut Header);

#[test]
fn an_unchanged_header_that_is_signed_again_verifies() {
    let bench = Fixture::new();

    for number in [FIRST_EPOCH, 899, 900, 901, ORDINARY, CHECKPOINT] {
        assert_eq!(bench.changed(number, |_| ()), Ok(()), "{number}");
    }
}

/// Every item covered by the seal, changed without a new signature: the seal then recovers another address.
#[test]
fn every_item_under_the_seal_is_bound_to_its_creator() {
    let changes: [(&str, Change); 15] = [
        ("parent hash", |header| header.parent_hash.0[0] ^= 1),
        ("uncle hash", |header| header.ommers_hash.0[0] ^= 1),
        ("beneficiary", |header| header.beneficiary.0[0] ^= 1),
        ("state root", |header| header.state_root.0[0] ^= 1),
        ("transactions root", |header| header.transactions_root.0[0] ^= 1),
        ("receipts root", |header| header.receipts_root.0[0] ^= 1),
        ("bloom", |header| header.logs_bloom.0[0] ^= 1),
        ("difficulty", |header| header.difficulty += U256::ONE),
        ("number", |header| header.number += 1),
        ("gas limit", |header| header.gas_limit += 1),
        ("gas used", |header| header.gas_used += 1),
        ("time", |header| header.timestamp += 1),
        ("mix digest", |header| header.mix_hash.0[0] ^= 1),
        ("nonce", |header| header.nonce = B64::repeat_byte(0xff)),
        ("base fee", |header| header.base_fee_per_gas = None),
    ];
    let bench = Fixture::new();

    for number in [FIRST_EPOCH, ORDINARY, CHECKPOINT] {
        for (item, change) in changes {
            let mut header = bench.recorded(number).header().clone();
            change(&mut header);

            assert!(bench.verify(number, header, NOW).is_err(), "{item} of {number}");
        }
        for place in 0..bench.recorded(number).extra_data.len() {
            let mut header = bench.recorded(number).header().clone();
            let mut extra = header.extra_data.to_vec();
            extra[place] ^= 1;
            header.extra_data = extra.into();

            assert!(bench.verify(number, header, NOW).is_err(), "byte {place} of the extra data of {number}");
        }
    }
}

/// The seal does not cover `Validators` and `Penalties`, and v1 checks them only in checkpoints. In other headers they
/// affect only the block hash, as in the reference.
#[test]
fn two_items_of_ordinary_headers_are_not_checked() {
    let bench = Fixture::new();
    let change: Change = |header| {
        let seal = header.native_seal.as_mut().unwrap();
        seal.validators = Bytes::from_static(b"free");
        seal.penalties = Bytes::from_static(b"free");
    };

    assert_eq!(bench.changed(ORDINARY, change), Ok(()));
    assert_eq!(bench.changed(CHECKPOINT, change), Err(V1Error::CheckpointPenalties));
}

#[test]
fn names_the_rule_that_a_header_breaks() {
    let cases: [(&str, u64, Change); 24] = [
        ("block in the future", ORDINARY, |header| header.timestamp = u64::MAX),
        ("beneficiary in checkpoint block non-zero", CHECKPOINT, |header| header.beneficiary.0[0] = 1),
        ("vote nonce not 0x00..0 or 0xff..f", ORDINARY, |header| header.nonce.0[7] = 1),
        ("vote nonce not 0x00..0 or 0xff..f", CHECKPOINT, |header| header.nonce.0[7] = 1),
        ("vote nonce in checkpoint block non-zero", CHECKPOINT, |header| header.nonce = B64::repeat_byte(0xff)),
        ("extra-data 32 byte vanity prefix missing", ORDINARY, |header| header.extra_data = vec![0; 31].into()),
        ("extra-data 65 byte suffix signature missing", ORDINARY, |header| header.extra_data = vec![0; 96].into()),
        ("non-checkpoint block contains extra signer list", ORDINARY, |header| {
            header.extra_data = vec![0; 98].into();
        }),
        ("invalid signer list on checkpoint block", CHECKPOINT, |header| header.extra_data = vec![0; 98].into()),
        ("non-zero mix digest", ORDINARY, |header| header.mix_hash.0[31] = 1),
        ("non empty uncle hash", ORDINARY, |header| header.ommers_hash = B256::ZERO),
        ("unknown ancestor", ORDINARY, |header| header.parent_hash.0[0] ^= 1),
        ("unknown ancestor", ORDINARY, |header| header.number += 1),
        ("invalid timestamp", ORDINARY, |header| header.timestamp -= 1),
        ("header is missing baseFee", ORDINARY, |header| header.base_fee_per_gas = None),
        ("invalid baseFee: have 1, want 12500000000", ORDINARY, |header| header.base_fee_per_gas = Some(1)),
        ("invalid penalty list on checkpoint block", CHECKPOINT, |header| {
            header.native_seal.as_mut().unwrap().penalties = vec![1; 20].into();
        }),
        ("invalid penalty list on checkpoint block", CHECKPOINT, |header| {
            header.native_seal.as_mut().unwrap().penalties = vec![1].into();
        }),
        ("invalid validators list on checkpoint block", CHECKPOINT, |header| {
            header.native_seal.as_mut().unwrap().validators = hex!("00000033000000300000003100000032").into();
        }),
        ("invalid validators list on checkpoint block", CHECKPOINT, |header| {
            header.native_seal.as_mut().unwrap().validators = Bytes::new();
        }),
        ("invalid signer list on checkpoint block", CHECKPOINT, |header| {
            let extra = &header.extra_data;
            header.extra_data = [&extra[..32], &extra[52..]].concat().into();
        }),
        ("invalid signer list on checkpoint block", CHECKPOINT, |header| {
            let extra = &header.extra_data;
            header.extra_data = [&extra[..52], &extra[32..52], &extra[72..]].concat().into();
        }),
        ("invalid difficulty", ORDINARY, |header| header.difficulty += U256::ONE),
        ("invalid difficulty", CHECKPOINT, |header| header.difficulty -= U256::ONE),
    ];
    let bench = Fixture::new();

    for (text, number, change) in cases {
        let mut header = bench.recorded(number).header().clone();
        change(&mut header);
        let header = bench.signed(number, header, bench.creator(number));
        let now = bench.recorded(number).timestamp + 1;

        let verified = bench.verify(number, header, Some(now));

        assert_eq!(verified.unwrap_err().to_string(), text, "{number}");
    }
}

#[test]
fn a_base_fee_before_its_fork_is_refused() {
    let bench = Fixture::new();
    let mut settings = bench.chain.chain.settings();
    settings.heights.eip1559 = ORDINARY + 1;
    let engine = V1Engine::new(Arc::new(settings), Arc::default(), Arc::new(ContractCandidates), Arc::default());

    let verified = engine.verify_header(bench.recorded(ORDINARY), bench.recorded(ORDINARY - 1), bench.chain, NOW);

    assert_eq!(verified.unwrap_err().to_string(), "invalid baseFee: have 12500000000, want <nil>");
}

/// The same list in another order is accepted: it is compared as a set (2.6), and its order applies to the epoch.
#[test]
fn a_checkpoint_may_list_its_masternodes_in_any_order() {
    let bench = Fixture::new();

    let verified = bench.changed(CHECKPOINT, |header| {
        let extra = &header.extra_data;
        header.extra_data = [&extra[..32], &extra[52..72], &extra[32..52], &extra[72..]].concat().into();
    });

    assert_eq!(verified, Ok(()));
}

/// An ordinary block by each masternode and by another account, with the difficulty of its distance.
#[test]
fn only_masternodes_that_did_not_make_the_parent_may_make_a_block() {
    let bench = Fixture::new();
    let parent = bench.recorded(ORDINARY - 1);
    let masternodes = bench.engine.masternodes(parent, bench.chain).unwrap();
    let stranger = crate::recorded_chain::address_of(&crate::recorded_chain::key(9));

    for creator in masternodes.iter().copied().chain([stranger]) {
        let mut header = bench.recorded(ORDINARY).header().clone();
        header.difficulty = bench.engine.turn(parent, creator, bench.chain).unwrap().difficulty();
        let header = bench.signed(ORDINARY, header, creator);
        let may = masternodes.contains(&creator) && creator != bench.creator(ORDINARY - 1);

        let verified = bench.verify(ORDINARY, header, NOW);

        assert_eq!(verified, if may { Ok(()) } else { Err(V1Error::Unauthorized) }, "{creator}");
    }
}

#[test]
fn the_second_signature_must_be_the_partners() {
    let bench = Fixture::new();
    let recorded = bench.recorded(ORDINARY).header();
    let hash = v1_seal_hash(recorded);
    let good = recorded.native_seal.as_ref().unwrap().validator.to_vec();
    let creator = recorded.extra_data[32..].to_vec();
    let masternodes = bench.engine.masternodes(bench.recorded(ORDINARY), bench.chain).unwrap();
    let partner = recover(hash, &good).unwrap();
    let others = masternodes.iter().filter(|other| **other != partner).map(|other| sign(hash, &key_of(*other)));
    let with_id = |id: u8| [&good[..64], &[id]].concat();
    let mut cases = vec![
        (Vec::new(), "no validator in header"),
        (good[..64].to_vec(), "missing validator in header"),
        ([&good[..], &[0]].concat(), "missing validator in header"),
        (with_id(4), "invalid signature recovery id"),
        (vec![0; 65], "recovery failed"),
        (creator, "wrong pair of creator-validator in double validation"),
        (with_id(good[64] ^ 1), "wrong pair of creator-validator in double validation"),
    ];
    cases.extend(others.map(|signature| (signature, "wrong pair of creator-validator in double validation")));

    for (signature, text) in cases {
        let mut header = recorded.clone();
        header.native_seal.as_mut().unwrap().validator = signature.into();

        assert_eq!(bench.verify(ORDINARY, header.clone(), NOW).unwrap_err().to_string(), text);
        assert_eq!(bench.verify(ORDINARY, header, None), Ok(()), "not checked without full verification");
    }
}

/// v1 has no rule on S (1.3): the mirrored signature recovers the same signer.
#[test]
fn a_high_s_is_accepted() {
    let bench = Fixture::new();
    let mirrored = |signature: &[u8]| {
        let order = U256::from_be_bytes(hex!("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"));
        let s = order - U256::from_be_slice(&signature[32..64]);
        [&signature[..32], &s.to_be_bytes::<32>(), &[signature[64] ^ 1]].concat()
    };
    let mut header = bench.recorded(ORDINARY).header().clone();
    let seal = header.native_seal.as_mut().unwrap();
    seal.validator = mirrored(&seal.validator).into();
    header.extra_data = [&header.extra_data[..32], &mirrored(&header.extra_data[32..])].concat().into();

    assert_eq!(bench.verify(ORDINARY, header, NOW), Ok(()));
}

#[test]
fn a_network_may_omit_second_signatures() {
    let bench = Fixture::new();
    let mut settings = bench.chain.chain.settings();
    settings.skips_second_signer = true;
    let engine = V1Engine::new(Arc::new(settings), Arc::default(), Arc::new(ContractCandidates), Arc::default());
    let mut header = bench.recorded(ORDINARY).header().clone();
    header.native_seal.as_mut().unwrap().validator = Bytes::new();

    let verified = engine.verify_header(&tenon_chain::seal(header), bench.recorded(ORDINARY - 1), bench.chain, Some(0));

    assert_eq!(verified, Ok(()), "neither the signature nor the clock is checked");
}

#[test]
fn exempt_checkpoints_may_list_anything() {
    let bench = Fixture::new();
    let mut settings = bench.chain.chain.settings();
    settings.unchecked_checkpoints = vec![CHECKPOINT];
    let engine = V1Engine::new(Arc::new(settings), Arc::default(), Arc::new(ContractCandidates), Arc::default());
    let mut header = bench.recorded(CHECKPOINT).header().clone();
    header.native_seal.as_mut().unwrap().penalties = vec![7; 20].into();
    let header = tenon_chain::seal(header);

    assert_eq!(engine.verify_header(&header, bench.recorded(CHECKPOINT - 1), bench.chain, NOW), Ok(()));
}

/// A header of another profile has no seals.
#[test]
fn a_header_without_the_native_items_is_refused() {
    let bench = Fixture::new();
    let mut header = bench.recorded(ORDINARY).header().clone();
    header.native_seal = None;

    assert_eq!(bench.verify(ORDINARY, header, NOW), Err(V1Error::NotNative));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// For any bytes in the free-form items, verification returns a result.
    #[test]
    fn any_bytes_in_the_lists_get_a_verdict(
        extra in proptest::collection::vec(any::<u8>(), 0..300),
        lists in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..90), 3),
        is_checkpoint in any::<bool>(),
    ) {
        let bench = Fixture::new();
        let number = if is_checkpoint { CHECKPOINT } else { ORDINARY };
        let mut header = bench.recorded(number).header().clone();
        header.extra_data = extra.into();
        let seal = header.native_seal.as_mut().unwrap();
        (seal.validators, seal.validator) = (lists[0].clone().into(), lists[1].clone().into());
        seal.penalties = lists[2].clone().into();

        prop_assert!(bench.verify(number, header, NOW).is_err());
    }
}
