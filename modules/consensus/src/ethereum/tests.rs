//! Tests that break every rule of the Ethereum profile once.

use tenon_api::{Bytes, Transaction, TransactionPayload, TransactionSignature, Withdrawal};
use tenon_chain::Activation;

use super::*;
use tenon_memory_chain::MemoryChain;

use crate::fake_chain::{add, block_of, chain_from};

fn engine(spec: ChainSpec) -> EthereumEngine {
    EthereumEngine::new(Arc::new(spec))
}

fn engine_at(fork: Fork) -> EthereumEngine {
    engine(ChainSpec::ethereum_at(1, fork))
}

/// A genesis that is valid for every fork.
fn genesis(engine: &EthereumEngine) -> SealedHeader {
    let fork = engine.spec.fork_at(0, 0);
    let is_merged = engine.spec.terminal_total_difficulty().is_some_and(|terminal| terminal.is_zero());
    tenon_chain::seal(Header {
        ommers_hash: EMPTY_OMMERS_HASH,
        difficulty: if is_merged { U256::ZERO } else { U256::from(0x20000) },
        gas_limit: 10_000_000,
        base_fee_per_gas: (fork >= Fork::London).then_some(1_000_000_000),
        blob_gas_used: (fork >= Fork::Cancun).then_some(0),
        excess_blob_gas: (fork >= Fork::Cancun).then_some(0),
        ..Header::default()
    })
}

fn attributes(timestamp: u64) -> SealAttributes {
    SealAttributes {
        timestamp,
        beneficiary: Address::repeat_byte(0xee),
        gas_limit: 10_000_000,
        extra_data: Bytes::new(),
        mix_hash: B256::repeat_byte(5),
    }
}

/// The prepared child of the chain's head, with the root of no transactions.
fn child(engine: &EthereumEngine, chain: &MemoryChain, timestamp: u64) -> Header {
    let parent = chain.head().header.clone();
    let mut header = engine.prepare(&parent, &attributes(timestamp), chain).unwrap();
    header.transactions_root = EMPTY_ROOT_HASH;
    header
}

fn refusal(engine: &EthereumEngine, chain: &MemoryChain, header: Header) -> String {
    let parent = chain.head().header.clone();
    let header = tenon_chain::seal(header);
    match engine.verify_header(&header, &parent, chain) {
        Ok(()) => "accepted".to_owned(),
        Err(error) => {
            assert_eq!((error.number.0, error.hash), (header.number, header.hash()));
            error.reason
        }
    }
}

#[test]
fn the_head_is_final_from_the_merge_on() {
    let engine = EthereumEngine::new(Arc::new(ChainSpec::ethereum_at(1, Fork::Paris)));
    let chain = chain_from(&tenon_chain::seal(Header::default()));
    let head_with = |difficulty: u64| {
        tenon_chain::seal(Header { number: 7, difficulty: U256::from(difficulty), ..Header::default() })
    };

    assert_eq!(engine.finality(&head_with(1), &chain), (None, None));
    assert_eq!(engine.finality(&head_with(0), &chain), (Some(BlockNumber(7)), Some(BlockNumber(7))));
}

#[test]
fn a_prepared_header_is_valid_at_every_fork() {
    for &fork in Fork::ALL {
        let engine = engine_at(fork);
        let chain = chain_from(&genesis(&engine));

        for timestamp in [10, 11, 40] {
            let header = child(&engine, &chain, timestamp);
            assert_eq!(refusal(&engine, &chain, header.clone()), "accepted", "{fork}");
            add(&chain, block_of(engine.seal(header).unwrap(), Vec::new()));
        }
    }
}

type Change = fn(&mut Header);

fn refuses(fork: Fork, cases: &[(Change, &str)]) {
    let engine = engine_at(fork);
    let chain = chain_from(&genesis(&engine));
    for (change, wanted) in cases {
        let mut header = child(&engine, &chain, 10);
        change(&mut header);

        let reason = refusal(&engine, &chain, header);

        assert!(reason.starts_with(wanted), "{fork}: {reason:?} instead of {wanted:?}");
    }
}

