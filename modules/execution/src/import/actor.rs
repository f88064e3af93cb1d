//! The chain's single writer as an actor, and the handle to it.

use std::sync::{Arc, mpsc};

use tenon_api::{
    Block, BlockNumber, BlockProducer, Failure, InsertOutcome, RecoveredBlock, RecoveredTransaction, SealAttributes,
    SealedHeader,
};
use tenon_supervisor::{Actor, Mailbox};
use tokio::sync::oneshot;

use super::importer::Importer;

/// Receives the answer. A closure, because some callers are async and others are threads that may block; if it is
/// dropped unanswered, the caller learns that the actor failed.
pub type Reply<T> = Box<dyn FnOnce(Result<T, Failure>) + Send>;

/// Requests to the chain's writer.
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
            ChainMessage::Insert { block, reply } => reply(self.importer.insert(*block).map_err(Failure::from)),
            ChainMessage::Produce { attributes, transactions, reply } => {
                reply(self.importer.produce(&attributes, transactions).map_err(Failure::from));
            }
            ChainMessage::ListRefused { reply } => reply(Ok(self.importer.refused_blocks())),
            ChainMessage::SetHead { number, reply } => reply(self.importer.set_head(number).map_err(Failure::from)),
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
    /// Those of [`Importer::insert`], or the mailbox is full, or the actor is gone.
    pub async fn insert(&self, block: Block) -> Result<InsertOutcome, Failure> {
        self.ask(|reply| ChainMessage::Insert { block: Box::new(block), reply }).await
    }

    /// Like [`ChainHandle::insert`], on a thread that may block.
    pub(super) fn insert_waiting(&self, block: Block) -> Result<InsertOutcome, Failure> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.mailbox.try_send(ChainMessage::Insert {
            block: Box::new(block),
            reply: Box::new(move |outcome| drop(reply.send(outcome))),
        })?;
        answer.recv().unwrap_or_else(|_| Err(gone()))
    }

    /// Moves the head back and waits for completion.
    ///
    /// # Errors
    /// Those of [`Importer::set_head`], or the mailbox is full, or the actor is gone.
    pub async fn set_head(&self, number: BlockNumber) -> Result<(), Failure> {
        self.ask(|reply| ChainMessage::SetHead { number, reply }).await
    }

    /// Headers of the newest blocks refused since the start, oldest first.
    ///
    /// # Errors
    /// The mailbox is full, or the actor is gone.
    pub async fn refused_blocks(&self) -> Result<Vec<Arc<SealedHeader>>, Failure> {
        self.ask(|reply| ChainMessage::ListRefused { reply }).await
    }

    async fn ask<T: Send + 'static>(&self, message: impl FnOnce(Reply<T>) -> ChainMessage) -> Result<T, Failure> {
        let (reply, answer) = oneshot::channel();
        // The caller may have disconnected; the chain has changed all the same.
        self.mailbox.try_send(message(Box::new(move |outcome| drop(reply.send(outcome)))))?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl BlockProducer for ChainHandle {
    // Not tokio's channel: a sealer is an actor, on whose thread tokio refuses to block.
    fn produce(
        &self,
        attributes: &SealAttributes,
        transactions: Vec<RecoveredTransaction>,
    ) -> Result<Arc<RecoveredBlock>, Failure> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.mailbox.try_send(ChainMessage::Produce {
            attributes: Box::new(attributes.clone()),
            transactions,
            reply: Box::new(move |outcome| drop(reply.send(outcome))),
        })?;
        answer.recv().unwrap_or_else(|_| Err(gone()))
    }
}

fn gone() -> Failure {
    Failure::server("the chain's writer stopped before it answered; retry")
}
