//! The actor that passes events to the replica and executes the replica's actions.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, keccak256};
use alloy_rlp::{Decodable, Encodable};
use lru::LruCache;
use tenon_api::messages::{NewHead, VotingPool};
use tenon_api::{Block, ChainReader, RoundMessage, RoundMessageKind, SealedHeader, SignError};
use tenon_bus::{Bus, Delivery};
use tenon_native_consensus::v2::V2Error;
use tenon_native_consensus::{SyncInfo, Timeout, Vote, VotingState, timeout_digest, vote_digest};
use tenon_supervisor::{Actor, Mailbox};
use tokio::sync::oneshot;

use crate::early::{EarlyMessages, MAX_ROUNDS_AHEAD};
use crate::error::ReplicaError;
use crate::proposer::Proposer;
use crate::received::{MessageCollector, ReceivedMessages};
use crate::replica::{Action, Replica};
use crate::timing::Timing;
use crate::{VotingCounts, VotingPorts};

mod making;
mod signing;

/// Number of remembered messages of each kind, so that each message is processed once.
const SEEN: NonZeroUsize = NonZeroUsize::new(32_768).unwrap();
/// Messages about blocks further from the head than this are dropped (`docs/spec/p2p.md` 17).
const MAX_DISTANCE: u64 = 7;
/// Interval between two removals of old messages from the pools.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(60);
/// Number of timeout periods for which a key without a record listens before it signs.
const LISTENING_PERIODS: u64 = 2;

/// Messages to the actor.
pub(crate) enum Input {
    /// The mailbox exists: start the replica.
    Begin,
    /// Messages of peers.
    Messages(Arc<ReceivedMessages>),
    /// A block of a peer was executed, at this time.
    Executed { header: Arc<SealedHeader>, is_announced: bool, at: Instant },
    /// The chain has another head.
    NewHead(Arc<SealedHeader>),
    /// The countdown with this number has ended.
    Countdown(u64),
    /// A planned proposal may be due.
    TryPropose,
    /// Remove old messages from the pools.
    RemoveOldMessages,
    /// The listening time of the attempt with this number has passed. The key may then sign, unless a later attempt has
    /// begun.
    Arm(u64),
    /// A pending signature has arrived, or the signer answers again.
    SignerReady,
    /// The node has fallen far behind, or has caught up.
    SyncingChanged,
    /// Requests the contents of the pools.
    Show(oneshot::Sender<VotingPool>),
}

/// A message of a peer.
enum Decoded {
    Vote(Vote),
    Timeout(Timeout),
    SyncInfo(SyncInfo),
}

/// Whether this node signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signing {
    /// It has no key.
    NoKey,
    /// It has a key, and its records are not read yet.
    Unchecked,
    /// The key has no record here: another node may still sign with it.
    Listening,
    /// It signs.
    Active,
    /// Another node has used the key, or the record cannot be read or written. Lasts until the next start.
    Stopped,
}

pub(crate) struct VotingActor {
    ports: VotingPorts,
    timing: Box<dyn Timing>,
    /// `None` while the head is a block of engine v1, or if the replica could not be started.
    replica: Option<Replica>,
    signing: Signing,
    /// Whether the node is far behind, as last seen in `syncing`.
    is_syncing: bool,
    syncing: Arc<AtomicBool>,
    /// Number of times that the node has begun to listen. An [`Input::Arm`] of an earlier attempt is ignored.
    listening_attempt: u64,
    /// The masternode that signed what the voting record contains.
    record_signer: Option<Address>,
    /// The voting state as stored on disk.
    kept: VotingState,
    /// The voting state at the start. A message of a later round with this node's signature was either signed by this
    /// run or by another node with the same key.
    at_start: VotingState,
    /// The masternode that signed what `at_start` contains.
    signer_at_start: Option<Address>,
    early: EarlyMessages,
    proposer: Proposer,
    /// Messages of peers that were processed, by kind.
    seen: [LruCache<B256, ()>; 3],
    /// Messages that this node has sent. Echoes of them are ignored.
    sent: LruCache<B256, ()>,
    countdown: u64,
    /// The time of a planned proposal.
    planned: Option<Duration>,
    counts: Arc<VotingCounts>,
    /// When the block being processed was executed.
    executed_at: Option<Instant>,
    /// The last round that has timed out.
    failed_round: Option<u64>,
    unsigned: Unsigned,
}

