//! Makes the blocks of the development network.

mod choices;
mod demand;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tenon_api::{
    Address, B256, BlockProducer, BlockProductionError, Bytes, ChainReader, Head, PendingTransactions, RecoveredBlock,
    RecoveredTransaction, SealAttributes, StoreError, Transaction, TransactionPayload, U256,
    messages::{ModuleChanged, ModuleOperation, TransactionPending},
};
use tenon_bus::{Bus, Delivery, Subscription};
use tenon_chain::ChainSpec;
use tenon_consensus_interface::{SealerTransactionError, SealerTransactionSource};
use tenon_supervisor::{Actor, ActorOptions, SpawnError, Supervisor};
use tokio::{sync::watch, time::MissedTickBehavior};

use demand::{Progress, SealTrigger};

pub use choices::{SealChoices, TooLong};
pub use demand::SealingOnDemand;

/// One waiting request covers everything that is pending when it is handled. The second place is for a request that
/// arrives after the flag is reset and before the first one has been handled.
const MAILBOX_CAPACITY: usize = 2;

/// Time after which a failed round is repeated. Needed because its transactions cause no further events.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// When blocks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealMode {
    /// As soon as transactions are pending: a block with all of them.
    OnTransaction,
    /// Once per period, with or without transactions.
    Interval(Duration),
}

/// Parameters of the sealer's blocks.
#[derive(Clone, Debug)]
pub struct SealerOptions {
    /// When blocks are made.
    pub mode: SealMode,
    /// Receiver of fees.
    pub beneficiary: Address,
    /// Target gas limit: each block moves its own gas limit towards this one.
    pub gas_limit: u64,
    /// Extra data, at most 32 bytes.
    pub extra_data: Bytes,
    /// Makes the transactions that the network expects from the maker of a block; `None` if it expects none.
    pub transaction_source: Option<Arc<dyn SealerTransactionSource>>,
    /// Whether to make block 1 immediately, even without transactions. A native development network does.
    pub makes_first_block_at_once: bool,
}

/// The sealer's source of time and random numbers. Tests replace them by fixed functions.
#[derive(Clone, derive_more::Debug)]
#[debug("SealerClock")]
pub struct SealerClock {
    /// Unix time, seconds.
    pub now: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// The next block's PREVRANDAO.
    pub random: Arc<dyn Fn() -> B256 + Send + Sync>,
}

impl SealerClock {
    /// The system's clock and random numbers.
    pub fn system() -> Self {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
        Self { now: Arc::new(now), random: Arc::new(|| B256::new(rand::random())) }
    }
}

/// The interfaces of other modules that the sealer uses.
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
    /// Time and random numbers.
    pub clock: SealerClock,
    /// Changes by the operator since the start.
    pub choices: SealChoices,
}

