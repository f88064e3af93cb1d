//! Yearly staking yield in percent (`docs/spec/rpc-eth.md` 17). Like the reference's, the formula divides integers, so
//! the result is infinite whenever the stake is below the voters' half of a year's reward; the method is kept for its
//! clients.

use std::sync::Arc;

use tenon_api::{Address, BlockNumber, SealedHeader, U256, messages::StakingReturn};

use super::{Queries, QueryError};
use crate::{read_candidates, rewards::stake_of_voter};

/// Seconds of a year.
const YEAR: u64 = 365 * 86_400;
/// Wei per coin.
const COIN: U256 = U256::from_limbs([1_000_000_000_000_000_000, 0, 0, 0]);

impl Queries {
    /// The return for the voters of one masternode, or of all.
    pub(super) fn staking_return(&self, masternode: Option<Address>) -> Result<StakingReturn, QueryError> {
        let percent = match masternode {
            None => self.return_of_all()?,
            Some(masternode) => self.return_of(masternode)?,
        };
        Ok(StakingReturn { percent })
    }

    fn return_of_all(&self) -> Result<f64, QueryError> {
        let checkpoint =
            self.last_multiple().checked_sub(self.engine.consensus().epoch).ok_or(QueryError::NoStakingReturn)?;
        let state = self.chain.state_at(BlockNumber(checkpoint))?;
        let stake = read_candidates(&*state)?.iter().fold(U256::ZERO, |sum, (_, stake)| sum.saturating_add(*stake));
        let reward = U256::from(self.engine.consensus().reward) * COIN;
        self.percent(stake, reward)
    }

    /// Zero if the address earned nothing in the previous epoch.
    fn return_of(&self, masternode: Address) -> Result<f64, QueryError> {
        let (current, _) = self.epoch_of(&self.chain.head().header)?;
        let Some(before) = current.checked_sub(1) else { return Ok(0.0) };
        let Some(before) = self.canonical_header(before)? else { return Ok(0.0) };
        let (last, _) = self.epoch_of(&before)?;
        let Some(checkpoint) = self.canonical_header(last)? else { return Ok(0.0) };
        if last <= self.engine.consensus().reward_checkpoint {
            return Ok(0.0);
        }
        let rewards = self.engine.epoch_rewards(&checkpoint, &*self.chain)?;
        let Some(shares) = rewards.as_ref().and_then(|rewards| rewards.shares.get(&masternode)) else {
            return Ok(0.0);
        };
        let reward = shares.values().fold(U256::ZERO, |sum, amount| sum.saturating_add(*amount));
        let state = self.chain.state_at(BlockNumber(self.last_multiple()))?;
        let mut stake = U256::ZERO;
        for voter in shares.keys() {
            stake = stake.saturating_add(stake_of_voter(&*state, masternode, *voter)?);
        }
        self.percent(stake, reward)
    }

    /// The last block with a number that is a multiple of the epoch.
    fn last_multiple(&self) -> u64 {
        let head = self.chain.head().header.number;
        head - head % self.engine.consensus().epoch
    }

    /// 100 divided by the number of years after which the voters' half of a reward, paid every epoch, equals the stake.
    fn percent(&self, stake: U256, reward: U256) -> Result<f64, QueryError> {
        let last = self.last_multiple();
        let before = last.checked_sub(self.engine.consensus().epoch).ok_or(QueryError::NoStakingReturn)?;
        let time = |header: Option<Arc<SealedHeader>>| header.map(|header| header.timestamp);
        let times = (time(self.canonical_header(last)?), time(self.canonical_header(before)?));
        let (Some(last), Some(before)) = times else { return Err(QueryError::NoStakingReturn) };
        let epochs = YEAR.checked_div(last.saturating_sub(before)).ok_or(QueryError::NoStakingReturn)?;
        let yearly = reward / U256::from(2) * U256::from(epochs);
        let years = stake.checked_div(yearly).ok_or(QueryError::NoStakingReturn)?;
        Ok(100.0 / years.as_limbs()[0] as f64)
    }
}
