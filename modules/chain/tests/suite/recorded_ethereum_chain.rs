//! The chain of the public RPC suite: every fork from Homestead to the second blob parameter change.

use alloy_primitives::{B256, U256, b256};
use tenon_api::{Block, EMPTY_OMMERS_HASH, TransactionType};
use tenon_chain::{
    BlockStream, Fork, Genesis, StreamError, encode_block, ommers_hash, recover_senders_under, transactions_root,
    withdrawals_root,
};

use crate::support;

const GENESIS_HASH: B256 = b256!("44fd89d504659cd58f48f4796b77a7e7012cf296a2409afa2f6c3cb99b5b3d99");
const GENESIS_STATE_ROOT: B256 = b256!("dc43f460541a253c0f64b6943ef83fa3bd601699a255622f088d46f7fde359fc");
const HEAD_HASH: B256 = b256!("d226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7");

fn genesis() -> Genesis {
    Genesis::from_json(&support::unpacked("conformance-genesis.json.gz")).unwrap()
}

fn blocks() -> Vec<Block> {
    BlockStream::new(&support::unpacked("conformance-chain.rlp.gz")[..]).collect::<Result<_, _>>().unwrap()
}

#[test]
fn genesis_has_the_recorded_hash_and_state_root() {
    let commit = genesis().commit().unwrap();

    assert_eq!(commit.block.header.state_root, GENESIS_STATE_ROOT);
    assert_eq!(commit.block.hash(), GENESIS_HASH);
    assert_eq!(commit.total_difficulty, U256::from(0x20000));
    assert_eq!(commit.accounts.len(), 27);
    assert!(commit.superseded_trie_nodes.is_empty());
}

#[test]
fn every_block_round_trips_and_links_to_its_parent() {
    let file = support::unpacked("conformance-chain.rlp.gz");
    let blocks = blocks();
    let mut encoded = Vec::new();
    let mut parent = GENESIS_HASH;
    for block in &blocks {
        assert_eq!(block.header.parent_hash, parent);
        parent = block.hash();
        let bytes = encode_block(block);
        assert_eq!(bytes.len() as u64, block.size);
        encoded.extend(bytes);
    }

    assert_eq!(blocks.len(), 54);
    assert_eq!(parent, HEAD_HASH);
    assert_eq!(encoded, file);
}

#[test]
fn the_roots_of_every_body_match_its_header() {
    for block in blocks() {
        assert_eq!(transactions_root(&block.transactions), block.header.transactions_root);
        assert_eq!(ommers_hash(&block.ommers), block.header.ommers_hash);
        assert_eq!(block.withdrawals.as_deref().map(withdrawals_root), block.header.withdrawals_root);
    }
}

#[test]
fn the_schedule_gives_every_block_its_fork_fee_and_blob_gas() {
    let genesis = genesis();
    let spec = &genesis.spec;
    let mut parent = genesis.header.clone();
    for block in blocks() {
        let header = &block.header;
        let wanted = match header.number {
            1..3 => Fork::Homestead,
            3..6 => Fork::TangerineWhistle,
            6..9 => Fork::SpuriousDragon,
            9..12 => Fork::Byzantium,
            12..15 => Fork::Constantinople,
            15..18 => Fork::Petersburg,
            18..21 => Fork::Istanbul,
            21..24 => Fork::MuirGlacier,
            24..27 => Fork::Berlin,
            27..30 => Fork::London,
            30..33 => Fork::ArrowGlacier,
            33..36 => Fork::GrayGlacier,
            36..39 => Fork::Paris,
            39..42 => Fork::Shanghai,
            42..45 => Fork::Cancun,
            45..48 => Fork::Prague,
            48..51 => Fork::Osaka,
            51..54 => Fork::Bpo1,
            _ => Fork::Bpo2,
        };
        assert_eq!(spec.fork_of(header), wanted, "block {}", header.number);
        assert_eq!(spec.fork_at(header.number, header.timestamp), wanted, "block {}", header.number);
        assert_eq!(spec.next_base_fee(&parent), header.base_fee_per_gas, "block {}", header.number);
        assert_eq!(spec.next_excess_blob_gas(&parent, header.timestamp), header.excess_blob_gas);
        if wanted < Fork::Paris {
            assert_eq!(spec.ethash_difficulty(&parent, header.timestamp), header.difficulty, "block {}", header.number);
        }
        parent = header.header().clone();
    }
    assert_eq!(spec.gas_limit_baseline(&blocks()[25].header), 200_000_000);
}

#[test]
fn the_fork_identifier_is_the_recorded_one() {
    let genesis = genesis();
    let head = blocks().pop().unwrap();

    let id = genesis.spec.fork_id(GENESIS_HASH, 0, head.header.number, head.header.timestamp);

    assert_eq!((id.hash, id.next), ([0xe2, 0x72, 0xec, 0xbe], 0));
}

#[test]
fn every_sender_is_recovered_under_the_rules_of_its_height() {
    let spec = genesis().spec;
    let mut counts = [0; 5];
    for block in blocks() {
        let rules = spec.signer_rules(block.header.number, block.header.timestamp);
        let recovered = recover_senders_under(block, &rules).unwrap();
        assert_eq!(recovered.senders.len(), recovered.transactions.len());
        for transaction in &recovered.transactions {
            counts[transaction.transaction_type() as usize] += 1;
        }
    }

    assert_eq!(counts, [196, 23, 23, 6, 1]);
    assert_eq!(TransactionType::SetCode as usize, 4);
}

#[test]
fn a_damaged_file_is_refused_with_block_and_offset() {
    let mut file = support::unpacked("conformance-chain.rlp.gz");
    let first = blocks()[0].size;

    let truncated = BlockStream::new(&file[..file.len() - 1]).last().unwrap();
    assert!(matches!(truncated, Err(StreamError::Truncated { index: 53, .. })), "{truncated:?}");

    let bounded = BlockStream::with_bound(&file[..], 100).next().unwrap().unwrap_err();
    assert!(bounded.to_string().contains("block 0 of the file, which begins at byte 0"), "{bounded}");

    // Corrupts the length of the second block's parent hash.
    let at = usize::try_from(first).unwrap() + 6;
    assert_eq!(file[at], 0xa0);
    file[at] = 0xa1;
    let mut stream = BlockStream::new(&file[..]);
    assert!(stream.next().unwrap().is_ok());
    let error = stream.next().unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "block 1 of the file, which begins at byte {first}: header parent hash at byte 6: 33 bytes instead of 32"
        )
    );
    assert!(stream.next().is_none(), "nothing can be read after a damaged block");
}

#[test]
fn blocks_before_byzantium_may_have_uncles() {
    let with_ommers: Vec<u64> = blocks()
        .iter()
        .filter(|block| block.header.ommers_hash != EMPTY_OMMERS_HASH)
        .map(|block| block.header.number)
        .collect();

    assert_eq!(with_ommers[..6], [3, 4, 6, 7, 9, 10]);
}