/// Messages and blocks that could not be signed, because the signer did not answer yet. Tried again with
/// [`Input::SignerReady`].
#[derive(Default)]
struct Unsigned {
    /// A block to vote for, if its round still lasts.
    vote: Option<SealedHeader>,
    /// The round of a timeout.
    timeout: Option<u64>,
    /// The round of a block, and the block without its seal.
    block: Option<(u64, Box<Block>)>,
    /// The block that a signing transaction will name.
    signing_transaction: Option<SealedHeader>,
}

impl VotingActor {
    /// `syncing` says whether the node is far behind; [`Input::SyncingChanged`] follows a change.
    pub(crate) fn new(
        ports: VotingPorts,
        timing: Box<dyn Timing>,
        counts: Arc<VotingCounts>,
        syncing: Arc<AtomicBool>,
    ) -> Self {
        let signing = if ports.key.is_some() { Signing::Unchecked } else { Signing::NoKey };
        Self {
            ports,
            timing,
            replica: None,
            signing,
            is_syncing: syncing.load(Ordering::SeqCst),
            syncing,
            listening_attempt: 0,
            record_signer: None,
            signer_at_start: None,
            kept: VotingState::default(),
            at_start: VotingState::default(),
            early: EarlyMessages::default(),
            proposer: Proposer::default(),
            seen: [LruCache::new(SEEN), LruCache::new(SEEN), LruCache::new(SEEN)],
            sent: LruCache::new(SEEN),
            countdown: 0,
            planned: None,
            counts,
            executed_at: None,
            failed_round: None,
            unsigned: Unsigned::default(),
        }
    }

    /// Sends this input to the actor after `wait`.
    fn later(&self, wait: Duration, input: Input) {
        self.timing.later(wait, input);
    }

    fn chain(&self) -> Arc<dyn ChainReader> {
        Arc::clone(&self.ports.chain)
    }

    /// Starts the replica at the head, if the head is a block of engine v2 and the replica is not running.
    fn begin(&mut self) {
        if self.replica.is_some() {
            return;
        }
        let records =
            self.ports.engine.voting_state().and_then(|state| Ok((state, self.ports.engine.voting_signer()?)));
        let (remembered, signer) = match records {
            Ok(records) => records,
            Err(error) => {
                tracing::error!(%error, "the voting record of this node cannot be read; this node will not sign until \
                    it is restarted");
                self.signing = Signing::Stopped;
                return;
            }
        };
        let (chain, engine) = (self.chain(), Arc::clone(self.ports.engine.v2()));
        let head = chain.head();
        (self.kept, self.at_start) = (remembered.clone(), remembered.clone());
        (self.record_signer, self.signer_at_start) = (signer, signer);
        self.use_key();
        match Replica::start(engine, self.key(), remembered, &head.header, &*chain) {
            Ok((replica, actions)) => {
                self.replica = Some(replica);
                self.later(CLEANUP_INTERVAL, Input::RemoveOldMessages);
                self.perform(actions, false);
            }
            // No node signs messages of engine v2 yet.
            Err(V2Error::V1Block) => {}
            Err(error) => {
                tracing::warn!(%error, head = head.header.number, "voting cannot start at this head");
                self.interrupt_listening();
            }
        }
    }

    /// Passes an event to the replica and executes its actions, even if the event failed.
    fn run<E>(
        &mut self,
        signs: bool,
        happens: impl FnOnce(&mut Replica, &dyn ChainReader, &mut Vec<Action>) -> Result<(), E>,
    ) -> Result<(), E> {
        let chain = self.chain();
        let Some(replica) = &mut self.replica else { return Ok(()) };
        let mut actions = Vec::new();
        let outcome = happens(replica, &*chain, &mut actions);
        self.perform(actions, signs);
        outcome
    }

    /// Executes the replica's actions. `signs` is true if they may include a timeout of this node.
    fn perform(&mut self, actions: Vec<Action>, signs: bool) {
        let Some(highest_voted_round) = self.state().map(|state| state.highest_voted_round) else { return };
        let has_voted = highest_voted_round > self.kept.highest_voted_round;
        let has_timed_out = signs && actions.iter().any(|action| matches!(action, Action::SendTimeout(_)));
        if (has_voted || has_timed_out) && !self.store_signer() {
            return;
        }
        // Cloned only if it has to be written: it contains certificates, and most messages do not change it.
        let is_stored = !(has_voted || signs) || self.state().cloned().is_some_and(|state| self.store_state(state));
        if !is_stored {
            return;
        }
        if has_voted && let Some(executed_at) = self.executed_at {
            self.counts.count_vote_after(executed_at.elapsed());
        }
        for action in actions {
            match action {
                Action::SendVote(vote) => self.broadcast(RoundMessageKind::Vote, &vote, signs),
                Action::SendTimeout(timeout) => self.broadcast(RoundMessageKind::Timeout, &timeout, signs),
                Action::SendSyncInfo(info) => self.broadcast(RoundMessageKind::SyncInfo, &info, signs),
                Action::StartCountdown(wait) => {
                    self.countdown += 1;
                    self.later(wait, Input::Countdown(self.countdown));
                }
                Action::RoundBegan(round) => self.begin_round(round),
                Action::Committed(block) => self.ports.engine.protect(block),
                Action::Report(proof) => tracing::debug!(?proof, "a masternode has voted for two blocks of a round"),
            }
        }
    }

