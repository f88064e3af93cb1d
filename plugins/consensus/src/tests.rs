//! Tests of the consensus namespaces.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;
use tenon_sdk::testing::FakeHost;

use super::*;

const HASH: B256 = B256::repeat_byte(0xb2);
const ADDRESS: Address = Address::repeat_byte(0xa1);
const ADDRESS_TEXT: &str = "0xa1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
const HASH_TEXT: &str = "0xb2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2";

fn on_chain(profile: Profile) -> FakeHost {
    FakeHost::new().answer(move |_: GetChainInfo| {
        Ok(Arc::new(ChainInfo { chain_id: 50, network_id: 50, genesis_hash: HASH, profile }))
    })
}

fn native() -> FakeHost {
    on_chain(Profile::Native)
}

/// Calls a method by the reference's name; methods whose types differ exist separately under that name.
fn ask(host: &FakeHost, method: &str, params: &str) -> Result<String, Failure> {
    const SAME_BY_BOTH_NAMES: [&str; 4] =
        ["getSignersAtHash", "getLatestPoolStatus", "getBlockInfoByEpochNum", "networkInformation"];
    let is_same = SAME_BY_BOTH_NAMES.contains(&method) || method.starts_with("XDPoS_");
    let prefix = if is_same { "" } else { "XDPoS_" };
    ask_by_own_name(host, &format!("{prefix}{method}"), params)
}

/// Calls a method by the interface document's name.
fn ask_by_own_name(host: &FakeHost, method: &str, params: &str) -> Result<String, Failure> {
    host.call_method(&table(), &Arc::new(Consensus::default()), &format!("Consensus_{method}"), params)
}

/// The text without leading whitespace of its lines, which keeps the expected texts readable.
fn compact(text: &str) -> String {
    text.lines().map(str::trim).collect()
}

fn header(number: u64) -> SealedHeader {
    let header =
        Header { number, parent_hash: HASH, beneficiary: ADDRESS, timestamp: 1_700_000_000, ..Header::default() };
    SealedHeader::new_unchecked(header, B256::with_last_byte(number as u8))
}

fn round_host(found: Option<BlockRound>) -> FakeHost {
    native().answer(move |_: GetRound| Ok(found.clone()))
}

fn found(committed: Option<u64>, round: Result<u64, RoundProblem>) -> BlockRound {
    let rlp = Bytes::from_static(&[0xc1, 0x80]);
    BlockRound { header: Arc::new(header(7)), rlp, round, canonical: Some(header(7).hash()), committed }
}