#[test]
fn refuses_violations_of_rules_of_every_fork() {
    refuses(
        Fork::Homestead,
        &[
            (|header| header.number = 2, "number: found 2, wanted 1"),
            (|header| header.parent_hash = B256::ZERO, "parent hash: found 0x0000"),
            (|header| header.timestamp = 0, "timestamp: found 0, wanted more than 0"),
            (|header| header.extra_data = vec![0; 33].into(), "extra data: found 33 bytes, wanted at most 32 bytes"),
            (|header| header.gas_limit = 4999, "gas limit: found 4999, wanted at least 5000"),
            (
                |header| header.gas_limit = 10_009_765,
                "gas limit: found 10009765, wanted less than 9765 above or below 10000000",
            ),
            (|header| header.gas_limit = 9_990_235, "gas limit: found 9990235"),
            (|header| header.gas_limit = u64::MAX, "gas limit: found 18446744073709551615, wanted at most"),
            (|header| header.gas_used = header.gas_limit + 1, "gas used: found 10000001, wanted at most 10000000"),
            (|header| header.base_fee_per_gas = Some(7), "base fee: found 7, wanted none before London"),
            (|header| header.difficulty = U256::from(1), "difficulty: found 1, wanted 131072"),
            (|header| header.difficulty = U256::ZERO, "difficulty: found 0, wanted 131072"),
            (|header| header.withdrawals_root = Some(B256::ZERO), "withdrawals root: found 0x0000"),
            (|header| header.blob_gas_used = Some(0), "blob gas used: found 0, wanted none before its fork"),
            (|header| header.requests_hash = Some(B256::ZERO), "requests hash: found 0x0000"),
            (|header| header.native_seal = Some(Default::default()), "header shape: found the native items"),
        ],
    );
}

#[test]
fn refuses_violations_of_rules_after_the_merge() {
    refuses(
        Fork::Osaka,
        &[
            (|header| header.difficulty = U256::from(1), "difficulty after the merge: found 1, wanted 0"),
            (|header| header.nonce.0[7] = 1, "nonce after the merge: found 0x0000000000000001"),
            (|header| header.ommers_hash = B256::ZERO, "ommers hash after the merge: found 0x0000"),
            (|header| header.base_fee_per_gas = None, "base fee: found none, wanted a value from London on"),
            (|header| header.base_fee_per_gas = Some(1), "base fee: found 1, wanted 875000000"),
            (|header| header.withdrawals_root = None, "withdrawals root: found none"),
            (|header| header.parent_beacon_block_root = None, "parent beacon block root: found none"),
            (|header| header.requests_hash = None, "requests hash: found none"),
            (|header| header.blob_gas_used = None, "blob gas used: found none"),
            (|header| header.excess_blob_gas = None, "excess blob gas: found none"),
            (|header| header.blob_gas_used = Some(1), "blob gas used: found 1, wanted a multiple of 131072"),
            (|header| header.blob_gas_used = Some(10 << 17), "blob gas used: found 1310720, wanted at most 1179648"),
            (|header| header.excess_blob_gas = Some(1), "excess blob gas: found 1, wanted 0"),
            (|header| header.extra_data = vec![0; 33].into(), "extra data: found 33 bytes"),
        ],
    );
}

#[test]
fn the_gas_limit_doubles_once_where_london_begins() {
    let london = [(Fork::Homestead, Activation::Block(0)), (Fork::London, Activation::Block(1))];
    let engine = engine(ChainSpec::ethereum(1, london));
    let chain = chain_from(&genesis(&engine));
    let mut header = child(&engine, &chain, 10);

    assert_eq!(header.base_fee_per_gas, Some(1_000_000_000));
    header.gas_limit = 20_000_000;
    assert_eq!(refusal(&engine, &chain, header.clone()), "accepted");
    add(&chain, block_of(engine.seal(header).unwrap(), Vec::new()));
    let mut next = child(&engine, &chain, 20);
    next.gas_limit = 40_000_000;
    assert!(refusal(&engine, &chain, next).starts_with("gas limit"));
}

