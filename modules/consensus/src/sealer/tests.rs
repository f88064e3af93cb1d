//! Tests of the sealer over a chain and a pool in memory.

mod waiting;

use std::sync::{Mutex, atomic::AtomicUsize};

use tenon_api::{
    ConsensusEngine, EMPTY_OMMERS_HASH, Header, TransactionSignature,
    messages::{ModuleReport, ModuleState, SealingChange},
};
use tenon_chain::Fork;
use tenon_memory_chain::MemoryChain;
use tokio::task::JoinHandle;

use super::*;

use crate::{
    DevEngine,
    fake_chain::{add, block_of, chain_from},
};

const SENDER: Address = Address::repeat_byte(0xaa);

fn transaction(nonce: u64) -> RecoveredTransaction {
    let transaction = Transaction {
        hash: B256::with_last_byte(u8::try_from(nonce).unwrap()),
        chain_id: Some(1),
        nonce,
        gas_limit: 21_000,
        to: Some(Address::ZERO),
        value: U256::ZERO,
        input: Bytes::new(),
        payload: TransactionPayload::Legacy { gas_price: U256::from(1) },
        signature: TransactionSignature { v: 27, r: U256::from(1), s: U256::from(1) },
    };
    RecoveredTransaction { transaction: Arc::new(transaction), sender: SENDER }
}

/// A pool that removes nothing, so that a naive sealer would seal forever, and a write path that accepts at most
/// `per_block` transactions.
struct Network {
    chain: Arc<MemoryChain>,
    engine: DevEngine,
    pool: Mutex<Vec<RecoveredTransaction>>,
    per_block: usize,
    attributes: Mutex<Vec<SealAttributes>>,
    /// Number of blocks that fail before one is made.
    failures: AtomicUsize,
    made: tokio::sync::mpsc::UnboundedSender<Arc<RecoveredBlock>>,
}

impl PendingTransactions for Network {
    fn best(&self, _: Option<u64>) -> Vec<RecoveredTransaction> {
        self.pool.lock().unwrap().clone()
    }
}

impl BlockProducer for Network {
    fn produce(
        &self,
        attributes: &SealAttributes,
        mut transactions: Vec<RecoveredTransaction>,
    ) -> Result<Arc<RecoveredBlock>, BlockProductionError> {
        if self.failures.load(Ordering::SeqCst) > 0 {
            self.failures.fetch_sub(1, Ordering::SeqCst);
            return Err(BlockProductionError::new(std::io::Error::other("the disk is full")));
        }
        transactions.truncate(self.per_block);
        let header = self.engine.prepare(&self.chain.head().header, attributes, &*self.chain).unwrap();
        let mut block = block_of(tenon_chain::seal(header), Vec::new());
        if let Some(last) = transactions.last() {
            self.chain.change_account(last.sender, |account| account.nonce = last.transaction.nonce + 1);
        }
        block.transactions = transactions.into_iter().map(|recovered| recovered.transaction).collect();
        add(&self.chain, block.clone());
        self.attributes.lock().unwrap().push(attributes.clone());
        let block = Arc::new(RecoveredBlock { block, senders: Vec::new() });
        let _ = self.made.send(Arc::clone(&block));
        Ok(block)
    }
}

type Made = tokio::sync::mpsc::UnboundedReceiver<Arc<RecoveredBlock>>;

/// A network, the ports of its sealer, and the blocks that are made.
type NewNetwork = (Arc<Network>, SealerPorts, Made);

fn network(pending: Vec<RecoveredTransaction>, per_block: usize) -> NewNetwork {
    let spec = Arc::new(ChainSpec::ethereum_at(1, Fork::Osaka));
    let genesis = tenon_chain::seal(Header {
        ommers_hash: EMPTY_OMMERS_HASH,
        gas_limit: 30_000_000,
        timestamp: 1000,
        base_fee_per_gas: Some(1),
        ..Header::default()
    });
    let (made, receive) = tokio::sync::mpsc::unbounded_channel();
    let network = Arc::new(Network {
        chain: Arc::new(chain_from(&genesis)),
        engine: DevEngine::new(Arc::clone(&spec)).unwrap(),
        pool: Mutex::new(pending),
        per_block,
        attributes: Mutex::default(),
        failures: AtomicUsize::new(0),
        made,
    });
    let clock = SealerClock { now: Arc::new(|| 1000), random: Arc::new(|| B256::repeat_byte(3)) };
    let ports = SealerPorts {
        choices: SealChoices::default(),
        spec,
        chain: Arc::clone(&network.chain) as _,
        pool: Arc::clone(&network) as _,
        producer: Arc::clone(&network) as _,
        clock,
    };
    (network, ports, receive)
}

