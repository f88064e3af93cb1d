//! The public conformance chain: 54 blocks from Homestead to the last change of blob parameters, with uncles,
//! the merge, withdrawals, blobs and requests (`tests/data/chain`).

use tenon_chain::{Genesis, decode_block};
use tenon_test_data::unpacked;

use super::*;
use crate::fake_chain::{add, chain_from};

fn recorded() -> (EthereumEngine, SealedHeader, Vec<Block>) {
    let genesis = Genesis::from_json(&unpacked("chain/conformance-genesis.json.gz")).unwrap();
    let engine = EthereumEngine::new(Arc::clone(&genesis.spec));
    let first = genesis.commit().unwrap().block.header.clone();
    let bytes = unpacked("chain/conformance-chain.rlp.gz");
    let mut rest = &bytes[..];
    let mut blocks = Vec::new();
    while !rest.is_empty() {
        blocks.push(decode_block(&mut rest).unwrap());
    }
    (engine, first, blocks)
}

#[test]
fn every_recorded_block_is_valid() {
    let (engine, genesis, blocks) = recorded();
    let chain = chain_from(&genesis);
    let (mut rewarded, mut uncles) = (0, 0);

    for block in blocks {
        let parent = chain.head().header.clone();
        engine.verify_header(&block.header, &parent, &chain).unwrap();
        engine.verify_body(&block, &chain).unwrap();
        let rewards = engine.rewards(&block, &chain).unwrap().credits;
        assert_eq!(rewards.is_empty(), block.header.number >= 36, "block {}", block.header.number);
        rewarded += usize::from(!rewards.is_empty());
        uncles += block.ommers.len();
        add(&chain, block);
    }

    assert_eq!((chain.head().header.number, rewarded), (54, 35));
    assert!(uncles > 5, "{uncles} uncles");
}

#[test]
fn every_recorded_header_with_a_changed_consensus_field_is_refused() {
    let (engine, genesis, blocks) = recorded();
    let chain = chain_from(&genesis);
    let changes: [fn(&mut Header); 6] = [
        |header| header.difficulty += U256::from(1),
        |header| header.gas_limit *= 2,
        |header| header.base_fee_per_gas = header.base_fee_per_gas.map_or(Some(1), |fee| Some(fee + 1)),
        |header| header.excess_blob_gas = header.excess_blob_gas.map_or(Some(0), |excess| Some(excess + 131_072)),
        |header| header.requests_hash = header.requests_hash.map_or(Some(B256::ZERO), |_| None),
        |header| header.withdrawals_root = header.withdrawals_root.map_or(Some(B256::ZERO), |_| None),
    ];

    for block in blocks {
        let parent = chain.head().header.clone();
        for (position, change) in changes.iter().enumerate() {
            let mut header = block.header.header().clone();
            change(&mut header);
            let outcome = engine.verify_header(&tenon_chain::seal(header), &parent, &chain);
            assert!(outcome.is_err(), "block {} with change {position}", block.header.number);
        }
        add(&chain, block);
    }
}