#[test]
fn blocks_around_the_dao_fork_carry_its_mark() {
    let mut spec = ChainSpec::ethereum_at(1, Fork::Homestead);
    spec.dao_fork_block = Some(1);
    for (supports, extra, accepted) in
        [(true, &b"dao-hard-fork"[..], true), (true, b"", false), (false, b"", true), (false, b"dao-hard-fork", false)]
    {
        spec.dao_fork_support = supports;
        let engine = engine(spec.clone());
        let chain = chain_from(&genesis(&engine));
        let mut header = child(&engine, &chain, 10);

        header.extra_data = Bytes::copy_from_slice(extra);

        assert_eq!(refusal(&engine, &chain, header) == "accepted", accepted);
    }
}

#[test]
fn the_chain_merges_with_the_child_of_the_block_that_reaches_the_terminal_difficulty() {
    let terminal = U256::from(0x20000 * 2);
    let forks = [(Fork::London, Activation::Block(0)), (Fork::Paris, Activation::TotalDifficulty(terminal))];
    let engine = engine(ChainSpec::ethereum(1, forks));
    let chain = chain_from(&genesis(&engine));

    let mut early = child(&engine, &chain, 10);
    early.difficulty = U256::ZERO;
    assert!(refusal(&engine, &chain, early).starts_with("difficulty: found 0"));
    let last_mined = child(&engine, &chain, 10);
    assert!(!last_mined.difficulty.is_zero());
    add(&chain, block_of(engine.seal(last_mined).unwrap(), Vec::new()));

    let mut late = child(&engine, &chain, 20);
    assert_eq!((late.difficulty, late.mix_hash), (U256::ZERO, B256::repeat_byte(5)));
    assert_eq!(refusal(&engine, &chain, late.clone()), "accepted");
    late.difficulty = U256::from(0x20000);
    assert!(refusal(&engine, &chain, late).starts_with("difficulty after the merge: found 131072"));
}

#[test]
fn the_better_branch_wins() {
    let engine = engine_at(Fork::Paris);
    let header = |number, difficulty: u64, salt| {
        let parent_hash = B256::repeat_byte(salt);
        tenon_chain::seal(Header { number, difficulty: U256::from(difficulty), parent_hash, ..Header::default() })
    };
    let head = |header: &SealedHeader, total: u64| Head {
        header: Arc::new(header.clone()),
        total_difficulty: U256::from(total),
        finalized: None,
        safe: None,
    };
    // Candidate (height, difficulty, total), head likewise, whether the candidate wins.
    let cases = [
        ((5, 10, 51), (5, 10, 50), true),
        ((9, 10, 50), (5, 10, 50), false),
        ((9, 10, 49), (5, 10, 50), false),
        ((5, 0, 10), (9, 10, 50), true),
        ((5, 10, 90), (9, 0, 50), false),
        ((6, 0, 50), (5, 0, 50), true),
        ((5, 0, 50), (5, 0, 50), false),
        ((4, 0, 51), (5, 0, 50), true),
    ];
    for (candidate, current, wanted) in cases {
        let winner = header(candidate.0, candidate.1, 1);
        let current_head = head(&header(current.0, current.1, 2), current.2);

        assert_eq!(engine.is_better(&winner, U256::from(candidate.2), &current_head), wanted, "{candidate:?}");
    }
    let parent = header(5, 0, 3);
    let extension = tenon_chain::seal(Header { number: 6, parent_hash: parent.hash(), ..Header::default() });
    assert!(engine.is_better(&extension, U256::ZERO, &head(&parent, 50)));
}

/// Heights 1 to `count` on top of the genesis.
fn grow(engine: &EthereumEngine, chain: &MemoryChain, count: u64) -> Vec<SealedHeader> {
    (1..=count)
        .map(|number| {
            let header = engine.seal(child(engine, chain, number * 10)).unwrap();
            add(chain, block_of(header.clone(), Vec::new()));
            header
        })
        .collect()
}

/// An uncle: a sibling of the block at this index with other extra data.
fn sibling(of: &SealedHeader) -> Header {
    Header { extra_data: Bytes::from_static(b"sibling"), ..of.header().clone() }
}

