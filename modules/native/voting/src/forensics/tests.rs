//! Conflicts of certificates on recorded and on forged branches, and contradictory votes.

use tenon_api::SealedHeader;
use tenon_native_consensus::ExtraFields;
use tenon_native_consensus::recorded_chain::{RecordedChain, address_of, key, resealed, sign};
use tenon_native_consensus::v2::testing::{Listed, NoState, engine};

use super::*;

fn info(header: &SealedHeader) -> BlockInfo {
    BlockInfo { hash: header.hash(), round: extra_of(header).unwrap().round, number: header.number }
}

fn vote(block: BlockInfo, signer: usize) -> Vote {
    Vote { block, signature: sign(vote_digest(&block, 0), &key(signer)).into(), gap_number: 0 }
}

fn certificate(header: &SealedHeader) -> QuorumCertificate {
    let block = info(header);
    QuorumCertificate { block, signatures: (0..3).map(|n| vote(block, n).signature).collect(), gap_number: 0 }
}

/// The certificates that commit a block.
fn committed(chain: &RecordedChain, carrier: u64) -> CertificateChain {
    CertificateChain::ending_with(extra_of(chain.at(carrier)).unwrap().quorum, &**chain).unwrap()
}

/// Adds a side branch of four blocks, with rounds higher by `later`.
fn branch(chain: &RecordedChain, parent: u64, later: u64) -> Vec<SealedHeader> {
    let mut headers = vec![chain.at(parent).clone()];
    for number in parent + 1..=parent + 4 {
        let before = headers.last().unwrap();
        let mut header = chain.at(number).header().clone();
        let round = extra_of(&header).unwrap().round + later;
        header.extra_data = ExtraFields { round, quorum: certificate(before) }.encode();
        header.parent_hash = before.hash();
        header.gas_used += 1;
        let header = resealed(header, &key(0));
        chain.insert_side_header(header.clone());
        headers.push(header);
    }
    headers.split_off(1)
}

fn of_certificates(proof: &ForensicProof) -> &CertificateConflict {
    match proof {
        ForensicProof::Certificates(conflict) => conflict,
        ForensicProof::Votes(conflict) => panic!("votes: {conflict:?}"),
    }
}

fn of_votes(proof: &ForensicProof) -> &VoteConflict {
    match proof {
        ForensicProof::Votes(conflict) => conflict,
        ForensicProof::Certificates(conflict) => panic!("certificates: {conflict:?}"),
    }
}

#[test]
fn the_branches_of_the_recorded_reorganisation_contradict_each_other() {
    let genesis = "native/chains/reorg.genesis.json.gz";
    let (chain, other) = (RecordedChain::read("reorg-a", genesis), RecordedChain::read("reorg-b", genesis));
    let parted = (0..).take_while(|number| chain.at(*number).hash() == other.at(*number).hash()).last().unwrap();
    (parted + 1..=20).for_each(|number| chain.insert_side_header(other.at(number).clone()));
    let engine = engine(&chain, NoState);
    let committed = committed(&chain, 15);
    let incoming = extra_of(other.at(20)).unwrap().quorum;

    let proof = certificate_conflict(&engine, &committed, incoming, &*chain).unwrap().unwrap();

    let CertificateConflict { diverging, smaller, larger, .. } = of_certificates(&proof);
    assert_eq!(*diverging, (parted, chain.at(parted).hash()));
    assert!(smaller.certificate.block.round <= larger.certificate.block.round);
    for side in [smaller, larger] {
        let number = side.certificate.block.number;
        let path = |chain: &RecordedChain| -> Vec<B256> {
            (parted..=number).filter_map(|number| chain.blocks.get(number as usize)).map(|b| b.hash()).collect()
        };
        assert!([path(&chain), path(&other)].contains(&side.path), "{side:?}");
        let known: Vec<Address> = (0..30).map(|n| address_of(&key(n))).collect();
        assert!(!side.signers.is_empty());
        assert_eq!(side.signers.len(), side.certificate.signatures.len());
        assert!(side.signers.iter().all(|signer| known.contains(signer)), "{side:?}");
    }
    let hash = |side: &BranchEvidence| side.certificate.block.hash;
    let id = format!("{:#x}:{:#x}:{:#x}", chain.at(parted).hash(), hash(smaller), hash(larger));
    assert_eq!(proof.id(), id);
}

#[test]
fn a_chain_does_not_contradict_itself() {
    let chain = RecordedChain::local();
    let engine = engine(&chain, NoState);
    for (known, incoming) in [(62, 63), (62, 62), (62, 400), (400, 62)] {
        let incoming = extra_of(chain.at(incoming)).unwrap().quorum;
        assert_eq!(certificate_conflict(&engine, &committed(&chain, known), incoming, &*chain), Ok(None));
    }
}

