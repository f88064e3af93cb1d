//! The published vectors (`docs/spec/consensus.md` 15) and real headers of public networks.

use std::{collections::HashSet, sync::Arc};

use alloy_primitives::{Address, B256, hex};
use alloy_rlp::{Decodable, Encodable};
use secp256k1::SecretKey;
use serde_json::Value;
use tenon_chain::ChainSpec;
use tenon_native_spec::{NativeSettings, read_genesis};

use crate::{
    BlockInfo, ExtraFields, QuorumCertificate, SignatureProblem, SignerCache, SigningIndex, SyncInfo, Timeout,
    TimeoutCertificate, Vote, addresses_of, is_low_s,
    recorded_chain::{RecordedChain, address_of, sign, unpacked},
    recover,
    test_data::{consensus_vectors, header, json},
    timeout_digest, v1_masternodes, v1_seal_hash,
    v2::{V2Engine, epoch_number, extra_of, gap_number, is_epoch_switch, leader, reaches_threshold, testing::NoState},
    v2_seal_hash, vote_digest,
};

fn bytes(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap()).unwrap()
}

fn hash(value: &Value) -> B256 {
    value.as_str().unwrap().parse().unwrap()
}

fn address(value: &Value) -> Address {
    value.as_str().unwrap().parse().unwrap()
}

