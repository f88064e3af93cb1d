//! Fees of a range of blocks (`docs/spec/rpc-eth.md` 11.2).

use alloy_primitives::U256;
use tenon_api::{BlockId, BlockNumber, BlockTag, Failure, Receipt, RecoveredBlock, SealedHeader, messages::FeeHistory};
use tenon_bus::CallContext;

use super::Fees;

/// Most percentiles of one question.
const MOST_PERCENTILES: usize = 100;

impl Fees {
    /// `eth_feeHistory`.
    pub(crate) fn fee_history(
        &self,
        block_count: u64,
        newest: BlockId,
        percentiles: &[f64],
        caller: &CallContext,
    ) -> Result<FeeHistory, Failure> {
        check_percentiles(percentiles)?;
        // Nothing is pending where no block is being made: the reference takes the head, and one block less.
        let is_one_less = self.spec.native.is_some() && newest == BlockId::Tag(BlockTag::Pending);
        let newest = self.newest(newest)?;
        let count = block_count
            .saturating_sub(u64::from(is_one_less))
            .min(self.limits.fee_history_blocks)
            .min(newest.saturating_add(1));
        if count == 0 {
            return Ok(empty());
        }
        let oldest = newest + 1 - count;
        let mut history = FeeHistory { oldest: BlockNumber(oldest), ..empty() };
        history.reward = (!percentiles.is_empty()).then(Vec::new);
        for number in oldest..=newest {
            if caller.should_stop() {
                return Err(Failure::limit("request timed out"));
            }
            let block = self.canonical_block(number)?;
            self.add_block(&mut history, &block);
            if let Some(reward) = &mut history.reward {
                let receipts = self.chain.receipts(block.hash())?.unwrap_or_default();
                reward.push(rewards(&block, &receipts, percentiles));
            }
            if number == newest {
                self.add_following(&mut history, &block.header);
            }
        }
        Ok(history)
    }

    fn newest(&self, block: BlockId) -> Result<u64, Failure> {
        let head = self.chain.head().header.number;
        if let BlockId::Number(BlockNumber(number)) = block
            && number > head
        {
            return Err(Failure::server(format!("request beyond head block: requested {number}, head {head}")));
        }
        Ok(tenon_chain::require_block(&*self.chain, block)?.number)
    }

    fn add_block(&self, history: &mut FeeHistory, block: &RecoveredBlock) {
        let header = &block.header;
        history.base_fee_per_gas.push(U256::from(header.base_fee_per_gas.unwrap_or_default()));
        history.gas_used_ratio.push(ratio(header.gas_used, header.gas_limit));
        history.base_fee_per_blob_gas.push(self.spec.blob_base_fee(header).unwrap_or_default());
        let most = self.spec.blob_parameters(header.timestamp).map_or(0, |blobs| blobs.max_gas());
        history.blob_gas_used_ratio.push(ratio(header.blob_gas_used.unwrap_or_default(), most));
    }

    /// The fees of the block after the last, which may not exist yet.
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

fn check_percentiles(percentiles: &[f64]) -> Result<(), Failure> {
    let invalid = |what: String| Err(Failure::server(format!("invalid reward percentile: {what}")));
    if percentiles.len() > MOST_PERCENTILES {
        return invalid(format!("over the query limit {MOST_PERCENTILES}"));
    }
    for (index, percentile) in percentiles.iter().enumerate() {
        if !(0.0..=100.0).contains(percentile) {
            return invalid(format!("{percentile:.6}"));
        }
        let previous = index.checked_sub(1).and_then(|before| percentiles.get(before));
        if let Some(previous) = previous.filter(|previous| *previous >= percentile) {
            return invalid(format!("#{}:{previous:.6} >= #{index}:{percentile:.6}", index - 1));
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "gas stays far below 2^53")]
fn ratio(used: u64, most: u64) -> f64 {
    if most == 0 { 0.0 } else { used as f64 / most as f64 }
}

/// The tips at the percentiles, weighted by gas.
fn rewards(block: &RecoveredBlock, receipts: &[Receipt], percentiles: &[f64]) -> Vec<U256> {
    let base_fee = block.header.base_fee_per_gas;
    let tip_of = |price: U256| price.saturating_sub(U256::from(base_fee.unwrap_or_default()));
    let mut tips: Vec<(U256, u64)> = block
        .transactions
        .iter()
        .zip(receipts)
        .map(|(transaction, receipt)| (tip_of(transaction.effective_gas_price(base_fee)), receipt.gas_used))
        .collect();
    tips.sort_unstable();
    percentiles.iter().map(|percentile| tip_at(&tips, threshold(block.header.gas_used, *percentile))).collect()
}

/// The tip of the transaction in which the running sum of gas reaches the threshold.
fn tip_at(tips: &[(U256, u64)], threshold: u64) -> U256 {
    let mut sum = 0u64;
    for (tip, gas) in tips {
        sum = sum.saturating_add(*gas);
        if sum >= threshold {
            return *tip;
        }
    }
    tips.last().map_or(U256::ZERO, |(tip, _)| *tip)
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
    fn percentiles_are_checked_in_the_reference_words() {
        let cases: [(&[f64], &str); 3] = [
            (&[101.0], "invalid reward percentile: 101.000000"),
            (&[50.0, 20.0], "invalid reward percentile: #0:50.000000 >= #1:20.000000"),
            (&[0.5; 101], "invalid reward percentile: over the query limit 100"),
        ];
        for (percentiles, expected) in cases {
            assert_eq!(check_percentiles(percentiles).unwrap_err().message, expected);
        }
    }

    #[test]
    fn a_percentile_that_is_not_a_number_is_refused() {
        assert!(check_percentiles(&[f64::NAN]).is_err());
    }

    #[test]
    fn tips_are_weighted_by_gas() {
        let tips = [(U256::from(1), 90), (U256::from(7), 10)];

        assert_eq!(tip_at(&tips, threshold(100, 90.0)), U256::from(1));
        assert_eq!(tip_at(&tips, threshold(100, 95.0)), U256::from(7));
        assert_eq!(tip_at(&[], 0), U256::ZERO);
    }
}
