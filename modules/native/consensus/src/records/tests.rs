//! Tests of the engine's records across restarts.

use tenon_api::{BlockNumber, Bytes, ConsensusEngine};
use tenon_memory_chain::MemoryRecords;
use tenon_native_spec::NativeSettings;

use super::*;
use crate::{ContractCandidates, NativeEngine, recorded_state::ModelledChain};

fn started(chain: &ModelledChain, records: &Arc<MemoryRecords>) -> NativeEngine {
    let records = Arc::clone(records) as Arc<dyn EngineRecords>;
    let (source, clock) = (Arc::new(ContractCandidates), Arc::new(|| u64::MAX));
    NativeEngine::with_records_and_source(&chain.chain.spec, source, clock, records).unwrap()
}

/// Returns whether an engine might record something at a height: gap blocks of both engines, epoch switches of both,
/// and the switch between the engines.
fn is_interesting(chain: &ModelledChain, number: u64) -> bool {
    let consensus = &NativeSettings::of(&chain.chain.spec).unwrap().consensus;
    let header = chain.chain.at(number);
    let is_switch = if number > consensus.switch_block {
        crate::v2::is_epoch_switch(consensus, header).unwrap()
    } else {
        number.is_multiple_of(consensus.epoch)
    };
    is_switch || (number + consensus.gap).is_multiple_of(consensus.epoch)
}

/// Verifies the whole chain, restarting the engine around every interesting height; returns the number of restarts, and
/// the height and reason of the first refusal.
fn verify_with_restarts(name: &str, forgets: bool) -> (usize, Option<(u64, String)>) {
    let chain = ModelledChain::read(name).pruned();
    let last = chain.chain.head().header.number;
    let mut records = Arc::<MemoryRecords>::default();
    let mut engine = started(&chain, &records);
    let mut restarts = 0;
    for number in 1..=last {
        let near = number.saturating_sub(1).max(1)..=(number + 2).min(last);
        if near.into_iter().any(|height| is_interesting(&chain, height)) {
            restarts += 1;
            if forgets {
                records = Arc::default();
            }
            engine = started(&chain, &records);
        }
        chain.set_head(number - 1);
        let verdict = engine.verify_header(chain.chain.at(number), chain.chain.at(number - 1), &chain);
        if let Err(refusal) = verdict {
            return (restarts, Some((number, refusal.reason)));
        }
        chain.set_head(number);
        engine.observe_head(chain.chain.at(number), &chain);
    }
    (restarts, None)
}

#[test]
fn an_engine_restarted_at_every_switch_and_gap_block_needs_no_old_state() {
    for (name, min_restarts) in [("local", 70), ("staged", 9), ("v1switch", 15)] {
        let (restarts, refusal) = verify_with_restarts(name, false);
        assert_eq!(refusal, None, "{name}");
        assert!(restarts >= min_restarts, "{name}: {restarts} restarts");
    }
}

/// Proves that the test above can fail: an engine without records cannot compute the first list.
#[test]
fn an_engine_without_records_needs_the_old_state() {
    let (_, refusal) = verify_with_restarts("local", true);
    let (number, reason) = refusal.unwrap();
    assert!(reason.contains("has been pruned"), "block {number}: {reason}");
}

#[test]
fn candidates_of_another_branch_or_of_a_damaged_record_are_ignored() {
    let chain = ModelledChain::read("local");
    let records = Arc::<MemoryRecords>::default();
    let kept = RecordedCandidates::new(Arc::new(ContractCandidates), Arc::clone(&records) as _, 60);
    let gap = chain.chain.at(30);
    let found = kept.candidates(gap, &chain).unwrap().unwrap();
    assert_eq!(kept.recorded(gap).unwrap(), Some(Arc::clone(&found)));

    let other = tenon_chain::seal(tenon_api::Header { extra_data: Bytes::from_static(b"x"), ..gap.header().clone() });
    assert_eq!(kept.recorded(&other).unwrap(), None);
    for damage in [b"".as_slice(), &[0; 31], &[&gap.hash()[..], &[1; 19]].concat()] {
        records.put("candidates/0", damage).unwrap();
        assert_eq!(kept.recorded(gap).unwrap(), None);
        assert_eq!(kept.candidates(gap, &chain).unwrap(), Some(Arc::clone(&found)));
    }
}

