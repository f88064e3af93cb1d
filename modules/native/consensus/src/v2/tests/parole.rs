//! Penalties from `tipUpgradePenalty` on, computed by hand (`docs/spec/upgrades.md` 5): epochs of 20 rounds, a block in
//! each round.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes};
use tenon_api::{Header, NativeSeal, SealedHeader};
use tenon_native_spec::{NativeSettings, read_genesis};

use crate::{
    extra::ExtraFields,
    messages::{BlockInfo, QuorumCertificate},
    recorded_chain::RecordedChain,
    signers::SignerCache,
    signing::SigningIndex,
    v2::{
        EpochLists, V2Engine,
        testing::{Listed, network::recovered},
    },
};

const EPOCH: u64 = 20;
/// Makers of the blocks: of 41 to 59, node 1 made 14, node 2 made 3, node 3 made 2, and node 4, which made the epoch
/// switch, none.
const MAKERS: [u8; 20] = [4, 1, 1, 2, 1, 1, 3, 1, 1, 2, 1, 1, 1, 3, 1, 1, 2, 1, 1, 1];

const fn node(n: u8) -> Address {
    Address::with_last_byte(n)
}

fn concatenated(nodes: &[u8]) -> Bytes {
    nodes.iter().flat_map(|n| node(*n).0.0).collect()
}

fn header(parent: &SealedHeader, number: u64) -> SealedHeader {
    let block = BlockInfo { hash: parent.hash(), round: number - 1, number: number - 1 };
    let extra =
        ExtraFields { round: number, quorum: QuorumCertificate { block, signatures: Vec::new(), gap_number: 0 } };
    let (validators, penalties) = match number {
        1 => (concatenated(&[1, 2, 3, 4]), Bytes::new()),
        20 => (concatenated(&[1, 2, 3, 4]), concatenated(&[5, 6])),
        40 => (concatenated(&[1, 2, 3, 4]), concatenated(&[5, 6, 7])),
        _ => (Bytes::new(), Bytes::new()),
    };
    tenon_chain::seal(Header {
        parent_hash: parent.hash(),
        number,
        beneficiary: node(MAKERS[usize::try_from(number % EPOCH).unwrap()]),
        extra_data: extra.encode(),
        native_seal: Some(NativeSeal { validators, penalties, ..NativeSeal::default() }),
        ..Header::default()
    })
}

/// The lists of block 60 with the upgrade at this height, and penalties of this many epochs.
fn lists(height: u64, epochs: u64) -> EpochLists {
    let extra = [&[0; 32][..], &concatenated(&[1, 2, 3, 4]), &[0; 65]].concat();
    let text = serde_json::json!({
        "config": { "chainId": 5151, "tipUpgradePenaltyBlock": height, "XDPoS": {
            "period": 1, "epoch": EPOCH, "gap": 10, "v2": { "switchBlock": 0, "allConfigs": { "0": {
                "maxMasternodes": 3, "minePeriod": 1, "certificateThreshold": 0.667, "minimumMinerBlockPerEpoch": 3,
                "limitPenaltyEpoch": epochs, "minimumSigningTx": 2,
            }, "60": {
                // The parameters are those of block 59, not of the epoch switch.
                "maxMasternodes": 3, "minePeriod": 1, "certificateThreshold": 0.667, "minimumMinerBlockPerEpoch": 9,
                "limitPenaltyEpoch": 4, "minimumSigningTx": 9,
            } } } } },
        "extraData": alloy_primitives::hex::encode_prefixed(extra), "difficulty": "0x1", "gasLimit": "0x2faf080", "alloc": {},
    });
    let genesis = read_genesis(text.to_string().as_bytes()).unwrap();
    let first = recovered(genesis.sealed_header().unwrap(), Vec::new());
    let mut chain = RecordedChain::starting_at(Arc::clone(&genesis.spec), first.as_ref().clone());
    for number in 1..60 {
        let header = header(chain.at(number - 1), number);
        let signings = signings(&chain, number);
        chain.push(recovered(header, signings).as_ref().clone());
    }
    let engine = V2Engine::new(
        Arc::clone(&genesis.spec),
        Arc::new(NativeSettings::of(&genesis.spec).cloned().unwrap()),
        Arc::new(SignerCache::default()),
        Arc::new(Listed([(50, [1, 2, 3, 4, 6, 8, 9].map(node).to_vec().into())].into())),
        Arc::new(SigningIndex::default()),
    );
    engine.epoch_lists(chain.at(59), 60, &*chain).unwrap().unwrap()
}

/// Nodes 5 and 7 sign block 45 twice. Node 6 signs it once; its other signatures are for a block that is not counted,
/// for one before the epoch, and for one that has no hash yet.
fn signings(chain: &RecordedChain, number: u64) -> Vec<(Address, B256)> {
    let hash = |number| chain.at(number).hash();
    match number {
        44 => vec![(node(6), hash(43)), (node(6), hash(30))],
        46 => vec![(node(5), hash(45)), (node(6), hash(45)), (node(7), hash(45))],
        47 => vec![(node(5), hash(45)), (node(6), hash(46)), (node(6), B256::repeat_byte(9))],
        59 => vec![(node(7), hash(45))],
        _ => Vec::new(),
    }
}

fn sorted(list: &[Address]) -> Vec<u8> {
    let mut list: Vec<u8> = list.iter().map(|address| address.0[19]).collect();
    list.sort_unstable();
    list
}

// Node 3 made too few blocks; 4 made none, since the epoch switch does not count; 6 signed too few; 7 has not served
// two epochs and is no longer a candidate; 5 has served and signed.
#[test]
fn too_few_blocks_no_blocks_and_an_unserved_penalty_are_penalised() {
    let lists = lists(60, 2);
    assert_eq!(sorted(&lists.penalties), [3, 4, 6, 7]);
    assert_eq!(lists.masternodes, [1, 2, 8].map(node));
}

#[test]
fn a_penalty_of_no_epochs_lasts_as_long_as_one_of_one_epoch() {
    // Node 7 has served one epoch and has signed.
    assert_eq!(sorted(&lists(60, 1).penalties), [3, 4, 6]);
    assert_eq!(sorted(&lists(60, 0).penalties), [3, 4, 6]);
}

/// Step 3 begins after block L * 900 + SwitchBlock, here 3 * 20.
#[test]
fn the_first_epochs_of_a_chain_end_without_parole() {
    assert_eq!(sorted(&lists(60, 3).penalties), [3, 4]);
}

/// The height of the new epoch's block determines the rule. Below the upgrade, node 3 is not penalised because it made
/// a block, and one signature is enough for node 6.
#[test]
fn below_the_height_the_older_rule_applies() {
    assert_eq!(sorted(&lists(61, 2).penalties), [4]);
}
