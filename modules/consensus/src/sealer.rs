//! When the development network makes a block.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tenon_api::{
    Address, B256, BlockProducer, Bytes, ChainReader, Failure, Head, PendingTransactions, RecoveredBlock,
    RecoveredTransaction, SealAttributes, messages::TransactionPending,
};
use tenon_bus::{Bus, Delivery, Subscription};
use tenon_chain::ChainSpec;
use tenon_supervisor::{Actor, ActorOptions, Mailbox, Supervisor};
use tokio::time::MissedTickBehavior;

/// One wake-up waits at most, because it stands for everything that is pending when it is handled; the second
/// place is slack between the flag's fall and the message's end.
const MAILBOX_CAPACITY: usize = 2;

/// What makes the sealer make a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealMode {
    /// A pending transaction: as soon as there is one, with all that are there.
    OnTransaction,
    /// The passing of this time, with or without transactions.
    Interval(Duration),
}

/// What the sealer's blocks are made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealerOptions {
    /// When.
    pub mode: SealMode,
    /// Receiver of fees.
    pub beneficiary: Address,
    /// Gas limit that blocks move towards.
    pub gas_limit: u64,
    /// Extra data, 32 bytes at most.
    pub extra_data: Bytes,
}

/// Where the sealer takes time and chance from. Tests put fixed functions in.
#[derive(Clone)]
pub struct SealerClock {
    /// Unix time, seconds.
    pub now: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// The next block's PREVRANDAO.
    pub random: Arc<dyn Fn() -> B256 + Send + Sync>,
}

impl SealerClock {
    /// The host's clock and random numbers.
    pub fn system() -> Self {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
        Self { now: Arc::new(now), random: Arc::new(|| B256::new(rand::random())) }
    }
}

impl fmt::Debug for SealerClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SealerClock")
    }
}

/// What the sealer borrows from the other modules.
#[derive(Clone)]
pub struct SealerPorts {
    /// The chain's rules.
    pub spec: Arc<ChainSpec>,
    /// The chain.
    pub chain: Arc<dyn ChainReader>,
    /// The pool.
    pub pool: Arc<dyn PendingTransactions>,
    /// The write path.
    pub producer: Arc<dyn BlockProducer>,
    /// Time and chance.
    pub clock: SealerClock,
}

/// Tells the sealer to look whether a block is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealRequest;

/// The actor that makes the blocks of a development network. Blocks its thread while a block is being made.
pub struct Sealer {
    options: SealerOptions,
    ports: SealerPorts,
    /// Whether a request waits in the mailbox; shared with the [`SealerWaker`].
    is_woken: Arc<AtomicBool>,
}

impl Sealer {
    /// A sealer that is told by messages only; [`spawn_sealer`] also wires the waker.
    pub fn new(options: SealerOptions, ports: SealerPorts) -> Self {
        Self { options, ports, is_woken: Arc::default() }
    }

    /// Makes what is due now: on an interval one block, on transactions as many blocks as the executable ones
    /// fill. Returns how many blocks were made.
    ///
    /// # Errors
    /// The first failure; blocks made before it stay.
    pub fn seal(&self) -> Result<usize, Failure> {
        match self.options.mode {
            SealMode::Interval(_) => {
                let head = self.ports.chain.head();
                self.produce(&head, self.executable(&head)?).map(|_| 1)
            }
            SealMode::OnTransaction => self.seal_pending(),
        }
    }

    fn seal_pending(&self) -> Result<usize, Failure> {
        let mut blocks = 0;
        loop {
            let head = self.ports.chain.head();
            let transactions = self.executable(&head)?;
            if transactions.is_empty() {
                return Ok(blocks);
            }
            let block = self.produce(&head, transactions)?;
            blocks += 1;
            // What is executable by nonce and price may still not fit, for its blob price for instance. The
            // next event tries it again; trying here would fill the chain with empty blocks.
            if block.transactions.is_empty() {
                return Ok(blocks);
            }
        }
    }

    /// The pool's proposals without those that the head has already. The pool learns of a block by an event,
    /// so right after a block its answer may be one block old.
    fn executable(&self, head: &Head) -> Result<Vec<RecoveredTransaction>, Failure> {
        let mut proposals = self.ports.pool.best(self.ports.spec.next_base_fee(&head.header));
        if proposals.is_empty() {
            return Ok(proposals);
        }
        let state = self.ports.chain.state_at(head.number())?;
        let mut next_nonces = std::collections::HashMap::new();
        let mut failure = None;
        proposals.retain(|proposal| {
            let next = next_nonces.entry(proposal.sender).or_insert_with(|| match state.account(proposal.sender) {
                Ok(account) => account.unwrap_or_default().nonce,
                Err(error) => {
                    failure = Some(error);
                    u64::MAX
                }
            });
            let is_next = proposal.transaction.nonce == *next;
            *next = next.saturating_add(u64::from(is_next));
            is_next
        });
        failure.map_or(Ok(proposals), |error| Err(error.into()))
    }

