//! One node's part in the voting (`docs/spec/consensus.md` 5): a deterministic state machine from events to actions,
//! without a clock, random numbers, peers or a database. If an event fails, the actions pushed before the failure must
//! still be carried out: the replica keeps the state that it had reached.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tenon_api::messages::{VotingPool, WaitingMembers, WaitingTimeouts, WaitingVotes};
use tenon_api::{Address, B256, BlockSigner, Bytes, ChainReader, SealedHeader, SignerMessage};
use tenon_native_consensus::v2::{
    EpochInfo, V2Engine, V2Error, extra_of, gap_number, is_epoch_switch, round_of, stored_header, would_open_epoch,
};
use tenon_native_consensus::{
    BlockInfo, QuorumCertificate, SyncInfo, Timeout, TimeoutCertificate, Vote, VotingState, timeout_digest, vote_digest,
};
use tenon_native_spec::RoundConfig;

use crate::countdown::countdown;
use crate::error::ReplicaError;
use crate::forensics::{CertificateChain, ForensicProof, VoteWatch};
use crate::pool::{Pool, Pooled as _};

/// An action for the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send to all peers: this node's own vote, or one that it forwards.
    SendVote(Vote),
    /// Send to all peers.
    SendTimeout(Timeout),
    /// Send to all peers.
    SendSyncInfo(SyncInfo),
    /// Restart the countdown, cancelling the running one. When it ends, call [`Replica::on_countdown`].
    StartCountdown(Duration),
    /// A round began: its leader may propose.
    RoundBegan(u64),
    /// A block is committed, and all its ancestors with it.
    Committed(BlockInfo),
    /// A signer voted for two blocks in one round (9). Not reported by default, as in the reference.
    Report(ForensicProof),
}

/// The state machine of one voting node.
pub struct Replica {
    engine: Arc<V2Engine>,
    /// Signs votes and timeouts; `None` on a node that only follows.
    key: Option<Arc<dyn BlockSigner>>,
    state: VotingState,
    votes: Pool<Vote>,
    watch: VoteWatch,
    /// The certificates of the last commit since the start.
    committed_certificates: Option<CertificateChain>,
    timeouts: Pool<Timeout>,
    /// Own timeouts in the current round.
    timeout_count: u64,
    /// Timing values of the last inserted epoch switch, not of the round itself (5.7).
    timing: RoundConfig,
}

