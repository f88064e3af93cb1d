//! Messages of the consensus of native chains.

use std::{collections::BTreeMap, sync::Arc};

use tenon_api::{messages::*, *};

use crate::{
    Frames,
    samples::{ADDRESS, HASH, sealed, wei},
};

pub(crate) fn consensus_frames(frames: &mut Frames) {
    frames.request(GetEpochReward { block: HASH }, Some(epoch_reward()));
    let signers = BlockSigners { signers: Some(vec![ADDRESS]), finality: 75 };
    frames.request(GetBlockSigners { block: BlockId::hash(HASH) }, signers);
    let candidate = CandidateStanding { address: ADDRESS, stake: Some(wei(7)), is_masternode: true, is_slashed: false };
    let list = CandidateList { epoch: 3, is_known: true, candidates: vec![candidate] };
    frames.request(GetCandidates { epoch: Some(3) }, list);
    frames.request(GetStakingReturn { masternode: Some(ADDRESS) }, StakingReturn { percent: 12.5 });
    epoch_frames(frames);
    let proof = TransactionProof {
        block_hash: HASH,
        transactions_root: HASH,
        receipts_root: HASH,
        key: Bytes::from_static(&[0x80]),
        transaction_nodes: vec![Bytes::from_static(&[1])],
        receipt_nodes: vec![Bytes::from_static(&[2])],
    };
    frames.request(GetTransactionProof { hash: HASH }, Some(proof));
    frames.request(ImportChain { path: "/data/chain.rlp".to_owned() }, ());
    let export =
        ExportChain { path: "/data/chain.rlp".to_owned(), first: Some(BlockNumber(2)), last: Some(BlockNumber(9)) };
    frames.request(export, ());
    frames.request(GetChainConfig, r#"{"chainId":51}"#.to_owned());
    frames.request(MakeCheckpoint, "/data/checkpoint".to_owned());
}

/// The rewards of an epoch with all roles.
fn epoch_reward() -> EpochReward {
    let role = |signed| RoleRewards {
        signers: BTreeMap::from([(ADDRESS, SignerReward { signed, reward: wei(3) })]),
        shares: BTreeMap::from([(ADDRESS, BTreeMap::from([(Address::ZERO, wei(1)), (ADDRESS, wei(2))]))]),
    };
    EpochReward { masternodes: role(1), others: Some(OtherRewards { protectors: role(2), observers: role(3) }) }
}

fn epoch_frames(frames: &mut Frames) {
    let voting = HeaderVoting {
        recent: vec![(449, ADDRESS)],
        votes: vec![HeaderVote { voter: ADDRESS, block: 449, about: ADDRESS, is_to_add: true }],
        tally: vec![HeaderTally { about: ADDRESS, is_to_add: true, votes: 1 }],
        opens_epoch: false,
    };
    let authorised = Authorised { number: 450, hash: HASH, signers: vec![ADDRESS], voting: Some(voting) };
    frames.request(GetAuthorised { block: BlockId::number(450) }, Some(authorised));
    let one = || vec![ADDRESS];
    let members = EpochMembers { number: 7, round: 9, masternodes: one(), penalties: one(), standby: one() };
    frames.request(GetEpochMembers { block: BlockId::LATEST }, Some(members));
    let rlp = Bytes::from_static(&[0xc0]);
    let round = Err(RoundProblem::Malformed { reason: "odd".into() });
    let round = BlockRound { header: sealed(), rlp, round, canonical: Some(HASH), committed: Some(4) };
    frames.request(GetRound { header: RoundOf::Block(BlockId::hash(HASH)) }, Some(round));
    let problems = [
        RoundProblem::NoExtra,
        RoundProblem::ExtraTooLong,
        RoundProblem::Version(7),
        RoundProblem::Malformed { reason: "odd".into() },
    ];
    frames.add("0806 GetRound problems v2", &problems.to_vec());
    let missed = MissedRound { round: 8, leader: ADDRESS, next: (7, HASH), previous: (6, HASH) };
    let missed = MissedRounds { epoch_round: 1, epoch_number: 2, missed: vec![missed] };
    frames.request(GetMissedRounds { block: BlockId::number(7) }, Some(missed));
    frames.request(GetEpochSwitches { first: HASH, last: HASH }, vec![1, 60]);
    let blocks = EpochBlocks { hash: HASH, round: 60, first: 60, last: Some(119) };
    frames.request(GetEpochBlocks { epoch: 1 }, blocks);
    let members = WaitingMembers { signers: one(), missing: one() };
    let votes = WaitingVotes { round: 9, gap_number: 450, number: 7, hash: HASH, members: members.clone() };
    let timeouts = WaitingTimeouts { round: 9, gap_number: 450, members };
    frames.request(GetVotingPool, VotingPool { votes: vec![votes], timeouts: vec![timeouts] });
    frames.request(GetConsensusParameters, Arc::new(consensus_parameters()));
    let rules = NativeRules {
        activation: 98_802_000,
        fork_id: [0x8a, 0xd3, 0x36, 0x42],
        forks: vec!["Berlin".to_owned(), "XDPoSV2".to_owned()],
        precompiles: vec![("ECREC".to_owned(), Address::with_last_byte(1))],
        system_contracts: vec![("BLOCK_SIGNERS".to_owned(), Address::with_last_byte(0x89))],
    };
    let schedule = NativeSchedule { chain_id: 50, current: rules.clone(), next: Some(rules), last: None };
    frames.request(GetNativeSchedule, schedule);
}

fn consensus_parameters() -> ConsensusParameters {
    let round = RoundParameters {
        max_masternodes: 108,
        switch_round: 0,
        mine_period: 2,
        timeout_sync_threshold: 3,
        timeout_period: 30,
        certificate_threshold: 0.667,
        timeout_base: 1.0,
        timeout_max_exponent: 0,
    };
    ConsensusParameters {
        chain_id: 50,
        validator_contract: ADDRESS,
        relayer_registration: ADDRESS,
        exchange_listing: ADDRESS,
        token_issuer: ADDRESS,
        lending_registration: ADDRESS,
        period: 2,
        epoch: 900,
        reward: 5000,
        reward_checkpoint: 900,
        gap: 450,
        foundation_wallet: ADDRESS,
        skips_v1_validation: false,
        switch_epoch: 1,
        switch_block: 900,
        rounds: vec![(0, round)],
        current: 0,
    }
}
