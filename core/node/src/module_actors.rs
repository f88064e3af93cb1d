//! The parts of the node that operators see as modules, and how to stop those that can be stopped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tenon_api::messages::{
    Call, CompactDatabase, CountTransactions, CreateAccessList, DumpAccounts, EstimateGas, GetAccount, GetAccountRange,
    GetAvailability, GetBadBlocks, GetBlock, GetBlockOutline, GetBlockReceipts, GetChainChanges, GetChainInfo, GetCode,
    GetDatabaseStatistics, GetExecutionWitness, GetFeeHistory, GetForkSchedule, GetHead, GetHeadNumber, GetHeader,
    GetIntermediateRoots, GetLogs, GetModifiedAccounts, GetNextBlockFees, GetPendingSince, GetPoolContent,
    GetPoolNonce, GetPoolStatus, GetPoolSummary, GetPoolTransaction, GetPreimage, GetProof, GetRaw,
    GetRawPoolTransaction, GetReceipt, GetStorage, GetStorageRange, GetTransaction, GetTransactionInBlock,
    GetTransactionProof, GetVotingPool, ImportChain, RecoverSendersAhead, SetHead, SetMinTip, Simulate,
    SubmitTransaction, SuggestGasPrice, SuggestTip, Trace,
};
use tenon_api::{
    Address, Bytes, PeerTransactions, PendingTransactions, RecoveredTransaction, Request, StoreError, SubmitError,
    Topic,
};
use tenon_bus::Bus;
use tenon_consensus::{SealerOptions, SealerPorts, SealingOnDemand, spawn_sealer};
use tenon_modules::{ActorControl, ActorModule, ActorStage, ActorSwitch, SwitchError};
use tenon_supervisor::Supervisor;
use tenon_txpool::{Pool, spawn_pool};
use tenon_txpool_interface::Source;
use tokio::task::JoinHandle;

use crate::actor_reports;

/// The supervised actor behind the module `execution`.
pub(crate) const CHAIN: &str = "chain";
/// The supervised actor behind the module `sealing`.
const SEALER: &str = "sealer";
/// Time limit for the sealer to finish its current block.
pub(crate) const SEALER_GRACE: Duration = Duration::from_secs(5);
/// Time limit for the pool to apply the blocks of which it knows.
pub(crate) const POOL_GRACE: Duration = Duration::from_secs(5);

/// The requests that the database answers.
const STORAGE_REQUESTS: &[Topic] = &[
    GetHead::TOPIC,
    GetHeadNumber::TOPIC,
    GetChainInfo::TOPIC,
    GetHeader::TOPIC,
    GetBlock::TOPIC,
    GetBlockOutline::TOPIC,
    GetAvailability::TOPIC,
    GetForkSchedule::TOPIC,
    CountTransactions::TOPIC,
    GetTransactionInBlock::TOPIC,
    GetBlockReceipts::TOPIC,
    GetTransaction::TOPIC,
    GetReceipt::TOPIC,
    GetRaw::TOPIC,
    GetChainChanges::TOPIC,
    GetAccount::TOPIC,
    GetCode::TOPIC,
    GetStorage::TOPIC,
    GetDatabaseStatistics::TOPIC,
    DumpAccounts::TOPIC,
    GetModifiedAccounts::TOPIC,
    GetPreimage::TOPIC,
    GetAccountRange::TOPIC,
    CompactDatabase::TOPIC,
    GetLogs::TOPIC,
    GetTransactionProof::TOPIC,
    GetProof::TOPIC,
];

/// The requests that run blocks and calls, and those of the importer.
const EXECUTION_REQUESTS: &[Topic] = &[
    Call::TOPIC,
    EstimateGas::TOPIC,
    CreateAccessList::TOPIC,
    Simulate::TOPIC,
    GetStorageRange::TOPIC,
    GetIntermediateRoots::TOPIC,
    GetExecutionWitness::TOPIC,
    Trace::TOPIC,
    SuggestTip::TOPIC,
    SuggestGasPrice::TOPIC,
    GetFeeHistory::TOPIC,
    GetNextBlockFees::TOPIC,
    GetBadBlocks::TOPIC,
    SetHead::TOPIC,
    ImportChain::TOPIC,
];

/// The requests that the pool answers.
const POOL_REQUESTS: &[Topic] = &[
    SubmitTransaction::TOPIC,
    RecoverSendersAhead::TOPIC,
    GetPoolStatus::TOPIC,
    GetPoolContent::TOPIC,
    GetPoolSummary::TOPIC,
    GetPoolTransaction::TOPIC,
    GetPoolNonce::TOPIC,
    GetPendingSince::TOPIC,
    GetRawPoolTransaction::TOPIC,
    SetMinTip::TOPIC,
];

