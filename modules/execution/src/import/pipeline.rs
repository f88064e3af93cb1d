//! Many blocks in: read and recovered ahead on other threads, executed one after the other.

use std::{fmt::Display, sync::Arc, thread};

use alloy_primitives::B256;
use crossbeam_channel::{Receiver, Sender, bounded};
use rayon::prelude::*;
use tenon_api::{Block, BlockNumber, RecoveredBlock};

use super::importer::Importer;
use crate::ImportError;

/// How many blocks are recovered together: enough for every core when blocks are small.
const BATCH: usize = 32;

/// How many batches wait for execution. Recovery is the slower side, so more would only hold memory.
const BATCHES_AHEAD: usize = 2;

/// A block that the import has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportedBlock {
    /// Its height.
    pub number: BlockNumber,
    /// Its hash.
    pub hash: B256,
    /// How many transactions it has.
    pub transactions: u64,
    /// Gas that it used.
    pub gas_used: u64,
    /// It was canonical before; nothing was done.
    pub was_known: bool,
}

/// Who watches an import and may stop it.
pub trait ImportObserver {
    /// A block was committed or skipped.
    fn passed(&mut self, block: &ImportedBlock);

    /// Asked before each block; the import then ends cleanly at a whole block.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportSummary {
    /// Blocks executed and committed, or kept on a side branch.
    pub imported: u64,
    /// Blocks that were canonical before.
    pub known: u64,
    /// Transactions of the imported blocks.
    pub transactions: u64,
    /// Gas of the imported blocks.
    pub gas_used: u64,
    /// The observer stopped the import.
    pub was_cancelled: bool,
}

/// A block on its way, or why there is no further one.
type Prepared = Result<(ImportedBlock, Option<RecoveredBlock>), ImportError>;

impl Importer {
    /// Imports blocks in order of height. Blocks that are canonical already are skipped, so an import that was
    /// stopped can be started again with the same source. Ends with everything durable.
    ///
    /// # Errors
    /// [`ImportError`] of the first block that fails; the blocks before it stay.
    pub fn import<S, E>(&self, blocks: S, observer: &mut dyn ImportObserver) -> Result<ImportSummary, ImportError>
    where
        S: Iterator<Item = Result<Block, E>> + Send,
        E: Display,
    {
        let (sender, receiver) = bounded(BATCHES_AHEAD);
        let summary = thread::scope(|scope| {
            thread::Builder::new()
                .name("import-recover".to_owned())
                .spawn_scoped(scope, move || self.prepare_all(blocks, &sender))?;
            // Dropping the receiver, also on an error, ends the other thread at its next batch.
            self.insert_all(receiver, observer)
        });
        self.writer.flush()?;
        summary
    }

    fn insert_all(
        &self,
        batches: Receiver<Vec<Prepared>>,
        observer: &mut dyn ImportObserver,
    ) -> Result<ImportSummary, ImportError> {
        let mut summary = ImportSummary::default();
        for prepared in batches.into_iter().flatten() {
            if observer.is_cancelled() {
                summary.was_cancelled = true;
                break;
            }
            let (passed, block) = prepared?;
            match block {
                None => summary.known += 1,
                Some(block) => {
                    self.insert_recovered(Arc::new(block))?;
                    summary.imported += 1;
                    summary.transactions += passed.transactions;
                    summary.gas_used += passed.gas_used;
                }
            }
            observer.passed(&passed);
        }
        Ok(summary)
    }

    /// Reads to the end of the source, or to its first error, or until nobody takes blocks any more.
    fn prepare_all<E: Display>(
        &self,
        mut blocks: impl Iterator<Item = Result<Block, E>>,
        batches: &Sender<Vec<Prepared>>,
    ) {
        let mut after = BlockNumber::GENESIS;
        loop {
            let batch: Vec<Result<Block, E>> = blocks.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return;
            }
            let batch: Vec<Result<Block, ImportError>> = batch
                .into_iter()
                .map(|block| {
                    let block = block.map_err(|error| ImportError::Source { after, reason: error.to_string() })?;
                    after = block.number();
                    Ok(block)
                })
                .collect();
            let prepared: Vec<Prepared> =
                batch.into_par_iter().map(|block| block.and_then(|block| self.prepare(block))).collect();
            let is_last = prepared.iter().any(Result::is_err);
            if batches.send(prepared).is_err() || is_last {
                return;
            }
        }
    }

    fn prepare(&self, block: Block) -> Prepared {
        let canonical = self.chain.canonical_hash(block.number())?;
        if block.number() == BlockNumber::GENESIS && canonical != Some(block.hash()) {
            let own = canonical.unwrap_or_default();
            return Err(ImportError::OtherChain { found: block.hash(), own });
        }
        let was_known = canonical == Some(block.hash());
        let passed = ImportedBlock {
            number: block.number(),
            hash: block.hash(),
            transactions: block.transactions.len() as u64,
            gas_used: block.header.gas_used,
            was_known,
        };
        let recovered = if was_known { None } else { Some(self.recover(block)?) };
        Ok((passed, recovered))
    }
}
