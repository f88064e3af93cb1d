//! The engine compared with the slow model of random networks.
//!
//! `TENON_SEED=<number>` repeats one network; `TENON_NETWORKS` and `TENON_FIRST_SEED` try other ones (`network::seeds`).

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes};
use rand::{SeedableRng, rngs::StdRng};
use tenon_api::{BlockNumber, ConsensusEngine, SealAttributes};

use crate::{
    NativeEngine,
    v2::{
        V2Engine, extra_of,
        testing::{
            Listed,
            network::{EPOCH, GAP, Network, seeds},
        },
    },
};

/// The committed block known to a node that follows the chain, by the specification.
fn committed_by_model(network: &Network) -> Option<BlockNumber> {
    let head = network.tip().number;
    (4..=head).rev().find_map(|number| {
        let (third, second, first) = (network.round(number - 1), network.round(number - 2), network.round(number - 3));
        (third == second + 1 && second == first + 1).then_some(BlockNumber(number - 3))
    })
}

/// Extends `count` random networks to a height with the engine and with the slow model, which must agree. Then a node that
/// sees each chain for the first time must accept it too; `check` compares more of it.
fn compare_with_model(count: u64, height: u64, network_of: fn(u64) -> Network, check: fn(&V2Engine, &Network)) {
    let seeds = seeds(count);
    // Fewer networks may have no penalty.
    let has_all = seeds.len() as u64 >= count;
    let (mut epochs, mut penalised, mut come_backs) = (0, 0, 0);
    for seed in seeds {
        println!("TENON_SEED={seed}");
        let mut network = network_of(seed);
        while network.tip().number < height && network.extend() {}
        epochs += network.epochs;
        penalised += network.penalised;
        come_backs += network.come_backs;

        let engine = network.engine();
        for number in 1..=network.tip().number {
            let (header, parent) = (&network.chain[&number].header, &network.chain[&(number - 1)].header);
            engine.verify_header(header, parent, &*network, None).unwrap();
        }
        check(&engine, &network);
    }
    println!("{epochs} epochs, {penalised} penalties, {come_backs} come-backs");
    assert!(!has_all || epochs > 4 && penalised > 0, "{epochs} {penalised} {come_backs}");
}

#[test]
fn the_engine_agrees_with_a_slow_model_on_random_networks() {
    compare_with_model(12, 120, Network::random, |engine, network| {
        assert_eq!(engine.committed(network.tip(), &**network).unwrap(), committed_by_model(network));
    });
}

/// Too few blocks, no blocks, parole over several epochs (`docs/spec/upgrades.md` 5), from a height inside the chain on.
#[test]
fn penalties_of_the_upgrade_agree_with_a_slow_model_on_random_networks() {
    compare_with_model(24, 200, Network::upgraded, |_, _| ());
}

/// The development network: one masternode, whose own vote is a quorum.
#[test]
fn a_single_masternode_makes_a_chain_through_the_port() {
    let mut network = Network::of(1, 7, StdRng::seed_from_u64(7));
    let key = network.keys.values().next().unwrap().clone();
    for epoch in 0..5 {
        network.candidates.insert(epoch * EPOCH + EPOCH - GAP, vec![key.address()]);
    }
    let lists = network.candidates.iter().map(|(gap, list)| (*gap, list.clone().into())).collect();
    let engine = NativeEngine::with(&network.spec, Arc::new(Listed(lists)), Arc::new(|| u64::MAX)).unwrap();
    let attributes = |time| SealAttributes {
        timestamp: time,
        beneficiary: key.address(),
        gas_limit: 50_000_000,
        extra_data: Bytes::new(),
        mix_hash: B256::ZERO,
    };
    let without_key = engine.prepare(network.tip(), &attributes(0), &*network).unwrap_err();
    assert_eq!(without_key.reason, "not ready to mine: this node has no masternode key");
    let engine = engine.sealing_with(Arc::new(key.clone()));
    let for_another = SealAttributes { beneficiary: Address::ZERO, ..attributes(0) };
    let refused = engine.prepare(network.tip(), &for_another, &*network).unwrap_err();
    assert_eq!(refused.reason, "block Coinbase address does not match its wallte address");

    for number in 1..=90_u64 {
        let parent = network.tip().clone();
        let header = engine.prepare(&parent, &attributes(parent.timestamp), &*network).unwrap();
        let header = engine.seal(header).unwrap();
        engine.verify_header(&header, &parent, &*network).unwrap();
        assert_eq!((header.number, extra_of(&header).unwrap().round), (number, number));
        assert_eq!(header.native_seal.as_ref().unwrap().validators.is_empty(), number != 1 && number % EPOCH != 0);
        network.store(header, Vec::new());
    }
    assert_eq!(engine.finality(network.tip(), &*network).0, Some(BlockNumber(87)));
}
