//! Fees of a range of blocks (`docs/spec/rpc-eth.md` 11.2).

use std::sync::Arc;

use alloy_primitives::{B256, U256};
use tenon_api::{
    BlockId, BlockNumber, BlockTag, SealedHeader, StoreError,
    messages::{FeeHistory, GetFeeHistory, PercentileProblem},
};
use tenon_bus::CallContext;

use super::{FeeError, Fees, tips::WeightedTip, unknown};
use crate::CallLimits;

/// Maximum number of blocks of a history computed on the caller's own task: each costs a look-up or two.
const MAX_ATTEMPTED_BLOCKS: u64 = 32;

/// Finds the tips of a block by its hash, height and header; `None` if they are not cached.
type TipsOf<'a> = dyn Fn(B256, u64, &SealedHeader) -> Result<Option<Arc<[WeightedTip]>>, StoreError> + 'a;

impl Fees {
    /// `eth_feeHistory`, if it covers few blocks with cached tips; `None` means that the pool must run it.
    pub(crate) fn attempt_fee_history(&self, request: &GetFeeHistory) -> Option<Result<FeeHistory, FeeError>> {
        if request.block_count > MAX_ATTEMPTED_BLOCKS {
            return None;
        }
        let known = |hash: B256, _: u64, _: &SealedHeader| Ok(self.tips.weighted(hash));
        self.history(request, &known, &|| false).transpose()
    }

    /// `eth_feeHistory`.
    pub(crate) fn fee_history(&self, request: &GetFeeHistory, caller: &CallContext) -> Result<FeeHistory, FeeError> {
        let read = |hash: B256, number: u64, header: &SealedHeader| {
            self.weighted_tips(number, hash, header.base_fee_per_gas).map(Some)
        };
        let history = self.history(request, &read, &|| caller.should_stop())?;
        history.ok_or(FeeError::UnreadTips)
    }

    /// The history with the tips from `tips_of`; `None` if that returns `None` for a block.
    fn history(
        &self,
        request: &GetFeeHistory,
        tips_of: &TipsOf<'_>,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Option<FeeHistory>, FeeError> {
        let GetFeeHistory { block_count, newest, ref percentiles } = *request;
        PercentileProblem::check(percentiles)?;
        // Without a pending block the head is used.
        let is_one_less =
            self.family.client_behaviour().history_lacks_pending && newest == BlockId::Tag(BlockTag::Pending);
        let newest = self.newest(newest)?;
        let count = block_count
            .saturating_sub(u64::from(is_one_less))
            .min(CallLimits::FEE_HISTORY_BLOCKS)
            .min(newest.saturating_add(1));
        if count == 0 {
            return Ok(Some(empty()));
        }
        let oldest = newest + 1 - count;
        let mut history = FeeHistory { oldest: BlockNumber(oldest), ..empty() };
        history.reward = (!percentiles.is_empty()).then(Vec::new);
        for header in self.headers(oldest, newest, should_stop)? {
            self.add_block(&mut history, &header);
            if let Some(reward) = &mut history.reward {
                if should_stop() {
                    return Err(FeeError::CallerGone);
                }
                let Some(tips) = tips_of(header.hash(), header.number, &header)? else { return Ok(None) };
                reward.push(rewards(&tips, header.gas_used, percentiles));
            }
            if header.number == newest {
                self.add_following(&mut history, &header);
            }
        }
        Ok(Some(history))
    }