fn addresses(value: &Value) -> Vec<Address> {
    value.as_array().unwrap().iter().map(address).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn spec_of(network: &str) -> Arc<ChainSpec> {
    read_genesis(&unpacked(format!("chain/native-genesis-{network}.json.gz"))).unwrap().spec
}

fn test_key(vectors: &Value, name: &str) -> SecretKey {
    let bytes: [u8; 32] = bytes(&vectors["testKeys"][name]["privateKey"]).try_into().unwrap();
    SecretKey::from_byte_array(bytes).unwrap()
}

/// Checks that a message round-trips, and that trailing bytes are refused.
fn assert_encodes<T: Encodable + Decodable + PartialEq + std::fmt::Debug>(value: &T, wanted: &Value) {
    let encoded = alloy_rlp::encode(value);
    assert_eq!(hex::encode_prefixed(&encoded), wanted.as_str().unwrap());
    assert_eq!(&T::decode(&mut &encoded[..]).unwrap(), value);
    for length in 0..encoded.len() {
        assert!(T::decode(&mut &encoded[..length]).is_err());
    }
}

#[test]
fn the_toy_messages_have_their_published_encodings_and_hashes() {
    let vectors = consensus_vectors();
    let toy = &vectors["messages_derived"]["toy"];
    let block = BlockInfo { hash: hash(&toy["blockInfo"]["hash"]), round: 306, number: 900 };
    let signature: alloy_primitives::Bytes = bytes(&toy["signature"]).into();
    let quorum = QuorumCertificate { block, signatures: vec![signature.clone()], gap_number: 450 };
    let vote = Vote { block, signature, gap_number: 450 };
    let sync = SyncInfo { quorum: quorum.clone(), timeout: TimeoutCertificate::default() };

    assert_encodes(&block, &toy["blockInfoRlp"]);
    assert_encodes(&quorum, &toy["quorumCertRlp"]);
    assert_encodes(&vote, &toy["voteRlp"]);
    assert_encodes(&sync, &toy["syncInfoZeroTcRlp"]);
    assert_eq!(vote_digest(&block, 450), hash(&toy["voteSigHash"]));
    assert_eq!(quorum.digest(), hash(&toy["voteSigHash"]));
    assert_eq!(vote.hash(), hash(&toy["voteHash"]));
    assert_eq!(sync.hash(), hash(&toy["syncInfoZeroTcHash"]));
    let extra = ExtraFields { round: 307, quorum };
    assert_eq!(extra.encode().to_vec(), bytes(&toy["extraField"]));
    assert_eq!(ExtraFields::decode(&extra.encode()).unwrap(), extra);
    // An absent certificate is an empty list, which the receiver cannot decode.
    assert!(SyncInfo::decode(&mut &bytes(&toy["syncInfoNilTcRlp"])[..]).is_err());
}

#[test]
fn timeout_digests_are_the_published_ones() {
    let vectors = consensus_vectors();
    let rows = vectors["messages_derived"]["timeoutSigHash"].as_array().unwrap();
    for row in rows {
        assert_eq!(timeout_digest(number(&row["round"]), number(&row["gapNumber"])), hash(&row["hash"]));
    }
    assert_eq!(rows.len(), 7);
}

#[test]
fn signatures_of_the_test_keys_are_the_published_ones() {
    let vectors = consensus_vectors();
    let messages = &vectors["messages_derived"];
    let vote = hash(&messages["toy"]["voteSigHash"]);
    for (name, signatures) in messages["signatures"].as_object().unwrap() {
        let key = test_key(&vectors, name);
        assert_eq!(address_of(&key), address(&vectors["testKeys"][name]["address"]));
        for (digest, wanted) in [(vote, &signatures["voteToy"]), (timeout_digest(5, 450), &signatures["timeout5_450"])]
        {
            let signature = sign(digest, &key);
            assert_eq!(signature, bytes(wanted), "{name}");
            assert_eq!(recover(digest, &signature).unwrap(), address_of(&key));
            assert!(is_low_s(&signature));
        }
    }
}

#[test]
fn a_high_s_recovers_the_same_address_and_is_refused_in_v2() {
    let vectors = consensus_vectors();
    let messages = &vectors["messages_derived"];
    let (digest, high) = (hash(&messages["toy"]["voteSigHash"]), bytes(&messages["highSCounterpartOfAcc1VoteToy"]));
    let signers = SignerCache::default();

    assert_eq!(signers.recover(digest, &high).unwrap(), address(&vectors["testKeys"]["acc1"]["address"]));
    assert_eq!(signers.recover_low_s(digest, &high), Err(SignatureProblem::HighS));
}

#[test]
fn the_signed_messages_have_their_published_forms() {
    let vectors = consensus_vectors();
    let messages = &vectors["messages_derived"];
    let vote = Vote::decode(&mut &bytes(&messages["signedVoteAcc1"]["rlp"])[..]).unwrap();
    let timeout = Timeout::decode(&mut &bytes(&messages["signedTimeoutAcc1"]["rlp"])[..]).unwrap();
    let acc1 = address(&vectors["testKeys"]["acc1"]["address"]);

    assert_eq!(vote.hash(), hash(&messages["signedVoteAcc1"]["hash"]));
    assert_eq!(timeout.hash(), hash(&messages["signedTimeoutAcc1"]["hash"]));
    assert_eq!(recover(vote_digest(&vote.block, vote.gap_number), &vote.signature), Ok(acc1));
    assert_eq!(recover(timeout_digest(timeout.round, timeout.gap_number), &timeout.signature), Ok(acc1));
}

#[test]
fn genesis_headers_have_their_hashes_seal_hashes_and_masternodes() {
    let vectors = consensus_vectors();
    for (network, wanted) in vectors["genesis"].as_object().unwrap() {
        let genesis = header(wanted["headerRlp"].as_str().unwrap());
        assert_eq!(genesis.hash(), hash(&wanted["hash"]), "{network}");
        assert_eq!(genesis.state_root, hash(&wanted["stateRoot"]));
        assert_eq!(v1_seal_hash(&genesis), hash(&wanted["v1SealHash"]));
        assert_eq!(v1_masternodes(&genesis.extra_data), addresses(&wanted["signers"]));
    }
}

#[test]
fn real_mainnet_headers_have_their_proposers_certificates_and_gap_numbers() {
    let vectors = consensus_vectors();
    let spec = spec_of("mainnet");
    let consensus = &NativeSettings::of(&spec).unwrap().consensus;
    let rows = vectors["mainnetV2Headers"].as_array().unwrap();
    for row in rows {
        let header = header(row["headerRlp"].as_str().unwrap());
        let extra = extra_of(&header).unwrap();
        let seal = header.native_seal.clone().unwrap();
        assert_eq!(header.hash(), hash(&row["hash"]));
        assert_eq!(header.number, number(&row["number"]));
        assert_eq!(v2_seal_hash(&header), hash(&row["sealHash"]));
        assert_eq!(seal.validator.to_vec(), bytes(&row["validatorSignature"]));
        assert_eq!(recover(v2_seal_hash(&header), &seal.validator), Ok(address(&row["sealSigner"])));
        assert_eq!(header.beneficiary, address(&row["sealSigner"]));
        assert_eq!(extra.round, number(&row["round"]));
        assert_eq!(addresses_of(&seal.validators), addresses(&row["validators"]));
        assert_eq!(extra.encode(), header.extra_data);

        let wanted = &row["qc"];
        let certificate = &extra.quorum;
        assert_eq!(certificate.block.hash, hash(&wanted["blockHash"]));
        assert_eq!(certificate.block.hash, header.parent_hash);
        assert_eq!(certificate.block.round, number(&wanted["blockRound"]));
        assert_eq!(certificate.block.number, number(&wanted["blockNumber"]));
        assert_eq!(certificate.gap_number, number(&wanted["gapNumber"]));
        assert_eq!(certificate.digest(), hash(&wanted["voteSigHash"]));
        let signers: Vec<Address> = certificate
            .signatures
            .iter()
            .map(|signature| {
                assert!(is_low_s(signature));
                recover(certificate.digest(), signature).unwrap()
            })
            .collect();
        assert_eq!(signers, addresses(&wanted["recoveredSigners"]));
        let unique: HashSet<_> = signers.iter().collect();
        assert_eq!(unique.len() as u64, number(&wanted["uniqueSigners"]));
        let needs_none = certificate.block.round == 0;
        assert!(
            needs_none || reaches_threshold(unique.len(), 108, consensus.at_round(extra.round).certificate_threshold)
        );
    }
    assert_eq!(rows.len(), 4);
}

#[test]
fn the_first_mainnet_header_of_v2_is_the_second_leaders() {
    let vectors = consensus_vectors();
    let spec = spec_of("mainnet");
    let consensus = &NativeSettings::of(&spec).unwrap().consensus;
    let first = header(vectors["mainnetV2Headers"][0]["headerRlp"].as_str().unwrap());
    let masternodes = addresses_of(&first.native_seal.as_ref().unwrap().validators);

    assert!(is_epoch_switch(consensus, &first).unwrap());
    assert!(masternodes.is_sorted());
    assert_eq!(leader(consensus, 1, &masternodes), Some(first.beneficiary));
    assert_eq!(epoch_number(consensus, 1), 89_300);
    // Both first epochs draw from the switch block's list (pitfall 2).
    assert_eq!([80_370_000, 80_370_001, 80_370_839].map(|number| gap_number(consensus, number)), [80_369_550; 3]);
}

#[test]
fn the_leaders_of_published_missed_rounds_follow_from_the_candidates() {
    let vectors = consensus_vectors();
    let selection = &vectors["leaderSelection"];
    let spec = spec_of("mainnet");
    let consensus = &NativeSettings::of(&spec).unwrap().consensus;
    let candidates = addresses(&selection["candidatesInOrder"]);
    assert_eq!(candidates.len(), 260);
    assert_eq!(gap_number(consensus, number(&selection["epochSwitchBlock"])), number(&selection["gapBlock"]));
    // Positions in the full list; entries before the fourth row's are penalised.
    let positions = [56, 87, 62, 47, 4];
    for (row, position) in selection["missedRounds"].as_array().unwrap().iter().zip(positions) {
        assert_eq!(candidates[position], address(&row[1]));
        let round = number(&row[0]);
        let first: Vec<Address> = candidates[..position].iter().take(108).copied().collect();
        if u64::try_from(position).unwrap() == round % 900 % 108 {
            let list = [&first[..], &candidates[position..108]].concat();
            assert_eq!(leader(consensus, round, &list), Some(address(&row[1])));
        }
    }
}

#[test]
fn thresholds_are_products_of_doubles() {
    let rows: [(f64, &[(usize, usize)]); 2] = [
        (
            0.667,
            &[
                (1, 1),
                (2, 2),
                (3, 3),
                (4, 3),
                (5, 4),
                (10, 7),
                (12, 9),
                (15, 11),
                (18, 13),
                (20, 14),
                (21, 15),
                (30, 21),
                (50, 34),
                (99, 67),
                (100, 67),
                (105, 71),
                (107, 72),
                (108, 73),
            ],
        ),
        (0.45, &[(1, 1), (2, 1), (3, 2), (5, 3), (10, 5), (15, 7), (20, 9)]),
    ];
    for (threshold, cases) in rows {
        for (masternodes, wanted) in cases {
            let lowest = (0..=*masternodes).find(|count| reaches_threshold(*count, *masternodes, threshold));
            assert_eq!(lowest, Some(*wanted), "{masternodes} {threshold}");
        }
    }
}

/// Headers 7074000 to 7074003 of a public development network that switched engines there, and 1 to 3 of a small
/// private one: with a matching configuration they verify in full. The private network's genesis had another gas limit
/// than its blocks, which the reference now refuses (`docs/spec/chain.md` 12).
#[test]
fn consecutive_real_headers_verify_in_full() {
    let recorded: Value = tenon_test_data::json("chain/native-headers.json.gz");
    for (folder, switch_block, first, verified, threshold) in
        [("chain551", 7_074_000, 0, 3, 0.667), ("xdpos-private", 0, 1, 2, 0.6)]
    {
        let headers: Vec<_> = recorded
            .as_array()
            .unwrap()
            .iter()
            .filter(|entry| entry["source"].as_str().unwrap().starts_with(folder))
            .map(|entry| header(entry["rlp"].as_str().unwrap()))
            .collect();
        let config = serde_json::json!({
            "config": {"chainId": 4000, "XDPoS": {"epoch": 900, "gap": 450, "v2": {"switchBlock": switch_block,
                "allConfigs": {"0": {"maxMasternodes": 108, "minePeriod": 2, "certificateThreshold": threshold}}}}},
            "difficulty": "0x1", "gasLimit": "0x1", "alloc": {},
        });
        let spec = read_genesis(config.to_string().as_bytes()).unwrap().spec;
        let settings = Arc::new(NativeSettings::of(&spec).cloned().unwrap());
        let engine = V2Engine::new(
            Arc::clone(&spec),
            settings,
            Arc::new(SignerCache::default()),
            Arc::new(NoState),
            Arc::new(SigningIndex::default()),
        );
        let chain = RecordedChain::of_headers(spec, headers.clone());
        let mut count = 0;
        for pair in headers[first..].windows(2) {
            let verdict = engine.verify_header(&pair[1], &pair[0], &*chain, None);
            assert!(verdict.is_ok(), "{folder} {}: {}", pair[1].number, verdict.unwrap_err());
            count += 1;
        }
        assert_eq!(count, verified, "{folder}");
    }
}

/// Messages of a running network of the reference: decoded, hashed, signed and encoded as recorded.
#[test]
fn messages_of_a_live_network_round_trip() {
    let recorded = json("live-messages.json");
    let messages = recorded["messages"].as_array().unwrap();
    for message in messages {
        let (payload, wanted) = (bytes(&message["payload"]), &message["decoded"]);
        let signer_of = |digest, signature: &[u8]| {
            assert!(is_low_s(signature));
            recover(digest, signature).unwrap()
        };
        let signers_of = |digest, signatures: &[alloy_primitives::Bytes]| -> Vec<Address> {
            signatures.iter().map(|signature| signer_of(digest, signature)).collect()
        };
        let (encoded, item_hash) = match message["name"].as_str().unwrap() {
            "Vote" => {
                let vote = Vote::decode(&mut &payload[..]).unwrap();
                let digest = vote_digest(&vote.block, vote.gap_number);
                assert_eq!(digest, hash(&wanted["signed_hash"]));
                assert_eq!(vote.block.hash, hash(&wanted["vote"]["hash"]));
                assert_eq!(
                    (vote.block.round, vote.gap_number),
                    (number(&wanted["vote"]["round"]), number(&wanted["gap"]))
                );
                assert_eq!(signer_of(digest, &vote.signature), address(&wanted["signer"]));
                (alloy_rlp::encode(&vote), vote.hash())
            }
            "Timeout" => {
                let timeout = Timeout::decode(&mut &payload[..]).unwrap();
                let digest = timeout_digest(timeout.round, timeout.gap_number);
                assert_eq!(digest, hash(&wanted["signed_hash"]));
                assert_eq!(signer_of(digest, &timeout.signature), address(&wanted["signer"]));
                (alloy_rlp::encode(&timeout), timeout.hash())
            }
            "SyncInfo" => {
                let sync = SyncInfo::decode(&mut &payload[..]).unwrap();
                let quorum_signers = signers_of(sync.quorum.digest(), &sync.quorum.signatures);
                assert_eq!(quorum_signers, addresses(&wanted["qc_signers"]));
                let timeout_signers = signers_of(sync.timeout.digest(), &sync.timeout.signatures);
                assert_eq!(timeout_signers, addresses(&wanted["tc_signers"]));
                (alloy_rlp::encode(&sync), sync.hash())
            }
            other => panic!("{other}"),
        };
        assert_eq!(encoded, payload);
        assert_eq!(item_hash, hash(&wanted["item_hash"]));
    }
    assert_eq!(messages.len(), 22);
}

proptest::proptest! {
    /// Any bytes that decode to a message encode to the same bytes, and nothing panics.
    #[test]
    fn messages_have_one_encoding(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200), cut in 0_usize..400, flip: u8) {
        fn check<T: Encodable + Decodable>(input: &[u8]) {
            let mut rest = input;
            if let Ok(message) = T::decode(&mut rest) {
                assert_eq!(alloy_rlp::encode(&message), &input[..input.len() - rest.len()]);
            }
        }
        let mut real = hex::decode("f84705b84136ed510674c14465b981d8c8bf20c61173cde04f7c6443ef3e4486b2acc7e72c31b329c0a7ec66d8aa0921d87b5009dd17cc436b265a586292e22a63168af07a018201c2").unwrap();
        let position = cut % real.len();
        real[position] = flip;
        for input in [&bytes[..], &real[..]] {
            check::<Vote>(input);
            check::<Timeout>(input);
            check::<SyncInfo>(input);
            check::<QuorumCertificate>(input);
            check::<ExtraFields>(input);
        }
    }
}
