//! The importer's actor, and the handle to it. It receives blocks of the sealer, blocks that operators import, and changes
//! of the head, and writes through the storage actor.

use std::sync::{Arc, mpsc};

use tenon_api::{
    ActorError, Block, BlockNumber, BlockProducer, BlockProductionError, BusError, InsertOutcome, RecoveredBlock,
    RecoveredTransaction, SealAttributes, SealedHeader,
};
use tenon_supervisor::{Actor, Mailbox};
use tokio::sync::oneshot;

use super::importer::Importer;
use crate::ImportError;

/// Receives the answer. A closure, because some callers are async and others are threads that may block. If it is
/// dropped without an answer, the caller learns that the actor failed.
pub type Reply<T> = Box<dyn FnOnce(Result<T, ImportError>) + Send>;

/// Requests to the importer.
pub enum ChainMessage {
    /// Insert a block.
    Insert {
        /// The block.
        block: Box<Block>,
        /// Receives the result.
        reply: Reply<InsertOutcome>,
    },
    /// Build a block on the head.
    Produce {
        /// The sealer's parameters.
        attributes: Box<SealAttributes>,
        /// Candidate transactions, in this order.
        transactions: Vec<RecoveredTransaction>,
        /// Receives the block.
        reply: Reply<Arc<RecoveredBlock>>,
    },
    /// List the newest refused blocks.
    ListRefused {
        /// Receives their headers, oldest first.
        reply: Reply<Vec<Arc<SealedHeader>>>,
    },
    /// Move the head back.
    SetHead {
        /// The new head's height.
        number: BlockNumber,
        /// Receives the outcome.
        reply: Reply<()>,
    },
}

/// Owns the [`Importer`]: one message at a time, in order of arrival.
pub struct ChainActor {
    importer: Arc<Importer>,
}

impl ChainActor {
    /// An actor over an importer. The importer's own lock separates it from bulk imports.
    pub const fn new(importer: Arc<Importer>) -> Self {
        Self { importer }
    }
}

impl Actor for ChainActor {
    type Message = ChainMessage;

    fn handle(&mut self, message: ChainMessage) {
        match message {
            ChainMessage::Insert { block, reply } => reply(self.importer.insert(*block)),
            ChainMessage::Produce { attributes, transactions, reply } => {
                reply(self.importer.produce(&attributes, transactions));
            }
            ChainMessage::ListRefused { reply } => reply(Ok(self.importer.refused_blocks())),
            ChainMessage::SetHead { number, reply } => reply(self.importer.set_head(number)),
        }
    }
}

/// Why a request to the importer failed.
#[derive(Debug, thiserror::Error)]
pub enum ImporterError {
    /// The importer refused it.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The actor did not accept the message.
    #[error(transparent)]
    Actor(#[from] ActorError),
    /// The actor panicked, or was stopped, before it answered. A change may have been made nevertheless.
    #[error("the importer stopped before it answered; check the head before you repeat a change")]
    Stopped,
}

impl From<ImporterError> for BusError {
    fn from(error: ImporterError) -> Self {
        match error {
            ImporterError::Import(error) => error.into(),
            ImporterError::Actor(error) => error.into(),
            ImporterError::Stopped => Self::failed(error),
        }
    }
}

/// A handle to the [`ChainActor`]. Cheap to clone.
#[derive(Clone)]
pub struct ChainHandle {
    mailbox: Mailbox<ChainMessage>,
}

impl ChainHandle {
    /// A handle over the actor's mailbox.
    pub const fn new(mailbox: Mailbox<ChainMessage>) -> Self {
        Self { mailbox }
    }

    /// Inserts a block and waits for the result.
    ///
    /// # Errors
    /// [`ImporterError`].
    pub async fn insert(&self, block: Block) -> Result<InsertOutcome, ImporterError> {
        self.ask(|reply| ChainMessage::Insert { block: Box::new(block), reply }).await
    }

    /// Like [`ChainHandle::insert`], on a thread that may block.
    pub(super) fn insert_waiting(&self, block: Block) -> Result<InsertOutcome, ImporterError> {
        self.ask_waiting(|reply| ChainMessage::Insert { block: Box::new(block), reply })
    }

    /// Moves the head back and waits for completion.
    ///
    /// # Errors
    /// [`ImporterError`].
    pub async fn set_head(&self, number: BlockNumber) -> Result<(), ImporterError> {
        self.ask(|reply| ChainMessage::SetHead { number, reply }).await
    }

    /// Headers of the newest blocks refused since the start, oldest first.
    ///
    /// # Errors
    /// [`ImporterError`].
    pub async fn refused_blocks(&self) -> Result<Vec<Arc<SealedHeader>>, ImporterError> {
        self.ask(|reply| ChainMessage::ListRefused { reply }).await
    }

    async fn ask<T: Send + 'static>(&self, message: impl FnOnce(Reply<T>) -> ChainMessage) -> Result<T, ImporterError> {
        let (reply, answer) = oneshot::channel();
        // If the caller has disconnected, the reply cannot be sent. The chain has changed nevertheless.
        self.mailbox.try_send(message(Box::new(move |outcome| drop(reply.send(outcome)))))?;
        Ok(answer.await.map_err(|_| ImporterError::Stopped)??)
    }

    /// Like `ask`, on a thread that may block.
    fn ask_waiting<T: Send + 'static>(
        &self,
        message: impl FnOnce(Reply<T>) -> ChainMessage,
    ) -> Result<T, ImporterError> {
        // Not tokio's channel: a sealer is an actor, on whose thread tokio refuses to block.
        let (reply, answer) = mpsc::sync_channel(1);
        self.mailbox.try_send(message(Box::new(move |outcome| drop(reply.send(outcome)))))?;
        Ok(answer.recv().map_err(|_| ImporterError::Stopped)??)
    }
}

impl BlockProducer for ChainHandle {
    fn produce(
        &self,
        attributes: &SealAttributes,
        transactions: Vec<RecoveredTransaction>,
    ) -> Result<Arc<RecoveredBlock>, BlockProductionError> {
        let attributes = Box::new(attributes.clone());
        let made = self.ask_waiting(|reply| ChainMessage::Produce { attributes, transactions, reply });
        made.map_err(BlockProductionError::new)
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::StoreError;

    use super::*;

    #[test]
    fn the_error_of_a_stopped_importer_holds_for_reads_and_changes() {
        let text = "the importer stopped before it answered; check the head before you repeat a change";

        assert_eq!(BusError::from(ImporterError::Stopped), BusError::failed(text));
    }

    #[test]
    fn an_error_of_the_database_keeps_its_kind() {
        let stopped = ImportError::Store(StoreError::Stopped);

        assert_eq!(BusError::from(ImporterError::Import(stopped)), BusError::TimedOut);
    }
}