/// Why the sealer made no block.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A transaction that is due could not be made.
    #[error(transparent)]
    OwnTransaction(#[from] SealerTransactionError),
    /// The block could not be made.
    #[error(transparent)]
    Block(#[from] BlockProductionError),
}

/// Makes the sealer check whether a block is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealRequest;

/// The actor that makes the blocks of a development network. Blocks its thread while making a block.
#[derive(derive_more::Debug)]
#[debug("Sealer({options:?})")]
pub struct Sealer {
    options: SealerOptions,
    ports: SealerPorts,
    /// Whether a request is in the mailbox; shared with its [`SealTrigger`].
    is_woken: Arc<AtomicBool>,
    /// Notifies senders that wait for the blocks of their transactions; shared with the sealers before and after a
    /// restart.
    progress: Arc<watch::Sender<Progress>>,
    /// Whether the previous sealer panicked.
    follows_panic: bool,
    /// Why the last round failed; `None` after a round without an error. A repeated reason is logged only once.
    failure: Option<String>,
}

impl Sealer {
    /// A sealer driven by messages only; [`spawn_sealer`] also connects the waker.
    pub fn new(options: SealerOptions, ports: SealerPorts) -> Self {
        Self { options, ports, is_woken: Arc::default(), progress: Arc::default(), follows_panic: false, failure: None }
    }

    /// Makes the blocks that are due: one on a timer, otherwise as many as the executable transactions fill. Returns
    /// the number of blocks made.
    ///
    /// # Errors
    /// [`SealError`]; blocks made before it remain.
    pub fn seal(&self) -> Result<usize, SealError> {
        match self.options.mode {
            SealMode::Interval(_) => {
                let head = self.ports.chain.head();
                self.produce(&head, self.executable(&head)?).map(|_| 1)
            }
            SealMode::OnTransaction => self.seal_pending(),
        }
    }

    fn seal_pending(&self) -> Result<usize, SealError> {
        let mut blocks = 0;
        loop {
            let head = self.ports.chain.head();
            let transactions = self.executable(&head)?;
            let is_first = self.options.makes_first_block_at_once && head.header.number == 0;
            if transactions.is_empty() && !is_first {
                return Ok(blocks);
            }
            let block = self.produce(&head, transactions)?;
            blocks += 1;
            self.progress.send_modify(Progress::note_block);
            // A transaction that is executable by nonce and price may still not fit, because of its blob price for
            // instance. The next event tries again; retrying here would fill the chain with empty blocks.
            if block.transactions.is_empty() {
                return Ok(blocks);
            }
        }
    }

    /// The pool's proposals that are executable on the head: each has the next nonce of its sender and a sufficient
    /// blob fee cap. The pool learns of a block by an event, so right after a block its answer may be one block old.
    fn executable(&self, head: &Head) -> Result<Vec<RecoveredTransaction>, SealError> {
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
            // A transaction that is left out leaves a nonce gap, so the sender's later ones are left out too.
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

    /// Timestamps are strictly increasing: a second block in the same second gets a timestamp in the future.
    fn next_timestamp(&self, head: &Head) -> u64 {
        (self.ports.clock.now)().max(head.header.timestamp.saturating_add(1))
    }

    fn produce(&self, head: &Head, transactions: Vec<RecoveredTransaction>) -> Result<Arc<RecoveredBlock>, SealError> {
        let chosen = self.ports.choices.current();
        // A masternode receives the fees of its own blocks, regardless of the account that the operator set.
        let chosen_beneficiary = chosen.etherbase.filter(|_| self.options.transaction_source.is_none());
        let attributes = SealAttributes {
            timestamp: self.next_timestamp(head),
            beneficiary: chosen_beneficiary.unwrap_or(self.options.beneficiary),
            gas_limit: chosen.gas_limit.unwrap_or(self.options.gas_limit),
            extra_data: chosen.extra_data.unwrap_or_else(|| self.options.extra_data.clone()),
            mix_hash: (self.ports.clock.random)(),
        };
        Ok(self.ports.producer.produce(&attributes, self.with_due_transaction(head, transactions)?)?)
    }

    /// Puts the transaction that is due for the head before all others.
    fn with_due_transaction(
        &self,
        head: &Head,
        mut transactions: Vec<RecoveredTransaction>,
    ) -> Result<Vec<RecoveredTransaction>, SealError> {
        if let Some(transaction_source) = &self.options.transaction_source {
            let state = self.ports.chain.state_at(head.number())?;
            if let Some(due) = transaction_source.transaction(&head.header, &*state)? {
                transactions.insert(0, due);
            }
        }
        Ok(transactions)
    }
}

/// Returns whether the transaction has no blobs, or pays this blob gas price.
fn pays_for_blobs(transaction: &Transaction, blob_base_fee: U256) -> bool {
    match &transaction.payload {
        TransactionPayload::Blob { max_fee_per_blob_gas, .. } => *max_fee_per_blob_gas >= blob_base_fee,
        _ => true,
    }
}

impl Actor for Sealer {
    type Message = SealRequest;

    fn started(&mut self) {
        // The request of the sealer that panicked is lost, and its transactions cause no further events.
        if self.follows_panic && self.options.mode == SealMode::OnTransaction {
            self.handle(SealRequest);
        }
    }

    fn handle(&mut self, _: SealRequest) {
        // The flag is reset before the pool is read: a transaction that arrives later wakes the sealer again.
        self.is_woken.store(false, Ordering::SeqCst);
        self.progress.send_if_modified(Progress::begin_round);
        let failure = self.seal().err().map(|error| error.to_string());
        if let Some(error) = failure.as_ref().filter(|error| self.failure.as_ref() != Some(error)) {
            tracing::error!(error, "block production failed; the same reason is not logged again");
        }
        self.progress.send_modify(|progress| progress.end_round(failure.is_some()));
        self.failure = failure;
    }
}

/// Wakes a sealer. The node runs [`SealerWaker::run`] as a task and drops it to stop sealing.
#[derive(Debug)]
pub struct SealerWaker {
    mode: SealMode,
    makes_first_block_at_once: bool,
    trigger: SealTrigger,
    /// Notified on drop that sealing has stopped.
    on_demand: SealingOnDemand,
    /// Created before the sealer starts, so that no transaction is missed.
    pending: Subscription<TransactionPending>,
    /// A pool that is enabled again may have transactions, which it has announced before.
    modules: Subscription<ModuleChanged>,
}

impl SealerWaker {
    /// Wakes the sealer on its events or its timer, until the bus is dropped.
    pub async fn run(self) {
        match self.mode {
            SealMode::OnTransaction => self.wake_on_transactions().await,
            SealMode::Interval(period) => self.wake_on_interval(period).await,
        }
    }

    async fn wake_on_transactions(mut self) {
        // Transactions from the journal may have been pending since before the subscription.
        self.trigger.request_round();
        // Becomes false when the sealer has failed for good. Failed rounds are not repeated then.
        let (failures, mut has_sealer) = (self.trigger.clone(), true);
        loop {
            tokio::select! {
                delivery = self.pending.next() => {
                    let Some(Delivery::Event(_) | Delivery::Missed(_)) = delivery else { return };
                }
                delivery = self.modules.next() => match delivery {
                    // A round without transactions costs little, so the module's name does not matter.
                    Some(Delivery::Event(changed)) if changed.report.operation != ModuleOperation::Enable => continue,
                    Some(Delivery::Event(_) | Delivery::Missed(_)) => {}
                    None => return,
                },
                () = failures.failed_for(RETRY_INTERVAL), if has_sealer => {}
            }
            has_sealer = self.trigger.request_round();
        }
    }

    async fn wake_on_interval(self, period: Duration) {
        if self.makes_first_block_at_once {
            self.trigger.request_round();
        }
        // A period of zero is invalid.
        let period = period.max(Duration::from_millis(1));
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
        // If a block takes longer than the period, the next one follows a full period later.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.trigger.request_round();
        }
    }
}

impl Drop for SealerWaker {
    fn drop(&mut self) {
        self.on_demand.end();
    }
}

/// Starts the sealer under supervision and returns its waker. If it makes blocks for transactions, `on_demand` can also
/// trigger it until the waker is dropped.
///
/// # Errors
/// Those of [`Supervisor::spawn`].
pub fn spawn_sealer(
    supervisor: &Supervisor,
    bus: &Bus,
    options: SealerOptions,
    ports: SealerPorts,
    on_demand: &SealingOnDemand,
) -> Result<SealerWaker, SpawnError> {
    let (pending, modules) = (bus.subscribe::<TransactionPending>(), bus.subscribe::<ModuleChanged>());
    let (mode, makes_first_block_at_once) = (options.mode, options.makes_first_block_at_once);
    let is_woken = Arc::new(AtomicBool::new(false));
    let shared = Arc::clone(&is_woken);
    let (progress, watched) = watch::channel(Progress::default());
    let progress = Arc::new(progress);
    let mut follows_panic = false;
    let make = move || {
        // A sealer that panicked has consumed its request: without this reset, its successor would never be woken.
        shared.store(false, Ordering::SeqCst);
        let is_woken = Arc::clone(&shared);
        let progress = Arc::clone(&progress);
        let sealer = Sealer { is_woken, progress, follows_panic, ..Sealer::new(options.clone(), ports.clone()) };
        follows_panic = true;
        Ok(sealer)
    };
    let actor_options = ActorOptions { mailbox_capacity: MAILBOX_CAPACITY, ..ActorOptions::default() };
    let mailbox = supervisor.spawn("sealer", actor_options, make)?;
    let trigger = SealTrigger::new(mailbox, is_woken, watched);
    if mode == SealMode::OnTransaction {
        on_demand.begin(trigger.clone());
    }
    Ok(SealerWaker { mode, makes_first_block_at_once, trigger, on_demand: on_demand.clone(), pending, modules })
}

#[cfg(test)]
mod tests;