    /// Sends a message to the peers that do not have it. A message of this node's countdown that was sent before is
    /// repeated to all, because a peer that was busy or synchronising has not processed it.
    fn broadcast(&mut self, kind: RoundMessageKind, message: &dyn Encodable, is_of_countdown: bool) {
        let mut payload = Vec::with_capacity(message.length());
        message.encode(&mut payload);
        let was_sent = self.sent.put(keccak256(&payload), ()).is_some();
        self.counts.count_sent(kind);
        let message = RoundMessage { kind, payload: payload.into() };
        match was_sent && is_of_countdown {
            true => self.ports.network.repeat(message),
            false => self.ports.network.broadcast(message),
        }
    }

    fn begin_round(&mut self, round: u64) {
        self.planned = None;
        // The pending signatures are useless in a new round, except signing transactions, which count for the whole
        // epoch.
        self.unsigned =
            Unsigned { signing_transaction: self.unsigned.signing_transaction.take(), ..Unsigned::default() };
        self.counts.begin_round(round);
        for vote in self.early.votes_up_to(round) {
            self.take_vote(vote);
        }
        for timeout in self.early.timeouts_of(round) {
            self.take_timeout(timeout);
        }
    }

    /// Processes messages of peers in order, and then drops their guards. If one of them makes the actor panic, the
    /// messages after it are lost.
    fn receive(&mut self, messages: Vec<(RoundMessage, Box<dyn Send>)>) {
        // Not recorded as seen: a message that is ignored now may be sent again.
        if self.replica.is_none() || self.is_syncing {
            return;
        }
        let new: Vec<_> = messages.iter().filter_map(|(message, _)| self.decode_new(message)).collect();
        self.recover_ahead(&new);
        for message in new {
            self.update_syncing();
            if self.is_syncing {
                return;
            }
            match message {
                Decoded::Vote(vote) => self.take_vote(vote),
                Decoded::Timeout(timeout) => self.take_timeout(timeout),
                Decoded::SyncInfo(info) => self.take_sync_info(info),
            }
            self.propose();
        }
    }

    /// Decodes a message that has not been seen; `None` for others.
    fn decode_new(&mut self, message: &RoundMessage) -> Option<Decoded> {
        let hash = keccak256(&message.payload);
        if self.sent.contains(&hash) || self.seen[message.kind as usize].put(hash, ()).is_some() {
            return None;
        }
        self.counts.count_received(message.kind);
        let mut payload = &message.payload[..];
        // The network has already decoded the message successfully.
        match message.kind {
            RoundMessageKind::Vote => Vote::decode(&mut payload).map(Decoded::Vote),
            RoundMessageKind::Timeout => Timeout::decode(&mut payload).map(Decoded::Timeout),
            RoundMessageKind::SyncInfo => SyncInfo::decode(&mut payload).map(Decoded::SyncInfo),
        }
        .inspect_err(|error| tracing::debug!(%error, "a voting message cannot be decoded"))
        .ok()
    }

    /// Recovers the signers of these votes and timeouts in one batch, where that is faster. Messages that are dropped
    /// without their signers are left out.
    fn recover_ahead(&self, messages: &[Decoded]) {
        let signed = messages.iter().filter_map(|message| match message {
            Decoded::Vote(vote) if self.is_in_range(vote.block.round, vote.gap_number) && self.is_near_head(vote) => {
                Some((vote_digest(&vote.block, vote.gap_number), &vote.signature[..]))
            }
            Decoded::Timeout(timeout) if self.is_in_range(timeout.round, timeout.gap_number) => {
                Some((timeout_digest(timeout.round, timeout.gap_number), &timeout.signature[..]))
            }
            _ => None,
        });
        self.ports.engine.v2().recover_ahead(signed);
    }

    /// The replica's voting state; `None` while there is no replica.
    pub(crate) fn state(&self) -> Option<&VotingState> {
        self.replica.as_ref().map(Replica::state)
    }

    /// The messages that arrived too early.
    #[cfg(test)]
    pub(crate) const fn early(&self) -> &EarlyMessages {
        &self.early
    }

