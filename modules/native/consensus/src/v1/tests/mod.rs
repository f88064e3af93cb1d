//! Tests of v1 with real headers, recorded chains, changed headers and simulated chains.

mod sealing;
mod simulated;
mod tampering;

use serde_json::Value;
use tenon_api::{Address, SealedHeader};

use super::*;
use crate::{
    ContractCandidates, addresses_of, hash_without_validator, recorded_state::ModelledChain, recover, test_data,
    v1_masternodes, v1_seal_hash,
};

#[test]
fn reads_the_published_extra_data() {
    let vectors = test_data::consensus_vectors();

    for case in vectors["v1Extra"].as_array().unwrap() {
        let extra = alloy_primitives::hex::decode(case["hex"].as_str().unwrap()).unwrap();
        let signers: Vec<Address> = match &case["signers"] {
            Value::Null => Vec::new(),
            list => serde_json::from_value(list.clone()).unwrap(),
        };
        let header = Header { extra_data: extra.into(), ..Header::default() };

        assert_eq!(v1_masternodes(&header.extra_data), signers);
        if let Some(seal) = case["seal"].as_str() {
            assert_eq!(alloy_primitives::hex::encode_prefixed(snapshot::seal_of(&header).unwrap()), seal);
        }
    }
}

#[test]
fn hashes_the_genesis_headers_as_published() {
    let vectors = test_data::consensus_vectors();

    for (network, genesis) in vectors["genesis"].as_object().unwrap() {
        let header = test_data::header(genesis["headerRlp"].as_str().unwrap());
        let signers: Vec<Address> = serde_json::from_value(genesis["signers"].clone()).unwrap();

        assert_eq!(header.hash().to_string(), genesis["hash"].as_str().unwrap(), "{network}");
        assert_eq!(v1_seal_hash(&header).to_string(), genesis["v1SealHash"].as_str().unwrap(), "{network}");
        assert_eq!(v1_masternodes(&header.extra_data), signers, "{network}");
    }
}

/// The last v1 block of an earlier development network: 101 masternodes, both signatures.
fn real_checkpoint() -> (SealedHeader, Value) {
    let recorded = test_data::recorded_header("devnet-7074000.json");
    (test_data::header(recorded["rlp"].as_str().unwrap()), recorded)
}

#[test]
fn recovers_both_signers_of_a_real_checkpoint() {
    let (header, recorded) = real_checkpoint();
    let masternodes: Vec<Address> = serde_json::from_value(recorded["masternodesInExtra"].clone()).unwrap();
    let address = |name: &str| recorded[name].as_str().unwrap().parse::<Address>().unwrap();
    let seal = header.native_seal.as_ref().unwrap();

    let first = recover(v1_seal_hash(&header), snapshot::seal_of(&header).unwrap()).unwrap();
    let second = recover(v1_seal_hash(&header), &seal.validator).unwrap();

    assert_eq!(header.hash().to_string(), recorded["hash"].as_str().unwrap());
    assert_eq!(v1_seal_hash(&header).to_string(), recorded["sealHash"].as_str().unwrap());
    assert_eq!(v1_masternodes(&header.extra_data), masternodes);
    assert_eq!((first, second), (address("signer"), address("validatorSigner")));
    assert_ne!(hash_without_validator(&header), header.hash());
}

/// The pairs of a real checkpoint determine its own second signer.
#[test]
fn a_real_checkpoint_was_signed_by_the_assigned_partner() {
    let (header, recorded) = real_checkpoint();
    let seal = header.native_seal.as_ref().unwrap();
    let masternodes = v1_masternodes(&header.extra_data);
    let numbers = decode_numbers(&seal.validators).unwrap();
    let written: Vec<String> = serde_json::from_value(recorded["validatorsFieldDecoded"].clone()).unwrap();
    let creator = recover(v1_seal_hash(&header), snapshot::seal_of(&header).unwrap()).unwrap();
    let pairs = Pairs { masternodes: &masternodes, numbers: &numbers, epoch: 900, tip_randomize: 3_464_000 };

    let partner = second_signer(pairs, creator, header.number).unwrap();

    assert!(numbers.iter().map(i64::to_string).eq(written));
    assert_eq!(partner, recover(v1_seal_hash(&header), &seal.validator).unwrap());
}

fn engine(chain: &ModelledChain) -> V1Engine {
    let settings = Arc::new(chain.chain.settings());
    V1Engine::new(settings, Arc::default(), Arc::new(ContractCandidates), Arc::default())
}

const NOW: Option<u64> = Some(u64::MAX);

#[test]
fn every_v1_header_of_the_recorded_chains_verifies() {
    for (chain, last) in [(ModelledChain::v1switch(), 1_800), (ModelledChain::staged(), 900)] {
        let engine = engine(chain);

        for number in 1..=last {
            let (header, parent) = (chain.chain.at(number), chain.chain.at(number - 1));
            let verified = engine.verify_header(header, parent, chain, NOW);

            assert_eq!(verified, Ok(()), "{number}");
        }
    }
}

#[test]
fn computes_the_lists_of_the_recorded_checkpoints() {
    let (v1switch, staged) = (ModelledChain::v1switch(), ModelledChain::staged());
    for (chain, number) in [(v1switch, 900), (v1switch, 1_800), (staged, 900)] {
        let header = chain.chain.at(number);
        let seal = header.native_seal.as_ref().unwrap();

        let lists = engine(chain).checkpoint_lists(chain.chain.at(number - 1), chain).unwrap().unwrap();

        assert_eq!(lists.masternodes, v1_masternodes(&header.extra_data), "{number}");
        assert_eq!(lists.penalties, addresses_of(&seal.penalties), "{number}");
        assert_eq!(lists.validators.as_deref(), Some(&seal.validators[..]), "{number}");
    }
}

/// A source without the candidates of the gap block, like a reference node that was restarted after it (2.2).
struct WithoutGapBlock(Address);

impl MasternodeSource for WithoutGapBlock {
    fn candidates(
        &self,
        _: &SealedHeader,
        _: &dyn ChainReader,
    ) -> Result<Option<Arc<[Address]>>, tenon_api::StoreError> {
        Ok(Some([self.0].into()))
    }
}

/// The second attempt reads the voting contract (2.6); its result is final.
#[test]
fn checkpoints_are_compared_with_the_contract_when_the_snapshot_does_not_fit() {
    let chain = ModelledChain::v1switch();
    let (header, parent) = (chain.chain.at(1_800), chain.chain.at(1_799));
    let settings = Arc::new(chain.chain.settings());
    let source = Arc::new(WithoutGapBlock(v1_masternodes(&header.extra_data)[0]));
    let engine = V1Engine::new(settings, Arc::default(), source, Arc::default());
    let mut tampered = header.header().clone();
    tampered.native_seal.as_mut().unwrap().validators = Vec::new().into();

    assert_eq!(engine.verify_header(header, parent, chain, NOW), Ok(()));
    let verified = engine.verify_header(&tenon_chain::seal(tampered), parent, chain, NOW);
    assert_eq!(verified, Err(V1Error::CheckpointValidators));
}
