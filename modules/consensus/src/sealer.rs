//! When the development network makes a block.

mod choices;
mod demand;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::native::SigningDuty;
use tenon_api::{
    Address, B256, BlockProducer, Bytes, ChainReader, Failure, Head, PendingTransactions, RecoveredBlock,
    RecoveredTransaction, SealAttributes, Transaction, TransactionPayload, U256, messages::TransactionPending,
};
use tenon_bus::{Bus, Delivery, Subscription};
use tenon_chain::ChainSpec;
use tenon_supervisor::{Actor, ActorOptions, Supervisor};
use tokio::{sync::watch, time::MissedTickBehavior};

use demand::{Bell, Progress};

pub use choices::{SealChoices, TooLong};
pub use demand::SealingOnDemand;

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
#[derive(Clone, Debug)]
pub struct SealerOptions {
    /// When.
    pub mode: SealMode,
    /// Receiver of fees.
    pub beneficiary: Address,
    /// Gas limit that blocks move towards.
    pub gas_limit: u64,
    /// Extra data, 32 bytes at most.
    pub extra_data: Bytes,
    /// Signs blocks of a native network for its rewards; none elsewhere.
    pub signing: Option<SigningDuty>,
    /// Makes block 1 at once. On a native network no call can be made on block 0, which nobody has sealed.
    pub begins_at_once: bool,
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
    /// What operators have changed since the start.
    pub choices: SealChoices,
}

/// Tells the sealer to look whether a block is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealRequest;

/// The actor that makes the blocks of a development network. Blocks its thread while a block is being made.
pub struct Sealer {
    options: SealerOptions,
    ports: SealerPorts,
    /// Whether a request waits in the mailbox; shared with its [`Bell`].
    is_woken: Arc<AtomicBool>,
    /// For those who wait for their transactions' blocks; shared with the predecessors and successors of this one.
    progress: Arc<watch::Sender<Progress>>,
    /// Whether the one before it panicked.
    is_successor: bool,
    /// Why there was no block last; none after one. What stays so is logged once.
    failure: Option<String>,
}

impl Sealer {
    /// A sealer that is told by messages only; [`spawn_sealer`] also wires the waker.
    pub fn new(options: SealerOptions, ports: SealerPorts) -> Self {
        Self { options, ports, is_woken: Arc::default(), progress: Arc::default(), is_successor: false, failure: None }
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
            let is_first = self.options.begins_at_once && head.header.number == 0;
            if transactions.is_empty() && !is_first {
                return Ok(blocks);
            }
            let block = self.produce(&head, transactions)?;
            blocks += 1;
            self.progress.send_modify(Progress::note_block);
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
        let blob_base_fee = self.next_blob_base_fee(head);
        let mut next_nonces = HashMap::new();
        let mut failure = None;
        proposals.retain(|proposal| {
            let next = next_nonces.entry(proposal.sender).or_insert_with(|| match state.account(proposal.sender) {
                Ok(account) => account.unwrap_or_default().nonce,
                Err(error) => {
                    failure = Some(error);
                    u64::MAX
                }
            });
            let is_executable =
                proposal.transaction.nonce == *next && pays_for_blobs(&proposal.transaction, blob_base_fee);
            // What is left out leaves a gap, so that the sender's later ones are left out too.
            *next = next.saturating_add(u64::from(is_executable));
            is_executable
        });
        failure.map_or(Ok(proposals), |error| Err(error.into()))
    }

    /// Wei per blob gas in a block made now.
    fn next_blob_base_fee(&self, head: &Head) -> U256 {
        let (spec, timestamp) = (&self.ports.spec, self.next_timestamp(head));
        let excess = spec.next_excess_blob_gas(&head.header, timestamp);
        let parameters = spec.blob_parameters(timestamp);
        excess.zip(parameters).map_or(U256::ZERO, |(excess, parameters)| parameters.base_fee(excess))
    }

    /// Timestamps rise strictly: a second block in the same second borrows from the future.
    fn next_timestamp(&self, head: &Head) -> u64 {
        (self.ports.clock.now)().max(head.header.timestamp.saturating_add(1))
    }

    fn produce(&self, head: &Head, transactions: Vec<RecoveredTransaction>) -> Result<Arc<RecoveredBlock>, Failure> {
        let chosen = self.ports.choices.current();
        // A masternode's blocks are its own, whatever account is shown.
        let chosen_beneficiary = chosen.etherbase.filter(|_| self.options.signing.is_none());
        let attributes = SealAttributes {
            timestamp: self.next_timestamp(head),
            beneficiary: chosen_beneficiary.unwrap_or(self.options.beneficiary),
            gas_limit: chosen.gas_limit.unwrap_or(self.options.gas_limit),
            extra_data: chosen.extra_data.unwrap_or_else(|| self.options.extra_data.clone()),
            mix_hash: (self.ports.clock.random)(),
        };
        self.ports.producer.produce(&attributes, self.with_own(head, transactions)?)
    }