    fn round(&self) -> u64 {
        self.state().map_or(0, |state| state.round)
    }

    /// Returns whether an epoch near the head can have this gap number (3.4). Checked before any state is read for it.
    fn is_near_gap(&self, gap_number: u64) -> bool {
        let consensus = self.ports.engine.consensus();
        let head = self.ports.chain.head().header.number;
        let is_gap = gap_number == 0
            || gap_number <= consensus.switch_block
            || gap_number.saturating_add(consensus.gap).is_multiple_of(consensus.epoch.max(1));
        is_gap && gap_number.abs_diff(head) <= consensus.epoch.saturating_mul(3)
    }

    /// Returns whether a vote or timeout of this round and gap number can count now or later.
    fn is_in_range(&self, round: u64, gap_number: u64) -> bool {
        let current = self.round();
        round >= current && round <= current.saturating_add(MAX_ROUNDS_AHEAD) && self.is_near_gap(gap_number)
    }

    fn is_near_head(&self, vote: &Vote) -> bool {
        vote.block.number.abs_diff(self.ports.chain.head().header.number) <= MAX_DISTANCE
    }

    fn take_vote(&mut self, vote: Vote) {
        let (block, round) = (vote.block, self.round());
        if !self.is_in_range(block.round, vote.gap_number) || !self.is_near_head(&vote) {
            return;
        }
        if self.is_signed_by_other_node(vote_digest(&block, vote.gap_number), &vote.signature, block.round) {
            return;
        }
        if block.round > round.saturating_add(1) {
            self.keep_early_vote(vote);
            return;
        }
        match self.run(false, |replica, chain, actions| replica.on_vote(vote.clone(), chain, actions)) {
            Ok(()) => {}
            Err(ReplicaError::VoteBlock { .. }) => self.keep_early_vote(vote),
            Err(error) => tracing::debug!(%error, round = block.round, "a vote was rejected"),
        }
    }

    fn take_timeout(&mut self, timeout: Timeout) {
        let (own, round) = (self.round(), timeout.round);
        if !self.is_in_range(round, timeout.gap_number) {
            return;
        }
        if self.is_signed_by_other_node(timeout_digest(round, timeout.gap_number), &timeout.signature, round) {
            return;
        }
        if round > own {
            self.keep_early_timeout(timeout);
            return;
        }
        if let Err(error) = self.run(false, |replica, chain, actions| replica.on_timeout(timeout, chain, actions)) {
            tracing::debug!(%error, round, "a timeout was rejected");
        }
    }

