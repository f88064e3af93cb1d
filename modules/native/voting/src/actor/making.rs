//! Blocks that this node makes, and its signing transactions.

use std::fmt::Display;
use std::sync::Arc;

use tenon_api::{Block, BlockSigner, SealedHeader};
use tenon_native_consensus::v2::seal;
use tenon_native_consensus::{MERGE_SIGN_RANGE, SigningTransactionBuilder, VotingState};

use super::{Input, VotingActor};
use crate::error::SigningTransactionError;
use crate::proposer::{self, RoundDecision};
use crate::replica::Replica;

impl VotingActor {
    /// Makes the block of this round if it is this node's turn and the block is due.
    pub(super) fn propose(&mut self) {
        let (Some(key), Some(state)) = (self.key(), self.replica.as_ref().map(Replica::state)) else { return };
        let now = self.timing.unix();
        if self.planned.is_some_and(|time| now < time) {
            return;
        }
        match self.proposer.next_step(&self.ports, &*key, state, now) {
            Ok(RoundDecision::Nothing) => {}
            Ok(RoundDecision::Wait(wait)) => {
                self.planned = Some(now + wait);
                self.later(wait, Input::TryPropose);
            }
            Ok(RoundDecision::Propose(parent, draft)) => {
                let round = state.round;
                let noted = VotingState { highest_proposed_round: round, ..state.clone() };
                if let Some(replica) = &mut self.replica {
                    replica.note_proposal(round);
                }
                if !self.store_signer() || !self.store_state(noted) {
                    return;
                }
                match proposer::build(&self.ports, &parent, *draft) {
                    Ok(block) => self.seal(round, block),
                    Err(error) => warn_of_missing_block(&error),
                }
            }
            Err(error) => tracing::debug!(%error, "the leader of the round cannot be determined"),
        }
    }

    /// Seals a block that this node built for a round, and sends it. The round is already recorded on disk as proposed.
    pub(super) fn seal(&mut self, round: u64, block: Block) {
        let Some(key) = self.key() else { return };
        match seal(block.header.header().clone(), &*key) {
            Ok(header) => match proposer::store(&self.ports, header, block) {
                Ok(block) => self.proposed(block),
                Err(error) => warn_of_missing_block(&error),
            },
            Err(error) => {
                if !error.is_pending {
                    warn_of_missing_block(&error);
                }
                self.unsigned.block = Some((round, Box::new(block)));
            }
        }
    }

    fn proposed(&mut self, block: Block) {
        let header = block.header.clone();
        let total_difficulty = self.ports.chain.total_difficulty(block.hash()).ok().flatten().unwrap_or_default();
        tracing::info!(number = header.number, hash = %header.hash(), transactions = block.transactions.len(), "block made");
        self.counts.count_block();
        self.ports.network.announce(Arc::new(block), total_difficulty);
        self.on_block(&header);
        self.sign_block(&header);
    }

    /// The signing transaction for every fifteenth block (10.1).
    pub(super) fn sign_block(&mut self, header: &SealedHeader) {
        let Some(key) = self.key().filter(|_| header.number.is_multiple_of(MERGE_SIGN_RANGE)) else { return };
        let epoch = self.ports.engine.v2().epoch_info(header, &*self.ports.chain);
        if !epoch.is_ok_and(|epoch| epoch.is_masternode(&key.address())) {
            return;
        }
        let Err(error) = self.send_signing_transaction(header, key) else { return };
        if let SigningTransactionError::Signer(sign_error) = &error {
            self.unsigned.signing_transaction = Some(header.clone());
            if sign_error.is_pending {
                return;
            }
        }
        tracing::warn!(number = header.number, reason = %error, "could not send a signing transaction");
    }

    fn send_signing_transaction(
        &self,
        header: &SealedHeader,
        key: Arc<dyn BlockSigner>,
    ) -> Result<(), SigningTransactionError> {
        let nonce = self.ports.pool.next_nonce(key.address())?;
        let signed = SigningTransactionBuilder::new(key, self.ports.chain_id).sign(header, nonce)?;
        self.ports.pool.submit_own(&tenon_chain::encode_transaction(&signed.transaction))?;
        Ok(())
    }
}

fn warn_of_missing_block(reason: &impl Display) {
    tracing::warn!(%reason, "could not make a block in this node's round");
}
