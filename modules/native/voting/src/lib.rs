//! A native chain's live voting (`docs/spec/consensus.md` 5, 7): takes the votes, timeouts and certificates of other masternodes,
//! moves from round to round with them, and with a masternode's key votes, proposes and signs itself.
//!
//! [`Voting`] is the handle; the actor behind it drives one [`Replica`](tenon_native_consensus::v2::Replica), which has the rules.
//! The network is reached through [`RoundNetwork`], and reaches the voting through
//! [`RoundMessages`].
//!
//! Invariants: what this node signs in a round is on the disk before it leaves; it never signs two votes or two blocks of a round,
//! also after a kill; it votes only for blocks that were executed with equal roots; a message is verified once in a countdown, and
//! what comes too early is kept within a bound; a failure of a message is never one of the node.

#![forbid(unsafe_code)]

mod actor;
mod counts;
mod early;
mod key_file;
mod proposer;
#[cfg(test)]
mod simulation;
mod timing;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tenon_api::messages::VotingPool;
use tenon_api::{
    BlockPort, BlockSigner, ChainReader, Failure, PeerTransactions, PendingTransactions, RoundBuilder, RoundMessage,
    RoundMessages, RoundNetwork, SealedHeader,
};
use tenon_bus::Bus;
use tenon_native_consensus::NativeEngine;
use tenon_supervisor::{ActorOptions, Mailbox, Supervisor};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::actor::{Input, VotingActor};
use crate::timing::SystemTiming;
pub use counts::VotingCounts;
pub use key_file::{KeyFileError, read_key};

/// The actor's name.
const ACTOR: &str = "voting";
/// Messages that wait for the actor. Each connection has one at a time.
const MAILBOX_CAPACITY: usize = 4096;

/// What the voting needs of the node.
#[derive(Clone)]
pub struct VotingPorts {
    /// The rules, and the record of what was signed.
    pub engine: Arc<NativeEngine>,
    /// The stored chain.
    pub chain: Arc<dyn ChainReader>,
    /// Takes the blocks that this node makes.
    pub blocks: Arc<dyn BlockPort>,
    /// Builds them.
    pub builder: Arc<dyn RoundBuilder>,
    /// What goes into them.
    pub pending: Arc<dyn PendingTransactions>,
    /// Takes the signing transactions.
    pub pool: Arc<dyn PeerTransactions>,
    /// Where messages and blocks go.
    pub network: Arc<dyn RoundNetwork>,
    /// Tells of new heads.
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
    counts: Arc<VotingCounts>,
}

impl Voting {
    /// Starts the actor. Messages before it are dropped.
    ///
    /// # Errors
    /// [`Failure`] when the actor cannot be started, or was before.
    pub fn start(&self, supervisor: &Supervisor, ports: VotingPorts) -> Result<(), Failure> {
        let (runtime, mailbox, counts) = (Handle::current(), Arc::clone(&self.mailbox), Arc::clone(&self.counts));
        let (bus, key) = (ports.bus.clone(), ports.key.clone());
        let make = move || {
            let timing = SystemTiming { runtime: runtime.clone(), mailbox: Arc::clone(&mailbox) };
            Ok(VotingActor::new(ports.clone(), Box::new(timing), Arc::clone(&counts)))
        };
        let options = ActorOptions { mailbox_capacity: MAILBOX_CAPACITY, ..ActorOptions::default() };
        let sender = supervisor.spawn(ACTOR, options, make)?;
        if let Some(key) = key {
            let mailbox = sender.clone();
            // A full mailbox has many other reasons to look at the round.
            key.on_ready(Arc::new(move || drop(mailbox.try_send(Input::SignerReady))));
        }
        self.mailbox.set(sender.clone()).map_err(|_| Failure::server("the voting runs already"))?;
        drop(sender.try_send(Input::Begin));
        tokio::spawn(actor::follow_heads(bus, sender));
        Ok(())
    }

    /// What it counts, for metrics.
    pub fn counts(&self) -> Arc<VotingCounts> {
        Arc::clone(&self.counts)
    }

    /// The votes and timeouts that wait; none where no voting runs.
    ///
    /// # Errors
    /// [`Failure`] while the actor is too busy, or has failed.
    pub async fn waiting(&self) -> Result<VotingPool, Failure> {
        let Some(mailbox) = self.mailbox.get() else { return Ok(VotingPool::default()) };
        let (answer, answered) = oneshot::channel();
        mailbox.try_send(Input::Show(answer))?;
        answered.await.map_err(|_| Failure::server("the voting has failed; ask again"))
    }

    fn send(&self, input: Input) {
        if let Some(mailbox) = self.mailbox.get()
            && let Err(failure) = mailbox.try_send(input)
        {
            tracing::debug!(reason = %failure.message, "a message to the voting is dropped");
        }
    }
}

impl RoundMessages for Voting {
    fn receive(&self, message: RoundMessage, guard: Box<dyn Send>) {
        self.send(Input::Message(message, guard));
    }

    fn executed(&self, header: Arc<SealedHeader>, is_announced: bool) {
        self.send(Input::Executed { header, is_announced, at: Instant::now() });
    }

    fn set_syncing(&self, is_syncing: bool) {
        self.send(Input::Syncing(is_syncing));
    }
}