impl Replica {
    /// Creates the replica of a node at this head, with the voting state from before the restart (5.2).
    ///
    /// # Errors
    /// [`V2Error::V1Block`] if the head is below the switch block; [`V2Error::MissingBlock`].
    pub fn start(
        engine: Arc<V2Engine>,
        key: Option<Arc<dyn BlockSigner>>,
        remembered: VotingState,
        head: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<(Self, Vec<Action>), V2Error> {
        let consensus = engine.consensus();
        if head.number < consensus.switch_block {
            return Err(V2Error::V1Block);
        }
        let epoch = engine.epoch_info(head, chain)?;
        let timing = consensus.at_round(epoch.switch.round).clone();
        let first =
            QuorumCertificate { block: epoch.switch, signatures: Vec::new(), gap_number: epoch.gap_number(consensus) };
        let at_switch_block = head.number == consensus.switch_block;
        let (votes, timeouts) = (Pool::default(), Pool::default());
        let mut replica = Self {
            engine,
            key,
            state: remembered,
            votes,
            watch: VoteWatch::default(),
            committed_certificates: None,
            timeouts,
            timeout_count: 0,
            timing,
        };
        let mut actions = Vec::new();
        if at_switch_block {
            if replica.state.highest_quorum.block.round == 0 {
                replica.state.highest_quorum = first;
            }
        } else {
            replica.process_quorum(extra_of(head)?.quorum, chain, &mut actions)?;
        }
        if actions.iter().all(|action| !matches!(action, Action::RoundBegan(_))) {
            replica.begin_round(replica.state.round.max(1), &mut actions);
        }
        Ok((replica, actions))
    }

    /// Signs with this key from now on. Without a key the node only follows.
    pub fn set_key(&mut self, key: Option<Arc<dyn BlockSigner>>) {
        self.key = key;
    }

    /// Records that this node proposes in a round. The state must be stored before the block leaves the node.
    pub const fn note_proposal(&mut self, round: u64) {
        self.state.highest_proposed_round = round;
    }

    /// The votes and timeouts in the pools, with their senders and the masternodes of the head's epoch that have not
    /// sent one (`docs/spec/rpc-node.md` 2.3).
    ///
    /// # Errors
    /// [`V2Error`] if the head's epoch cannot be determined.
    pub fn waiting(&self, chain: &dyn ChainReader) -> Result<VotingPool, V2Error> {
        let epoch = self.engine.epoch_info(&chain.head().header, chain)?;
        let members = |signatures: Vec<(B256, &Bytes)>| {
            let signer = |(digest, signature): (B256, &Bytes)| self.engine.signer(digest, signature).ok();
            let signers: Vec<Address> = signatures.into_iter().filter_map(signer).collect();
            let missing = epoch.masternodes.iter().filter(|masternode| !signers.contains(masternode)).copied();
            WaitingMembers { missing: missing.collect(), signers }
        };
        let votes = self.votes.groups().map(|((round, gap_number, number, hash), votes)| {
            let signatures = votes.map(|vote| (vote_digest(&vote.block, vote.gap_number), &vote.signature)).collect();
            let (round, gap_number, number, hash) = (*round, *gap_number, *number, *hash);
            WaitingVotes { round, gap_number, number, hash, members: members(signatures) }
        });
        let timeouts = self.timeouts.groups().map(|((round, gap_number), timeouts)| {
            let digest = timeout_digest(*round, *gap_number);
            let signatures = timeouts.map(|timeout| (digest, &timeout.signature)).collect();
            WaitingTimeouts { round: *round, gap_number: *gap_number, members: members(signatures) }
        });
        Ok(VotingPool { votes: votes.collect(), timeouts: timeouts.collect() })
    }

    /// The state to keep for the next start.
    pub const fn state(&self) -> &VotingState {
        &self.state
    }

    /// The certificates of the last commit since the start, for comparison with others (9); `None` before the first,
    /// because they are not kept across a restart.
    pub const fn committed_certificates(&self) -> Option<&CertificateChain> {
        self.committed_certificates.as_ref()
    }

    /// A block was inserted (5.5): processes its certificate, then votes for it if the rule allows.
    ///
    /// # Errors
    /// [`ReplicaError`].
    pub fn on_block(
        &mut self,
        header: &SealedHeader,
        chain: &dyn ChainReader,
        actions: &mut Vec<Action>,
    ) -> Result<(), ReplicaError> {
        let extra = extra_of(header)?;
        if is_epoch_switch(self.engine.consensus(), header)? {
            self.timing = self.engine.consensus().at_round(extra.round).clone();
        }
        self.process_quorum(extra.quorum.clone(), chain, actions)?;
        let epoch = self.engine.epoch_info(header, chain)?;
        let Some(key) = self.key.clone().filter(|key| epoch.is_masternode(&key.address())) else {
            return Ok(());
        };
        let block = BlockInfo { hash: header.hash(), round: extra.round, number: header.number };
        if self.may_vote(&block, header, &extra.quorum, chain)? {
            let gap_number = epoch.gap_number(self.engine.consensus());
            let BlockInfo { hash, round, number } = block;
            let message = SignerMessage::Vote { hash, round, number, gap_number };
            let signature = key.sign_message(message, vote_digest(&block, gap_number))?.to_vec().into();
            let vote = Vote { block, signature, gap_number };
            self.state.highest_voted_round = self.state.round;
            self.handle_vote(vote.clone(), key.address(), chain, actions)?;
            actions.push(Action::SendVote(vote));
        }
        Ok(())
    }

    /// The voting rule (5.5): once per round, only in the current one, and only for a block that extends the lock or
    /// has a higher certificate.
    fn may_vote(
        &self,
        block: &BlockInfo,
        header: &SealedHeader,
        quorum: &QuorumCertificate,
        chain: &dyn ChainReader,
    ) -> Result<bool, V2Error> {
        if self.state.round <= self.state.highest_voted_round || block.round != self.state.round {
            return Ok(false);
        }
        match &self.state.lock {
            Some(lock) if quorum.block.round <= lock.block.round => extends(header, &lock.block, chain),
            _ => Ok(true),
        }
    }

    /// A vote was received from a peer (5.4). One that does not count is dropped without an error.
    ///
    /// # Errors
    /// [`ReplicaError`] if it is malformed or of another round. After [`ReplicaError::VoteBlock`] the vote stays in the
    /// pool.
    pub fn on_vote(
        &mut self,
        vote: Vote,
        chain: &dyn ChainReader,
        actions: &mut Vec<Action>,
    ) -> Result<(), ReplicaError> {
        if vote.block.round < self.state.round {
            return Ok(());
        }
        let signer = self.signer_of_vote(&vote, chain)?;
        let Some(signer) = signer.filter(|signer| self.votes.accepts(&vote, *signer)) else { return Ok(()) };
        actions.push(Action::SendVote(vote.clone()));
        self.handle_vote(vote, signer, chain, actions)?;
        Ok(())
    }

    /// Counts a vote, and makes a certificate once enough masternodes of the block's epoch have voted (5.4).
    fn handle_vote(
        &mut self,
        vote: Vote,
        signer: Address,
        chain: &dyn ChainReader,
        actions: &mut Vec<Action>,
    ) -> Result<(), ReplicaError> {
        let (found, current) = (vote.block.round, self.state.round);
        if found != current && Some(found) != current.checked_add(1) {
            return Err(ReplicaError::VoteRound { found, current });
        }
        self.watch_for_equivocation(&vote, signer, actions);
        let (block, gap_number, key) = (vote.block, vote.gap_number, vote.key());
        let entries = self.votes.add(vote, signer, current)?;
        let unknown =
            |error| ReplicaError::VoteBlock { hash: block.hash, number: block.number, error: Box::new(error) };
        let header = stored_header(chain, block.hash, block.number).map_err(unknown)?;
        let epoch = self.engine.epoch_info(&header, chain).map_err(unknown)?;
        if !self.engine.is_quorum(entries, &epoch, block.round) {
            return Ok(());
        }
        self.engine.check_block_info(&block, &header)?;
        let digest = vote_digest(&block, gap_number);
        let signatures = self.votes.of(&key).map(|vote| &vote.signature);
        let signatures = self.one_of_each_masternode(digest, signatures, &epoch);
        if !self.engine.is_quorum(signatures.len(), &epoch, block.round) {
            return Ok(());
        }
        self.process_quorum(QuorumCertificate { block, signatures, gap_number }, chain, actions)?;
        Ok(())
    }

    /// Reports a signer that voted for another block in this round.
    fn watch_for_equivocation(&mut self, vote: &Vote, signer: Address, actions: &mut Vec<Action>) {
        self.watch.forget_before(self.state.round);
        if let Some(proof) = self.watch.observe(vote, signer) {
            actions.push(Action::Report(proof));
        }
    }

    /// A timeout was received from a peer (5.7). One that does not count is dropped without an error.
    ///
    /// # Errors
    /// [`ReplicaError`] if it is malformed or of another round.
    pub fn on_timeout(
        &mut self,
        timeout: Timeout,
        chain: &dyn ChainReader,
        actions: &mut Vec<Action>,
    ) -> Result<(), ReplicaError> {
        if timeout.round < self.state.round {
            return Ok(());
        }
        let signer = self.signer_of_timeout(&timeout, chain)?;
        let Some(signer) = signer.filter(|signer| self.timeouts.accepts(&timeout, *signer)) else { return Ok(()) };
        actions.push(Action::SendTimeout(timeout.clone()));
        self.handle_timeout(timeout, signer, chain, actions)?;
        Ok(())
    }

    /// Counts a timeout of this round, and ends the round once enough masternodes have sent one (5.7).
    fn handle_timeout(
        &mut self,
        timeout: Timeout,
        signer: Address,
        chain: &dyn ChainReader,
        actions: &mut Vec<Action>,
    ) -> Result<(), ReplicaError> {
        let (round, gap_number, current) = (timeout.round, timeout.gap_number, self.state.round);
        if round != current {
            return Err(ReplicaError::TimeoutRound { found: round, current });
        }
        let key = timeout.key();
        let entries = self.timeouts.add(timeout, signer, current)?;
        let head = chain.head();
        let epoch = self.engine.epoch_info(&head.header, chain)?;
        if !self.engine.is_quorum(entries, &epoch, round) {
            return Ok(());
        }
        let epoch = self.epoch_of_timeout(round, &head.header, chain)?;
        let digest = timeout_digest(round, gap_number);
        let signatures = self.timeouts.of(&key).map(|timeout| &timeout.signature);
        let signatures = self.one_of_each_masternode(digest, signatures, &epoch);
        if !self.engine.is_quorum(signatures.len(), &epoch, round) {
            return Ok(());
        }
        self.process_timeout(TimeoutCertificate { round, signatures, gap_number }, actions);
        actions.push(Action::SendSyncInfo(self.sync_info()));
        Ok(())
    }

    /// A peer's highest certificates were received (5.6). Both must be valid. The quorum certificate counts even if the
    /// timeout certificate beside it is empty: a node sends that while it has seen no failed round.
    ///
    /// # Errors
    /// The [`V2Error`] of the invalid certificate.
    pub fn on_sync_info(
        &mut self,
        sync: SyncInfo,
        chain: &dyn ChainReader,
        actions: &mut Vec<Action>,
    ) -> Result<(), V2Error> {
        let is_known = sync.quorum.block.round <= self.state.highest_quorum.block.round
            && sync.timeout.round <= self.state.highest_timeout.round;
        if is_known {
            return Ok(());
        }
        self.engine.verify_quorum_certificate(&sync.quorum, None, chain)?;
        let says_that_a_round_failed = sync.timeout != TimeoutCertificate::default();
        if says_that_a_round_failed {
            let epoch = self.epoch_of_timeout(sync.timeout.round, &chain.head().header, chain)?;
            self.engine.verify_timeout_certificate(&sync.timeout, &epoch, chain)?;
        }
        actions.push(Action::SendSyncInfo(sync.clone()));
        self.process_quorum(sync.quorum, chain, actions)?;
        if says_that_a_round_failed {
            self.process_timeout(sync.timeout, actions);
        }
        Ok(())
    }

    /// The countdown ended (5.7): a masternode of the head's epoch sends a timeout, and at intervals its highest
    /// certificates. The countdown restarts in any case.
    ///
    /// # Errors
    /// See [`Replica::send_timeout`].
    pub fn on_countdown(&mut self, chain: &dyn ChainReader, actions: &mut Vec<Action>) -> Result<(), ReplicaError> {
        actions.push(Action::StartCountdown(self.countdown()));
        self.send_timeout(chain, actions)
    }

    /// Signs and counts this node's timeout of the round, if it is a masternode. For [`Replica::on_countdown`], and once
    /// a signature that was pending then has arrived. Its gap number follows the head, so a second timeout of a round
    /// can differ from the first (5.7).
    ///
    /// # Errors
    /// [`ReplicaError::Engine`] if the head's epoch cannot be determined; [`ReplicaError::Signer`].
    pub fn send_timeout(&mut self, chain: &dyn ChainReader, actions: &mut Vec<Action>) -> Result<(), ReplicaError> {
        let (head, round) = (chain.head(), self.state.round);
        let epoch = self.engine.epoch_info(&head.header, chain)?;
        let Some(key) = self.key.clone().filter(|key| epoch.is_masternode(&key.address())) else { return Ok(()) };
        let consensus = self.engine.consensus();
        let gap_number = if would_open_epoch(consensus, &head.header, round)? {
            gap_number(consensus, head.header.number.saturating_add(1))
        } else {
            epoch.gap_number(consensus)
        };
        let message = SignerMessage::Timeout { round, gap_number };
        let signature = key.sign_message(message, timeout_digest(round, gap_number))?.to_vec().into();
        let timeout = Timeout { round, signature, gap_number };
        self.handle_timeout(timeout.clone(), key.address(), chain, actions)?;
        actions.push(Action::SendTimeout(timeout));
        self.timeout_count += 1;
        let threshold = self.timing.timeout_sync_threshold;
        if threshold > 0 && self.timeout_count.is_multiple_of(threshold) {
            actions.push(Action::SendSyncInfo(self.sync_info()));
        }
        Ok(())
    }

    /// Removes the messages of old rounds from the pools. Call it every minute.
    pub fn remove_old_messages(&mut self) {
        self.votes.clean(self.state.round);
        self.timeouts.clean(self.state.round);
    }

    /// Processes a certificate (5.3). The highest one is replaced even if its block is not known.
    fn process_quorum(
        &mut self,
        quorum: QuorumCertificate,
        chain: &dyn ChainReader,
        actions: &mut Vec<Action>,
    ) -> Result<(), V2Error> {
        let certified = quorum.block;
        if certified.round > self.state.highest_quorum.block.round {
            self.state.highest_quorum = quorum.clone();
        }
        let block = stored_header(chain, certified.hash, certified.number)?;
        if block.number > self.engine.consensus().switch_block {
            let inner = extra_of(&block)?.quorum;
            if self.state.lock.as_ref().is_none_or(|lock| inner.block.round > lock.block.round) {
                self.state.lock = Some(inner);
            }
            if self.commit(&block, chain, actions)? {
                // Used as evidence only: a failure must not prevent the round from beginning.
                self.committed_certificates = CertificateChain::ending_with(quorum, chain).ok();
            }
        }
        if certified.round >= self.state.round {
            self.begin_round(certified.round.saturating_add(1), actions);
        }
        Ok(())
    }

    /// Three blocks of consecutive rounds, the last one certified, commit the first (8.1). Returns whether one was
    /// committed.
    fn commit(
        &mut self,
        block: &SealedHeader,
        chain: &dyn ChainReader,
        actions: &mut Vec<Action>,
    ) -> Result<bool, V2Error> {
        let consensus = self.engine.consensus();
        if block.number <= consensus.switch_block.saturating_add(2) {
            return Ok(false);
        }
        let round = round_of(consensus, block)?;
        let parent = stored_header(chain, block.parent_hash, block.number - 1)?;
        if round_of(consensus, &parent)?.checked_add(1) != Some(round) {
            return Ok(false);
        }
        let first = stored_header(chain, parent.parent_hash, parent.number - 1)?;
        let first = BlockInfo { hash: first.hash(), round: round_of(consensus, &first)?, number: first.number };
        let is_consecutive = first.round.checked_add(2) == Some(round);
        let is_newer = |known: BlockInfo| known.round < first.round && known.number <= first.number;
        if is_consecutive && self.state.committed.is_none_or(is_newer) {
            self.state.committed = Some(first);
            actions.push(Action::Committed(first));
            return Ok(true);
        }
        Ok(false)
    }

    /// Processes a certificate for a failed round (5.7).
    fn process_timeout(&mut self, timeout: TimeoutCertificate, actions: &mut Vec<Action>) {
        let round = timeout.round;
        if round > self.state.highest_timeout.round {
            self.state.highest_timeout = timeout;
        }
        if round >= self.state.round {
            self.begin_round(round.saturating_add(1), actions);
        }
    }

    /// Drops the timeouts of the previous round and starts the countdown; votes are kept (5.3, `new_round`).
    fn begin_round(&mut self, round: u64, actions: &mut Vec<Action>) {
        self.state.round = round;
        self.timeout_count = 0;
        self.timeouts.clear();
        actions.push(Action::StartCountdown(self.countdown()));
        actions.push(Action::RoundBegan(round));
    }

    fn countdown(&self) -> Duration {
        countdown(&self.timing, self.state.round, self.state.highest_quorum.block.round)
    }

    fn sync_info(&self) -> SyncInfo {
        SyncInfo { quorum: self.state.highest_quorum.clone(), timeout: self.state.highest_timeout.clone() }
    }

    /// The signer of a peer's vote; `None` if the signer may not vote.
    ///
    /// # Errors
    /// [`V2Error`] if its signature is invalid, or the candidates of its gap block are not known.
    pub fn signer_of_vote(&self, vote: &Vote, chain: &dyn ChainReader) -> Result<Option<Address>, V2Error> {
        self.candidate_of(vote_digest(&vote.block, vote.gap_number), &vote.signature, vote.gap_number, chain)
    }

    /// The signer of a peer's timeout; `None` if the signer may not vote.
    ///
    /// # Errors
    /// See [`Replica::signer_of_vote`].
    pub fn signer_of_timeout(&self, timeout: &Timeout, chain: &dyn ChainReader) -> Result<Option<Address>, V2Error> {
        let digest = timeout_digest(timeout.round, timeout.gap_number);
        self.candidate_of(digest, &timeout.signature, timeout.gap_number, chain)
    }

    /// Whether to keep a certificate of a block that is not stored, until the block arrives. Only candidates of the gap
    /// block may have signed it, and at least half as many as a quorum of the head's epoch. The masternodes of its own
    /// epoch may differ, and are known only with the block.
    ///
    /// # Errors
    /// [`V2Error`] if a signature is invalid, or the candidates or the head's epoch are not known.
    pub fn is_plausible(&self, quorum: &QuorumCertificate, chain: &dyn ChainReader) -> Result<bool, V2Error> {
        let Some(first) = quorum.signatures.first() else { return Ok(false) };
        // If the first signer is not a candidate, the others are not recovered.
        if self.candidate_of(quorum.digest(), first, quorum.gap_number, chain)?.is_none() {
            return Ok(false);
        }
        let candidates = self.engine.candidates(quorum.gap_number, chain)?.ok_or(V2Error::NoSnapshot)?;
        let signers = self.engine.unique_signers(quorum.digest(), &quorum.signatures)?;
        let epoch = self.engine.epoch_info(&chain.head().header, chain)?;
        let is_half = self.engine.is_quorum(signers.len().saturating_mul(2), &epoch, quorum.block.round);
        Ok(is_half && signers.iter().all(|signer| candidates.contains(signer)))
    }

    /// The signer, if it is a candidate of the gap block: standby and penalised nodes count too (4.4).
    fn candidate_of(
        &self,
        digest: B256,
        signature: &[u8],
        gap_number: u64,
        chain: &dyn ChainReader,
    ) -> Result<Option<Address>, V2Error> {
        let candidates = self.engine.candidates(gap_number, chain)?.ok_or(V2Error::NoSnapshot)?;
        let signer = self.engine.signer(digest, signature)?;
        Ok(candidates.contains(&signer).then_some(signer))
    }

    /// The first signature of each masternode of the epoch; others are left out.
    fn one_of_each_masternode<'a>(
        &self,
        digest: B256,
        signatures: impl Iterator<Item = &'a Bytes>,
        epoch: &EpochInfo,
    ) -> Vec<Bytes> {
        let mut seen = HashSet::new();
        let mut is_first = |signature: &Bytes| {
            let signer = self.engine.signer(digest, signature);
            signer.is_ok_and(|signer| epoch.is_masternode(&signer) && seen.insert(signer))
        };
        signatures.filter(|signature| is_first(signature)).cloned().collect()
    }

