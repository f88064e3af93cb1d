//! The tip oracle (`docs/spec/rpc-eth.md` 11.1, with go-ethereum's values on Ethereum's chains).

use std::sync::Arc;

use alloy_primitives::{B256, U256};
use tenon_api::{Head, RecoveredBlock, SealedHeader, StoreError};

use super::Fees;

/// Number of blocks sampled.
const BLOCKS: usize = 20;
/// The suggested percentile of the samples.
const PERCENTILE: usize = 60;
/// Number of a block's lowest tips that are sampled.
const SAMPLES_PER_BLOCK: usize = 3;
/// Tips below this are ignored, wei.
const MIN_COUNTED: U256 = U256::from_limbs([2, 0, 0, 0]);
/// Maximum suggestion: 500 gwei.
const MAX_SUGGESTED: U256 = U256::from_limbs([500_000_000_000, 0, 0, 0]);

/// The last suggestion and its head.
#[derive(Clone, Copy)]
pub(super) struct Suggestion {
    head: B256,
    tip: U256,
}

impl Suggestion {
    /// The suggestion before any block was sampled.
    pub(super) const fn initial(tip: U256) -> Self {
        Self { head: B256::ZERO, tip }
    }
}

impl Fees {
    /// The tip for the head, if it is cached.
    pub(crate) fn known_tip(&self) -> Option<U256> {
        self.known_tip_for(&self.chain.head())
    }

    fn known_tip_for(&self, head: &Head) -> Option<U256> {
        let last = *self.suggestion.lock();
        (last.head == head.header.hash()).then_some(last.tip)
    }

    /// The same plus the head's base fee.
    pub(crate) fn known_gas_price(&self) -> Option<U256> {
        let head = self.chain.head();
        self.known_tip_for(&head).map(|tip| with_base_fee(tip, &head))
    }

    /// A price that should get a transaction included soon, wei per gas.
    pub(crate) fn suggest_gas_price(&self) -> Result<U256, StoreError> {
        let head = self.chain.head();
        Ok(with_base_fee(self.suggest_tip_for(&head)?, &head))
    }

    /// A tip that should get a transaction included soon, wei per gas.
    pub(crate) fn suggest_tip(&self) -> Result<U256, StoreError> {
        self.suggest_tip_for(&self.chain.head())
    }

    fn suggest_tip_for(&self, head: &Head) -> Result<U256, StoreError> {
        let last = *self.suggestion.lock();
        if last.head == head.header.hash() {
            return Ok(last.tip);
        }
        let without_samples = last.tip / U256::from(self.family.client_behaviour().idle_tip_divisor);
        let mut samples = self.samples(head.header.number, without_samples)?;
        samples.sort_unstable();
        let chosen = samples.len().saturating_sub(1) * PERCENTILE / 100;
        let tip =
            samples.get(chosen).copied().unwrap_or(last.tip).min(MAX_SUGGESTED).max(self.min_suggestion(&head.header));
        *self.suggestion.lock() = Suggestion { head: head.header.hash(), tip };
        Ok(tip)
    }

    /// The pool's minimum, below which a suggestion would be refused. Without a base fee the tip is the whole price, of
    /// which a chain may have a minimum.
    fn min_suggestion(&self, head: &SealedHeader) -> U256 {
        self.family.min_tip(head).max(self.limits.min_tip)
    }

    /// The lowest tips of a block that count.
    fn lowest_tips(&self, number: u64) -> Result<Arc<[U256]>, StoreError> {
        let hash = self.canonical_hash(number)?;
        if let Some(known) = self.tips.lowest(hash) {
            return Ok(known);
        }
        let tips: Arc<[U256]> = lowest_tips(&*self.block(number, hash)?).into();
        self.tips.cache_lowest(hash, Arc::clone(&tips));
        Ok(tips)
    }

    /// Walks back from the head. Blocks with few samples extend the walk, at most to twice its length.
    fn samples(&self, head: u64, without_samples: U256) -> Result<Vec<U256>, StoreError> {
        let mut samples: Vec<U256> = Vec::new();
        let mut outstanding = BLOCKS;
        let mut number = head;
        while outstanding > 0 && number > 0 {
            outstanding -= 1;
            let mut tips = self.lowest_tips(number)?.to_vec();
            if tips.is_empty() {
                tips.push(without_samples);
            }
            if tips.len() == 1 && samples.len() + 1 + outstanding < BLOCKS * 2 {
                outstanding += 1;
            }
            samples.append(&mut tips);
            number -= 1;
        }
        Ok(samples)
    }
}

fn with_base_fee(tip: U256, head: &Head) -> U256 {
    tip.saturating_add(U256::from(head.header.base_fee_per_gas.unwrap_or_default()))
}

fn lowest_tips(block: &RecoveredBlock) -> Vec<U256> {
    let base_fee = block.header.base_fee_per_gas;
    let mut tips: Vec<U256> = block
        .transactions
        .iter()
        .zip(&block.senders)
        .filter(|(_, sender)| **sender != block.header.beneficiary)
        .map(|(transaction, _)| {
            transaction.effective_gas_price(base_fee).saturating_sub(U256::from(base_fee.unwrap_or_default()))
        })
        .filter(|tip| *tip >= MIN_COUNTED)
        .collect();
    tips.sort_unstable();
    tips.truncate(SAMPLES_PER_BLOCK);
    tips
}