    /// Timestamps rise strictly: a second second-resolution block in the same second borrows from the future.
    fn produce(&self, head: &Head, transactions: Vec<RecoveredTransaction>) -> Result<Arc<RecoveredBlock>, Failure> {
        let attributes = SealAttributes {
            timestamp: (self.ports.clock.now)().max(head.header.timestamp.saturating_add(1)),
            beneficiary: self.options.beneficiary,
            gas_limit: self.options.gas_limit,
            extra_data: self.options.extra_data.clone(),
            mix_hash: (self.ports.clock.random)(),
        };
        self.ports.producer.produce(&attributes, transactions)
    }
}

impl Actor for Sealer {
    type Message = SealRequest;

    fn handle(&mut self, _: SealRequest) {
        // The flag falls before the pool is read: a transaction that comes later wakes the sealer again.
        self.is_woken.store(false, Ordering::SeqCst);
        if let Err(error) = self.seal() {
            tracing::error!(%error, "no block was made");
        }
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sealer").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Wakes a sealer. The node runs [`SealerWaker::run`] as a task and drops it to stop the sealing.
#[derive(Debug)]
pub struct SealerWaker {
    mode: SealMode,
    mailbox: Mailbox<SealRequest>,
    is_woken: Arc<AtomicBool>,
    /// Made before the sealer starts, so that no transaction falls between.
    pending: Subscription<TransactionPending>,
}

impl SealerWaker {
    /// Wakes the sealer on its events or its interval, until the bus is gone.
    pub async fn run(self) {
        match self.mode {
            SealMode::OnTransaction => self.wake_on_transactions().await,
            SealMode::Interval(period) => self.wake_on_interval(period).await,
        }
    }

    async fn wake_on_transactions(mut self) {
        // Transactions of the journal may be waiting since before the subscription.
        self.wake();
        while let Some(Delivery::Event(_) | Delivery::Missed(_)) = self.pending.next().await {
            self.wake();
        }
    }

    async fn wake_on_interval(self, period: Duration) {
        // Zero would be no interval at all.
        let period = period.max(Duration::from_millis(1));
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
        // After a block that took longer than the period the next one comes a whole period later.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.wake();
        }
    }

    fn wake(&self) {
        if self.is_woken.swap(true, Ordering::SeqCst) {
            return;
        }
        if let Err(error) = self.mailbox.try_send(SealRequest) {
            self.is_woken.store(false, Ordering::SeqCst);
            tracing::warn!(%error, "the sealer was not woken");
        }
    }
}

/// Starts the sealer under supervision and gives back what wakes it.
///
/// # Errors
/// What [`Supervisor::spawn`] answers.
pub fn spawn_sealer(
    supervisor: &Supervisor,
    bus: &Bus,
    options: SealerOptions,
    ports: SealerPorts,
) -> Result<SealerWaker, Failure> {
    let pending = bus.subscribe::<TransactionPending>();
    let mode = options.mode;
    let is_woken = Arc::new(AtomicBool::new(false));
    let shared = Arc::clone(&is_woken);
    let make = move || {
        // A sealer that panicked has handled its request: without this, its successor would never be woken.
        shared.store(false, Ordering::SeqCst);
        Ok(Sealer { options: options.clone(), ports: ports.clone(), is_woken: Arc::clone(&shared) })
    };
    let actor_options = ActorOptions { mailbox_capacity: MAILBOX_CAPACITY, ..ActorOptions::default() };
    let mailbox = supervisor.spawn("sealer", actor_options, make)?;
    Ok(SealerWaker { mode, mailbox, is_woken, pending })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tenon_api::{
        ConsensusEngine, EMPTY_OMMERS_HASH, Header, Transaction, TransactionPayload, TransactionSignature, U256,
    };
    use tenon_chain::Fork;

    use super::*;
    use crate::{
        DevEngine,
        fake_chain::{FakeChain, block_of},
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

    /// A pool that forgets nothing, so that a sealer that trusts it blindly would seal for ever, and a write
    /// path that takes at most `per_block` transactions.
    struct Network {
        chain: Arc<FakeChain>,
        engine: DevEngine,
        pool: Mutex<Vec<RecoveredTransaction>>,
        per_block: usize,
        attributes: Mutex<Vec<SealAttributes>>,
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
        ) -> Result<Arc<RecoveredBlock>, Failure> {
            transactions.truncate(self.per_block);
            let header = self.engine.prepare(&self.chain.head().header, attributes, &*self.chain).unwrap();
            let mut block = block_of(tenon_chain::seal(header), Vec::new());
            if let Some(last) = transactions.last() {
                self.chain.set_nonce(last.sender, last.transaction.nonce + 1);
            }
            block.transactions = transactions.into_iter().map(|recovered| recovered.transaction).collect();
            self.chain.add(block.clone());
            self.attributes.lock().unwrap().push(attributes.clone());
            let block = Arc::new(RecoveredBlock { block, senders: Vec::new() });
            let _ = self.made.send(Arc::clone(&block));
            Ok(block)
        }
    }

    type Made = tokio::sync::mpsc::UnboundedReceiver<Arc<RecoveredBlock>>;

    fn network(pending: Vec<RecoveredTransaction>, per_block: usize) -> (Arc<Network>, SealerPorts, Made) {
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
            chain: Arc::new(FakeChain::starting_at(&genesis)),
            engine: DevEngine::new(Arc::clone(&spec)).unwrap(),
            pool: Mutex::new(pending),
            per_block,
            attributes: Mutex::default(),
            made,
        });
        let clock = SealerClock { now: Arc::new(|| 1000), random: Arc::new(|| B256::repeat_byte(3)) };
        let ports = SealerPorts {
            spec,
            chain: Arc::clone(&network.chain) as _,
            pool: Arc::clone(&network) as _,
            producer: Arc::clone(&network) as _,
            clock,
        };
        (network, ports, receive)
    }

    fn options(mode: SealMode) -> SealerOptions {
        SealerOptions { mode, beneficiary: Address::ZERO, gas_limit: 30_000_000, extra_data: Bytes::new() }
    }

    #[test]
    fn seals_what_is_pending_in_as_many_blocks_as_it_takes_and_then_stops() {
        let (network, ports, _made) = network((0..5).map(transaction).collect(), 2);
        let sealer = Sealer::new(options(SealMode::OnTransaction), ports);

        assert_eq!(sealer.seal(), Ok(3));
        assert_eq!(sealer.seal(), Ok(0));

        let attributes = network.attributes.lock().unwrap();
        assert_eq!(attributes.iter().map(|each| each.timestamp).collect::<Vec<_>>(), [1001, 1002, 1003]);
        assert!(attributes.iter().all(|each| each.mix_hash == B256::repeat_byte(3)));
    }

    #[test]
    fn a_transaction_that_fits_no_block_costs_one_empty_block() {
        let (_network, ports, _made) = network(vec![transaction(0)], 0);

        assert_eq!(Sealer::new(options(SealMode::OnTransaction), ports).seal(), Ok(1));
    }

    #[test]
    fn a_gap_in_the_nonces_is_left_alone() {
        let (_network, ports, _made) = network(vec![transaction(1)], 9);

        assert_eq!(Sealer::new(options(SealMode::OnTransaction), ports).seal(), Ok(0));
    }

    #[test]
    fn on_an_interval_empty_blocks_are_made_too() {
        let (network, ports, _made) = network(Vec::new(), 9);
        let sealer = Sealer::new(options(SealMode::Interval(Duration::from_secs(1))), ports);

        assert_eq!((sealer.seal(), sealer.seal()), (Ok(1), Ok(1)));

        assert_eq!(network.chain.head().header.number, 2);
    }

    #[tokio::test]
    async fn the_waker_wakes_the_actor_for_what_waits_at_the_start_and_for_each_event() {
        let (network, ports, mut made) = network(vec![transaction(0)], 9);
        let (bus, supervisor) = (Bus::new(), Supervisor::new().unwrap());
        let waker = spawn_sealer(&supervisor, &bus, options(SealMode::OnTransaction), ports).unwrap();
        let waking = tokio::spawn(waker.run());

        assert_eq!(made.recv().await.unwrap().transactions.len(), 1);
        network.pool.lock().unwrap().push(transaction(1));
        bus.publish(TransactionPending { transaction: transaction(1) });
        assert_eq!(made.recv().await.unwrap().header.number, 2);

        waking.abort();
        assert!(supervisor.stop(Duration::from_secs(10)).await.is_empty());
    }

    #[tokio::test]
    async fn the_interval_wakes_the_actor() {
        let (_network, ports, mut made) = network(Vec::new(), 9);
        let (bus, supervisor) = (Bus::new(), Supervisor::new().unwrap());
        let mode = SealMode::Interval(Duration::from_millis(2));
        let waker = spawn_sealer(&supervisor, &bus, options(mode), ports).unwrap();
        let waking = tokio::spawn(waker.run());

        assert_eq!(made.recv().await.unwrap().header.number, 1);
        assert_eq!(made.recv().await.unwrap().header.number, 2);

        waking.abort();
        assert!(supervisor.stop(Duration::from_secs(10)).await.is_empty());
    }
}
