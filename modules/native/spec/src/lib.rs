//! Data and rules of native chains: heights, consensus parameters, contracts and lists, the public networks, and the
//! native members of a genesis file. Pure data without I/O.
//!
//! It owns the built-in constants of `config/networks`, what a native chain decides about its fork schedule
//! ([`SpecFamily`](tenon_chain::spec::SpecFamily)), and the genesis of a native development network. The formats of
//! native headers and receipts are those of `tenon-chain`.
//!
//! Invariants: a genesis file with a rule that this release does not know is refused, not read without the rule; the
//! stored list of rules of a chain keeps every name and value that an earlier release wrote.
//!
//! ```
//! use tenon_native_spec::{NativeSettings, read_genesis};
//!
//! # fn read(file: &[u8]) -> Result<(), tenon_chain::GenesisError> {
//! let genesis = read_genesis(file)?;
//! match NativeSettings::of(&genesis.spec) {
//!     Some(native) => println!("a native chain with epochs of {} blocks", native.consensus.epoch),
//!     None => println!("a chain with Ethereum's rules"),
//! }
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod development;
mod family;
mod gas;
mod genesis;
mod heights;
mod networks;
mod rules;
mod settings;

pub use development::{DevelopmentEngine, NATIVE_DEVELOPMENT_CHAIN, NativeDevelopment};
pub use gas::{NATIVE_BASE_FEE, native_intrinsic_gas};
pub use genesis::{NativeFamily, read_genesis};
pub use heights::{HeightSource, NamedHeight, NativeHeights};
pub use networks::PublicNetwork;
pub use settings::{
    NativeConfigError, NativeConsensus, NativeContracts, NativeSettings, RoundConfig, TimeoutGrowth, native_bootnodes,
};
