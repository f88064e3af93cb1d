//! Requests for accounts, code, slots and proofs.

use std::sync::Arc;

use alloy_primitives::{Bytes, U256};
use tenon_api::{
    Account, AccountProof, BlockId, BlockNumber, BlockTag, ChainReader, SealedHeader, StateReader, StoreError,
    messages::{GetAccount, GetCode, GetProof, GetStorage},
};
use tenon_bus::{CallContext, CallerAllowance};
use tenon_chain::{StateUnavailable, TrieError, require_block};

use super::{
    Answers,
    error::{AnswerError, LimitExceeded},
    repeat_after_reorganisation,
};
use crate::error::corrupt;

/// How often a proof is restarted because the head moved on meanwhile.
const PROOF_ATTEMPTS: usize = 3;

impl Answers {
    pub(super) fn account(&self, request: &GetAccount) -> Result<Account, AnswerError> {
        let account = self.in_state(request.block, |state| state.account(request.address))?;
        Ok(account.unwrap_or_default())
    }

    pub(super) fn code(&self, request: &GetCode) -> Result<Bytes, AnswerError> {
        self.in_state(request.block, |state| {
            let Some(account) = state.account(request.address)? else { return Ok(Bytes::new()) };
            state.code(account.code_hash)?.ok_or_else(|| corrupt(format!("code {}", account.code_hash)))
        })
    }

    pub(super) fn storage(&self, request: &GetStorage) -> Result<U256, AnswerError> {
        self.in_state(request.block, |state| state.storage(request.address, request.slot))
    }

    pub(super) fn proof(&self, request: &GetProof, context: &CallContext) -> Result<AccountProof, AnswerError> {
        let (requested, max) = (request.slots.len(), self.limits.proof_slots);
        if requested > max {
            return Err(LimitExceeded::ProofSlots { max, requested }.into());
        }
        repeat_after_reorganisation(|| {
            let (header, state) = self.state_of(request.block)?;
            let proof = self.prove(&header, request, context);
            // Returns the specific error if the state was pruned or unwound during the walk of the trie.
            state.account(request.address).map_err(|error| unavailable_state(error, &header))?;
            Ok(proof?)
        })
    }

    /// Walks the trie of a block. The trie of an older state may be computed from one of the newest states, whose nodes
    /// can be removed meanwhile. A restart then chooses another base.
    fn prove(
        &self,
        header: &SealedHeader,
        request: &GetProof,
        context: &CallContext,
    ) -> Result<AccountProof, TrieError> {
        let mut attempts = PROOF_ATTEMPTS;
        loop {
            let caller = Arc::new(CallerAllowance::new(&self.memory, context));
            let nodes = self.store.trie_of(header, caller)?;
            attempts -= 1;
            match tenon_chain::prove(&*nodes, header.state_root, request.address, &request.slots) {
                Err(TrieError::Missing { .. }) if attempts > 0 => {}
                outcome => return outcome,
            }
        }
    }

    /// Reads from the state after a block.
    fn in_state<T>(
        &self,
        block: BlockId,
        read: impl Fn(&dyn StateReader) -> Result<T, StoreError>,
    ) -> Result<T, AnswerError> {
        repeat_after_reorganisation(|| {
            // A state is found by its height. The block's header is only read for error texts.
            let value = match block {
                BlockId::Number(number) => self.store.with_state_at(number, &read).ok(),
                BlockId::Tag(BlockTag::Latest | BlockTag::Pending) => self.store.with_state_of_head(&read).ok(),
                BlockId::Tag(_) | BlockId::Hash { .. } => None,
            };
            if let Some(value) = value {
                return Ok(value);
            }
            let (header, state) = self.state_of(block)?;
            read(&*state).map_err(|error| unavailable_state(error, &header))
        })
    }

    /// Returns a block of any branch and the state after it.
    fn state_of(&self, block: BlockId) -> Result<(Arc<SealedHeader>, Arc<dyn StateReader>), AnswerError> {
        let (header, canonical) = self.state_at(block)?;
        if self.is_of_another_branch(block, &header)? {
            let state = self.store.state_of_branch(&header)?.ok_or_else(|| missing_state(&header))?;
            return Ok((header, state));
        }
        Ok((header, canonical?))
    }

    /// Returns a canonical block and the state after it. Fails for a block of another branch.
    pub(super) fn canonical_state_of(
        &self,
        block: BlockId,
    ) -> Result<(Arc<SealedHeader>, Arc<dyn StateReader>), AnswerError> {
        let (header, canonical) = self.state_at(block)?;
        if self.is_of_another_branch(block, &header)? {
            return Err(missing_state(&header));
        }
        Ok((header, canonical?))
    }

    /// Returns a block and the state after the canonical block of its height. The caller must then check whether these
    /// are the same block; a later unwind makes reads of the state fail.
    #[allow(clippy::type_complexity, reason = "the state may be missing where another branch's is wanted")]
    fn state_at(
        &self,
        block: BlockId,
    ) -> Result<(Arc<SealedHeader>, Result<Arc<dyn StateReader>, AnswerError>), AnswerError> {
        let header = require_block(&*self.store, block)?;
        let state = self.store.state_at(BlockNumber(header.number)).map_err(|error| unavailable_state(error, &header));
        Ok((header, state))
    }

    /// Returns whether the block is on another branch, which only a hash can name. A block that was found by number or
    /// tag and is not canonical now was removed meanwhile, which is an error.
    fn is_of_another_branch(&self, block: BlockId, header: &SealedHeader) -> Result<bool, StoreError> {
        let number = BlockNumber(header.number);
        if self.store.canonical_hash(number)? == Some(header.hash()) {
            return Ok(false);
        }
        if matches!(block, BlockId::Hash { .. }) { Ok(true) } else { Err(StoreError::Reorganised { number }) }
    }
}

/// Converts the error of a state that is not available.
fn unavailable_state(error: StoreError, header: &SealedHeader) -> AnswerError {
    match error {
        StoreError::Pruned { .. } => missing_state(header),
        // The head moved below the block between the look-ups of the block and of its state.
        StoreError::UnknownBlock { .. } => {
            AnswerError::Store(StoreError::Reorganised { number: BlockNumber(header.number) })
        }
        other => other.into(),
    }
}

fn missing_state(header: &SealedHeader) -> AnswerError {
    StateUnavailable { state_root: header.state_root }.into()
}
