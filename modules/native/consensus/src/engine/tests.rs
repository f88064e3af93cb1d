//! Tests of `engine.rs`.

use super::*;
use crate::{recorded_chain::RecordedChain, recorded_state::ModelledChain};

fn engine(chain: &RecordedChain) -> NativeEngine {
    NativeEngine::with(&chain.spec, Arc::new(HeadersAlone), Arc::new(|| u64::MAX)).unwrap()
}

#[test]
fn the_engine_accepts_every_block_of_the_local_chain() {
    let chain = RecordedChain::local();
    let engine = engine(&chain);
    for pair in chain.blocks.windows(2) {
        let (parent, block) = (&pair[0], &pair[1]);
        engine.verify_header(&block.header, &parent.header, &*chain).unwrap();
        engine.verify_body(block, &*chain).unwrap();
        assert_eq!(engine.author(&block.header).unwrap(), block.header.beneficiary);
    }
    assert_eq!(engine.author(chain.at(0)).unwrap(), Address::ZERO);
    assert_eq!(engine.finality(chain.at(673), &*chain), (Some(BlockNumber(670)), Some(BlockNumber(670))));
}

#[test]
fn epochs_open_at_multiples_in_v1_and_by_rounds_in_v2() {
    let opens = |name| {
        let chain = RecordedChain::read(name, &format!("chain/native-genesis-{name}.json.gz"));
        let engine = engine(&chain);
        let headers = chain.blocks[1..].iter().map(|block| &block.header);
        let opening: Vec<u64> =
            headers.filter(|header| engine.opens_epoch(header).unwrap()).map(|header| header.number).collect();
        (opening, chain.settings().consensus.clone())
    };
    let (local, _) = opens("local");
    assert_eq!(local, [1, 60, 120, 168, 228, 288, 348, 407, 461, 520, 580, 640]);
    let (switched, rules) = opens("v1switch");
    let in_v1: Vec<u64> = (1..=rules.switch_block).filter(|number| number % rules.epoch == 0).collect();
    assert!(!in_v1.is_empty() && switched.starts_with(&in_v1), "{switched:?}");
    assert_eq!(switched[in_v1.len()], rules.switch_block + 1);
}

/// Complete chains of both engines. A model of the contracts' state supplies the candidates of every gap block, the
/// revelations and the owners, so that every list is computed and compared.
#[test]
fn every_block_of_the_recorded_chains_passes_with_the_contracts_state() {
    for (name, blocks, committed) in [("local", 673, 670), ("staged", 1149, 1146), ("v1switch", 2738, 2735)] {
        let chain = ModelledChain::read(name);
        let spec = &chain.chain.spec;
        let engine = NativeEngine::with(spec, Arc::new(ContractCandidates), Arc::new(|| u64::MAX)).unwrap();
        for pair in chain.chain.blocks.windows(2) {
            let (parent, block) = (&pair[0], &pair[1]);
            let verdict = engine.verify_header(&block.header, &parent.header, &chain);
            assert!(verdict.is_ok(), "{name}: {}", verdict.unwrap_err());
            engine.verify_body(block, &chain).unwrap();
            engine.author(&block.header).unwrap();
        }
        let head = chain.head().header.clone();
        assert_eq!(head.number, blocks);
        assert_eq!(engine.finality(&head, &chain).0, Some(BlockNumber(committed)), "{name}");
    }
}

#[test]
fn a_body_must_match_its_header_and_have_no_uncles() {
    let chain = RecordedChain::local();
    let engine = engine(&chain);
    let with_transactions = chain.blocks.iter().find(|block| block.transactions.len() > 3).unwrap();
    let refusal = |change: fn(&mut Block)| {
        let mut block = with_transactions.block.clone();
        change(&mut block);
        engine.verify_body(&block, &*chain).unwrap_err().reason
    };

    assert_eq!(refusal(|block| block.ommers.push(block.header.header().clone())), "uncles not allowed in XDPoS_v2");
    assert!(refusal(|block| block.transactions.swap(0, 1)).starts_with("transaction root hash mismatch: have "));
    assert!(refusal(|block| drop(block.transactions.pop())).starts_with("transaction root hash mismatch: have "));
    assert_eq!(refusal(|block| block.withdrawals = Some(Vec::new())), "withdrawals in a native block");
}

#[test]
fn the_longest_chain_wins_and_among_equals_the_first() {
    let chain = RecordedChain::local();
    let engine = engine(&chain);
    let head = Head { total_difficulty: U256::from(100), ..(*chain.head()).clone() };
    let head = Head { header: Arc::new(chain.at(99).clone()), ..head };

    assert!(engine.is_better(chain.at(100), U256::from(101), &head));
    assert!(!engine.is_better(chain.at(99), U256::from(100), &head));
    assert!(engine.is_better(chain.at(100), U256::from(100), &head));
    assert!(!engine.is_better(chain.at(100), U256::from(99), &head));
}

#[test]
fn a_block_that_the_voting_committed_is_not_undone() {
    let chain = RecordedChain::local();
    let engine = engine(&chain);
    let head = chain.head();

    assert!(engine.verify_reorganisation(BlockNumber(1), &head, &*chain).is_ok());
    engine.protect(BlockInfo { hash: chain.at(670).hash(), round: 690, number: 670 });
    assert!(engine.verify_reorganisation(BlockNumber(670), &head, &*chain).is_ok());
    let error = engine.verify_reorganisation(BlockNumber(669), &head, &*chain).unwrap_err();
    assert_eq!(
        error.reason,
        format!(
            "stop reorg, blockchain is under forking attack. OldCommitted num 670, hash {:#x}",
            chain.at(670).hash()
        )
    );
}

#[test]
fn a_header_from_the_future_is_refused_until_its_time_has_come() {
    let chain = RecordedChain::local();
    let time = chain.at(100).timestamp;
    for (now, accepted) in [(time - 1, false), (time, true)] {
        let engine = NativeEngine::with(&chain.spec, Arc::new(HeadersAlone), Arc::new(move || now)).unwrap();
        assert_eq!(engine.verify_header(chain.at(100), chain.at(99), &*chain).is_ok(), accepted);
    }
}

/// Signatures recovered ahead are not recovered again. The result of verification is the same.
#[test]
fn recovering_signers_ahead_does_not_change_the_verdict() {
    let chain = RecordedChain::local();
    let (ahead, in_turn) = (engine(&chain), engine(&chain));
    let mut spoilt = chain.at(100).header().clone();
    let seal = spoilt.native_seal.as_mut().unwrap();
    seal.validator = vec![0xff; 65].into();
    for (header, parent) in [(chain.at(100).clone(), 99), (chain.at(101).clone(), 100), (tenon_chain::seal(spoilt), 99)]
    {
        ahead.recover_ahead(&[&header]);
        let verdicts = [&ahead, &in_turn].map(|engine| engine.verify_header(&header, chain.at(parent), &*chain));
        assert_eq!(verdicts[0], verdicts[1]);
    }
}