fn block_with_ommers(engine: &EthereumEngine, chain: &MemoryChain, ommers: Vec<Header>) -> Block {
    let mut header = child(engine, chain, 1000);
    header.ommers_hash = tenon_chain::ommers_hash(&ommers);
    block_of(tenon_chain::seal(header), ommers)
}

#[test]
fn uncles_whose_parents_are_two_to_seven_generations_up_are_valid_and_pay() {
    let engine = engine_at(Fork::Byzantium);
    let chain = chain_from(&genesis(&engine));
    let ancestors = grow(&engine, &chain, 9);

    // The block will have height 10; the parents of uncles may have heights 3 to 8.
    for (index, ancestor) in ancestors.iter().enumerate() {
        let block = block_with_ommers(&engine, &chain, vec![sibling(ancestor)]);
        let outcome = engine.verify_body(&block, &chain);
        assert_eq!(outcome.is_ok(), index >= 3, "height {}: {outcome:?}", index + 1);
    }

    let block = block_with_ommers(&engine, &chain, vec![sibling(&ancestors[8]), sibling(&ancestors[7])]);
    let ether = U256::from(1_000_000_000_000_000_000_u64);
    let rewards = engine.rewards(&block, &chain).unwrap().credits;
    let uncle = ancestors[0].beneficiary;
    let miner = U256::from(3) * ether + U256::from(6) * ether / U256::from(32);
    assert_eq!(
        rewards,
        [
            (uncle, U256::from(21) * ether / U256::from(8)),
            (uncle, U256::from(18) * ether / U256::from(8)),
            (block.header.beneficiary, miner)
        ]
    );
}

#[test]
fn refuses_uncles_that_break_a_rule() {
    let engine = engine_at(Fork::Homestead);
    let chain = chain_from(&genesis(&engine));
    let ancestors = grow(&engine, &chain, 3);
    let used = sibling(&ancestors[1]);
    add(&chain, block_with_ommers(&engine, &chain, vec![used.clone()]));
    let head = chain.head().header.clone();

    let reason = |ommers: Vec<Header>| {
        let mut header = child(&engine, &chain, 2000);
        header.ommers_hash = tenon_chain::ommers_hash(&ommers);
        engine.verify_body(&block_of(tenon_chain::seal(header), ommers), &chain).unwrap_err().reason
    };

    let fresh = sibling(&ancestors[2]);
    assert!(reason(vec![fresh.clone(); 3]).starts_with("uncles: found 3"));
    assert!(reason(vec![fresh.clone(), fresh.clone()]).contains("not included before"));
    assert!(reason(vec![used]).contains("not included before"));
    assert!(reason(vec![ancestors[2].header().clone()]).contains("not an ancestor"));
    let brother = Header { parent_hash: head.hash(), number: head.number + 1, ..fresh.clone() };
    assert!(reason(vec![brother]).contains("a parent 2 to 7 generations up"));
    let invalid = Header { gas_used: u64::MAX, ..fresh };
    assert!(reason(vec![invalid]).starts_with("uncle header: found gas used"));
}

#[test]
fn rewards_follow_the_fork_and_end_with_the_merge() {
    for (fork, ether) in [
        (Fork::Frontier, 5),
        (Fork::SpuriousDragon, 5),
        (Fork::Byzantium, 3),
        (Fork::Petersburg, 2),
        (Fork::GrayGlacier, 2),
    ] {
        let engine = engine_at(fork);
        let chain = chain_from(&genesis(&engine));
        let header = engine.seal(child(&engine, &chain, 10)).unwrap();
        let wanted = U256::from(ether) * U256::from(1_000_000_000_000_000_000_u64);

        let rewards = engine.rewards(&block_of(header, Vec::new()), &chain).unwrap().credits;

        assert_eq!(rewards, [(Address::repeat_byte(0xee), wanted)], "{fork}");
    }
    let engine = engine_at(Fork::Paris);
    let chain = chain_from(&genesis(&engine));
    let header = engine.seal(child(&engine, &chain, 10)).unwrap();
    assert!(engine.rewards(&block_of(header, Vec::new()), &chain).unwrap().credits.is_empty());
}

