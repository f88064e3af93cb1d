//! `sync.certificates = "sampled"`: a certificate with wrong signers passes only where a later one binds it by hash.

use std::sync::Arc;

use alloy_primitives::keccak256;
use tenon_api::{ConsensusEngine, Header, NativeSeal, SealedHeader};
use tenon_chain::ChainSpec;
use tenon_memory_chain::MemoryChain;
use tenon_native_spec::{NativeSettings, read_genesis};

use crate::{
    NativeEngine,
    extra::ExtraFields,
    messages::{BlockInfo, QuorumCertificate, vote_digest},
    v2::{MasternodeKey, VERIFIED_AGE, gap_number, seal, testing::NoState},
};

const MASTERNODES: u64 = 4;
const EPOCH: u64 = 150;
const BLOCKS: u64 = 180;
/// Headers that are known together, as in an import.
const GROUP: usize = 32;
/// The engines' clock, Unix seconds.
const NOW: u64 = 1_000_000_000;

/// The faults of certificates, by the height of the block that carries them.
#[derive(Clone, Copy)]
enum Wrong {
    /// Signed by keys that are no masternodes.
    Strangers,
    /// Of another epoch's gap block.
    Gap,
    /// Stating a round that is not the parent's.
    Round,
    /// Too few signatures.
    Few,
}

fn keys(word: &str) -> Vec<MasternodeKey> {
    let key = |number| MasternodeKey::from_bytes(keccak256(format!("{word} {number}")).0).unwrap();
    let mut keys: Vec<MasternodeKey> = (0..MASTERNODES).map(key).collect();
    keys.sort_by_key(MasternodeKey::address);
    keys
}

struct Network {
    spec: Arc<ChainSpec>,
    headers: Vec<SealedHeader>,
}

impl Network {
    /// A chain in which every round has a block, two seconds apart, the last at `end`.
    fn ending(end: u64, wrong: &[(u64, Wrong)]) -> Self {
        let keys = keys("masternode");
        let list: Vec<u8> = keys.iter().flat_map(|key| key.address().0.0).collect();
        let extra = alloy_primitives::hex::encode_prefixed([&[0; 32][..], &list, &[0; 65]].concat());
        let config = format!(
            r#"{{"config":{{"chainId":5151,"XDPoS":{{"period":2,"epoch":{EPOCH},"gap":75,"v2":{{"switchBlock":0,"allConfigs":
            {{"0":{{"maxMasternodes":4,"minePeriod":2,"certificateThreshold":0.667}}}}}}}}}},"timestamp":"{:#x}",
            "extraData":"{extra}","difficulty":"0x1","gasLimit":"0x2faf080","alloc":{{}}}}"#,
            end - 2 * BLOCKS
        );
        let genesis = read_genesis(config.as_bytes()).unwrap();
        let mut network = Self { headers: vec![genesis.sealed_header().unwrap()], spec: genesis.spec };
        for round in 1..=BLOCKS {
            let wrong = wrong.iter().find(|(number, _)| *number == round).map(|(_, wrong)| *wrong);
            let header = network.child(round, &keys, &list, wrong);
            network.headers.push(header);
        }
        network
    }

    fn child(&self, round: u64, keys: &[MasternodeKey], list: &[u8], wrong: Option<Wrong>) -> SealedHeader {
        let parent = self.headers.last().unwrap();
        let consensus = &NativeSettings::of(&self.spec).unwrap().consensus;
        // Block 1 and every multiple of the epoch open one; a certificate is of its parent's epoch.
        let mut gap = gap_number(consensus, if parent.number < EPOCH { 1 } else { EPOCH });
        let mut block = BlockInfo { hash: parent.hash(), round: round - 1, number: parent.number };
        let strangers = self::keys("stranger");
        let mut signers = if round > 1 { keys } else { &[] };
        match wrong {
            Some(Wrong::Strangers) => signers = &strangers,
            Some(Wrong::Gap) => gap += 1,
            Some(Wrong::Round) => block.round -= 1,
            Some(Wrong::Few) => signers = &keys[..2],
            None => {}
        }
        let digest = vote_digest(&block, gap);
        let signatures = signers.iter().map(|key| key.sign(digest).to_vec().into()).collect();
        let quorum = QuorumCertificate { block, signatures, gap_number: gap };
        let opens_epoch = round == 1 || round.is_multiple_of(EPOCH);
        let leader = &keys[usize::try_from(round % EPOCH % MASTERNODES).unwrap()];
        let validators = if opens_epoch { list.to_vec() } else { Vec::new() };
        let header = Header {
            parent_hash: parent.hash(),
            beneficiary: leader.address(),
            number: round,
            timestamp: parent.timestamp + 2,
            extra_data: ExtraFields { round, quorum }.encode(),
            native_seal: Some(NativeSeal { validators: validators.into(), ..NativeSeal::default() }),
            ..parent.header().clone()
        };
        seal(header, leader).unwrap()
    }

    fn engine(&self, is_sampled: bool) -> NativeEngine {
        let engine = NativeEngine::with(&self.spec, Arc::new(NoState), Arc::new(|| NOW)).unwrap();
        engine.sampling_certificates(is_sampled)
    }

    /// Verifies the chain in groups, as an import does; the height and the reason of the first refusal.
    fn verify(&self, is_sampled: bool, group: usize) -> Option<(u64, String)> {
        let (engine, chain) = (self.engine(is_sampled), MemoryChain::default());
        chain.push_header(self.headers[0].clone());
        let mut parent = &self.headers[0];
        for group in self.headers[1..].chunks(group) {
            engine.recover_ahead(&group.iter().collect::<Vec<_>>());
            for header in group {
                if let Err(error) = engine.verify_header(header, parent, &chain) {
                    return Some((error.number.0, error.reason));
                }
                chain.push_header(header.clone());
                parent = header;
            }
        }
        None
    }
}

