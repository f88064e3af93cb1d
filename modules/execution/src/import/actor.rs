//! The one writer of the chain, as an actor, and the handle by which others reach it.

use std::sync::{Arc, mpsc};

use tenon_api::{
    Block, BlockNumber, BlockProducer, Failure, InsertOutcome, RecoveredBlock, RecoveredTransaction, SealAttributes,
    SealedHeader,
};
use tenon_supervisor::{Actor, Mailbox};
use tokio::sync::oneshot;

use super::importer::Importer;

/// Takes the answer. A closure, because some ask from async code and some from threads that may block; dropping
/// it unanswered tells the asker that the actor failed.
pub type Reply<T> = Box<dyn FnOnce(Result<T, Failure>) + Send>;

/// What the chain's writer can be asked to do.
pub enum ChainMessage {
    /// Insert a block.
    Insert {
        /// The block.
        block: Box<Block>,
        /// Receives what became of it.
        reply: Reply<InsertOutcome>,
    },
    /// Build a block on the head.
    Produce {
        /// What the sealer wants it built with.
        attributes: Box<SealAttributes>,
        /// What may go into it, in this order.
        transactions: Vec<RecoveredTransaction>,
        /// Receives the block.
        reply: Reply<Arc<RecoveredBlock>>,
    },
    /// Name the newest blocks that were refused.
    ListRefused {
        /// Receives their headers, oldest first.
        reply: Reply<Vec<Arc<SealedHeader>>>,
    },
    /// Move the head back.
    SetHead {
        /// To this height.
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
    /// An actor over an importer. The importer's own lock keeps a bulk import and this actor apart.
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

/// Reaches the [`ChainActor`]. Cheap to clone.
#[derive(Clone)]
pub struct ChainHandle {
    mailbox: Mailbox<ChainMessage>,
}

impl ChainHandle {
    /// A handle over the actor's mailbox.
    pub const fn new(mailbox: Mailbox<ChainMessage>) -> Self {
        Self { mailbox }
    }

    /// Inserts a block and waits until its fate is known.
    ///
    /// # Errors
    /// What [`Importer::insert`] says, or that the mailbox is full or the actor gone.
    pub async fn insert(&self, block: Block) -> Result<InsertOutcome, Failure> {
        self.ask(|reply| ChainMessage::Insert { block: Box::new(block), reply }).await
    }

    /// As [`ChainHandle::insert`], on a thread that may wait.
    pub(super) fn insert_waiting(&self, block: Block) -> Result<InsertOutcome, Failure> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.mailbox.try_send(ChainMessage::Insert {
            block: Box::new(block),
            reply: Box::new(move |outcome| drop(reply.send(outcome))),
        })?;
        answer.recv().unwrap_or_else(|_| Err(gone()))
    }

    /// Moves the head back and waits until it is there.
    ///
    /// # Errors
    /// What [`Importer::set_head`] says, or that the mailbox is full or the actor gone.
    pub async fn set_head(&self, number: BlockNumber) -> Result<(), Failure> {
        self.ask(|reply| ChainMessage::SetHead { number, reply }).await
    }

    /// Headers of the newest blocks that were refused since the start, oldest first.
    ///
    /// # Errors
    /// That the mailbox is full or the actor gone.
    pub async fn refused_blocks(&self) -> Result<Vec<Arc<SealedHeader>>, Failure> {
        self.ask(|reply| ChainMessage::ListRefused { reply }).await
    }

    async fn ask<T: Send + 'static>(&self, message: impl FnOnce(Reply<T>) -> ChainMessage) -> Result<T, Failure> {
        let (reply, answer) = oneshot::channel();
        // The asker may have gone meanwhile; the chain has moved all the same.
        self.mailbox.try_send(message(Box::new(move |outcome| drop(reply.send(outcome)))))?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl BlockProducer for ChainHandle {
    // Not tokio's channel: a sealer is an actor, whose thread carries a runtime in which tokio refuses to block.
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
    Failure::server("the chain's writer stopped before it answered; ask again")
}
