//! Live voting on a native chain (`docs/spec/consensus.md` 5, 7, 9): receives the votes, timeouts and certificates of
//! other masternodes and advances the round with them. With a masternode's key it also votes, proposes blocks and
//! signs.
//!
//! [`Voting`] is the handle. The actor behind it drives one [`Replica`], which implements
//! the rules. The actor reaches the network through [`RoundNetwork`], and the network reaches the voting
//! through [`RoundMessages`].
//!
//! Invariants:
//!
//! - everything that this node signs in a round is recorded on disk before it is sent;
//! - the node never signs two votes or two blocks of a round, not even after a kill;
//! - it votes only for blocks that were executed with equal roots;
//! - a message is verified at most once per countdown;
//! - early messages are stored within a bound;
//! - an invalid message never makes the node fail.

#![forbid(unsafe_code)]

mod actor;
mod countdown;
mod counts;
mod early;
mod error;
pub mod forensics;
mod key_file;
mod pool;
mod proposer;
mod received;
mod replica;
#[cfg(test)]
mod several_nodes;
#[cfg(test)]
mod simulation;
mod timing;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tenon_api::messages::VotingPool;
use tenon_api::{
    BlockPort, BlockSigner, ChainReader, PeerTransactions, PendingTransactions, RoundBuilder, RoundMessage,
    RoundMessages, RoundNetwork, SealedHeader,
};
use tenon_bus::Bus;
use tenon_native_consensus::NativeEngine;
use tenon_supervisor::{ActorOptions, Mailbox, Supervisor};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::actor::{Input, VotingActor};
use crate::received::MessageCollector;
use crate::timing::SystemTiming;
pub use counts::VotingCounts;
pub use error::{ReplicaError, VotingRequestError, VotingStartError};
pub use key_file::{MasternodeKeyError, read_key};
pub use replica::{Action, Replica};

/// The actor's name in the supervisor.
pub const ACTOR: &str = "voting";
/// Maximum number of queued inputs.
const MAILBOX_CAPACITY: usize = 4096;

/// The parts of the node that the voting uses.
#[derive(Clone)]
pub struct VotingPorts {
    /// The rules, and the record of what was signed.
    pub engine: Arc<NativeEngine>,
    /// The stored chain.
    pub chain: Arc<dyn ChainReader>,
    /// Receives the blocks that this node makes.
    pub blocks: Arc<dyn BlockPort>,
    /// Builds them.
    pub builder: Arc<dyn RoundBuilder>,
    /// Supplies the transactions for these blocks.
    pub pending: Arc<dyn PendingTransactions>,
    /// Receives the signing transactions.
    pub pool: Arc<dyn PeerTransactions>,
    /// Sends messages and blocks to the peers.
    pub network: Arc<dyn RoundNetwork>,
    /// Delivers new heads.
    pub bus: Bus,
    /// The masternode's key; `None` on a node that only follows.
    pub key: Option<Arc<dyn BlockSigner>>,
    /// Gas limit of the blocks that this node makes.
    pub gas_limit: u64,
    /// The chain's id, for signing transactions.
    pub chain_id: u64,
}

/// A handle to the voting.
#[derive(Clone, Default)]
pub struct Voting {
    mailbox: Arc<OnceLock<Mailbox<Input>>>,
    collector: MessageCollector,
    counts: Arc<VotingCounts>,
    /// Whether the node is far behind. The actor reads it with each message, so that no change is lost.
    syncing: Arc<AtomicBool>,
}

impl Voting {
    /// Starts the actor. Messages that arrive before that are dropped.
    ///
    /// # Errors
    /// [`VotingStartError`].
    pub fn start(&self, supervisor: &Supervisor, ports: VotingPorts) -> Result<(), VotingStartError> {
        let (runtime, mailbox, counts) = (Handle::current(), Arc::clone(&self.mailbox), Arc::clone(&self.counts));
        let (bus, key, syncing) = (ports.bus.clone(), ports.key.clone(), Arc::clone(&self.syncing));
        let make = move || {
            let timing = SystemTiming { runtime: runtime.clone(), mailbox: Arc::clone(&mailbox) };
            Ok(VotingActor::new(ports.clone(), Box::new(timing), Arc::clone(&counts), Arc::clone(&syncing)))
        };
        let options = ActorOptions { mailbox_capacity: MAILBOX_CAPACITY, ..ActorOptions::default() };
        let sender = supervisor.spawn(ACTOR, options, make)?;
        if let Some(key) = key {
            let (mailbox, runtime) = (sender.clone(), Handle::current());
            key.on_ready(Arc::new(move || {
                let mailbox = mailbox.clone();
                runtime.spawn(async move { mailbox.send(Input::SignerReady).await });
            }));
        }
        self.mailbox.set(sender.clone()).map_err(|_| VotingStartError::AlreadyRunning)?;
        drop(sender.try_send(Input::Begin));
        tokio::spawn(actor::follow_heads(bus, sender, self.collector.clone()));
        Ok(())
    }

    /// The counters, for metrics.
    pub fn counts(&self) -> Arc<VotingCounts> {
        Arc::clone(&self.counts)
    }

    /// The votes and timeouts in the pools; empty if no voting runs.
    ///
    /// # Errors
    /// [`VotingRequestError`] if the actor is too busy or has failed.
    pub async fn waiting(&self) -> Result<VotingPool, VotingRequestError> {
        let Some(mailbox) = self.mailbox.get() else { return Ok(VotingPool::default()) };
        let (answer, answered) = oneshot::channel();
        mailbox.try_send(Input::Show(answer))?;
        answered.await.map_err(|_| VotingRequestError::Lost)
    }

    fn send(&self, input: Input) {
        if let Some(mailbox) = self.mailbox.get()
            && let Err(reason) = mailbox.try_send(input)
        {
            tracing::debug!(%reason, "a message to the voting was dropped");
        }
    }
}

impl RoundMessages for Voting {
    fn receive(&self, message: RoundMessage, guard: Box<dyn Send>) {
        if let Some(messages) = self.collector.add(message, guard) {
            self.send(Input::Messages(messages));
        }
    }

    fn executed(&self, header: Arc<SealedHeader>, is_announced: bool) {
        self.collector.close();
        self.send(Input::Executed { header, is_announced, at: Instant::now() });
    }

    fn set_syncing(&self, is_syncing: bool) {
        self.syncing.store(is_syncing, Ordering::SeqCst);
        self.send(Input::SyncingChanged);
    }
}
