//! Consensus engines: who may make a block, which blocks are valid before they are executed, which branch
//! wins, and what is final. Also the sealer, which decides when the development network makes a block.
//!
//! It owns the header and body rules of the Ethereum profile ([`EthereumEngine`]), those of native chains
//! ([`NativeEngine`], in the room [`native`]), the development engine ([`DevEngine`]) and the [`Sealer`] actor.
//! Everything it knows of a fork comes from [`tenon_chain::ChainSpec`]; everything it knows of the chain from the
//! ports that it is handed.
//!
//! What must always hold: an engine keeps no chain state of its own; a check reads no clock but the one that
//! was injected; a refusal names the rule, the value found and the value wanted. The crate never executes a
//! transaction and never writes to the database.

#![forbid(unsafe_code)]

mod dev;
mod ethereum;
#[cfg(test)]
mod fake_chain;
pub mod native;
mod rules;
mod sealer;
mod violation;

pub use dev::DevEngine;
pub use ethereum::EthereumEngine;
pub use native::{NativeEngine, NativeError};
pub use sealer::{
    SealChoices, SealMode, SealRequest, Sealer, SealerClock, SealerOptions, SealerPorts, SealerWaker, SealingOnDemand,
    TooLong, spawn_sealer,
};
pub use violation::Violation;