    /// What the node itself has to say about the head, before everybody else's.
    fn with_own(
        &self,
        head: &Head,
        mut transactions: Vec<RecoveredTransaction>,
    ) -> Result<Vec<RecoveredTransaction>, Failure> {
        if let Some(duty) = &self.options.signing {
            let state = self.ports.chain.state_at(head.number())?;
            let own = duty.transaction(&head.header, &*state).map_err(|error| Failure::server(error.to_string()))?;
            if let Some(own) = own {
                transactions.insert(0, own);
            }
        }
        Ok(transactions)
    }
}

/// Whether the transaction has no blobs, or pays this much for each unit of blob gas.
fn pays_for_blobs(transaction: &Transaction, blob_base_fee: U256) -> bool {
    match &transaction.payload {
        TransactionPayload::Blob { max_fee_per_blob_gas, .. } => *max_fee_per_blob_gas >= blob_base_fee,
        _ => true,
    }
}

impl Actor for Sealer {
    type Message = SealRequest;

    fn started(&mut self) {
        // The request of the one that panicked is gone, and the transactions that it was about announce themselves once.
        if self.is_successor && self.options.mode == SealMode::OnTransaction {
            self.handle(SealRequest);
        }
    }

    fn handle(&mut self, _: SealRequest) {
        // The flag falls before the pool is read: a transaction that comes later wakes the sealer again.
        self.is_woken.store(false, Ordering::SeqCst);
        self.progress.send_if_modified(Progress::begin_round);
        let failure = self.seal().err().map(|error| error.to_string());
        if let Some(error) = failure.as_ref().filter(|error| self.failure.as_ref() != Some(error)) {
            tracing::error!(error, "no block was made; the same reason is not logged again");
        }
        self.failure = failure;
        self.progress.send_modify(Progress::end_round);
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
    begins_at_once: bool,
    bell: Bell,
    /// Told that this sealing is over when the waker goes.
    on_demand: SealingOnDemand,
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
        self.bell.ring();
        while let Some(Delivery::Event(_) | Delivery::Missed(_)) = self.pending.next().await {
            self.bell.ring();
        }
    }

    async fn wake_on_interval(self, period: Duration) {
        if self.begins_at_once {
            self.bell.ring();
        }
        // Zero would be no interval at all.
        let period = period.max(Duration::from_millis(1));
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
        // After a block that took longer than the period the next one comes a whole period later.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.bell.ring();
        }
    }
}

impl Drop for SealerWaker {
    fn drop(&mut self) {
        self.on_demand.end();
    }
}

/// Starts the sealer under supervision and gives back what wakes it. One that makes blocks for transactions is also rung
/// through `on_demand`, until its waker is dropped.
///
/// # Errors
/// What [`Supervisor::spawn`] answers.
pub fn spawn_sealer(
    supervisor: &Supervisor,
    bus: &Bus,
    options: SealerOptions,
    ports: SealerPorts,
    on_demand: &SealingOnDemand,
) -> Result<SealerWaker, Failure> {
    let pending = bus.subscribe::<TransactionPending>();
    let (mode, begins_at_once) = (options.mode, options.begins_at_once);
    let is_woken = Arc::new(AtomicBool::new(false));
    let shared = Arc::clone(&is_woken);
    let (progress, watched) = watch::channel(Progress::default());
    let progress = Arc::new(progress);
    let mut is_successor = false;
    let make = move || {
        // A sealer that panicked has handled its request: without this, its successor would never be woken.
        shared.store(false, Ordering::SeqCst);
        let is_woken = Arc::clone(&shared);
        let progress = Arc::clone(&progress);
        let sealer = Sealer { is_woken, progress, is_successor, ..Sealer::new(options.clone(), ports.clone()) };
        is_successor = true;
        Ok(sealer)
    };
    let actor_options = ActorOptions { mailbox_capacity: MAILBOX_CAPACITY, ..ActorOptions::default() };
    let mailbox = supervisor.spawn("sealer", actor_options, make)?;
    let bell = Bell::new(mailbox, is_woken, watched);
    if mode == SealMode::OnTransaction {
        on_demand.begin(bell.clone());
    }
    Ok(SealerWaker { mode, begins_at_once, bell, on_demand: on_demand.clone(), pending })
}

#[cfg(test)]
mod tests;
