//! Headers and bodies in their encoded form, for peers.

use std::ops::ControlFlow;

use alloy_primitives::{B256, U256};
use alloy_rlp::Header as RlpHeader;
use tenon_api::{BlockCommit, BlockNumber, EncodedChainReader as _};
use tenon_storage::Store;

use crate::support::{Maker, Writes as _, change, log};

/// Ten blocks, and a side block at heights 3 to 6.
fn chain() -> (Maker, Vec<BlockCommit>) {
    let mut maker = Maker::new();
    let mut other = Maker::new();
    other.mark = 1;
    for number in 1..=10 {
        let logs = [vec![log(1, &[number], b"")], vec![]];
        maker.add(vec![change(1, number, &[])], &logs[..number as usize % 3]);
        other.add(vec![change(1, number, &[])], &logs);
    }
    let sides: Vec<BlockCommit> = other.commits.drain(3..=6).collect();
    for side in &sides {
        maker.store.insert_side_block(&side.block, U256::ONE).unwrap();
    }
    (maker, sides)
}

fn headers(store: &Store, first: u64, max: usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let take = &mut |header: &[u8]| {
        found.push(header.to_vec());
        if found.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    store.encoded_headers(BlockNumber(first), take).unwrap();
    found
}

#[test]
fn the_range_of_headers_is_canonical_and_ends_at_the_head() {
    let (maker, _) = chain();
    let mut wanted = Vec::new();
    for commit in &maker.commits {
        let mut header = Vec::new();
        tenon_chain::encode_header(&commit.block.header, &mut header);
        wanted.push(header);
    }

    for first in 0..=10 {
        assert_eq!(headers(&maker.store, first, usize::MAX), wanted[first as usize..], "from {first}");
    }
    assert_eq!(headers(&maker.store, 2, 4), wanted[2..6]);
    for beyond in [11, u64::MAX] {
        assert_eq!(headers(&maker.store, beyond, 1), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn a_range_follows_the_chain_after_an_unwind() {
    let (mut maker, _) = chain();
    let above = headers(&maker.store, 5, usize::MAX);
    maker.unwind(4);

    assert_eq!(headers(&maker.store, 5, usize::MAX), Vec::<Vec<u8>>::new());

    maker.mark = 2;
    maker.add(vec![change(1, 77, &[])], &[]);
    let replaced = headers(&maker.store, 4, usize::MAX);
    assert_eq!(replaced.len(), 2);
    assert_ne!(replaced[1], above[0]);
}

/// The list of a block's transactions and uncles, taken from the encoded block.
fn body_of(commit: &BlockCommit) -> Vec<u8> {
    let block = tenon_chain::encode_block(&commit.block.block);
    let mut items = &block[..];
    RlpHeader::decode(&mut items).unwrap();
    let header = RlpHeader::decode(&mut items).unwrap();
    let parts = &items[header.payload_length..];
    let mut body = Vec::new();
    RlpHeader { list: true, payload_length: parts.len() }.encode(&mut body);
    body.extend_from_slice(parts);
    body
}

fn bodies(store: &Store, hashes: &[B256], max: usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let take = &mut |body: &[&[u8]]| {
        found.push(body.concat());
        if found.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    store.encoded_bodies(hashes, take).unwrap();
    found
}

#[test]
fn bodies_are_those_of_the_blocks_of_any_branch_in_any_order() {
    let (maker, sides) = chain();
    let ascending: Vec<&BlockCommit> = maker.commits.iter().collect();
    let orders: [Vec<&BlockCommit>; 4] = [
        ascending.iter().rev().copied().collect(),
        ascending.iter().step_by(3).copied().chain(&sides).collect(),
        sides
            .iter()
            .zip(ascending.iter().copied())
            .flat_map(|(side, canonical)| [side, canonical, canonical])
            .collect(),
        ascending,
    ];

    for order in orders {
        let unknown = B256::repeat_byte(9);
        let hashes: Vec<B256> = order.iter().flat_map(|commit| [commit.block.hash(), unknown]).collect();
        let wanted: Vec<Vec<u8>> = order.into_iter().map(body_of).collect();
        assert_eq!(bodies(&maker.store, &hashes, usize::MAX), wanted);
        assert_eq!(bodies(&maker.store, &hashes, 2), wanted[..2]);
    }
    assert_eq!(bodies(&maker.store, &[B256::ZERO], 1), Vec::<Vec<u8>>::new());
}
