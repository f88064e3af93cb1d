//! Rewards of a proof-of-work block.

use tenon_api::{Address, Block, U256};
use tenon_chain::{ChainSpec, Fork};

use crate::violation::Violation;

/// One ether in wei.
const ETHER: u64 = 1_000_000_000_000_000_000;
/// An uncle `depth` below its nephew earns `(8 - depth) / 8` of the reward.
const UNCLE_REWARD_DIVISOR: u64 = 8;
/// The nephew earns 1 / this number of the reward for each uncle.
const NEPHEW_REWARD_DIVISOR: u64 = 32;

/// The reward of a mined block: 5 ether, 3 from Byzantium (EIP-649), 2 from Constantinople (EIP-1234).
fn base_reward(fork: Fork) -> U256 {
    let ether = if fork >= Fork::Constantinople {
        2
    } else if fork >= Fork::Byzantium {
        3
    } else {
        5
    };
    U256::from(ether) * U256::from(ETHER)
}

/// Uncles first, in order, then the miner: accounts are touched in this order.
pub(crate) fn of_mined_block(spec: &ChainSpec, block: &Block) -> Result<Vec<(Address, U256)>, Violation> {
    let reward = base_reward(spec.fork_of(&block.header));
    let mut credits = Vec::with_capacity(block.ommers.len() + 1);
    let mut miner = reward;
    for ommer in &block.ommers {
        let depth = block.header.number.saturating_sub(ommer.number);
        let Some(eighths) = UNCLE_REWARD_DIVISOR.checked_sub(depth).filter(|_| depth > 0) else {
            return Err(Violation::new("uncle depth", depth, "1 to 7"));
        };
        credits.push((ommer.beneficiary, reward * U256::from(eighths) / U256::from(UNCLE_REWARD_DIVISOR)));
        miner += reward / U256::from(NEPHEW_REWARD_DIVISOR);
    }
    credits.push((block.header.beneficiary, miner));
    Ok(credits)
}