#[test]
fn a_reader_uses_records_without_writing_any() {
    let chain = ModelledChain::read("local");
    let records = Arc::<MemoryRecords>::default();
    started(&chain, &records).v2().remember_candidates(chain.chain.at(630), &chain).unwrap();
    let kept = records.0.lock().clone();
    assert_eq!(kept.len(), 1);
    let reader = NativeEngine::reading(&chain.chain.spec, Arc::clone(&records) as _).unwrap();
    let pruned = ModelledChain::read("local").pruned();
    pruned.set_head(673);

    assert_eq!(reader.v2().candidates(630, &pruned).unwrap(), reader.v2().candidates(630, &chain).unwrap());
    assert!(reader.v2().candidates(570, &pruned).is_err(), "neither kept nor in the state");
    assert!(reader.v2().candidates(570, &chain).unwrap().is_some());

    assert_eq!(*records.0.lock(), kept);
}

#[test]
fn a_new_head_is_recorded_but_a_question_about_finality_records_nothing() {
    let chain = ModelledChain::read("local").pruned();
    let records = Arc::<MemoryRecords>::default();
    let engine = started(&chain, &records);
    let gap = chain.chain.at(630);
    chain.set_head(630);

    let (finalized, _) = engine.finality(gap, &chain);
    assert!(finalized.is_some());
    assert!(records.0.lock().is_empty());

    engine.observe_head(gap, &chain);
    assert_eq!(records.0.lock().len(), 1);
    assert_eq!(engine.finality(gap, &chain).0, finalized);
}

#[test]
fn the_voting_state_survives_a_restart_and_protects_the_committed_block() {
    let chain = ModelledChain::read("local");
    let records = Arc::<MemoryRecords>::default();
    let engine = started(&chain, &records);
    assert_eq!(engine.voting_state().unwrap(), VotingState::default());
    let committed = BlockInfo { hash: chain.chain.at(100).hash(), round: 107, number: 100 };
    let quorum = QuorumCertificate { block: committed, signatures: vec![Bytes::from_static(&[7; 65])], gap_number: 90 };
    let state = VotingState {
        round: 110,
        highest_quorum: quorum.clone(),
        lock: Some(quorum),
        highest_timeout: TimeoutCertificate { round: 105, signatures: vec![Bytes::new()], gap_number: 90 },
        highest_voted_round: 109,
        committed: Some(committed),
        highest_proposed_round: 108,
    };

    engine.write_voting_state(&state).unwrap();
    let restarted = started(&chain, &records);

    assert_eq!(restarted.voting_state().unwrap(), state);
    let head = chain.head();
    assert!(restarted.verify_reorganisation(BlockNumber(100), &head, &chain).is_ok());
    assert!(restarted.verify_reorganisation(BlockNumber(99), &head, &chain).is_err());
}

#[test]
fn the_masternode_that_has_signed_last_survives_a_restart() {
    let chain = ModelledChain::read("local");
    let records = Arc::<MemoryRecords>::default();
    let signer = Address::repeat_byte(1);
    let engine = started(&chain, &records);
    assert_eq!(engine.voting_signer(), Ok(None));

    engine.write_voting_signer(Some(signer)).unwrap();
    assert_eq!(started(&chain, &records).voting_signer(), Ok(Some(signer)));
    engine.write_voting_signer(None).unwrap();
    assert_eq!(started(&chain, &records).voting_signer(), Ok(None));

    records.put(VOTING_SIGNER, &[1; 19]).unwrap();
    assert!(matches!(engine.voting_signer(), Err(StoreError::Corrupt { .. })));
}

/// The first version of the record ends before the proposed round.
#[test]
fn a_record_of_the_first_version_is_read() {
    #[derive(alloy_rlp::RlpEncodable)]
    struct First {
        round: u64,
        highest_quorum: QuorumCertificate,
        lock: Vec<QuorumCertificate>,
        highest_timeout: TimeoutCertificate,
        highest_voted_round: u64,
        committed: Vec<BlockInfo>,
    }
    let records = MemoryRecords::default();
    let first = First {
        round: 5,
        highest_quorum: QuorumCertificate::default(),
        lock: Vec::new(),
        highest_timeout: TimeoutCertificate::default(),
        highest_voted_round: 4,
        committed: Vec::new(),
    };
    records.put("voting", &alloy_rlp::encode(first)).unwrap();

    let state = crate::records::voting_state(&records).unwrap();

    assert_eq!((state.round, state.highest_voted_round, state.highest_proposed_round), (5, 4, 0));
}

#[test]
fn a_damaged_voting_state_is_an_error() {
    let chain = ModelledChain::read("local");
    let records = Arc::<MemoryRecords>::default();
    records.put(VOTING, &[0xc1]).unwrap();
    let records = records as Arc<dyn EngineRecords>;

    let error = NativeEngine::keeping(&chain.chain.spec, records).unwrap_err().to_string();

    assert!(error.contains("this node's voting record"), "{error}");
}
