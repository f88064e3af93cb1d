//! A single masternode makes a chain, through checkpoints and double validation.

use tenon_api::{B256, Block, EMPTY_OMMERS_HASH, NativeSeal, RecoveredBlock, SealAttributes, U256};
use tenon_native_spec::{NativeSettings, read_genesis};

use super::*;
use crate::{recorded_chain::unpacked, recorded_state::RecordedState, v2::MasternodeKey};

const LAST: u64 = 1_850;

fn key(last_byte: u8) -> MasternodeKey {
    MasternodeKey::from_bytes(B256::with_last_byte(last_byte).0).unwrap()
}

fn block(header: SealedHeader) -> RecoveredBlock {
    let block = Block { header, transactions: Vec::new(), ommers: Vec::new(), withdrawals: None, size: 0 };
    RecoveredBlock { block, senders: Vec::new() }
}

/// A chain with these masternodes from its genesis block on.
fn chain_of(masternodes: &[Address]) -> ModelledChain {
    let genesis = read_genesis(&unpacked("chain/native-genesis-v1switch.json.gz")).unwrap();
    let mut spec = genesis.spec.as_ref().clone();
    NativeSettings::of_mut(&mut spec).unwrap().consensus.switch_block = 9_000;
    let mut state = RecordedState::default();
    let list: Vec<u8> = masternodes.iter().flat_map(|address| address.to_vec()).collect();
    masternodes.iter().for_each(|masternode| state.add_candidate(*masternode, 10_000_000));
    let header = Header {
        extra_data: [&[0; 32], list.as_slice(), &[0; 65]].concat().into(),
        ommers_hash: EMPTY_OMMERS_HASH,
        difficulty: U256::ONE,
        base_fee_per_gas: Some(12_500_000_000),
        native_seal: Some(NativeSeal::default()),
        ..Header::default()
    };
    ModelledChain::starting_at(Arc::new(spec), block(tenon_chain::seal(header)), state)
}

fn attributes(timestamp: u64) -> SealAttributes {
    SealAttributes {
        timestamp,
        beneficiary: Address::ZERO,
        gas_limit: 50_000_000,
        extra_data: b"made by one".as_slice().into(),
        mix_hash: B256::ZERO,
    }
}

/// `docs/spec/upgrades.md` 6: the target outright, and from the height on a step towards it.
#[test]
fn the_gas_limit_moves_in_steps_from_its_height_on() {
    let key = key(1);
    let mut chain = chain_of(&[key.address()]);
    let mut spec = chain.chain.spec.as_ref().clone();
    NativeSettings::of_mut(&mut spec).unwrap().heights.dynamic_gas_limit = Some(2);
    chain.chain.spec = Arc::new(spec);
    let engine = engine(&chain);
    let wanting = |number, gas_limit| SealAttributes { gas_limit, ..attributes(number) };
    for (number, wanted, limit) in [(1, 7_000_000, 7_000_000), (2, 50_000_000, 7_006_834), (3, 1, 6_999_993)] {
        let parent = chain.chain.at(number - 1).clone();
        let header = engine.prepare(&parent, key.address(), &wanting(number, wanted), &chain).unwrap();
        assert_eq!(header.gas_limit, limit, "{number}");
        chain.push(block(engine.seal(header, &key).unwrap()));
    }
}

#[test]
fn one_masternode_makes_blocks_that_verify() {
    let key = key(1);
    let mut chain = chain_of(&[key.address()]);
    let engine = engine(&chain);

    for number in 1..=LAST {
        let parent = chain.chain.at(number - 1).clone();
        let header = engine.prepare(&parent, key.address(), &attributes(number), &chain).unwrap();
        let header = engine.seal(header, &key).unwrap();

        assert_eq!(engine.verify_header(&header, &parent, &chain, NOW), Ok(()), "{number}");
        chain.push(block(header));
    }

    let checkpoint = chain.chain.at(1_800);
    assert_eq!(v1_masternodes(&checkpoint.extra_data), [key.address()]);
    assert_eq!(checkpoint.native_seal.as_ref().unwrap().validators[..], *b"\0\0\x000");
    assert_eq!(chain.chain.at(900).native_seal.as_ref().unwrap().validator.len(), 0);
    assert_eq!(chain.chain.at(901).native_seal.as_ref().unwrap().validator.len(), 65);
}

#[test]
fn other_accounts_and_early_masternodes_make_no_blocks() {
    let mut keys = [key(1), key(2)];
    keys.sort_by_key(MasternodeKey::address);
    let mut chain = chain_of(&keys.each_ref().map(MasternodeKey::address));
    let engine = engine(&chain);
    let prepare = |chain: &ModelledChain, key: &MasternodeKey, time| {
        let parent = chain.chain.at(chain.head().number().0).clone();
        engine.prepare(&parent, key.address(), &attributes(time), chain)
    };

    assert_eq!(prepare(&chain, &keys[1], 100), Err(V1Error::NotTurn), "block 1 is the first masternode's");
    let header = engine.seal(prepare(&chain, &keys[0], 1).unwrap(), &keys[0]).unwrap();
    chain.push(block(header));

    assert_eq!(prepare(&chain, &key(3), 1_000), Err(V1Error::NotTurn));
    assert_eq!(prepare(&chain, &keys[0], 2), Err(V1Error::NotTurn), "not twice in a row");
    assert_eq!(prepare(&chain, &keys[1], 2).unwrap().difficulty, U256::from(2));
}

/// A block that needs two signers cannot be made with one key.
#[test]
fn a_block_with_another_partner_is_not_made() {
    let chain = ModelledChain::v1switch();
    let engine = engine(chain);
    let (header, parent) = (chain.chain.at(1_010), chain.chain.at(1_009));
    let creator = engine.author(header).unwrap();
    let partner = engine.second_signer(header, parent, chain).unwrap();

    let prepared = engine.prepare(parent, creator, &attributes(header.timestamp), chain);

    assert_eq!(prepared, Err(V1Error::OtherPartner { partner }));
}
