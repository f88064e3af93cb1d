//! Side branches of a native chain: they are executed, and their epochs come from their own blocks.

use std::{collections::HashMap, path::Path, sync::Arc};

use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::{
    Block, BlockPort, BlockVerdict, ChainReader, ChainWriter as _, Header, InsertOutcome, RecoveredTransaction,
    RoundBuilder, SealAttributes, SealedHeader, Transaction, TransactionPayload, TransactionSignature,
};
use tenon_bus::Bus;
use tenon_chain::VALIDATOR_CONTRACT;
use tenon_execution::Importer;
use tenon_native_consensus::{
    BlockInfo, NativeEngine, QuorumCertificate, addresses_of,
    v2::{self, MasternodeKey, V2Error},
    vote_digest,
};
use tenon_native_execution::family_of;
use tenon_native_spec::NativeConsensus;
use tenon_native_test_node::recorded::RecordedChain;
use tenon_storage::{DirectWriter, Mode, Store, StoreOptions};

/// Owner of the masternodes of the genesis block.
const OWNER: &str = "0xA622d5eEc281eE0Cc6761EDea233BE9DE85bFd63";
/// The last block that both branches have.
const FORK: u64 = 20;
/// Block and round that open the second epoch. Its gap block is 30.
const EPOCH_SWITCH: u64 = 60;

/// A node with a database, and the keys of every masternode.
struct Network {
    recorded: RecordedChain,
    importer: Importer,
    engine: Arc<NativeEngine>,
    store: Arc<Store>,
    writer: Arc<DirectWriter>,
    keys: HashMap<Address, MasternodeKey>,
    _folder: tempfile::TempDir,
}

impl Network {
    /// The recorded chain up to a height.
    fn at(height: usize) -> Self {
        let recorded = RecordedChain::read("chain/native-genesis-local.json.gz", "native/chains/local.rlp.gz", None);
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        store.initialise(&recorded.genesis.commit().unwrap(), 5151).unwrap();
        let writer = Arc::new(store.take_writer().unwrap());
        let spec = &recorded.genesis.spec;
        let engine = Arc::new(NativeEngine::new(spec).unwrap());
        let importer = Importer::new(
            family_of(spec).unwrap(),
            Arc::clone(&store) as _,
            Arc::clone(&writer) as _,
            Arc::clone(&engine) as _,
            Bus::new(),
        );
        for block in &recorded.blocks[1..=height] {
            importer.insert(block.block.clone()).unwrap_or_else(|error| panic!("{error}"));
        }
        Self { recorded, importer, engine, store, writer, keys: keys(), _folder: folder }
    }

    fn consensus(&self) -> &NativeConsensus {
        self.engine.consensus()
    }

