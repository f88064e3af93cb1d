//! Every v2 header of the recorded chains.

use crate::{
    recorded_chain::RecordedChain,
    v2::{
        V2Engine, extra_of, is_epoch_switch,
        testing::{Listed, NoState, engine},
    },
};
use tenon_api::BlockNumber;

fn verify_all(chain: &RecordedChain, engine: &V2Engine) -> usize {
    let first = usize::try_from(engine.consensus().switch_block).unwrap();
    let mut verified = 0;
    for pair in chain.blocks[first..].windows(2) {
        let (parent, header) = (&pair[0].header, &pair[1].header);
        engine
            .verify_header(header, parent, &**chain, None)
            .unwrap_or_else(|error| panic!("{}: {error}", header.number));
        assert_eq!(engine.author(header).unwrap(), header.beneficiary);
        verified += 1;
    }
    verified
}

#[test]
fn every_header_of_the_local_chain_verifies_without_state() {
    let chain = RecordedChain::local();

    assert_eq!(verify_all(&chain, &engine(&chain, NoState)), 673);
}

/// With candidates, the masternodes and penalties of every epoch are computed and compared: silent masternodes, returns
/// by signing transactions, the limit of masternodes by round.
#[test]
fn the_lists_of_every_epoch_of_the_local_chain_are_computed() {
    let chain = RecordedChain::local();
    let engine = engine(&chain, Listed::from_headers(&chain));

    assert_eq!(verify_all(&chain, &engine), 673);
}

#[test]
fn the_local_chain_switches_epochs_at_the_documented_blocks() {
    let chain = RecordedChain::local();
    let settings = chain.settings();

    let switches: Vec<u64> = chain.blocks[1..]
        .iter()
        .filter(|block| is_epoch_switch(&settings.consensus, &block.header).unwrap())
        .map(|block| block.header.number)
        .collect();

    assert_eq!(switches, [1, 60, 120, 168, 228, 288, 348, 407, 461, 520, 580, 640]);
}

/// A slow model of the commit rule: walks the chain from its start like an importing node.
#[test]
fn the_committed_block_is_that_of_an_importing_node() {
    let chain = RecordedChain::local();
    let engine = engine(&chain, NoState);
    let round = |number: u64| if number == 0 { 0 } else { extra_of(chain.at(number)).unwrap().round };
    let mut committed = None;
    for head in 1..=673_u64 {
        let certified = head - 1;
        if certified >= 3
            && round(certified) == round(certified - 1) + 1
            && round(certified) == round(certified - 2) + 2
        {
            committed = Some(BlockNumber(certified - 2));
        }

        assert_eq!(engine.committed(chain.at(head), &*chain).unwrap(), committed, "{head}");
    }
    assert_eq!(committed, Some(BlockNumber(670)));

    let restarted = crate::v2::testing::engine(&chain, NoState);
    assert_eq!(restarted.committed(chain.at(673), &*chain).unwrap(), committed);
}

/// Two branches from block 10 of one network.
#[test]
fn both_branches_of_the_recorded_reorganisation_verify() {
    for (name, head, committed) in [("reorg-a", 15, 12), ("reorg-b", 20, 17)] {
        let chain = RecordedChain::read(name, "native/chains/reorg.genesis.json.gz");
        let engine = engine(&chain, NoState);

        assert_eq!(verify_all(&chain, &engine), head, "{name}");
        let tip = chain.blocks.last().unwrap();
        assert_eq!(engine.committed(&tip.header, &*chain).unwrap(), Some(BlockNumber(committed)), "{name}");
    }
}
