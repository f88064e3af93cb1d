//! The difficulty of proof-of-work blocks, Frontier to Gray Glacier.

use alloy_primitives::U256;
use tenon_api::{EMPTY_OMMERS_HASH, Header};

use super::{ChainSpec, Fork};

/// Minimum difficulty of a block.
pub const MINIMUM_DIFFICULTY: u64 = 131_072;
/// The step is the parent's difficulty divided by this.
const BOUND_DIVISOR: u64 = 2048;
/// Blocks after which the exponential part doubles.
const BOMB_PERIOD: u64 = 100_000;

/// How a block's difficulty depends on its parent.
#[derive(Clone, Copy)]
enum Rule {
    /// Up if the block comes within 13 seconds, down otherwise.
    Frontier,
    /// Steps by tens of seconds (EIP-2).
    Homestead,
    /// Steps of nine seconds, counting uncles (EIP-100), with the exponential part delayed by `delay` blocks.
    Byzantium { delay: u64 },
}

const fn rule_of(fork: Fork) -> Rule {
    match fork {
        Fork::Frontier => Rule::Frontier,
        Fork::Homestead | Fork::TangerineWhistle | Fork::SpuriousDragon => Rule::Homestead,
        Fork::Byzantium => Rule::Byzantium { delay: 3_000_000 },
        Fork::Constantinople | Fork::Petersburg | Fork::Istanbul => Rule::Byzantium { delay: 5_000_000 },
        Fork::MuirGlacier | Fork::Berlin => Rule::Byzantium { delay: 9_000_000 },
        Fork::London => Rule::Byzantium { delay: 9_700_000 },
        Fork::ArrowGlacier => Rule::Byzantium { delay: 10_700_000 },
        _ => Rule::Byzantium { delay: 11_400_000 },
    }
}

impl ChainSpec {
    /// Difficulty of the child of `parent` with this timestamp, by the rules of the child's height.
    ///
    /// For blocks before the merge; after it the difficulty is zero by another rule.
    pub fn ethash_difficulty(&self, parent: &Header, timestamp: u64) -> U256 {
        let fork = self.newest_before_merge(parent.number.saturating_add(1));
        let elapsed = timestamp.saturating_sub(parent.timestamp);
        let has_ommers = parent.ommers_hash != EMPTY_OMMERS_HASH;
        let (steps, delay) = match rule_of(fork) {
            Rule::Frontier => (if elapsed < 13 { 1 } else { -1 }, 0),
            Rule::Homestead => (steps_down(1, elapsed / 10), 0),
            Rule::Byzantium { delay } => (steps_down(if has_ommers { 2 } else { 1 }, elapsed / 9), delay),
        };
        let step = parent.difficulty / U256::from(BOUND_DIVISOR);
        let distance = step.saturating_mul(U256::from(steps.unsigned_abs()));
        let moved = if steps < 0 {
            parent.difficulty.saturating_sub(distance)
        } else {
            parent.difficulty.saturating_add(distance)
        };
        let floor = U256::from(MINIMUM_DIFFICULTY);
        moved.max(floor).saturating_add(bomb(parent.number.saturating_add(1).saturating_sub(delay)))
    }
}

/// `up - down`, but not below -99.
fn steps_down(up: i64, down: u64) -> i64 {
    up.saturating_sub(i64::try_from(down).unwrap_or(i64::MAX)).max(-99)
}

/// The exponential part at this (delayed) height.
fn bomb(number: u64) -> U256 {
    let period = number / BOMB_PERIOD;
    if period < 2 {
        return U256::ZERO;
    }
    // No chain with a difficulty beyond 256 bits can be mined; saturates instead of wrapping.
    let exponent = period - 2;
    if exponent >= 256 { U256::MAX } else { U256::from(1) << exponent }
}
