//! Consensus engines: they decide which account may make a block, which blocks are valid before execution, which branch
//! wins, and which blocks are final. Also the sealer, which decides when the development network makes a block.
//!
//! It owns the header and body rules of the Ethereum profile ([`EthereumEngine`]), the development engine
//! ([`DevEngine`]) and the [`Sealer`] actor. Every engine implements `ConsensusEngine` of `tenon-api`; the engine of
//! native chains is a crate of its own (`modules/native/consensus`), which makes the sealer's own
//! transactions through `tenon-consensus-interface`. Engines learn of forks from [`tenon_chain::ChainSpec`] and of the
//! chain from the port traits.
//!
//! Invariants:
//!
//! - an engine keeps no chain state of its own;
//! - a check reads no clock but the injected one;
//! - an error names the rule, the value found and the value expected.
//!
//! The crate never executes a transaction and never writes to the database.

#![forbid(unsafe_code)]

mod dev;
mod ethereum;
#[cfg(test)]
mod fake_chain;
mod rules;
mod sealer;
mod violation;

pub use dev::DevEngine;
pub use ethereum::EthereumEngine;
pub use sealer::{
    SealChoices, SealError, SealMode, SealRequest, Sealer, SealerClock, SealerOptions, SealerPorts, SealerWaker,
    SealingOnDemand, TooLong, spawn_sealer,
};
pub use violation::Violation;
