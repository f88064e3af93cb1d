//! Gas prices. Topics `0x0380..`.

use alloy_primitives::U256;
use serde::{Deserialize, Serialize};

use super::request;
use crate::{BlockId, BlockNumber};

/// A tip that should get a transaction included soon, wei per gas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuggestTip;
request!(SuggestTip => U256, topic 0x0380, ReadChain);

/// The suggested tip on top of the head's base fee, wei per gas (`eth_gasPrice`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuggestGasPrice;
request!(SuggestGasPrice => U256, topic 0x0383, ReadChain);

/// Fees of a range of blocks (`eth_feeHistory`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GetFeeHistory {
    /// Number of blocks.
    pub block_count: u64,
    /// The last one.
    pub newest: BlockId,
    /// Percentiles of tips to return for each block, 0 to 100, ascending.
    pub percentiles: Vec<f64>,
}

request!(GetFeeHistory => Result<FeeHistory, PercentileProblem>, topic 0x0381, schema 2, ReadChain);

/// Why the percentiles of a [`GetFeeHistory`] are refused. The texts are for logs; plugins write those for clients
/// (`tenon_sdk::error_texts`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub enum PercentileProblem {
    /// There are too many.
    #[error("there are more than {max} percentiles")]
    TooMany {
        /// Maximum number.
        max: u64,
    },
    /// One is not between 0 and 100.
    #[error("percentile {0} is not between 0 and 100")]
    OutOfRange(f64),
    /// One is not above the one before it.
    #[error("percentile {percentile} at index {index} is not above the one before it, {previous}")]
    NotAscending {
        /// Its index.
        index: u64,
        /// The percentile.
        percentile: f64,
        /// The one before it.
        previous: f64,
    },
}

impl PercentileProblem {
    /// Maximum number of percentiles in one request.
    pub const MAX_PERCENTILES: usize = 100;

    /// Checks that the percentiles of a request ascend from 0 to 100, and are not too many.
    ///
    /// This is here because the module checks the requests of every plugin, and `plugins/eth` checks before it sends: a
    /// longer list would be refused for its size, with another error. Both have only this crate in common.
    ///
    /// # Errors
    /// The first problem.
    pub fn check(percentiles: &[f64]) -> Result<(), Self> {
        if percentiles.len() > Self::MAX_PERCENTILES {
            return Err(Self::TooMany { max: Self::MAX_PERCENTILES as u64 });
        }
        let mut before = None;
        for (index, &percentile) in (0..).zip(percentiles) {
            if !(0.0..=100.0).contains(&percentile) {
                return Err(Self::OutOfRange(percentile));
            }
            if let Some(previous) = before.replace(percentile).filter(|previous| *previous >= percentile) {
                return Err(Self::NotAscending { index, percentile, previous });
            }
        }
        Ok(())
    }
}

/// Fees of a range of blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeeHistory {
    /// The first block.
    pub oldest: BlockNumber,
    /// Base fee of each block and of the block after the last, wei per gas.
    pub base_fee_per_gas: Vec<U256>,
    /// Share of the gas limit that each block used.
    pub gas_used_ratio: Vec<f64>,
    /// Blob base fee of each block and of the block after the last, wei per gas.
    pub base_fee_per_blob_gas: Vec<U256>,
    /// Share of the blob gas limit that each block used.
    pub blob_gas_used_ratio: Vec<f64>,
    /// Tips at the percentiles for each block, wei per gas; `None` if no percentiles were requested.
    pub reward: Option<Vec<Vec<U256>>>,
}

/// Prices for the block after the head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetNextBlockFees;
request!(GetNextBlockFees => NextBlockFees, topic 0x0382, ReadChain);

/// Prices for the block after the head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextBlockFees {
    /// Wei per gas; `None` before London.
    pub base_fee_per_gas: Option<U256>,
    /// Wei per blob gas; `None` before Cancun.
    pub blob_base_fee: Option<U256>,
}