fn options(mode: SealMode) -> SealerOptions {
    SealerOptions {
        mode,
        beneficiary: Address::ZERO,
        gas_limit: 30_000_000,
        extra_data: Bytes::new(),
        transaction_source: None,
        makes_first_block_at_once: false,
    }
}

/// One transaction is pending, and the sealer panics at its first attempt to make a block.
fn network_whose_sealer_panics_once() -> NewNetwork {
    let (network, mut ports, made) = network(vec![transaction(0)], 9);
    let is_first = AtomicBool::new(true);
    ports.clock.random = Arc::new(move || {
        assert!(!is_first.swap(false, Ordering::SeqCst), "on purpose, once");
        B256::ZERO
    });
    (network, ports, made)
}

/// A running sealer, and the bus for waiting for its blocks.
struct Running {
    network: Arc<Network>,
    made: Made,
    bus: Bus,
    supervisor: Supervisor,
    on_demand: SealingOnDemand,
    waking: JoinHandle<()>,
}

impl Running {
    fn start(mode: SealMode, (network, ports, made): NewNetwork) -> Self {
        let (bus, supervisor) = (Bus::new(), Supervisor::new().unwrap());
        let on_demand = SealingOnDemand::default();
        on_demand.register(&bus, Arc::clone(&network.chain) as _).unwrap();
        let waker = spawn_sealer(&supervisor, &bus, options(mode), ports, &on_demand).unwrap();
        Self { network, made, bus, supervisor, on_demand, waking: tokio::spawn(waker.run()) }
    }

    /// The next block that is made.
    async fn next_block(&mut self) -> Arc<RecoveredBlock> {
        self.made.recv().await.unwrap()
    }

    async fn stop(self) {
        self.waking.abort();
        let _ = self.waking.await;
        assert!(self.supervisor.stop(Duration::from_secs(10)).await.is_empty());
    }
}

#[test]
fn seals_pending_transactions_in_as_many_blocks_as_needed_and_then_stops() {
    let (network, ports, _made) = network((0..5).map(transaction).collect(), 2);
    let sealer = Sealer::new(options(SealMode::OnTransaction), ports);

    assert_eq!(sealer.seal().unwrap(), 3);
    assert_eq!(sealer.seal().unwrap(), 0);

    let attributes = network.attributes.lock().unwrap();
    assert_eq!(attributes.iter().map(|each| each.timestamp).collect::<Vec<_>>(), [1001, 1002, 1003]);
    assert!(attributes.iter().all(|each| each.mix_hash == B256::repeat_byte(3)));
}

#[test]
fn operators_changes_apply_from_the_next_block_on() {
    let (network, ports, _made) = network((0..2).map(transaction).collect(), 1);
    let choices = ports.choices.clone();
    let sealer = Sealer::new(options(SealMode::Interval(Duration::from_secs(1))), ports);
    sealer.seal().unwrap();

    choices.change(SealingChange::Etherbase(Address::with_last_byte(7))).unwrap();
    choices.change(SealingChange::ExtraData(Bytes::from_static(b"tenon"))).unwrap();
    choices.change(SealingChange::GasLimit(29_999_000)).unwrap();
    assert_eq!(choices.change(SealingChange::ExtraData(vec![0; 33].into())), Err(TooLong { found: 33 }));
    sealer.seal().unwrap();

    let attributes = network.attributes.lock().unwrap();
    let told = |each: &SealAttributes| (each.beneficiary, each.extra_data.clone(), each.gas_limit);
    assert_eq!(told(&attributes[0]), (Address::ZERO, Bytes::new(), 30_000_000));
    assert_eq!(told(&attributes[1]), (Address::with_last_byte(7), Bytes::from_static(b"tenon"), 29_999_000));
}

