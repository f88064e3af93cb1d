//! Decides when this node's key may sign, and records which key signs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use alloy_primitives::{Address, B256};
use tenon_api::BlockSigner;
use tenon_native_consensus::VotingState;

use super::{Input, LISTENING_PERIODS, Signing, VotingActor};

impl VotingActor {
    /// The key; `None` if this node does not sign now.
    pub(crate) fn key(&self) -> Option<Arc<dyn BlockSigner>> {
        let may_sign = self.signing == Signing::Active && !self.is_syncing;
        self.ports.key.clone().filter(|_| may_sign)
    }

    /// Enables signing at once if the voting record of this node belongs to the key. Otherwise another node may still
    /// sign with the key, so this node listens first.
    pub(super) fn use_key(&mut self) {
        let Some(key) = self.ports.key.clone().filter(|_| self.signing == Signing::Unchecked) else { return };
        if self.record_signer == Some(key.address()) {
            self.signing = Signing::Active;
            tracing::info!(masternode = %key.address(), round = self.kept.round, "voting with this masternode's key is \
                enabled");
        } else {
            tracing::info!(masternode = %key.address(), seconds = self.listening_time().as_secs(), "no voting record for \
                this key: signing starts after a waiting time, in case another node uses the key");
            self.listen();
        }
    }

    fn listening_time(&self) -> Duration {
        let period = self.ports.engine.v2().consensus().at_round(self.kept.round).timeout_period;
        Duration::from_secs(period.saturating_mul(LISTENING_PERIODS))
    }

    /// Begins to listen. While the node is far behind it ignores messages, so it begins again afterwards.
    fn listen(&mut self) {
        self.signing = Signing::Listening;
        self.listening_attempt += 1;
        if !self.is_syncing {
            self.later(self.listening_time(), Input::Arm(self.listening_attempt));
        }
    }

    /// Stops listening, because without a replica no message is processed. The next start of the replica begins again.
    pub(super) fn interrupt_listening(&mut self) {
        if self.signing == Signing::Listening {
            self.signing = Signing::Unchecked;
            self.listening_attempt += 1;
        }
    }

    pub(super) fn update_syncing(&mut self) {
        let is_syncing = self.syncing.load(Ordering::SeqCst);
        if std::mem::replace(&mut self.is_syncing, is_syncing) == is_syncing {
            return;
        }
        self.set_replica_key();
        if self.signing == Signing::Listening {
            self.listen();
        }
    }

    pub(super) fn arm(&mut self, attempt: u64) {
        if self.signing == Signing::Listening && attempt == self.listening_attempt {
            self.signing = Signing::Active;
            if let Some(key) = &self.ports.key {
                tracing::info!(masternode = %key.address(), "voting with this masternode's key is enabled");
            }
            self.set_replica_key();
        }
    }

    pub(super) fn set_replica_key(&mut self) {
        let key = self.key();
        if let Some(replica) = &mut self.replica {
            replica.set_key(key);
        }
    }

    pub(super) fn stop_signing(&mut self, reason: &str) {
        if self.signing != Signing::Stopped {
            self.signing = Signing::Stopped;
            tracing::error!(reason, "SIGNING STOPPED: this node signs nothing until it is restarted");
            self.set_replica_key();
        }
    }

    /// Records that the key signs on this node. Returns false if that fails; then nothing may be signed.
    pub(super) fn store_signer(&mut self) -> bool {
        let signer = self.ports.key.as_ref().map(|key| key.address());
        if self.record_signer == signer {
            return true;
        }
        if let Err(error) = self.ports.engine.write_voting_signer(signer) {
            self.stop_signing(&format!("the voting record cannot be written: {error}"));
            return false;
        }
        self.record_signer = signer;
        true
    }

    /// Writes the voting state to disk. Returns false if that fails; then no message signed in this state may be sent.
    pub(super) fn store_state(&mut self, state: VotingState) -> bool {
        if self.ports.key.is_none() {
            return true;
        }
        match self.ports.engine.write_voting_state(&state) {
            Ok(()) => {
                self.kept = state;
                true
            }
            Err(error) => {
                self.stop_signing(&format!("the voting record cannot be written: {error}"));
                false
            }
        }
    }

    /// Returns whether a message that this run did not sign has this node's signature, which means that another node
    /// signs with the same key.
    pub(super) fn is_signed_by_other_node(&mut self, digest: B256, signature: &[u8], round: u64) -> bool {
        let Some(key) = self.ports.key.clone().filter(|_| self.signing != Signing::Stopped) else { return false };
        // A record of another key does not tell which rounds this key has signed.
        let is_foreign_record = self.signer_at_start.is_some_and(|signer| signer != key.address());
        let before = if is_foreign_record { 0 } else { self.at_start.highest_voted_round.max(self.at_start.round) };
        // Anyone can make a signature with a high S out of one that this node has sent, so such a signature proves
        // nothing, and no node counts it.
        let is_own = |signer: Address| signer == key.address();
        if round <= before || !self.ports.engine.v2().signer(digest, signature).is_ok_and(is_own) {
            return false;
        }
        let address = key.address();
        self.stop_signing(&format!("round {round} was signed with the key of {address} by another node"));
        // After the next start, the node listens again.
        match self.ports.engine.write_voting_signer(None) {
            Ok(()) => self.record_signer = None,
            Err(error) => tracing::error!(%error, "could not record that another node uses the key"),
        }
        true
    }
}