/// An end so long ago that no block is near the head.
const LONG_AGO: u64 = NOW - VERIFIED_AGE - 1;

fn refused_at(found: Option<(u64, String)>) -> Option<u64> {
    found.map(|(number, _)| number)
}

#[test]
fn a_valid_chain_is_accepted_with_and_without_sampling() {
    let network = Network::ending(LONG_AGO, &[]);
    assert_eq!((network.verify(false, GROUP), network.verify(true, GROUP)), (None, None));
}

#[test]
fn a_forged_certificate_in_between_is_accepted_only_if_sampled_and_bound() {
    // 50 and 170 lie inside a group and an epoch.
    for number in [2, 50, 170] {
        let network = Network::ending(LONG_AGO, &[(number, Wrong::Strangers)]);
        assert_eq!(refused_at(network.verify(false, GROUP)), Some(number));
        assert_eq!(network.verify(true, GROUP), None, "block {number}");
        // A header that is verified alone is bound to no other.
        assert_eq!(refused_at(network.verify(true, 1)), Some(number));
    }
}

#[test]
fn a_forged_certificate_of_an_epoch_switch_or_a_hundredth_block_is_refused() {
    for number in [EPOCH, 100] {
        let network = Network::ending(LONG_AGO, &[(number, Wrong::Strangers)]);
        assert_eq!(refused_at(network.verify(true, GROUP)), Some(number));
    }
}

#[test]
fn a_forged_certificate_near_the_head_is_refused() {
    // Block 120 is exactly as old as the limit, block 121 younger.
    let end = NOW - VERIFIED_AGE + 2 * (BLOCKS - 120);
    for (number, refused) in [(120, None), (121, Some(121)), (140, Some(140))] {
        let network = Network::ending(end, &[(number, Wrong::Strangers)]);
        assert_eq!(refused_at(network.verify(true, GROUP)), refused, "block {number}");
    }
}

#[test]
fn the_last_of_a_group_is_verified_and_binds_nothing_if_it_is_forged() {
    // The second group has blocks 33 to 64.
    let network = Network::ending(LONG_AGO, &[(64, Wrong::Strangers)]);
    assert_eq!(refused_at(network.verify(true, GROUP)), Some(64));

    let network = Network::ending(LONG_AGO, &[(50, Wrong::Strangers), (64, Wrong::Strangers)]);
    assert_eq!(refused_at(network.verify(true, GROUP)), Some(50));

    let network = Network::ending(LONG_AGO, &[(50, Wrong::Strangers), (64, Wrong::Few)]);
    assert_eq!(refused_at(network.verify(true, GROUP)), Some(50));
}

#[test]
fn a_bound_certificate_must_still_name_its_block_gap_and_enough_signatures() {
    for wrong in [Wrong::Gap, Wrong::Round, Wrong::Few] {
        let network = Network::ending(LONG_AGO, &[(50, wrong)]);
        assert_eq!(refused_at(network.verify(true, GROUP)), Some(50));
    }
}

#[test]
fn a_header_outside_the_chain_of_hashes_is_bound_to_nothing() {
    let (network, other) = (Network::ending(LONG_AGO, &[(50, Wrong::Strangers)]), Network::ending(LONG_AGO, &[]));
    let (engine, chain) = (network.engine(true), MemoryChain::default());
    network.headers[..50].iter().for_each(|header| chain.push_header(header.clone()));
    // The later headers are another chain's from block 50 on.
    assert_ne!(network.headers[50].hash(), other.headers[50].hash());
    let mut group: Vec<&SealedHeader> = network.headers[40..=50].iter().collect();
    group.extend(&other.headers[51..60]);
    engine.recover_ahead(&group);

    let refused = engine.verify_header(&network.headers[50], &network.headers[49], &chain).unwrap_err();

    assert_eq!((refused.number.0, refused.hash), (50, network.headers[50].hash()));
}