    /// The epoch whose rules apply to the timeouts of a round (5.6): the head's, or an earlier one if the head's began
    /// after the round.
    fn epoch_of_timeout(
        &self,
        round: u64,
        head: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<Arc<EpochInfo>, V2Error> {
        let mut epoch = self.engine.epoch_info(head, chain)?;
        while epoch.switch.round > round {
            let Some(parent) = epoch.switch_parent else { break };
            let parent = stored_header(chain, parent.hash, parent.number)?;
            epoch = self.engine.epoch_info(&parent, chain)?;
        }
        Ok(epoch)
    }
}

/// Returns whether a block has this ancestor (5.5).
fn extends(header: &SealedHeader, ancestor: &BlockInfo, chain: &dyn ChainReader) -> Result<bool, V2Error> {
    let (number, hash) = (header.number, header.hash());
    let (mut at, mut height) = (hash, number);
    let mut parent = header.parent_hash;
    while height > ancestor.number {
        at = parent;
        height -= 1;
        if height > ancestor.number {
            let missing = V2Error::MissingAncestor { number, hash, ancestor: ancestor.number };
            parent = chain.header(at)?.ok_or(missing)?.parent_hash;
        }
    }
    Ok(at == ancestor.hash)
}

#[cfg(test)]
mod tests;
