//! Passes the blocks of peers to the import, on threads that may block.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use alloy_primitives::B256;
use parking_lot::Mutex;
use tenon_api::{ActorError, BatchObserver, Block, BlockNumber, BlockPort, BlockVerdict, FailedBlock};
use tenon_supervisor::Mailbox;
use tokio::runtime::Handle;

use crate::input::Input;
use crate::system;

/// Time between two attempts to send to a busy actor.
const SEND_RETRY_PAUSE: Duration = Duration::from_millis(5);

/// A running import. Dropping it ends the import after the blocks that it has received.
pub(crate) struct Importing {
    /// `None` after the last block.
    blocks: Option<Sender<Block>>,
    reports: Arc<Reports>,
}

/// The last block that the import has inserted.
#[derive(Debug, Default)]
struct Reports {
    last: Mutex<Option<B256>>,
    /// Whether the actor has been notified of it.
    is_notified: AtomicBool,
    is_cancelled: AtomicBool,
}

impl Importing {
    /// Starts an import.
    pub(crate) fn start(port: Arc<dyn BlockPort>, mailbox: Mailbox<Input>, runtime: &Handle) -> Self {
        let (blocks, source) = mpsc::channel();
        let reports = Arc::<Reports>::default();
        let mut observer = Observer { reports: Arc::clone(&reports), mailbox: mailbox.clone() };
        system::spawn_blocking(runtime, move || {
            let outcome = port.import(Box::new(source.into_iter()), &mut observer);
            send_with_retries(&mailbox, || Input::ImportEnded(outcome.clone()));
        });
        Self { blocks: Some(blocks), reports }
    }

    /// Passes the next block on. A finished import accepts none; it has already reported its end.
    pub(crate) fn push(&self, block: Block) {
        if let Some(blocks) = &self.blocks {
            let _ = blocks.send(block);
        }
    }

    /// Signals that no more blocks follow.
    pub(crate) fn end(&mut self) {
        self.blocks = None;
    }

    /// The last inserted block.
    pub(crate) fn last(&self) -> Option<B256> {
        self.reports.is_notified.store(false, Ordering::Release);
        self.reports.last.lock().take()
    }

    /// Ends the import at the next block.
    pub(crate) fn cancel(&self) {
        self.reports.is_cancelled.store(true, Ordering::Relaxed);
    }
}

struct Observer {
    reports: Arc<Reports>,
    mailbox: Mailbox<Input>,
}

impl BatchObserver for Observer {
    fn passed(&mut self, _number: BlockNumber, hash: B256) {
        *self.reports.last.lock() = Some(hash);
        if !self.reports.is_notified.swap(true, Ordering::AcqRel) && self.mailbox.try_send(Input::Imported).is_err() {
            self.reports.is_notified.store(false, Ordering::Release);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.reports.is_cancelled.load(Ordering::Relaxed)
    }
}

/// Verifies a header, inserts the block if the header is right, and reports both results.
pub(crate) fn verify_and_insert(
    port: Arc<dyn BlockPort>,
    block: Arc<Block>,
    mailbox: Mailbox<Input>,
    runtime: &Handle,
) {
    system::spawn_blocking(runtime, move || {
        let (hash, sealed) = (block.hash(), Arc::new(block.header.clone()));
        let header = port.verify_header(&block.header);
        send_with_retries(&mailbox, || Input::HeaderVerified { hash, verdict: header.clone() });
        let verdict = match header {
            BlockVerdict::Head => port.insert(Arc::unwrap_or_clone(block)),
            other => other,
        };
        send_with_retries(&mailbox, || Input::Inserted { header: Arc::clone(&sealed), verdict: verdict.clone() });
    });
}

/// Sends an event that must not be lost to the actor, on a thread that may block.
fn send_with_retries(mailbox: &Mailbox<Input>, input: impl Fn() -> Input) {
    // A stopped actor needs no events.
    while let Err(ActorError::MailboxFull { .. }) = mailbox.try_send(input()) {
        std::thread::sleep(SEND_RETRY_PAUSE);
    }
}

/// The result of an import that could not be started.
pub(crate) fn not_started() -> Result<(), FailedBlock> {
    let verdict = BlockVerdict::OwnFailure { reason: "the network is not ready".to_owned() };
    Err(FailedBlock { number: None, hash: None, verdict })
}