    /// Stores a vote of a signer that may vote.
    fn keep_early_vote(&mut self, vote: Vote) {
        let (chain, Some(replica)) = (self.chain(), &self.replica) else { return };
        match replica.signer_of_vote(&vote, &*chain) {
            Ok(Some(signer)) => self.early.store_vote(signer, vote),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, round = vote.block.round, "an early vote was rejected"),
        }
    }

    /// Stores a timeout of a signer that may vote.
    fn keep_early_timeout(&mut self, timeout: Timeout) {
        let (chain, Some(replica)) = (self.chain(), &self.replica) else { return };
        match replica.signer_of_timeout(&timeout, &*chain) {
            Ok(Some(signer)) => self.early.store_timeout(signer, timeout),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, round = timeout.round, "an early timeout was rejected"),
        }
    }

    /// Stores certificates whose block has not arrived, if candidates have signed them.
    fn keep_early_sync_info(&mut self, info: SyncInfo) {
        let (chain, Some(replica)) = (self.chain(), &self.replica) else { return };
        match replica.is_plausible(&info.quorum, &*chain) {
            Ok(true) => self.early.store_sync_info(info),
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, round = info.quorum.block.round, "early certificates were rejected"),
        }
    }

    fn take_sync_info(&mut self, info: SyncInfo) {
        let certified = info.quorum.block;
        if certified.number.abs_diff(self.ports.chain.head().header.number) > MAX_DISTANCE
            || !self.is_near_gap(info.quorum.gap_number)
            || !self.is_near_gap(info.timeout.gap_number)
        {
            return;
        }
        if matches!(self.ports.chain.header(certified.hash), Ok(None)) {
            self.keep_early_sync_info(info);
            return;
        }
        if let Err(error) = self.run(false, |replica, chain, actions| replica.on_sync_info(info, chain, actions)) {
            tracing::debug!(%error, round = certified.round, "certificates of a peer were rejected");
        }
    }

    /// Processes an executed block: its certificate counts, and this node may vote for it.
    fn on_block(&mut self, header: &SealedHeader) {
        self.begin();
        if header.number <= self.ports.engine.consensus().switch_block {
            return;
        }
        let hash = header.hash();
        match self.run(false, |replica, chain, actions| replica.on_block(header, chain, actions)) {
            Ok(()) => {}
            Err(ReplicaError::Signer(error)) => {
                log_unsigned(&error, "vote");
                self.unsigned.vote = Some(header.clone());
            }
            Err(error) => {
                tracing::debug!(%error, number = header.number, %hash, "a block was rejected by the voting")
            }
        }
        for info in self.early.sync_infos_for(hash) {
            self.take_sync_info(info);
        }
        for vote in self.early.votes_for(hash) {
            self.take_vote(vote);
        }
    }

    fn on_countdown(&mut self) {
        // Once per countdown, repeated messages are processed again: they may have arrived too early before.
        self.seen[RoundMessageKind::Timeout as usize].clear();
        self.seen[RoundMessageKind::SyncInfo as usize].clear();
        // A long round has several timeouts but is counted once.
        let round = self.state().map(|state| state.round);
        if std::mem::replace(&mut self.failed_round, round) != round {
            self.counts.count_failed_round();
        }
        let outcome = self.run(true, Replica::on_countdown);
        self.timed_out(outcome);
    }

    fn timed_out(&mut self, outcome: Result<(), ReplicaError>) {
        match outcome {
            Ok(()) => {}
            Err(ReplicaError::Signer(error)) => {
                log_unsigned(&error, "timeout");
                self.unsigned.timeout = Some(self.round());
            }
            Err(error) => tracing::debug!(%error, "could not send a timeout for this round"),
        }
    }

    /// Tries the pending signatures again, except those of rounds that are over.
    fn on_signer_ready(&mut self) {
        let Unsigned { vote, timeout, block, signing_transaction } = std::mem::take(&mut self.unsigned);
        if let Some((round, block)) = block.filter(|(round, _)| *round == self.round()) {
            self.seal(round, *block);
        }
        if let Some(header) = vote {
            self.on_block(&header);
        }
        if timeout.is_some_and(|round| round == self.round()) {
            let outcome = self.run(true, Replica::send_timeout);
            self.timed_out(outcome);
        }
        if let Some(header) = signing_transaction {
            self.sign_block(&header);
        }
    }
}

/// Logged at `debug` only, because an external signer reports the reason to the operator itself.
fn log_unsigned(error: &SignError, message: &'static str) {
    tracing::debug!(reason = %error, is_pending = error.is_pending, message, "not signed");
}

impl Actor for VotingActor {
    type Message = Input;

    /// Restarts the replica after a panic.
    fn started(&mut self) {
        if self.timing.is_ready() {
            self.begin();
        }
    }

    fn handle(&mut self, input: Input) {
        self.update_syncing();
        match input {
            Input::Begin => self.begin(),
            Input::Messages(messages) => self.receive(messages.take()),
            Input::Executed { header, is_announced, at } => {
                if is_announced {
                    self.sign_block(&header);
                }
                self.executed_at = Some(at);
                self.on_block(&header);
                self.executed_at = None;
            }
            Input::NewHead(header) => self.on_block(&header),
            Input::Countdown(number) if number == self.countdown => self.on_countdown(),
            Input::Countdown(_) => {}
            Input::TryPropose => self.planned = None,
            Input::RemoveOldMessages => {
                if let Some(replica) = &mut self.replica {
                    replica.remove_old_messages();
                }
                self.later(CLEANUP_INTERVAL, Input::RemoveOldMessages);
            }
            Input::Show(answer) => {
                let shown = self.replica.as_ref().map(|replica| replica.waiting(&*self.ports.chain));
                // If the epoch of the head is unknown, no masternodes can be listed.
                let _ = answer.send(shown.and_then(Result::ok).unwrap_or_default());
            }
            Input::Arm(attempt) => self.arm(attempt),
            Input::SignerReady => self.on_signer_ready(),
            Input::SyncingChanged => {}
        }
        self.propose();
    }
}

/// Sends new heads to the actor until the bus is closed. If several are queued, only the last is sent.
pub(crate) async fn follow_heads(bus: Bus, mailbox: Mailbox<Input>, collector: MessageCollector) {
    let mut heads = bus.subscribe::<NewHead>();
    drop(bus);
    while let Some(delivery) = heads.next().await {
        let mut last = delivery;
        while let Ok(Some(next)) = tokio::time::timeout(Duration::ZERO, heads.next()).await {
            last = next;
        }
        if let Delivery::Event(NewHead { header, .. }) = last {
            collector.close();
            drop(mailbox.try_send(Input::NewHead(header)));
        }
    }
}
