//! The traits by which modules offer their functions to one another. `core/node` connects them; no module names another
//! module's crate.

mod blocks;
mod consensus;
mod database;
mod pool;
mod signing;
mod voting;

pub use blocks::{
    BatchObserver, BlockPort, BlockProducer, BlockProductionError, BlockVerdict, FailedBlock, InsertOutcome,
};
pub use consensus::{AccountRecord, BlockRewards, ConsensusEngine, ConsensusError, RefusalCause, SealAttributes};
pub use database::{ChainReader, ChainWriter, EncodedChainReader, EngineRecords, StateReader, TrieReader};
pub use pool::{OwnAccounts, PeerTransactions, PendingTransactions, SubmitError};
pub use signing::{BlockSigner, SignError, SignerMessage};
pub use voting::{RoundBuilder, RoundMessage, RoundMessageKind, RoundMessages, RoundNetwork};