fn blob_transaction() -> Transaction {
    Transaction {
        hash: B256::ZERO,
        chain_id: Some(1),
        nonce: 0,
        gas_limit: 21_000,
        to: Some(Address::ZERO),
        value: U256::ZERO,
        input: Bytes::new(),
        payload: TransactionPayload::Blob {
            max_fee_per_gas: U256::from(1),
            max_priority_fee_per_gas: U256::ZERO,
            access_list: Vec::new(),
            max_fee_per_blob_gas: U256::from(1),
            blob_versioned_hashes: vec![B256::repeat_byte(1)],
        },
        signature: TransactionSignature { v: 0, r: U256::from(1), s: U256::from(1) },
    }
}

#[test]
fn the_body_must_match_the_header() {
    let engine = engine_at(Fork::Osaka);
    let chain = chain_from(&genesis(&engine));
    let header = child(&engine, &chain, 10);
    let valid = Block { withdrawals: Some(Vec::new()), ..block_of(tenon_chain::seal(header.clone()), Vec::new()) };
    assert_eq!(engine.verify_body(&valid, &chain), Ok(()));

    let withdrawal = Withdrawal { index: 0, validator_index: 0, address: Address::ZERO, amount: 1 };
    let transaction = Arc::new(blob_transaction());
    let unpaid = tenon_chain::seal(Header {
        transactions_root: tenon_chain::transactions_root(std::slice::from_ref(&transaction)),
        ..header.clone()
    });
    let cases = [
        (Block { withdrawals: None, ..valid.clone() }, "withdrawals: found none"),
        (Block { withdrawals: Some(vec![withdrawal]), ..valid.clone() }, "withdrawals root: found"),
        (Block { transactions: vec![Arc::clone(&transaction)], ..valid.clone() }, "transactions root: found"),
        (Block { ommers: vec![header], ..valid.clone() }, "ommers hash: found"),
        (Block { size: 8_388_609, ..valid.clone() }, "block size: found 8388609, wanted at most 8388608 bytes"),
        (
            Block { header: unpaid, transactions: vec![transaction], ..valid.clone() },
            "blob gas used: found 0, wanted 131072",
        ),
    ];
    for (block, wanted) in cases {
        let reason = engine.verify_body(&block, &chain).unwrap_err().reason;
        assert!(reason.starts_with(wanted), "{reason:?} instead of {wanted:?}");
    }
}

#[test]
fn a_header_is_prepared_only_for_a_later_time_and_with_short_extra_data() {
    let engine = engine_at(Fork::Osaka);
    let genesis = genesis(&engine);
    let chain = chain_from(&genesis);

    let stale = engine.prepare(&genesis, &attributes(0), &chain).unwrap_err();
    let long = SealAttributes { extra_data: vec![0; 33].into(), ..attributes(1) };

    assert_eq!(stale.reason, "timestamp of the next block: found 0, wanted > 0");
    assert!(engine.prepare(&genesis, &long, &chain).unwrap_err().reason.starts_with("extra data"));
}

proptest::proptest! {
    #[test]
    fn the_prepared_gas_limit_is_valid_for_any_requested_one(parent in 5000_u64..1 << 40, wanted: u64) {
        let engine = engine_at(Fork::Osaka);
        let genesis = Header { gas_limit: parent, ..genesis(&engine).header().clone() };
        let genesis = tenon_chain::seal(genesis);
        let chain = chain_from(&genesis);
        let attributes = SealAttributes { gas_limit: wanted, ..attributes(1) };

        let header = engine.prepare(&genesis, &attributes, &chain).unwrap();

        proptest::prop_assert_eq!(refusal(&engine, &chain, header), "accepted");
    }
}

#[test]
fn nothing_is_final_before_the_merge_and_the_head_is_after_it() {
    for (fork, wanted) in [(Fork::GrayGlacier, None), (Fork::Paris, Some(BlockNumber(1)))] {
        let engine = engine_at(fork);
        let chain = chain_from(&genesis(&engine));
        let head = grow(&engine, &chain, 1).remove(0);

        assert_eq!(engine.finality(&head, &chain), (wanted, wanted), "{fork}");
    }
}
