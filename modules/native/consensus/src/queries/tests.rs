//! Queries compared with the reference's recorded answers.

use std::sync::Arc;

use tenon_api::{
    Address, B256, BlockId, BlockTag, BusError, EpochRefusal, RequestError, StoreError, U256, UnresolvedBlock,
    messages::{EpochBlocks, EpochMembers, RoundOf, RoundProblem},
};
use tenon_bus::CallContext;
use tenon_chain::ResolveError;

use super::{Queries, QueryError, candidates::slashed};
use crate::{
    NativeEngine, NativeError,
    recorded_chain::{address_of, key},
    recorded_state::ModelledChain,
    rewards::RewardError,
    v1::V1Error,
    v2::V2Error,
};

/// Why a query about epochs was refused.
fn refusal_of<T: std::fmt::Debug>(answer: Result<T, QueryError>) -> EpochRefusal {
    match answer {
        Err(QueryError::Epoch(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

fn queries(name: &str) -> Queries {
    let chain = ModelledChain::read(name);
    let spec = Arc::clone(&chain.chain.spec);
    let engine = NativeEngine::new(&spec).unwrap();
    Queries::new(&spec, Arc::new(chain), engine).unwrap()
}

// A reference node's answers about chain `v1switch`: tests/data/native/answers.
#[test]
fn signers_of_blocks_of_both_engines_match_the_reference() {
    let queries = queries("v1switch");

    for (number, signers, finality) in [(0, 0, 0), (14, 3, 100), (1000, 4, 100), (2730, 2, 100), (2738, 0, 0)] {
        let found = queries.block_signers(BlockId::number(number)).unwrap();
        let count = found.signers.as_ref().map_or(0, Vec::len);
        assert_eq!((count, found.finality), (signers, finality), "block {number}");
    }
}

#[test]
fn penalised_candidates_are_slashed_up_to_the_number_of_masternodes() {
    let of = |digits: &[u8]| -> Vec<Address> { digits.iter().map(|digit| Address::repeat_byte(*digit)).collect() };
    let candidates: Vec<_> = of(&[1, 2, 3, 4]).into_iter().map(|candidate| (candidate, U256::ONE)).collect();

    assert_eq!(slashed(&candidates, &of(&[4, 2, 9]), 1, 5), of(&[2, 4]));
    assert_eq!(slashed(&candidates, &of(&[4, 2]), 2, 3), of(&[2]));
    // A penalty of two epochs counts twice, as in the reference.
    assert_eq!(slashed(&candidates, &of(&[2, 2, 4]), 1, 3), of(&[2, 2]));
    assert_eq!(slashed(&candidates, &[], 1, 3), of(&[]));
}

#[test]
fn the_window_of_recent_makers_grows_with_the_set_and_readmits_none() {
    let queries = queries("v1switch");
    // Three makers up to the gap block 450, four after it.
    let cases: [(u64, usize, &[u64]); 7] = [
        (0, 3, &[]),
        (1, 3, &[1]),
        (449, 3, &[448, 449]),
        (450, 4, &[449, 450]),
        (451, 4, &[449, 450, 451]),
        (452, 4, &[450, 451, 452]),
        (1351, 4, &[1349, 1350, 1351]),
    ];
    for (number, signers, recent) in cases {
        let authorised = queries.authorised(BlockId::number(number)).unwrap().unwrap();
        let voting = authorised.voting.unwrap();
        let heights: Vec<u64> = voting.recent.iter().map(|(height, _)| *height).collect();
        assert_eq!((authorised.number, authorised.signers.len(), &heights[..]), (number, signers, recent));
        assert!(voting.votes.is_empty() && voting.tally.is_empty());
        assert_eq!(voting.opens_epoch, number == 0, "block {number}");
    }
    let authorised = queries.authorised(BlockId::number(451)).unwrap().unwrap();
    let makers: Vec<Address> = authorised.voting.unwrap().recent.into_iter().map(|(_, maker)| maker).collect();
    assert!(makers.iter().all(|maker| authorised.signers.contains(maker)));
}

#[test]
fn a_v2_snapshot_is_that_of_the_gap_block_of_its_height() {
    let queries = queries("v1switch");
    for (number, gap, signers) in [(1801, 1350, 4), (2699, 1350, 4), (2700, 2250, 2), (2738, 2250, 2)] {
        let authorised = queries.authorised(BlockId::number(number)).unwrap().unwrap();
        assert_eq!((authorised.number, authorised.signers.len(), authorised.voting), (gap, signers, None));
    }
    assert_eq!(queries.authorised(BlockId::number(2739)).unwrap(), None);
}

#[test]
fn an_epoch_has_members_in_v2_and_at_the_switch_block() {
    let local = queries("local");
    let members = local.epoch_members(BlockId::number(200)).unwrap().unwrap();
    // Account 3 made no block in the previous epoch.
    assert_eq!((members.number, members.round, members.masternodes.len()), (200, 212, 4));
    assert_eq!(members.penalties, [address_of(&key(3))]);
    assert!(!members.masternodes.contains(&address_of(&key(3))));
    let later = local.epoch_members(BlockId::number(400)).unwrap().unwrap();
    assert_eq!((later.masternodes.len(), later.standby.len()), (4, 1));

    let switched = queries("v1switch");
    let at = |number| switched.epoch_members(BlockId::number(number)).unwrap().unwrap();
    assert_eq!(at(1800).masternodes.len(), 4);
    assert_eq!(at(1799), EpochMembers { number: 1799, ..EpochMembers::default() });
    assert_eq!(switched.epoch_members(BlockId::number(2739)).unwrap(), None);
}

#[test]
fn epochs_begin_at_the_references_blocks() {
    let queries = queries("local");
    let hash = |number: u64| queries.canonical_header(number).unwrap().unwrap().hash();
    let between = |first, last| queries.epoch_switches(hash(first), hash(last), &CallContext::new());

    let all = [1, 60, 120, 168, 228, 288, 348, 407, 461, 520, 580, 640];
    assert_eq!(between(1, 673).unwrap(), all);
    assert_eq!(between(60, 120).unwrap(), [60, 120]);
    assert_eq!(between(61, 119).unwrap(), [0_u64; 0]);
    assert_eq!(between(60, 60).unwrap(), [0_u64; 0]);
    assert_eq!(refusal_of(between(0, 60)), EpochRefusal::BlockOfEngineV1);
    for (epoch, first) in (0..).zip(all) {
        let last = all.iter().find(|next| **next > first).map(|next| next - 1);
        // First from the chain, then from the cache.
        for _ in 0..2 {
            let EpochBlocks { first: found, last: found_last, hash: found_hash, .. } =
                queries.epoch_blocks(epoch).unwrap();
            assert_eq!((found, found_last, found_hash), (first, last, hash(first)), "epoch {epoch}");
        }
    }
    assert_eq!(refusal_of(queries.epoch_blocks(12)), EpochRefusal::Future);
    assert_eq!(refusal_of(queries.epoch_blocks(u64::MAX)), EpochRefusal::Future);
}

#[test]
fn an_epoch_before_the_switch_is_refused() {
    let queries = queries("v1switch");

    assert_eq!(refusal_of(queries.epoch_blocks(1)), EpochRefusal::OfEngineV1);
    assert_eq!(refusal_of(queries.epoch_blocks(4)), EpochRefusal::Future);
    assert_eq!(queries.epoch_blocks(2).unwrap().first, 1801);
    assert_eq!(queries.epoch_blocks(3).unwrap().first, 2700);
}

#[test]
fn rounds_without_a_block_are_those_between_the_rounds_of_blocks() {
    let queries = queries("local");
    let missed = queries.missed_rounds(BlockId::number(167), &CallContext::new()).unwrap().unwrap();

    assert_eq!((missed.epoch_round, missed.epoch_number), (120, 120));
    assert_eq!(missed.missed.len(), 12, "every fifth round from 122 to 179");
    assert!(missed.missed.iter().all(|round| round.leader == address_of(&key(3))));
    assert!(missed.missed.windows(2).all(|pair| pair[0].next.0 >= pair[1].next.0), "the newest first");
    let v1 = queries.missed_rounds(BlockId::number(0), &CallContext::new());
    assert_eq!(refusal_of(v1), EpochRefusal::BlockOfEngineV1);
    assert_eq!(queries.missed_rounds(BlockId::number(674), &CallContext::new()).unwrap(), None);
}

#[test]
fn a_supplied_header_gets_its_round_or_an_error() {
    let queries = queries("local");
    let stored = queries.canonical_header(300).unwrap().unwrap();

    let brought = queries.round(RoundOf::Header(Box::new(stored.header().clone()))).unwrap().unwrap();
    assert_eq!(brought, queries.round(RoundOf::Block(BlockId::number(300))).unwrap().unwrap());
    assert_eq!((brought.header.hash(), brought.round), (stored.hash(), Ok(312)));
    let mut spoilt = stored.header().clone();
    spoilt.extra_data = vec![7].into();
    let spoilt = queries.round(RoundOf::Header(Box::new(spoilt))).unwrap().unwrap();
    assert_eq!(spoilt.round, Err(RoundProblem::Version(7)));
    assert_eq!(queries.round(RoundOf::Block(BlockId::hash(B256::ZERO))).unwrap(), None);
}

#[test]
fn a_query_for_the_committed_block_finds_nothing_if_there_is_none() {
    let queries = queries("local");
    assert_eq!(queries.chain.head().finalized, None, "the chain in memory has no finalized block");

    let committed = BlockId::Tag(BlockTag::Finalized);
    assert_eq!(queries.epoch_members(committed).unwrap(), None);
    assert_eq!(queries.round(RoundOf::Block(committed)).unwrap(), None);
    assert_eq!(queries.round(RoundOf::Block(BlockId::LATEST)).unwrap().unwrap().committed, None);
}

#[test]
fn the_entry_in_use_is_the_first_until_an_epoch_begins_in_this_process() {
    let mut queries = queries("local");
    let keys: Vec<u64> = queries.parameters().unwrap().rounds.iter().map(|(key, _)| *key).collect();
    assert_eq!(keys, [0, 240, 360]);

    assert_eq!(queries.parameters().unwrap().current, 0);
    queries.started_at = 639;
    assert_eq!(queries.parameters().unwrap().current, 360, "block 640 has opened an epoch");
}

/// The cached path returns the same as the full one, once the full one has filled the cache. Engine v1 always uses the
/// full one.
#[test]
fn cached_answers_equal_computed_ones() {
    for name in ["local", "v1switch"] {
        let queries = queries(name);
        let head = queries.chain.head().header.number;
        let switch_block = queries.engine.consensus().switch_block;
        for number in (0..=head).step_by(41) {
            let block = BlockId::number(number);
            let authorised = queries.authorised(block).unwrap();
            let members = queries.epoch_members(block).unwrap();
            let is_v2 = number > switch_block;
            assert_eq!(queries.cached_authorised(block).unwrap(), is_v2.then_some(authorised), "{name} {number}");
            let cached = queries.cached_epoch_members(block).ok().flatten();
            assert!(cached == members || !is_v2 && cached.is_none(), "{name} {number}");
            let missed = queries.missed_rounds(block, &CallContext::new()).ok().flatten();
            assert_eq!(queries.cached_missed_rounds(block), missed, "{name} {number}");
            assert_eq!(missed.is_some(), is_v2, "{name} {number}");
            let hash = queries.header(block).unwrap().unwrap().hash();
            let is_unpaid = queries.epoch_reward(hash).unwrap().is_none();
            assert!(!queries.pays_no_reward(hash) || is_unpaid, "{name} {number}");
            assert_eq!(queries.pays_no_reward(hash), is_unpaid || number == 0, "{name} {number}");
        }
        for epoch in 0..15 {
            let found = queries.epoch_blocks(epoch).ok();
            assert_eq!(queries.cached_epoch_blocks(epoch).unwrap(), found, "{name} epoch {epoch}");
        }
        assert_eq!(queries.cached_authorised(BlockId::number(head + 1)).unwrap(), Some(None));
    }
}

#[test]
fn errors_are_failures_unless_a_limit_was_reached() {
    let stopped = || StoreError::Stopped;
    let full = || StoreError::OutOfMemory { reason: "full".to_owned() };
    let cases = [
        (QueryError::CallerGone, BusError::TimedOut),
        (QueryError::Store(stopped()), BusError::TimedOut),
        (QueryError::Store(full()), BusError::limit_reached("full")),
        (QueryError::Resolve(ResolveError::Store(stopped())), BusError::TimedOut),
        (
            QueryError::Resolve(UnresolvedBlock::NoSafeBlock.into()),
            RequestError::Block(UnresolvedBlock::NoSafeBlock).into(),
        ),
        (QueryError::V1(V1Error::Store(stopped())), BusError::TimedOut),
        (QueryError::V2(V2Error::Store(full())), BusError::limit_reached("full")),
        (QueryError::V2(V2Error::NotNative), BusError::failed(V2Error::NotNative)),
        (QueryError::Rewards(NativeError::Store(stopped())), BusError::TimedOut),
        (QueryError::Rewards(RewardError::Store(full()).into()), BusError::limit_reached("full")),
    ];
    for (error, expected) in cases {
        let text = format!("{error:?}");

        assert_eq!(BusError::from(error), expected, "{text}");
    }
}

#[test]
fn an_epoch_without_answer_is_a_refusal_whichever_engine_reports_it() {
    let (number, hash) = (7, B256::repeat_byte(7));
    let missing = || V2Error::MissingBlock { number, hash };
    let cases = [
        (QueryError::Epoch(EpochRefusal::Future), EpochRefusal::Future),
        (QueryError::V1(V1Error::NoCandidates), EpochRefusal::NoCandidates),
        (QueryError::V2(V2Error::NoCandidates), EpochRefusal::NoCandidates),
        (QueryError::V2(V2Error::V1Block), EpochRefusal::BlockOfEngineV1),
        (QueryError::V2(V2Error::NoGapBlock(number)), EpochRefusal::NoGapBlock(number)),
        (QueryError::V2(V2Error::NoSwitchBlock(number)), EpochRefusal::NoSwitchBlock(number)),
        (QueryError::V2(missing()), EpochRefusal::MissingBlock { number, hash }),
        (QueryError::Rewards(missing().into()), EpochRefusal::MissingBlock { number, hash }),
        (QueryError::Rewards(RewardError::Epoch(missing()).into()), EpochRefusal::MissingBlock { number, hash }),
        (
            QueryError::Rewards(RewardError::MissingHeader { number, hash }.into()),
            EpochRefusal::MissingRewardedBlock { number, hash },
        ),
    ];
    for (error, refusal) in cases {
        assert_eq!(BusError::from(error), RequestError::Epoch(refusal).into());
    }
}