/// The database, whose writer is an actor. It cannot be stopped.
pub(crate) fn storage(supervisor: &Arc<Supervisor>) -> ActorModule {
    let module = fixed(
        "storage",
        "Stores blocks and state in the database.",
        &[],
        STORAGE_REQUESTS,
        "every read needs it; stop the node instead",
    );
    ActorModule { probe: Some(actor_reports::probe(supervisor, &[tenon_storage::ACTOR])), ..module }
}

/// The importer, which cannot be stopped.
pub(crate) fn execution(supervisor: &Arc<Supervisor>) -> ActorModule {
    let module = fixed(
        "execution",
        "Executes blocks and calls, and decides which blocks become canonical.",
        &["storage"],
        EXECUTION_REQUESTS,
        "only it adds blocks to the chain, and a block in progress would be lost; stop the node instead",
    );
    ActorModule { probe: Some(actor_reports::probe(supervisor, &[CHAIN])), ..module }
}

/// The voting of a native chain, which cannot be stopped. `actors` are the names of its actors. `signs_with_account`: whether the
/// masternode's key is an account of the node.
pub(crate) fn voting(
    supervisor: &Arc<Supervisor>,
    actors: &'static [&'static str],
    signs_with_account: bool,
) -> ActorModule {
    const USES: &[&str] = &["storage", "execution", "pool", "network", "accounts"];
    let without_accounts = USES.split_last().map_or(USES, |(_, others)| others);
    let module = fixed(
        "voting",
        "Checks and collects the votes of the masternodes, and votes if the node is one.",
        if signs_with_account { USES } else { without_accounts },
        &[GetVotingPool::TOPIC],
        "it votes and passes on the votes of others, without which no block is made; stop the node instead",
    );
    ActorModule { probe: Some(actor_reports::probe(supervisor, actors)), ..module }
}

fn fixed(
    name: &'static str,
    summary: &'static str,
    uses: &'static [&'static str],
    answers: &'static [Topic],
    reason: &'static str,
) -> ActorModule {
    let (stage, control) = (ActorStage::BeforePlugins, ActorControl::Fixed(reason));
    ActorModule { name, summary, uses, answers, stage, is_wanted: true, control, probe: None }
}

/// The transaction pool. While stopped, it accepts, shows and proposes no transactions.
pub(crate) fn pool(supervisor: &Arc<Supervisor>, pool: Arc<PoolSwitch>) -> ActorModule {
    let following = PoolFollowing { supervisor: Arc::downgrade(supervisor), pool, feed: Mutex::default() };
    ActorModule {
        name: "pool",
        summary: "Accepts transactions and keeps them until a block includes them.",
        uses: &["storage"],
        answers: POOL_REQUESTS,
        stage: ActorStage::BeforePlugins,
        is_wanted: true,
        control: ActorControl::Switch(Box::new(following)),
        probe: Some(actor_reports::probe(supervisor, &[tenon_txpool::ACTOR])),
    }
}

/// The sealer. While stopped, it makes no blocks, and transactions stay pending.
pub(crate) fn sealing(
    supervisor: &Arc<Supervisor>,
    bus: &Bus,
    options: SealerOptions,
    ports: SealerPorts,
    on_demand: SealingOnDemand,
) -> ActorModule {
    let probe = Some(actor_reports::probe(supervisor, &[SEALER]));
    let supervisor = Arc::downgrade(supervisor);
    let switch = Sealing { supervisor, bus: bus.clone(), options, ports, on_demand, waker: Mutex::default() };
    ActorModule {
        name: "sealing",
        summary: "Makes blocks from pending transactions.",
        uses: &["storage", "execution", "pool"],
        answers: &[],
        stage: ActorStage::BeforePlugins,
        is_wanted: true,
        control: ActorControl::Switch(Box::new(switch)),
        probe,
    }
}

/// The pool with its switch, as used by the sealer: a pool that does not follow the chain proposes nothing.
pub(crate) struct PoolSwitch {
    pool: Pool,
    is_running: AtomicBool,
}

impl PoolSwitch {
    /// A stopped pool.
    pub(crate) fn new(pool: Pool) -> Arc<Self> {
        Arc::new(Self { pool, is_running: AtomicBool::new(false) })
    }
}

impl PendingTransactions for PoolSwitch {
    fn best(&self, base_fee_per_gas: Option<u64>) -> Vec<RecoveredTransaction> {
        if self.is_running.load(Ordering::Acquire) { self.pool.best(base_fee_per_gas) } else { Vec::new() }
    }
}