#[test]
fn a_network_that_begins_at_once_makes_block_1_without_transactions() {
    let (network, ports, _made) = network(Vec::new(), 9);
    let sealer =
        Sealer::new(SealerOptions { makes_first_block_at_once: true, ..options(SealMode::OnTransaction) }, ports);

    assert_eq!(sealer.seal().unwrap(), 1);
    assert_eq!(sealer.seal().unwrap(), 0);

    assert_eq!(network.chain.head().header.number, 1);
}

#[test]
fn a_transaction_that_fits_no_block_causes_one_empty_block() {
    let (_network, ports, _made) = network(vec![transaction(0)], 0);

    assert_eq!(Sealer::new(options(SealMode::OnTransaction), ports).seal().unwrap(), 1);
}

#[test]
fn blobs_with_too_low_a_fee_cap_wait_and_block_their_senders_later_transactions() {
    let mut blobs = transaction(0).transaction.as_ref().clone();
    blobs.payload = TransactionPayload::Blob {
        max_fee_per_gas: U256::from(9),
        max_priority_fee_per_gas: U256::ZERO,
        access_list: Vec::new(),
        max_fee_per_blob_gas: U256::ZERO,
        blob_versioned_hashes: vec![B256::ZERO],
    };
    let blobs = RecoveredTransaction { transaction: Arc::new(blobs), sender: SENDER };
    let (_network, ports, _made) = network(vec![blobs, transaction(1)], 9);

    assert_eq!(Sealer::new(options(SealMode::OnTransaction), ports).seal().unwrap(), 0);
}

#[test]
fn transactions_behind_a_nonce_gap_are_not_sealed() {
    let (_network, ports, _made) = network(vec![transaction(1)], 9);

    assert_eq!(Sealer::new(options(SealMode::OnTransaction), ports).seal().unwrap(), 0);
}

#[test]
fn on_an_interval_empty_blocks_are_made() {
    let (network, ports, _made) = network(Vec::new(), 9);
    let sealer = Sealer::new(options(SealMode::Interval(Duration::from_secs(1))), ports);

    assert_eq!((sealer.seal().unwrap(), sealer.seal().unwrap()), (1, 1));

    assert_eq!(network.chain.head().header.number, 2);
}

#[tokio::test]
async fn the_waker_wakes_the_actor_at_the_start_and_for_each_event() {
    let mut running = Running::start(SealMode::OnTransaction, network(vec![transaction(0)], 9));

    assert_eq!(running.next_block().await.transactions.len(), 1);
    running.network.pool.lock().unwrap().push(transaction(1));
    running.bus.publish(TransactionPending { transaction: transaction(1) });
    assert_eq!(running.next_block().await.header.number, 2);

    running.stop().await;
}

#[tokio::test]
async fn the_waker_wakes_the_actor_when_a_module_such_as_the_pool_is_enabled() {
    let mut running = Running::start(SealMode::OnTransaction, network(vec![transaction(0)], 9));
    assert_eq!(running.next_block().await.transactions.len(), 1);

    // The pool announced the transaction before it was disabled, and does not announce it again.
    running.network.pool.lock().unwrap().push(transaction(1));
    let report = ModuleReport::new("pool", ModuleOperation::Enable, ModuleState::Enabled);
    running.bus.publish(ModuleChanged { report });
    assert_eq!(running.next_block().await.header.number, 2);

    running.stop().await;
}

#[tokio::test]
async fn the_successor_of_a_panicked_sealer_makes_the_block() {
    let mut running = Running::start(SealMode::OnTransaction, network_whose_sealer_panics_once());

    assert_eq!(running.next_block().await.transactions.len(), 1);

    running.stop().await;
}

#[tokio::test]
async fn a_failed_round_is_repeated_without_a_new_transaction() {
    let network = network(vec![transaction(0)], 9);
    network.0.failures.store(1, Ordering::SeqCst);
    let mut running = Running::start(SealMode::OnTransaction, network);

    assert_eq!(running.next_block().await.transactions.len(), 1);
    assert_eq!(running.network.failures.load(Ordering::SeqCst), 0);

    running.stop().await;
}

#[tokio::test]
async fn the_interval_wakes_the_actor() {
    let mut running = Running::start(SealMode::Interval(Duration::from_millis(2)), network(Vec::new(), 9));

    assert_eq!(running.next_block().await.header.number, 1);
    assert_eq!(running.next_block().await.header.number, 2);

    running.stop().await;
}
