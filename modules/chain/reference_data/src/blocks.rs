//! The chain of a folder, read by a dedicated thread: the database crate's values must not leave their thread.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use tenon_api::{B256, Block};

use crate::database::{Database, Facts};
use crate::error::ReferenceDataError;
use crate::folder;

/// Number of blocks that are read ahead of the consumer.
const BLOCKS_AHEAD: usize = 64;

type Reply<T> = SyncSender<Result<T, ReferenceDataError>>;

/// A request to the reading thread.
enum Request {
    CanonicalHash { number: u64, reply: Reply<Option<B256>> },
    Blocks { first: u64, last: u64, reply: Reply<Block> },
}

/// The chain of a stopped reference node. Its folder is locked until this is dropped.
pub struct ReferenceChain {
    path: PathBuf,
    facts: Facts,
    requests: Sender<Request>,
    _lock: Option<File>,
}

impl ReferenceChain {
    /// Opens the chain of a data folder, of the `XDC` folder in it, or of a `chaindata` folder.
    ///
    /// # Errors
    /// [`ReferenceDataError`] if the folder contains no chain, if a node has it open, or if it cannot be read.
    pub fn open(named: &Path) -> Result<Self, ReferenceDataError> {
        let path = folder::find(named)?;
        let lock = folder::lock(&path)?;
        let (requests, asked) = channel();
        let (opened, outcome) = sync_channel(1);
        let thread_path = path.clone();
        let spawned = std::thread::Builder::new().name("reference-data".to_owned()).spawn(move || {
            // The database crate panics on some contents that it does not expect.
            let run = catch_unwind(AssertUnwindSafe(|| serve(&thread_path, &opened, &asked)));
            let Err(reason) = run else { return };
            let failed = || ReferenceDataError::Failed { path: thread_path.clone(), reason: text_of(&*reason) };
            // If the panic happened while opening, `open` receives this error. Otherwise this send fails, and the
            // caller of the failed request sees that its reply channel is closed.
            let _ = opened.try_send(Err(failed()));
        });
        spawned.map_err(|source| ReferenceDataError::Io { path: path.clone(), source })?;
        let facts = outcome.recv().unwrap_or_else(|_| Err(ended(&path)))?;
        Ok(Self { path, facts, requests, _lock: lock })
    }

    /// The database's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Height and hash of the newest block.
    pub const fn head(&self) -> (u64, B256) {
        self.facts.head
    }

    /// Hash of block 0.
    pub const fn genesis_hash(&self) -> B256 {
        self.facts.genesis
    }

    /// The canonical hash of a height.
    ///
    /// # Errors
    /// [`ReferenceDataError`] if the database cannot be read.
    pub fn canonical_hash(&self, number: u64) -> Result<Option<B256>, ReferenceDataError> {
        let (reply, answer) = sync_channel(1);
        let asked = self.requests.send(Request::CanonicalHash { number, reply });
        asked.map_err(|_| ended(&self.path))?;
        answer.recv().unwrap_or_else(|_| Err(ended(&self.path)))
    }

    /// The canonical blocks from a height to the head.
    pub fn blocks(&self, first: u64) -> Blocks {
        let (reply, answers) = sync_channel(BLOCKS_AHEAD);
        let (last, path) = (self.facts.head.0, self.path.clone());
        // If the thread has ended, [`Blocks`] returns an error.
        let _ = self.requests.send(Request::Blocks { first, last, reply });
        Blocks { answers: Some(answers), left: (last + 1).saturating_sub(first), path }
    }
}

/// Opens the database, sends its facts to `opened`, and answers requests until all request senders are dropped.
fn serve(path: &Path, opened: &Reply<Facts>, requests: &Receiver<Request>) {
    let made = Database::open(path.to_owned()).and_then(|mut database| Ok((database.facts()?, database)));
    let mut database = match made {
        Ok((facts, database)) => {
            if opened.send(Ok(facts)).is_err() {
                return;
            }
            database
        }
        Err(error) => {
            let _ = opened.send(Err(error));
            return;
        }
    };
    for request in requests {
        match request {
            Request::CanonicalHash { number, reply } => drop(reply.send(database.canonical_hash(number))),
            Request::Blocks { first, last, reply } => {
                if let Err(error) = database.read(first, last, |block| reply.send(Ok(block)).is_ok()) {
                    let _ = reply.send(Err(error));
                }
            }
        }
    }
}

fn ended(path: &Path) -> ReferenceDataError {
    let reason = "the database has unexpected content; it is damaged".to_owned();
    ReferenceDataError::Failed { path: path.to_owned(), reason }
}

/// The text of a panic. Not `tenon_bus::panic_text`, because crates of `modules/chain` know no bus.
fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("unknown").to_owned()
}

/// The blocks of a chain, in order. The iterator ends after an error.
pub struct Blocks {
    answers: Option<Receiver<Result<Block, ReferenceDataError>>>,
    left: u64,
    path: PathBuf,
}

impl Iterator for Blocks {
    type Item = Result<Block, ReferenceDataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let item = self.answers.as_ref()?.recv().unwrap_or_else(|_| Err(ended(&self.path)));
        self.left -= 1;
        if item.is_err() {
            self.answers = None;
        }
        Some(item)
    }
}