impl PeerTransactions for PoolSwitch {
    fn offer(&self, raw: &[Bytes]) {
        if !self.is_running.load(Ordering::Acquire) {
            return;
        }
        self.pool.recover_senders_ahead(raw.iter().map(|raw| &raw[..]));
        for raw in raw {
            if let Err(reason) = self.pool.submit(raw, Source::Peer) {
                tracing::trace!(%reason, "a peer's transaction was refused");
            }
        }
    }

    fn pending(&self) -> Vec<RecoveredTransaction> {
        if self.is_running.load(Ordering::Acquire) { self.pool.content(None).pending } else { Vec::new() }
    }

    fn submit_own(&self, raw: &[u8]) -> Result<(), SubmitError> {
        if !self.is_running.load(Ordering::Acquire) {
            return Err(SubmitError::Disabled);
        }
        self.pool.submit(raw, Source::Masternode).map(drop).map_err(|error| SubmitError::Refused(error.into()))
    }

    fn next_nonce(&self, account: Address) -> Result<u64, StoreError> {
        self.pool.next_nonce(account)
    }
}

struct PoolFollowing {
    /// Weak: the node stops its supervisor itself, as its only owner.
    supervisor: Weak<Supervisor>,
    pool: Arc<PoolSwitch>,
    /// The task that sends the chain's events to the actor. Nothing awaits under the lock.
    feed: Mutex<Option<JoinHandle<()>>>,
}

#[async_trait]
impl ActorSwitch for PoolFollowing {
    async fn start(&self) -> Result<(), SwitchError> {
        let supervisor = self.supervisor.upgrade().ok_or(SwitchError::ShuttingDown)?;
        // The actor reads the head at its start, and so catches up with missed blocks.
        let feed = spawn_pool(&supervisor, &self.pool.pool).map_err(SwitchError::new)?;
        *self.feed.lock() = Some(tokio::spawn(feed.run()));
        self.pool.is_running.store(true, Ordering::Release);
        Ok(())
    }

    async fn stop(&self) -> Result<(), SwitchError> {
        self.pool.is_running.store(false, Ordering::Release);
        let feed = self.feed.lock().take();
        end(feed).await;
        let late = "the pool did not apply its last blocks in time; it will not apply others";
        stop_actor(&self.supervisor, tenon_txpool::ACTOR, POOL_GRACE, late).await
    }

    fn failure(&self) -> Option<String> {
        actor_reports::failure(&self.supervisor, tenon_txpool::ACTOR).or_else(|| {
            let has_ended = self.feed.lock().as_ref().is_some_and(JoinHandle::is_finished);
            has_ended.then(|| "it failed and no longer follows the chain; enable it again".to_owned())
        })
    }
}

/// Ends a task.
pub(crate) async fn end(task: Option<JoinHandle<()>>) {
    if let Some(task) = task {
        task.abort();
        // An error means that the task was aborted, as intended.
        let _ = task.await;
    }
}

/// Stops a supervised actor. It fails with the text `late` if the actor does not finish its work in this time.
pub(crate) async fn stop_actor(
    supervisor: &Weak<Supervisor>,
    name: &str,
    grace: Duration,
    late: &str,
) -> Result<(), SwitchError> {
    match supervisor.upgrade() {
        Some(supervisor) if !supervisor.stop_one(name, grace).await => Err(SwitchError::new(late)),
        _ => Ok(()),
    }
}

struct Sealing {
    /// Weak: the node stops its supervisor itself, as its only owner.
    supervisor: Weak<Supervisor>,
    bus: Bus,
    options: SealerOptions,
    ports: SealerPorts,
    /// For callers that wait for their transactions' blocks.
    on_demand: SealingOnDemand,
    /// The task that wakes the sealer. Nothing awaits under the lock.
    waker: Mutex<Option<JoinHandle<()>>>,
}

#[async_trait]
impl ActorSwitch for Sealing {
    async fn start(&self) -> Result<(), SwitchError> {
        let supervisor = self.supervisor.upgrade().ok_or(SwitchError::ShuttingDown)?;
        let (options, ports) = (self.options.clone(), self.ports.clone());
        let waker = spawn_sealer(&supervisor, &self.bus, options, ports, &self.on_demand).map_err(SwitchError::new)?;
        *self.waker.lock() = Some(tokio::spawn(waker.run()));
        Ok(())
    }

    async fn stop(&self) -> Result<(), SwitchError> {
        let waker = self.waker.lock().take();
        end(waker).await;
        let late = "the sealer did not finish its block in time; it will not make another";
        stop_actor(&self.supervisor, SEALER, SEALER_GRACE, late).await
    }

    fn failure(&self) -> Option<String> {
        actor_reports::failure(&self.supervisor, SEALER)
    }
}