    /// The canonical headers of a range, ascending. They are read from the newest back by their parents' hashes, so that
    /// all are of one branch and only the newest needs a look-up by its height.
    fn headers(
        &self,
        oldest: u64,
        newest: u64,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Arc<SealedHeader>>, FeeError> {
        let mut hash = self.canonical_hash(newest)?;
        let mut headers = Vec::new();
        for number in (oldest..=newest).rev() {
            if should_stop() {
                return Err(FeeError::CallerGone);
            }
            let header = self.chain.header(hash)?.ok_or_else(|| unknown(number))?;
            hash = header.parent_hash;
            headers.push(header);
        }
        headers.reverse();
        Ok(headers)
    }

    /// All tips of a block, ascending, with the gas up to each.
    fn weighted_tips(&self, number: u64, hash: B256, base_fee: Option<u64>) -> Result<Arc<[WeightedTip]>, StoreError> {
        if let Some(known) = self.tips.weighted(hash) {
            return Ok(known);
        }
        let block = self.block(number, hash)?;
        let receipts = self.chain.receipts(hash)?.unwrap_or_default();
        let tip_of = |price: U256| price.saturating_sub(U256::from(base_fee.unwrap_or_default()));
        let pairs = block.transactions.iter().zip(receipts.iter());
        let mut tips: Vec<WeightedTip> = pairs
            .map(|(transaction, receipt)| (tip_of(transaction.effective_gas_price(base_fee)), receipt.gas_used))
            .collect();
        tips.sort_unstable();
        sum_gas(&mut tips);
        let tips: Arc<[WeightedTip]> = tips.into();
        self.tips.cache_weighted(hash, Arc::clone(&tips));
        Ok(tips)
    }

    fn newest(&self, block: BlockId) -> Result<u64, FeeError> {
        let head = self.chain.head().header.number;
        if let BlockId::Number(BlockNumber(number)) = block
            && number > head
        {
            return Err(FeeError::BeyondHead { requested: number, head });
        }
        Ok(tenon_chain::require_block(&*self.chain, block)?.number)
    }

    fn add_block(&self, history: &mut FeeHistory, header: &SealedHeader) {
        history.base_fee_per_gas.push(U256::from(header.base_fee_per_gas.unwrap_or_default()));
        history.gas_used_ratio.push(ratio(header.gas_used, header.gas_limit));
        history.base_fee_per_blob_gas.push(self.spec.blob_base_fee(header).unwrap_or_default());
        let max = self.spec.blob_parameters(header.timestamp).map_or(0, |blobs| blobs.max_gas());
        history.blob_gas_used_ratio.push(ratio(header.blob_gas_used.unwrap_or_default(), max));
    }

    /// Adds the fees of the block after the last, which may not exist yet.
    fn add_following(&self, history: &mut FeeHistory, newest: &SealedHeader) {
        history.base_fee_per_gas.push(U256::from(self.spec.next_base_fee(newest).unwrap_or_default()));
        let blobs = self.spec.blob_parameters(newest.timestamp).filter(|_| newest.excess_blob_gas.is_some());
        let excess = self.spec.next_excess_blob_gas(newest, newest.timestamp);
        let price = blobs.zip(excess).map(|(blobs, excess)| blobs.base_fee(excess));
        history.base_fee_per_blob_gas.push(price.unwrap_or_default());
    }
}

const fn empty() -> FeeHistory {
    FeeHistory {
        oldest: BlockNumber::GENESIS,
        base_fee_per_gas: Vec::new(),
        gas_used_ratio: Vec::new(),
        base_fee_per_blob_gas: Vec::new(),
        blob_gas_used_ratio: Vec::new(),
        reward: None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "gas stays far below 2^53")]
fn ratio(used: u64, max: u64) -> f64 {
    if max == 0 { 0.0 } else { used as f64 / max as f64 }
}

/// The tips at the percentiles, weighted by gas.
fn rewards(tips: &[WeightedTip], gas_used: u64, percentiles: &[f64]) -> Vec<U256> {
    percentiles.iter().map(|percentile| tip_at(tips, threshold(gas_used, *percentile))).collect()
}

/// The tip of the transaction at which the cumulative gas reaches the threshold.
fn tip_at(tips: &[WeightedTip], threshold: u64) -> U256 {
    let place = tips.partition_point(|(_, gas)| *gas < threshold);
    tips.get(place).or(tips.last()).map_or(U256::ZERO, |(tip, _)| *tip)
}

/// Replaces the gas paid with each tip by the gas paid with it and those before.
fn sum_gas(tips: &mut [WeightedTip]) {
    let mut sum = 0u64;
    for (_, gas) in tips {
        sum = sum.saturating_add(*gas);
        *gas = sum;
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "gas stays far below 2^53, and the percentile was checked to lie between 0 and 100"
)]
fn threshold(gas_used: u64, percentile: f64) -> u64 {
    (gas_used as f64 * percentile / 100.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_ascend_from_0_to_100() {
        let ascending: Vec<f64> = (0..=100).map(f64::from).collect();
        let not_ascending =
            |index, previous, percentile| PercentileProblem::NotAscending { index, percentile, previous };
        let refused: [(&[f64], PercentileProblem); 5] = [
            (&[50.0, 101.0], PercentileProblem::OutOfRange(101.0)),
            (&[-1.0], PercentileProblem::OutOfRange(-1.0)),
            (&[10.0, 50.0, 20.0], not_ascending(2, 50.0, 20.0)),
            (&[20.0, 20.0], not_ascending(1, 20.0, 20.0)),
            (&ascending, PercentileProblem::TooMany { max: 100 }),
        ];
        for (percentiles, problem) in refused {
            assert_eq!(PercentileProblem::check(percentiles), Err(problem));
        }
        assert!(matches!(PercentileProblem::check(&[f64::NAN]), Err(PercentileProblem::OutOfRange(_))));
        assert!(PercentileProblem::check(&ascending[..100]).is_ok());
        assert!(PercentileProblem::check(&[]).is_ok());
    }

    #[test]
    fn tips_are_weighted_by_gas() {
        let mut tips = [(U256::from(1), 90), (U256::from(7), 10)];
        sum_gas(&mut tips);

        assert_eq!(tip_at(&tips, threshold(100, 90.0)), U256::from(1));
        assert_eq!(tip_at(&tips, threshold(100, 95.0)), U256::from(7));
        assert_eq!(tip_at(&tips, threshold(200, 95.0)), U256::from(7), "the header's gas may exceed that of the tips");
        assert_eq!(tip_at(&tips, 0), U256::from(1));
        assert_eq!(tip_at(&[], 0), U256::ZERO);
    }
}
