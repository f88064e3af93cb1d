//! Blocks from a reference node's data folder.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenon_api::{B256, Block, BlockNumber, ChainReader as _};
use tenon_config::Resolved;
use tenon_reference_data::{ReferenceChain, ReferenceDataError};

use crate::commands::start_genesis::chosen_genesis;
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::family::PublicNetwork;
use crate::opened_chain::{ChosenGenesis, Named, OpenedChain, named_genesis, public_genesis};

/// The chain of a stopped reference node.
pub(super) struct ChainData {
    chain: ReferenceChain,
}

impl ChainData {
    /// Opens it.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] when the folder cannot be used, [`Stop::InUse`] when a node has it open.
    pub(super) fn open(folder: &Path) -> Result<Self, Stop> {
        ReferenceChain::open(folder).map(|chain| Self { chain }).map_err(refusal)
    }

    /// The genesis of the settings or of the data folder. If neither has one, that of the public network to which these
    /// blocks belong.
    ///
    /// # Errors
    /// As [`chosen_genesis`].
    pub(super) fn genesis(&self, resolved: &Resolved, folder: &DataFolder) -> Result<ChosenGenesis, Stop> {
        let is_open = matches!(named_genesis(resolved)?, Named::Nothing) && folder.genesis()?.is_none();
        match PublicNetwork::by_genesis_hash(self.chain.genesis_hash()).filter(|_| is_open) {
            Some(network) => public_genesis(network.names().first().copied().unwrap_or_default()).map(Into::into),
            None => chosen_genesis(resolved, folder),
        }
    }

    /// Compares the genesis blocks.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] naming both chains.
    pub(super) fn check_genesis(&self, chain: &OpenedChain) -> Result<(), Stop> {
        let (found, wanted) = (self.chain.genesis_hash(), chain.info.genesis_hash);
        if found == wanted {
            return Ok(());
        }
        Err(Stop::DataFolder(format!(
            "{} has {}, not {}; give the genesis of that chain (--network or --genesis), and another --datadir",
            self.chain.path().display(),
            described(found),
            described(wanted)
        )))
    }

    /// The height after the highest block that both chains have. 1 if the chains diverge below the lower head: known
    /// blocks are then skipped, as in a file.
    fn first_beyond(&self, chain: &OpenedChain) -> Result<u64, Stop> {
        let number = chain.store.head().header.number.min(self.chain.head().0);
        let own = chain.store.canonical_hash(BlockNumber(number))?;
        let theirs = self.chain.canonical_hash(number).map_err(refusal)?;
        Ok(if own.is_some() && own == theirs { number + 1 } else { 1 })
    }

    /// Number of blocks that [`ChainData::blocks_beyond`] returns.
    ///
    /// # Errors
    /// [`Stop`] if one of the databases cannot be read.
    pub(super) fn count_beyond(&self, chain: &OpenedChain) -> Result<u64, Stop> {
        Ok((self.chain.head().0 + 1).saturating_sub(self.first_beyond(chain)?))
    }

    /// The blocks that the chain lacks, in order. Each adds one to `read`.
    ///
    /// # Errors
    /// [`Stop`] when one of the databases cannot be read.
    pub(super) fn blocks_beyond(
        &self,
        chain: &OpenedChain,
        read: Arc<AtomicU64>,
    ) -> Result<impl Iterator<Item = Result<Block, ReferenceDataError>> + Send + use<>, Stop> {
        let blocks = self.chain.blocks(self.first_beyond(chain)?);
        Ok(blocks.inspect(move |_| {
            read.fetch_add(1, Ordering::Relaxed);
        }))
    }

    /// The text of an error with the path of the folder.
    pub(super) fn named(&self, error: &dyn std::fmt::Display) -> String {
        let (text, path) = (error.to_string(), self.chain.path().display().to_string());
        if text.contains(&path) { text } else { format!("{path}: {text}") }
    }
}

fn refusal(error: ReferenceDataError) -> Stop {
    match error {
        ReferenceDataError::InUse { .. } => Stop::InUse(error.to_string()),
        other => Stop::DataFolder(other.to_string()),
    }
}

fn described(genesis: B256) -> String {
    match PublicNetwork::by_genesis_hash(genesis) {
        Some(network) => format!("the chain of {network} (genesis {genesis})"),
        None => format!("a chain with genesis {genesis}"),
    }
}