/// Blocks of one round are the evidence; they are in one epoch, or each opens its own.
#[test]
fn certificates_of_one_round_are_reported_with_their_epochs() {
    let chain = RecordedChain::local();
    let engine = engine(&chain, NoState);
    for (parent, across) in [(20, false), (59, true)] {
        let side = branch(&chain, parent, 0);

        let known = committed(&chain, parent + 4);
        let proof = certificate_conflict(&engine, &known, certificate(&side[2]), &*chain).unwrap().unwrap();

        let conflict = of_certificates(&proof);
        let hash = |number| chain.at(number).hash();
        assert_eq!((conflict.is_across_epochs, conflict.diverging), (across, (parent, hash(parent))));
        assert_eq!(conflict.smaller.path, [hash(parent), hash(parent + 1)]);
        assert_eq!(conflict.larger.path, [hash(parent), side[0].hash()]);
        assert_eq!(conflict.larger.signers, [0, 1, 2].map(|n| address_of(&key(n))));
    }
}

#[test]
fn certificates_of_different_rounds_are_found_through_their_ancestors() {
    let chain = RecordedChain::local();
    let engine = engine(&chain, NoState);
    let side = branch(&chain, 20, 10);

    let proof = certificate_conflict(&engine, &committed(&chain, 24), certificate(&side[2]), &*chain).unwrap().unwrap();
    // In reverse order the pair is the same.
    let known = CertificateChain::ending_with(certificate(&side[2]), &*chain).unwrap();
    let incoming = extra_of(chain.at(24)).unwrap().quorum;
    assert_eq!(certificate_conflict(&engine, &known, incoming, &*chain).unwrap().unwrap(), proof);

    let hashes = [chain.at(20).hash(), chain.at(23).hash(), side[0].hash()];
    assert_eq!(proof.id(), format!("{:#x}:{:#x}:{:#x}", hashes[0], hashes[1], hashes[2]));
    let path: Vec<B256> = (20..=23).map(|number| chain.at(number).hash()).collect();
    assert_eq!(of_certificates(&proof).smaller.path, path);
}

#[test]
fn a_block_that_is_not_stored_is_an_error_that_names_it() {
    let chain = RecordedChain::local();
    let unknown = BlockInfo { hash: alloy_primitives::B256::repeat_byte(7), round: 900, number: 900 };
    let incoming = QuorumCertificate { block: unknown, ..QuorumCertificate::default() };

    let error = certificate_conflict(&engine(&chain, NoState), &committed(&chain, 24), incoming, &*chain).unwrap_err();

    assert!(matches!(error, ForensicsError::Chain(_)));
    assert!(error.to_string().contains("0707"), "{error}");
}

#[test]
fn a_vote_against_a_committed_block_is_reported_if_its_signer_committed_it() {
    let chain = RecordedChain::local();
    let engine = engine(&chain, Listed::from_headers(&chain));
    let side = branch(&chain, 20, 10);
    let known = CertificateChain::ending_with(certificate(chain.at(23)), &*chain).unwrap();
    let detect = |vote: &Vote| vote_conflict(&engine, &known, vote, &*chain).unwrap();

    let proof = detect(&vote(info(&side[0]), 2)).unwrap();

    let (smaller, larger) = (info(chain.at(23)).round, info(&side[0]).round);
    assert_eq!(proof.id(), format!("{}:{smaller}:{larger}", alloy_primitives::hex::encode(address_of(&key(2)))));
    assert_eq!(of_votes(&proof).smaller.block.hash, chain.at(23).hash());
    assert_eq!(detect(&vote(info(&side[0]), 3)), None, "did not sign the committed one");
    assert_eq!(detect(&vote(info(chain.at(24)), 2)), None, "extends the committed one");
    assert_eq!(detect(&vote(info(chain.at(21)), 2)), None, "is older");
    // This vote is based on a certificate that is itself in conflict.
    let by_certificate = detect(&vote(info(&side[3]), 2)).unwrap();
    assert!(matches!(by_certificate, ForensicProof::Certificates(_)));
}

#[test]
fn two_votes_of_one_signer_in_one_round_are_reported_once() {
    let block = |byte, round| BlockInfo { hash: alloy_primitives::B256::repeat_byte(byte), round, number: 5 };
    let signer = address_of(&key(1));
    let (first, second) = (vote(block(1, 9), 1), vote(block(2, 9), 1));
    let mut watch = VoteWatch::default();
    let mut observe = |vote: &Vote, signer| watch.observe(vote, signer);

    assert_eq!(observe(&first, signer), None);
    assert_eq!(observe(&first, signer), None, "a repeated vote");
    assert_eq!(observe(&second, address_of(&key(2))), None, "another signer");
    assert_eq!(observe(&vote(block(2, 10), 1), signer), None, "another round");
    let proof = observe(&second, signer).unwrap();
    assert_eq!(observe(&vote(block(3, 9), 1), signer), None, "proven already");

    assert_eq!(proof.id(), format!("{}:9:9", alloy_primitives::hex::encode(signer)));
    assert_eq!(*of_votes(&proof), VoteConflict { smaller: second.clone(), larger: first, signer });
    watch.forget_before(10);
    assert_eq!(watch.observe(&second, signer), None, "round 9 is forgotten");
    assert!(watch.observe(&vote(block(3, 10), 1), signer).is_some(), "round 10 is not");
}