    /// The header of the block of the next round on top of `parent`, without its results; its leader is found by trial.
    fn draft(&self, parent: &SealedHeader) -> Result<(Header, &MasternodeKey), V2Error> {
        let v2 = self.engine.v2();
        let epoch = v2.epoch_info(parent, &*self.store)?;
        let round = v2::round_of(self.consensus(), parent)?;
        let block = BlockInfo { hash: parent.hash(), round, number: parent.number };
        let gap_number = epoch.gap_number(self.consensus());
        let digest = vote_digest(&block, gap_number);
        let votes = epoch.masternodes.iter().map(|masternode| self.keys[masternode].sign(digest).to_vec().into());
        let quorum = QuorumCertificate { block, signatures: votes.collect(), gap_number };
        let mut failure = V2Error::NotLeader;
        for key in epoch.masternodes.iter().map(|masternode| &self.keys[masternode]) {
            let attributes = SealAttributes {
                timestamp: parent.timestamp + 1,
                beneficiary: key.address(),
                gas_limit: parent.gas_limit,
                extra_data: Bytes::new(),
                mix_hash: B256::ZERO,
            };
            match v2.prepare(parent, round + 1, quorum.clone(), &attributes, &*self.store) {
                Ok(header) => return Ok((header, key)),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn build(&self, parent: &SealedHeader, transactions: Vec<RecoveredTransaction>) -> Block {
        let (draft, key) = self.draft(parent).unwrap();
        self.importer.build(parent, draft, transactions, &|header| v2::seal(header, key)).unwrap()
    }

    /// Extends the branch at the fork up to a height; its first block removes a masternode from the candidates. Returns
    /// the last header.
    fn branch_up_to(&self, height: u64, resigned: Address) -> SealedHeader {
        let mut parent = self.recorded.blocks[usize::try_from(FORK).unwrap()].header.clone();
        for number in FORK + 1..=height {
            let transactions = if number == FORK + 1 { vec![self.resignation(resigned)] } else { Vec::new() };
            let wanted = transactions.len();
            let block = self.build(&parent, transactions);
            assert_eq!((block.header.number, block.transactions.len()), (number, wanted));
            parent = block.header.clone();
            let outcome = self.importer.insert(block).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(outcome, InsertOutcome::SideBranch { is_executed: true }, "block {number}");
        }
        parent
    }

    fn resignation(&self, masternode: Address) -> RecoveredTransaction {
        let owner = &self.keys[&OWNER.parse::<Address>().unwrap()];
        let state = self.store.state_at(FORK.into()).unwrap();
        let nonce = state.account(owner.address()).unwrap().unwrap().nonce;
        let mut input = vec![0xae, 0x6e, 0x43, 0xf5];
        input.extend_from_slice(masternode.into_word().as_slice());
        let mut transaction = Transaction {
            hash: B256::ZERO,
            chain_id: Some(5151),
            nonce,
            gas_limit: 1_000_000,
            to: Some(VALIDATOR_CONTRACT),
            value: U256::ZERO,
            input: input.into(),
            payload: TransactionPayload::Legacy { gas_price: U256::from(12_500_000_000_u64) },
            signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
        };
        let signature = owner.sign(tenon_chain::signing_hash(&transaction));
        transaction.signature = TransactionSignature {
            v: 5151 * 2 + 35 + u64::from(signature[64]),
            r: U256::from_be_slice(&signature[..32]),
            s: U256::from_be_slice(&signature[32..64]),
        };
        transaction.hash = tenon_chain::transaction_hash(&transaction);
        RecoveredTransaction { transaction: transaction.into(), sender: owner.address() }
    }

    fn masternodes_at(&self, number: u64) -> Vec<Address> {
        let switch = &self.recorded.blocks[usize::try_from(number).unwrap()].header;
        addresses_of(&switch.native_seal.as_ref().unwrap().validators)
    }
}

fn open(folder: &Path) -> Arc<Store> {
    let options = StoreOptions { mode: Mode::Archive, background_threads: 2, ..StoreOptions::with_cache(4 << 20) };
    Store::open(folder, options).unwrap()
}

fn keys() -> HashMap<Address, MasternodeKey> {
    let keys: serde_json::Value =
        serde_json::from_slice(&tenon_test_node::test_data("native/chains/local.keys.json.gz")).unwrap();
    let key = |account: &serde_json::Value| {
        let secret: B256 = account["privateKey"].as_str().unwrap().parse().unwrap();
        let key = MasternodeKey::from_bytes(secret.0).unwrap();
        (key.address(), key)
    };
    keys["accounts"].as_array().unwrap().iter().map(key).collect()
}

fn is_wrong(verdict: &BlockVerdict, part: &str) -> bool {
    matches!(verdict, BlockVerdict::Wrong { reason } if reason.contains(part))
}

/// Its maker signs the wrong root, so only the execution of the side block reveals it.
#[test]
fn a_side_block_with_a_wrong_state_root_is_refused_and_not_stored() {
    let network = Network::at(30);
    let parent = network.recorded.blocks[20].header.clone();
    let (draft, key) = network.draft(&parent).unwrap();
    let state_root = B256::repeat_byte(7);
    let wrong =
        network.importer.build(&parent, draft, Vec::new(), &|header| v2::seal(Header { state_root, ..header }, key));
    let wrong = wrong.unwrap();
    let hash = wrong.header.hash();

    let verdict = BlockPort::insert(&network.importer, wrong);

    assert!(is_wrong(&verdict, "state root"), "{verdict:?}");
    assert!(network.store.header(hash).unwrap().is_none());
    assert_eq!(network.store.head().header.hash(), network.recorded.blocks[30].hash());
    let right = network.build(&parent, Vec::new());
    assert_eq!(BlockPort::insert(&network.importer, right), BlockVerdict::ExecutedOnSideBranch);
}

/// The branch's gap block has fewer candidates than the canonical one of the same height: its epoch has fewer
/// masternodes.
#[test]
fn a_branch_that_crosses_a_gap_block_draws_its_epoch_from_its_own_candidates() {
    let network = Network::at(70);
    let canonical = network.masternodes_at(EPOCH_SWITCH);
    let (resigned, others) = canonical.split_last().unwrap();

    let switch = network.branch_up_to(EPOCH_SWITCH, *resigned);

    let mut own = addresses_of(&switch.native_seal.as_ref().unwrap().validators);
    let mut others = others.to_vec();
    own.sort_unstable();
    others.sort_unstable();
    assert_eq!(own, others);
    assert_eq!(network.store.head().header.number, 70);
}

#[test]
fn an_epoch_switch_of_a_branch_with_the_canonical_masternodes_is_refused() {
    let network = Network::at(70);
    let canonical = network.masternodes_at(EPOCH_SWITCH);
    let last = network.branch_up_to(EPOCH_SWITCH - 1, *canonical.last().unwrap());
    let (draft, key) = network.draft(&last).unwrap();
    let as_canonical = |mut header: Header| {
        let listed = canonical.iter().flat_map(|masternode| masternode.0.0).collect();
        header.native_seal.as_mut().unwrap().validators = listed;
        v2::seal(header, key)
    };

    let wrong = network.importer.build(&last, draft, Vec::new(), &as_canonical).unwrap();

    let verdict = BlockPort::insert(&network.importer, wrong);
    let BlockVerdict::Wrong { reason } = verdict else { panic!("{verdict:?}") };
    assert_eq!(reason, V2Error::Validators.to_string());
}

/// The branch becomes longer than the canonical chain. Its blocks, executed as side blocks before, become canonical.
#[test]
fn a_branch_with_its_own_epoch_becomes_canonical() {
    let network = Network::at(65);
    let canonical = network.masternodes_at(EPOCH_SWITCH);
    let mut parent = network.branch_up_to(65, *canonical.last().unwrap());
    for number in 66..=67_u64 {
        let block = network.build(&parent, Vec::new());
        parent = block.header.clone();
        let outcome = network.importer.insert(block).unwrap_or_else(|error| panic!("{error}"));
        assert!(matches!(outcome, InsertOutcome::Head { .. }), "block {number}: {outcome:?}");
    }
    assert_eq!(network.store.head().header.hash(), parent.hash());
}

/// Without the state of the gap block the node cannot check the epoch of a branch. The verdict is then the node's own
/// failure, not an invalid block.
#[test]
fn a_branch_whose_gap_block_was_not_executed_is_no_fault_of_its_sender() {
    let network = Network::at(70);
    let canonical = network.masternodes_at(EPOCH_SWITCH);
    let last = network.branch_up_to(EPOCH_SWITCH - 1, *canonical.last().unwrap());
    let switch = network.build(&last, Vec::new());
    // Another database, whose branch is stored without its execution.
    let other = Network::at(70);
    let mut branch = vec![network.store.block(last.hash()).unwrap().unwrap()];
    while branch.last().unwrap().header.number > FORK + 1 {
        let parent = branch.last().unwrap().header.parent_hash;
        branch.push(network.store.block(parent).unwrap().unwrap());
    }
    for block in branch.iter().rev() {
        other.writer.insert_side_block(block, U256::ONE).unwrap();
    }

    let verdict = BlockPort::insert(&other.importer, switch);

    assert!(matches!(verdict, BlockVerdict::OwnFailure { .. }), "{verdict:?}");
}

/// Blocks removed by an unwind become canonical again when a peer sends them, but only with their own bodies.
#[test]
fn a_block_that_was_unwound_is_taken_again_when_a_peer_sends_it() {
    let network = Network::at(30);
    network.importer.set_head(20.into()).unwrap();
    let block = |number: usize| network.recorded.blocks[number].block.clone();
    let verify = |number| BlockPort::verify_header(&network.importer, &block(number).header);

    assert_eq!(verify(20), BlockVerdict::Known);
    assert_eq!((verify(21), verify(23)), (BlockVerdict::Head, BlockVerdict::Head));

    let Block { header, transactions, .. } = block(21);
    let foreign = tenon_chain::assemble_block(header, transactions, vec![Header::default()], None);
    let verdict = BlockPort::insert(&network.importer, foreign);
    assert!(matches!(verdict, BlockVerdict::Wrong { .. }), "{verdict:?}");
    assert_eq!(network.store.head().header.number, 20);

    assert_eq!(BlockPort::insert(&network.importer, block(21)), BlockVerdict::Head);
    assert_eq!((verify(21), verify(22)), (BlockVerdict::Known, BlockVerdict::Head));
    // The stored blocks below it come with it.
    assert_eq!(BlockPort::insert(&network.importer, block(24)), BlockVerdict::Head);
    assert_eq!(network.store.head().header.hash(), block(24).hash());
}