#[test]
fn nothing_is_served_on_chains_without_this_consensus() {
    let host = on_chain(Profile::Ethereum);
    let arguments = |method: &str| match method {
        "getSnapshotAtHash" | "getSignersAtHash" | "getV2BlockByHash" => format!(r#"["{HASH_TEXT}"]"#),
        "getV2BlockByHeader" => "[null,false]".to_owned(),
        "getBlockInfoByEpochNum" => "[1]".to_owned(),
        _ => "[]".to_owned(),
    };
    let methods = [
        "getSnapshot",
        "getSnapshotAtHash",
        "getSigners",
        "getSignersAtHash",
        "getMasternodesByNumber",
        "getLatestPoolStatus",
        "getV2BlockByNumber",
        "getV2BlockByHash",
        "getV2BlockByHeader",
        "networkInformation",
        "XDPoS_networkInformation",
        "getMissedRoundsInEpochByBlockNum",
        "getEpochNumbersBetween",
        "getBlockInfoByEpochNum",
    ];
    for method in methods {
        let asked = [ask, ask_by_own_name].map(|ask| ask(&host, method, &arguments(method)).unwrap_err());
        let method = method.trim_start_matches("XDPoS_");
        let message = format!("the method Consensus_{method} does not exist/is not available");
        for refused in asked {
            assert_eq!((refused.code, &refused.message), (FailureCode::METHOD_NOT_FOUND, &message));
        }
    }
}

#[test]
fn a_v1_snapshot_has_its_voting() {
    let host = native().answer(|request: GetAuthorised| {
        let BlockId::Number(BlockNumber(number)) = request.block else { return Ok(None) };
        let vote = HeaderVote { voter: ADDRESS, block: number, about: ADDRESS, is_to_add: true };
        let voting = HeaderVoting {
            recent: vec![(9, ADDRESS), (10, ADDRESS)],
            votes: if number == 10 { vec![vote] } else { Vec::new() },
            tally: if number == 10 {
                vec![HeaderTally { about: ADDRESS, is_to_add: true, votes: 1 }]
            } else {
                Vec::new()
            },
            opens_epoch: number == 900,
        };
        let signers = vec![ADDRESS, Address::ZERO];
        Ok(Some(Authorised { number, hash: HASH, signers, voting: Some(voting) }))
    });

    let expected = format!(
        r#"{{"number":10,"hash":"{HASH_TEXT}",
        "signers":{{"0x0000000000000000000000000000000000000000":{{}},"{ADDRESS_TEXT}":{{}}}},
        "recents":{{"10":"{ADDRESS_TEXT}","9":"{ADDRESS_TEXT}"}},
        "votes":[{{"signer":"{ADDRESS_TEXT}","block":10,"address":"{ADDRESS_TEXT}","authorize":true}}],
        "tally":{{"{ADDRESS_TEXT}":{{"authorize":true,"votes":1}}}}}}"#
    );
    assert_eq!(ask(&host, "getSnapshot", r#"["0xa"]"#), Ok(compact(&expected)));
    for (number, votes) in [("0xb", r#""votes":[]"#), ("0x384", r#""votes":null"#), ("0x0", r#""votes":null"#)] {
        let answer = ask(&host, "getSnapshot", &format!(r#"["{number}"]"#)).unwrap();
        assert!(answer.contains(votes) && answer.ends_with(r#""tally":{}}"#), "{answer}");
    }
    let signers = format!(r#"["{ADDRESS_TEXT}","0x0000000000000000000000000000000000000000"]"#);
    assert_eq!(ask(&host, "getSigners", r#"["0xa"]"#), Ok(signers));
}

#[test]
fn a_v2_snapshot_has_no_voting_and_signers_are_sorted_by_stake() {
    let host = native().answer(|request: GetAuthorised| {
        let asked = [BlockId::LATEST, BlockId::hash(HASH)];
        let authorised = Authorised { number: 450, hash: HASH, signers: vec![ADDRESS, Address::ZERO], voting: None };
        Ok(asked.contains(&request.block).then_some(authorised))
    });

    let tail = r#""recents":null,"votes":null,"tally":null}"#;
    assert!(ask(&host, "getSnapshot", "[]").unwrap().ends_with(tail));
    assert!(ask(&host, "getSnapshotAtHash", &format!(r#"["{HASH_TEXT}"]"#)).unwrap().ends_with(tail));
    let signers = format!(r#"["{ADDRESS_TEXT}","0x0000000000000000000000000000000000000000"]"#);
    assert_eq!(ask(&host, "getSigners", r#"["latest"]"#).as_ref(), Ok(&signers));
    assert_eq!(ask(&host, "getSignersAtHash", &format!(r#"["{HASH_TEXT}"]"#)), Ok(signers));
    assert_eq!(ask(&host, "getSigners", r#"["0x7"]"#), Err(Failure::server("unknown block")));
}

#[test]
fn tags_are_refused_where_the_reference_refuses_them() {
    let cases = [
        ("getSnapshot", r#"["pending"]"#, Failure::server("invalid block number -1")),
        ("getSigners", r#"["finalized"]"#, Failure::server("invalid block number -3")),
        ("getMissedRoundsInEpochByBlockNum", r#"["pending"]"#, Failure::server("invalid block number -1")),
        (
            "getEpochNumbersBetween",
            r#"["pending","latest"]"#,
            Failure::server("can not get begin header from number -1, err: invalid block number -1"),
        ),
        (
            "getMasternodesByNumber",
            r#"["safe"]"#,
            Failure::invalid_params("invalid argument 0: hex string without 0x prefix"),
        ),
    ];
    for (method, params, failure) in cases {
        assert_eq!(ask(&native(), method, params), Err(failure), "{method} {params}");
    }
}

#[test]
fn an_error_about_masternodes_is_an_empty_object() {
    let host = native().answer(|request: GetEpochMembers| {
        let members = EpochMembers { number: 7, round: 9, masternodes: vec![ADDRESS], ..EpochMembers::default() };
        Ok((request.block == BlockId::LATEST).then_some(members))
    });

    let expected = format!(
        r#"{{"Number":7,"Round":9,"MasternodesLen":1,"Masternodes":["{ADDRESS_TEXT}"],
        "PenaltyLen":0,"Penalty":[],"StandbynodesLen":0,"Standbynodes":[],"Error":null}}"#
    );
    assert_eq!(ask(&host, "getMasternodesByNumber", "[null]"), Ok(compact(&expected)));
    let failed = r#"{"Number":0,"Round":0,"MasternodesLen":0,"Masternodes":null,
        "PenaltyLen":0,"Penalty":null,"StandbynodesLen":0,"Standbynodes":null,"Error":{}}"#;
    for block in ["pending", "0x99"] {
        let answer = ask(&host, "getMasternodesByNumber", &format!(r#"["{block}"]"#));
        assert_eq!(answer, Ok(compact(failed)), "{block}");
    }
}

#[test]
fn a_block_has_its_round_and_whether_it_is_committed() {
    let text = |committed: bool| {
        compact(&format!(
            r#"{{"Hash":"{:#x}","Round":9,"Number":7,"ParentHash":"{HASH_TEXT}","Committed":{committed},
            "Miner":"0x000000000000000000000000{}","Timestamp":1700000000,"EncodedRLP":"wYA=","Error":""}}"#,
            header(7).hash(),
            &ADDRESS_TEXT[2..],
        ))
    };
    for (committed, is_committed) in [(6, false), (7, true)] {
        let host = round_host(Some(found(Some(committed), Ok(9))));
        assert_eq!(ask(&host, "getV2BlockByNumber", r#"["0x7"]"#), Ok(text(is_committed)));
        assert_eq!(ask(&host, "getV2BlockByHash", &format!(r#"["{HASH_TEXT}"]"#)), Ok(text(is_committed)));
    }
    let elsewhere = BlockRound { canonical: Some(HASH), ..found(Some(7), Ok(9)) };
    assert_eq!(ask(&round_host(Some(elsewhere)), "getV2BlockByHash", &format!(r#"["{HASH_TEXT}"]"#)), Ok(text(false)));
}

#[test]
fn an_error_about_a_block_is_in_its_error_member() {
    let error = |host: &FakeHost, method: &str, params: &str| -> (String, String) {
        let answer: serde_json::Value = serde_json::from_str(&ask(host, method, params).unwrap()).unwrap();
        (answer["Number"].to_string(), answer["Error"].as_str().unwrap().to_owned())
    };
    let by_hash = format!(r#"["{HASH_TEXT}"]"#);
    let above = BlockRound { canonical: None, ..found(Some(7), Ok(9)) };
    let none: fn() -> FakeHost = || round_host(None);
    let without_round = |problem| round_host(Some(found(Some(7), Err(problem))));
    let cases = [
        (none(), "getV2BlockByNumber", r#"["pending"]"#, "null", "invalid block number -1"),
        (none(), "getV2BlockByNumber", r#"["committed"]"#, "-3", "can not find block from this number"),
        (none(), "getV2BlockByNumber", r#"["0x10"]"#, "16", "can not find block from this number"),
        (none(), "getV2BlockByNumber", "[]", "null", "can not find block from nil number"),
        (none(), "getV2BlockByHash", &by_hash, "null", "can not find block from this hash"),
        (round_host(Some(above)), "getV2BlockByHash", &by_hash, "7", "can not find chain header from this number"),
        (
            round_host(Some(found(None, Ok(9)))),
            "getV2BlockByNumber",
            "[]",
            "null",
            "can not find latest committed block from consensus",
        ),
        (without_round(RoundProblem::NoExtra), "getV2BlockByNumber", "[]", "null", "extra field is 0 length"),
        (without_round(RoundProblem::ExtraTooLong), "getV2BlockByNumber", "[]", "null", "extra field is too long"),
        (
            without_round(RoundProblem::Version(1)),
            "getV2BlockByNumber",
            "[]",
            "null",
            "consensus version 1 is not defined, or this block is v1 block",
        ),
    ];
    for (host, method, params, number, message) in cases {
        assert_eq!(error(&host, method, params), (number.to_owned(), message.to_owned()), "{method} {params}");
    }
}

fn header_text(seal: &str) -> String {
    let hash = |name: &str| format!(r#""{name}":"{HASH_TEXT}","#);
    let hashes: String =
        ["parentHash", "sha3Uncles", "stateRoot", "transactionsRoot", "receiptsRoot", "mixHash"].map(hash).concat();
    let bloom = "00".repeat(256);
    format!(
        r#"{{{hashes}"miner":"{ADDRESS_TEXT}","logsBloom":"0x{bloom}","difficulty":"0x1","number":"0x7","gasLimit":"0x5",
        "gasUsed":"0x0","timestamp":"0x6","extraData":"0x02","nonce":"0x0000000000000000",{seal},"penalties":"",
        "baseFeePerGas":"0x9"}}"#
    )
}

#[test]
fn a_header_from_the_caller_is_decoded_as_in_go() {
    let host = native().answer(|request: GetRound| {
        let RoundOf::Header(header) = request.header else { return Ok(None) };
        let seal = header.native_seal.clone().unwrap_or_default();
        let reason = format!("{} {} {} {}", header.number, header.timestamp, seal.validators, seal.validator);
        Ok(Some(BlockRound { round: Err(RoundProblem::Malformed { reason }), ..found(Some(7), Ok(0)) }))
    });
    let header = header_text(r#""validators":"AQI=","validator":[3,255]"#);

    let answer = ask(&host, "getV2BlockByHeader", &format!("[{header},true]")).unwrap();

    assert!(answer.ends_with(r#""Error":"rlp: 7 6 0x0102 0x03ff"}"#), "{answer}");
    let missing = "invalid argument 0: missing required field 'parentHash' for Header";
    let cases = [
        ("[null,false]".to_owned(), missing),
        ("[{},false]".to_owned(), missing),
        ("[]".to_owned(), "missing value for required argument 1"),
        (
            r#"["0xzz",false]"#.to_owned(),
            "invalid argument 0: json: cannot unmarshal string into Go value of type types.Header",
        ),
        (
            format!("[{},false]", header_text(r#""validators":"*","validator":"""#)),
            "invalid argument 0: illegal base64 data at input byte 0",
        ),
        (
            format!("[{},false]", header_text(r#""validators":"""#)),
            "invalid argument 0: missing required field 'validator' for Header",
        ),
    ];
    for (params, message) in cases {
        assert_eq!(ask(&host, "getV2BlockByHeader", &params), Err(Failure::invalid_params(message)), "{params}");
    }
}

#[test]
fn missed_rounds_have_the_blocks_around_them_and_no_rounds_are_null() {
    let host = native().answer(|request: GetMissedRounds| {
        let missed = MissedRound { round: 8, leader: ADDRESS, next: (7, HASH), previous: (6, HASH) };
        let of = |missed| MissedRounds { epoch_round: 1, epoch_number: 2, missed };
        Ok(match request.block {
            BlockId::Number(BlockNumber(7)) => Some(of(vec![missed])),
            BlockId::Number(BlockNumber(6)) => Some(of(Vec::new())),
            _ => None,
        })
    });
    let missed = |params: &str| ask(&host, "getMissedRoundsInEpochByBlockNum", params);

    let expected = format!(
        r#"{{"EpochRound":1,"EpochBlockNumber":2,"MissedRounds":[{{"Round":8,"Miner":"{ADDRESS_TEXT}",
        "CurrentBlockHash":"{HASH_TEXT}","CurrentBlockNum":7,"ParentBlockHash":"{HASH_TEXT}","ParentBlockNum":6}}]}}"#
    );
    assert_eq!(missed(r#"["0x7"]"#), Ok(compact(&expected)));
    assert_eq!(missed(r#"["0x6"]"#).unwrap(), r#"{"EpochRound":1,"EpochBlockNumber":2,"MissedRounds":null}"#);
    assert_eq!(missed("[]"), Err(Failure::server("can not get header by nil number")));
    assert_eq!(missed(r#"["finalized"]"#), Err(Failure::server("can not get header by number -3")));
}

fn range_host() -> FakeHost {
    native()
        .answer(|request: GetHeader| {
            let BlockId::Number(BlockNumber(number)) = request.block else { return Ok(None) };
            let stored = |number| StoredHeader {
                header: Arc::new(header(number)),
                total_difficulty: U256::ZERO,
                is_canonical: true,
            };
            Ok((number <= 60_000).then(|| stored(number)))
        })
        .answer(|request: GetEpochSwitches| Ok(vec![u64::from(request.first[31]), u64::from(request.last[31])]))
}

#[test]
fn a_range_of_epochs_is_bounded_and_its_ends_exist() {
    let between = |params: &str| ask(&range_host(), "getEpochNumbersBetween", params);

    assert_eq!(between(r#"["0x1","0x3c"]"#), Ok("[1,60]".to_owned()));
    assert!(between(r#"["0x1","0xc351"]"#).is_ok());
    for (params, message) in [
        (r#"["0x1","0xc352"]"#, "block range over limit of 50,000 blocks"),
        (r#"["0x2","0x1"]"#, "illegal begin and end block number, begin > end"),
        (r#"["0xffffff","0x1"]"#, "illegal begin block number 16777215"),
        (r#"["0x1","0xffffff"]"#, "illegal end block number 16777215"),
        ("[]", "begin block is nil"),
        (r#"["0x1"]"#, "end block number is nil"),
        (r#"["0x1","pending"]"#, "can not get end header from number -1, err: invalid block number -1"),
    ] {
        assert_eq!(between(params), Err(Failure::server(message)), "{params}");
    }
}

#[test]
fn a_running_epoch_has_no_last_block() {
    let host = native().answer(|request: GetEpochBlocks| {
        let last = (request.epoch == 1).then_some(119);
        Ok(EpochBlocks { hash: HASH, round: 60, first: 60, last })
    });

    let text = |last: &str| format!(r#"{{"hash":"{HASH_TEXT}","round":60,"firstBlock":60,"lastBlock":{last}}}"#);
    assert_eq!(ask(&host, "getBlockInfoByEpochNum", "[1]"), Ok(text("119")));
    assert_eq!(ask(&host, "getBlockInfoByEpochNum", "[2]"), Ok(text("null")));
}

#[test]
fn pooled_votes_and_timeouts_are_listed_by_their_subject() {
    let members = || WaitingMembers { signers: vec![ADDRESS], missing: Vec::new() };
    let host = native().answer(move |_: GetVotingPool| {
        let vote = |round| WaitingVotes { round, gap_number: 450, number: 7, hash: HASH, members: members() };
        let timeouts = vec![WaitingTimeouts { round: 9, gap_number: 450, members: members() }];
        Ok(VotingPool { votes: vec![vote(9), vote(10)], timeouts })
    });

    let of = format!(r#"{{"CurrentNumber":1,"CurrentSigners":["{ADDRESS_TEXT}"],"MissingSigners":[]}}"#);
    let expected =
        format!(r#"{{"timeout":{{"9:450":{of}}},"vote":{{"10:450:7:{HASH_TEXT}":{of},"9:450:7:{HASH_TEXT}":{of}}}}}"#);
    assert_eq!(ask(&host, "getLatestPoolStatus", "[]"), Ok(expected));
}

/// The votes for the block with this name in a pool.
fn votes_named(name: &str) -> WaitingVotes {
    let parts: Vec<_> = name.split(':').collect();
    let number = |at: usize| parts[at].parse().unwrap();
    let members = WaitingMembers { signers: Vec::new(), missing: Vec::new() };
    WaitingVotes {
        round: number(0),
        gap_number: number(1),
        number: number(2),
        hash: parts[3].parse().unwrap(),
        members,
    }
}

#[test]
fn the_names_in_pools_equal_those_of_a_real_node() {
    let vectors: Value = tenon_test_data::json("native/consensus-vectors.json");
    let recorded = vectors["votePoolKeys"].as_array().unwrap();
    let toy = &vectors["messages_derived"]["toy"]["votePoolKey"];
    let names: BTreeSet<String> = recorded.iter().chain([toy]).map(|name| name.as_str().unwrap().to_owned()).collect();
    let votes: Vec<_> = names.iter().map(|name| votes_named(name)).collect();
    let timeouts = [WaitingTimeouts { round: 5, gap_number: 450, members: votes[0].members.clone() }];
    let pool = VotingPool { votes, timeouts: timeouts.to_vec() };
    let host = native().answer(move |_: GetVotingPool| Ok(pool.clone()));

    let answer: Value = serde_json::from_str(&ask(&host, "getLatestPoolStatus", "[]").unwrap()).unwrap();

    let shown = |pool: &str| answer[pool].as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(shown("vote"), names);
    assert_eq!(names.len(), 16);
    let timeout = vectors["messages_derived"]["signedTimeoutAcc1"]["poolKey"].as_str().unwrap();
    assert_eq!(shown("timeout"), BTreeSet::from([timeout.to_owned()]));
}

#[test]
fn parameters_have_the_member_names_of_the_document_or_the_reference() {
    let host = native().answer(|_: GetConsensusParameters| {
        let round = |max_masternodes| RoundParameters {
            max_masternodes,
            switch_round: 0,
            mine_period: 2,
            timeout_sync_threshold: 3,
            timeout_period: 30,
            certificate_threshold: 0.667,
            timeout_base: 1.0,
            timeout_max_exponent: 0,
        };
        Ok(Arc::new(ConsensusParameters {
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
            rounds: vec![(0, round(108)), (900, round(7)), (2000, round(9))],
            current: 900,
        }))
    });

    let entry = |max: u64| {
        format!(
            r#"{{"maxMasternodes":{max},"switchRound":0,"minePeriod":2,"timeoutSyncThreshold":3,"timeoutPeriod":30,
            "certificateThreshold":0.667,"expTimeoutConfig":{{"base":1,"maxExponent":0}}}}"#
        )
    };
    let expected = format!(
        r#"{{"NetworkId":50,"XDCValidatorAddress":"{ADDRESS_TEXT}","RelayerRegistrationAddress":"{ADDRESS_TEXT}",
        "XDCXListingAddress":"{ADDRESS_TEXT}","XDCZAddress":"{ADDRESS_TEXT}","LendingAddress":"{ADDRESS_TEXT}",
        "ConsensusConfigs":{{"period":2,"epoch":900,"reward":5000,"rewardCheckpoint":900,"gap":450,
        "foudationWalletAddr":"{ADDRESS_TEXT}","SkipV1Validation":false,"v2":{{"SwitchEpoch":1,"switchBlock":900,
        "config":{},"allConfigs":{{"0":{},"2000":{},"900":{}}}}}}}}}"#,
        entry(7),
        entry(108),
        entry(9),
        entry(7),
    );
    let expected = compact(&expected);
    assert_eq!(ask(&host, "XDPoS_networkInformation", "[]").as_ref(), Ok(&expected));
    let own = ["ValidatorAddress", "XListingAddress", "ZAddress"]
        .iter()
        .fold(expected, |text, name| text.replace(&format!("XDC{name}"), &format!("Native{name}")))
        .replace(r#""NetworkId":50"#, r#""NetworkId":"0x32""#);
    assert_eq!(ask(&host, "networkInformation", "[]"), Ok(own));
}

/// Answers every request about blocks, and records the requested block.
fn answering_host(asked: &Arc<std::sync::Mutex<Vec<BlockId>>>) -> FakeHost {
    let note = |asked: &Arc<std::sync::Mutex<Vec<BlockId>>>| {
        let asked = Arc::clone(asked);
        move |block| asked.lock().unwrap().push(block)
    };
    let [authorised, members, missed, round, bound] = [(); 5].map(|()| note(asked));
    native()
        .answer(move |request: GetAuthorised| {
            authorised(request.block);
            Ok(Some(Authorised { number: 450, hash: HASH, signers: vec![ADDRESS, Address::ZERO], voting: None }))
        })
        .answer(move |request: GetEpochMembers| {
            members(request.block);
            let penalties = vec![Address::ZERO];
            Ok(Some(EpochMembers { number: 70, round: 90, masternodes: vec![ADDRESS], penalties, standby: vec![] }))
        })
        .answer(move |request: GetMissedRounds| {
            missed(request.block);
            let leap = MissedRound { round: 18, leader: ADDRESS, next: (17, HASH), previous: (16, HASH) };
            Ok(Some(MissedRounds { epoch_round: 11, epoch_number: 12, missed: vec![leap] }))
        })
        .answer(move |request: GetRound| {
            if let RoundOf::Block(block) = request.header {
                round(block);
            }
            Ok(Some(found(Some(7), Ok(90))))
        })
        .answer(move |request: GetHeader| {
            bound(request.block);
            let header = Arc::new(header(70));
            Ok(Some(StoredHeader { header, total_difficulty: U256::ZERO, is_canonical: true }))
        })
        .answer(|_: GetHead| {
            let (header, finalized) = (Arc::new(header(70)), Some(BlockNumber(60)));
            Ok(Arc::new(Head { header, total_difficulty: U256::ZERO, finalized, safe: None }))
        })
        .answer(|_: GetEpochSwitches| Ok(vec![60, 70]))
}

#[test]
fn every_block_number_accepts_every_tag_under_the_documents_names() {
    let tag = BlockId::Tag;
    let tags = [
        ("latest", BlockId::LATEST),
        ("earliest", tag(BlockTag::Earliest)),
        ("pending", BlockId::LATEST),
        ("finalized", tag(BlockTag::Finalized)),
    ];
    let methods = [
        ("getSnapshot", 1),
        ("getSigners", 1),
        ("getMasternodesByNumber", 1),
        ("getV2BlockByNumber", 1),
        ("getMissedRoundsInEpochByBlockNum", 1),
        ("getEpochNumbersBetween", 2),
    ];
    for (method, count) in methods {
        for (name, block) in tags {
            let asked = Arc::default();
            let params = vec![format!("{name:?}"); count].join(",");

            let answer = ask_by_own_name(&answering_host(&asked), method, &format!("[{params}]"));

            assert!(answer.is_ok(), "{method} {name}: {answer:?}");
            assert_eq!(*asked.lock().unwrap(), vec![block; count], "{method} {name}");
        }
    }
}

#[test]
fn answers_under_the_documents_names_have_its_types() {
    let host = answering_host(&Arc::default());
    let signers = format!(r#"["{ADDRESS_TEXT}","0x0000000000000000000000000000000000000000"]"#);
    let cases = [
        (
            "getSnapshot",
            format!(
                r#"{{"number":450,"hash":"{HASH_TEXT}","signers":{signers},"recents":null,"votes":[],"tally":null}}"#
            ),
        ),
        (
            "getMasternodesByNumber",
            format!(
                r#"{{"Number":"0x46","Round":"0x5a","MasternodesLen":1,"Masternodes":["{ADDRESS_TEXT}"],"PenaltyLen":1,
                "Penalty":["0x0000000000000000000000000000000000000000"],"StandbynodesLen":0,"Standbynodes":[],"Error":""}}"#
            ),
        ),
        (
            "getMissedRoundsInEpochByBlockNum",
            format!(
                r#"{{"EpochRound":"0xb","EpochBlockNumber":"0xc","MissedRounds":[{{"Round":"0x12","Miner":"{ADDRESS_TEXT}",
                "CurrentBlockHash":"{HASH_TEXT}","CurrentBlockNum":"0x11","ParentBlockHash":"{HASH_TEXT}",
                "ParentBlockNum":"0x10"}}]}}"#
            ),
        ),
        (
            "getV2BlockByNumber",
            format!(
                r#"{{"Hash":"{:#x}","Round":"0x5a","Number":"0x7","ParentHash":"{HASH_TEXT}","Committed":true,
                "Miner":"0x000000000000000000000000{}","Timestamp":"0x6553f100","EncodedRLP":"wYA=","Error":""}}"#,
                header(7).hash(),
                &ADDRESS_TEXT[2..],
            ),
        ),
    ];
    for (method, expected) in cases {
        assert_eq!(ask_by_own_name(&host, method, r#"["latest"]"#), Ok(compact(&expected)), "{method}");
    }
    let between = ask_by_own_name(&host, "getEpochNumbersBetween", r#"["0x1","0x46"]"#);
    assert_eq!(between, Ok(r#"["0x3c","0x46"]"#.to_owned()));
}

#[test]
fn under_the_documents_names_missing_data_is_empty_and_errors_are_texts() {
    let host = native()
        .answer(|_: GetEpochMembers| Ok(None))
        .answer(|_: GetMissedRounds| Ok(Some(MissedRounds::default())))
        .answer(|_: GetRound| Ok(None))
        .answer(|_: GetAuthorised| {
            let voting = Some(HeaderVoting { opens_epoch: true, ..HeaderVoting::default() });
            Ok(Some(Authorised { number: 900, hash: HASH, signers: vec![], voting }))
        });
    let ask = |method: &str| ask_by_own_name(&host, method, r#"["finalized"]"#).unwrap();

    assert!(ask("getMasternodesByNumber").ends_with(r#""Standbynodes":[],"Error":"unknown block"}"#));
    assert!(ask("getMissedRoundsInEpochByBlockNum").ends_with(r#""MissedRounds":[]}"#));
    let snapshot = ask("getSnapshot");
    assert!(snapshot.ends_with(r#""signers":[],"recents":{},"votes":[],"tally":{}}"#), "{snapshot}");
    let block = ask("getV2BlockByNumber");
    assert!(block.contains(r#""Number":null"#) && block.contains("can not find block from this number"), "{block}");
}
