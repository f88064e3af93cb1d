//! Opens, initialises and closes the database, and holds the data shared by its readers and its one writer.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use alloy_primitives::{B256, U256};
use parking_lot::Mutex;
use rocksdb::ErrorKind;
use tenon_api::{BlockCommit, Head, Header, SealedHeader, StoreError};

use crate::{
    Durability, Mode, OpenError, StoreOptions,
    database::{Database, cursor_status, without_folders},
    error::corrupt,
    folder_lock::FolderLock,
    format::{
        columns::Column,
        keys,
        meta::{self, Identity, MIGRATIONS, TrieExtent},
        migration,
    },
    full_disk, log_check,
    read::shared::{Shared, StoredStates},
    table_list,
    write::created::CreatedNodes,
};

/// The chain database of one node. See the crate's documentation.
///
/// Dropping it flushes. The folder stays locked until the last state and trie reader is dropped too.
#[derive(derive_more::Debug)]
#[debug("Store({mode:?}, head {})", shared.head.load().number())]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    pub(crate) mode: Mode,
    pub(crate) durability: Durability,
    /// Number of blocks below the head whose tries are kept whole.
    pub(crate) trie_window: u64,
    /// Maximum of `trie_window` while the head is old.
    pub(crate) old_trie_window: u64,
    /// Maximum number of old blocks that are committed in one batch.
    pub(crate) old_group_blocks: usize,
    /// The format that the folder had before it was opened.
    format_found: u32,
    /// Held by a writer from its first read to the publication of the head; readers never take it.
    pub(crate) writer: Mutex<Writer>,
    /// Whether the right to write the chain is given out: see [`Store::take_writer`].
    pub(crate) is_writer_taken: AtomicBool,
    /// Whether a panic interrupted a write, and the store could not be read from the disk again since.
    pub(crate) needs_reload: AtomicBool,
    /// Locks for commits to plugins' spaces; the chain's writer and readers never take them.
    pub(crate) spaces: SpaceLocks,
}

/// One lock per space of a plugin: a commit holds it from its first read to its write, so that counts are right and
/// preconditions hold. Readers never take it.
type SpaceLocks = Mutex<HashMap<String, Arc<Mutex<()>>>>;

/// State of the writer.
pub(crate) struct Writer {
    /// The chain of this folder; `None` before the genesis block is stored.
    pub(crate) identity: Option<Identity>,
    pub(crate) blocks_since_sync: u64,
    pub(crate) last_sync: Instant,
    pub(crate) created_nodes: CreatedNodes,
}

impl Store {
    /// Opens the folder, or creates it. A new database has no block; see [`Store::initialise`].
    ///
    /// # Errors
    /// - [`OpenError::Locked`]: another process has it open.
    /// - [`OpenError::NewerFormat`]: a newer release wrote it.
    /// - [`OpenError::Migration`]: its format is older and cannot be migrated.
    /// - [`OpenError::TableList`]: tables or logs are missing.
    /// - [`OpenError::Log`]: a log is damaged.
    /// - [`OpenError::Damaged`]: a file is missing or damaged.
    /// - [`OpenError::FullDisk`]: the disk is full.
    /// - [`OpenError::Engine`]: it cannot be used.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Arc<Self>, OpenError> {
        std::fs::create_dir_all(path).map_err(|error| no_folder(path, &error))?;
        let lock = FolderLock::take(path)?;
        table_list::check(path)?;
        let torn = log_check::check(path, options.durability)?;
        let database = Database::open(path, &options).map_err(|error| refusal(path, error))?.holding(lock);
        if let Some(torn) = torn {
            torn.warn();
        }
        let format_found = migration::migrate(path, &database, &MIGRATIONS)?;
        let identity = meta::identity(&database)?;
        let oldest_state = meta::oldest_state(&database)?;
        let trie_extent = stored_extent(&database, options.trie_checkpoint_every.max(1))?;
        let has_exact_checkpoints = meta::has_exact_checkpoints(&database)?;
        let stored_states = StoredStates { oldest_state, trie_extent, has_exact_checkpoints };
        let shared = Shared::new(database, empty_head(), stored_states, &options);
        if let Some(head) = stored_head(&shared)? {
            let number = head.header.number;
            shared.head.store(Arc::new(head));
            check_last_blocks(&shared, number)?;
        }
        let writer = Writer {
            identity,
            blocks_since_sync: 0,
            last_sync: Instant::now(),
            created_nodes: CreatedNodes::default(),
        };
        let store = Self {
            shared: Arc::new(shared),
            mode: options.mode,
            durability: options.durability,
            trie_window: options.trie_window,
            old_trie_window: options.old_trie_window,
            old_group_blocks: options.old_group_blocks,
            format_found,
            writer: Mutex::new(writer),
            is_writer_taken: AtomicBool::new(false),
            needs_reload: AtomicBool::new(false),
            spaces: SpaceLocks::default(),
        };
        store.make_head_whole()?;
        Ok(Arc::new(store))
    }

    /// Stores the genesis block if the database is new; otherwise checks that it contains this chain.
    ///
    /// # Errors
    /// [`OpenError::OtherChain`] if it contains another chain, [`OpenError::Store`] if it cannot be read or written.
    pub fn initialise(&self, genesis: &BlockCommit, chain_id: u64) -> Result<(), OpenError> {
        let mut writer = self.writer.lock();
        let wanted = Identity { chain_id, genesis_hash: genesis.block.hash() };
        match writer.identity {
            None => {
                self.commit_genesis(genesis, wanted)?;
                writer.identity = Some(wanted);
                Ok(())
            }
            Some(found) if found == wanted => Ok(()),
            Some(found) => Err(OpenError::OtherChain {
                found_chain: found.chain_id,
                found_genesis: found.genesis_hash,
                wanted_chain: wanted.chain_id,
                wanted_genesis: wanted.genesis_hash,
            }),
        }
    }

    /// Chain id and genesis hash; `None` before [`Store::initialise`].
    pub fn chain(&self) -> Option<(u64, B256)> {
        self.writer.lock().identity.map(|identity| (identity.chain_id, identity.genesis_hash))
    }

    /// The format that the folder had when it was opened; it is now [`FORMAT`](crate::FORMAT).
    pub const fn format_found(&self) -> u32 {
        self.format_found
    }

    /// The oldest height whose state can be read.
    pub fn oldest_state(&self) -> u64 {
        self.shared.oldest_state()
    }

    /// Returns whether to sync the log with the next write, which has this many blocks.
    pub(crate) fn is_sync_due(&self, writer: &Writer, count: u64) -> bool {
        match self.durability {
            Durability::EveryBlock => true,
            Durability::Interval { blocks, period } => {
                writer.blocks_since_sync + count >= blocks || writer.last_sync.elapsed() >= period
            }
            Durability::OnFlush => false,
        }
    }
}

impl Writer {
    /// Counts written blocks.
    pub(crate) fn count_blocks(&mut self, count: u64, was_synced: bool) {
        if was_synced {
            self.blocks_since_sync = 0;
            self.last_sync = Instant::now();
        } else {
            self.blocks_since_sync += count;
        }
    }
}

impl Drop for Store {
    /// An orderly end leaves no log to replay: reopening a large database would otherwise take seconds longer.
    fn drop(&mut self) {
        if let Err(error) = self.shared.database.flush() {
            tracing::warn!(%error, "could not flush the database; its log is replayed at the next start");
        }
    }
}

/// Number of blocks below the head that are checked when a folder is opened; takes a few milliseconds.
const LAST_BLOCKS: u64 = 4_096;

/// Refuses a chain with a gap among its last blocks. The engine records a log's length only when it syncs that log. So
/// a power loss may lose a log, or its end, and keep the next one, with which the engine would continue.
fn check_last_blocks(shared: &Shared, head: u64) -> Result<(), StoreError> {
    let first = head.saturating_sub(LAST_BLOCKS);
    let mut blocks = shared.database.range_cursor(Column::Canonical, &keys::number(first), None)?;
    for number in first..=head {
        if blocks.key() != Some(&keys::number(number)[..]) {
            cursor_status(&blocks)?;
            return Err(corrupt(format!("block {number} of the chain is missing; the head is block {head}")));
        }
        blocks.next();
    }
    cursor_status(&blocks)
}

/// The head on the disk; `None` before there is a genesis block.
pub(crate) fn stored_head(shared: &Shared) -> Result<Option<Head>, StoreError> {
    let Some((number, hash)) = meta::head(&shared.database)? else { return Ok(None) };
    let (finalized, safe) = meta::finality(&shared.database)?;
    let missing = || corrupt(format!("header of the head, block {number}"));
    let (header, total_difficulty) = shared.read_header(number, hash)?.ok_or_else(missing)?;
    Ok(Some(Head { header: Arc::new(header), total_difficulty, finalized, safe }))
}

/// The extent of the kept tries on the disk. `checkpoint_every` applies if nothing was thinned yet.
pub(crate) fn stored_extent(database: &Database, checkpoint_every: u64) -> Result<TrieExtent, StoreError> {
    let nothing_thinned = TrieExtent { whole_from: 0, checkpoint_every, was_rebuilt: false };
    Ok(meta::trie_extent(database)?.unwrap_or(nothing_thinned))
}

/// The value of `head()` before there is a genesis block.
fn empty_head() -> Head {
    Head {
        header: Arc::new(SealedHeader::new_unchecked(Header::default(), B256::ZERO)),
        total_difficulty: U256::ZERO,
        finalized: None,
        safe: None,
    }
}

/// The error of a folder that cannot be created.
fn no_folder(path: &Path, error: &std::io::Error) -> OpenError {
    let reason = if path.is_file() { "is a file, not a folder".into() } else { error.to_string() };
    OpenError::Engine { path: path.into(), reason }
}

/// Converts the engine's error on opening a folder.
fn refusal(path: &Path, error: rocksdb::Error) -> OpenError {
    let kind = error.kind();
    let reason = error.into_string();
    let is_damage = kind == ErrorKind::Corruption || kind == ErrorKind::IOError && reason.contains("No such file");
    let path = path.to_path_buf();
    // Recognised by its text, which has been the same since the engine's first release: there is no error code.
    if reason.contains("lock file") || reason.contains("lock hold") {
        OpenError::Locked { path }
    } else if is_damage {
        OpenError::Damaged { path, reason: without_folders(&reason) }
    } else if full_disk::is_full_disk(&reason) {
        OpenError::FullDisk { space_needed: full_disk::space_to_open(&path), path, reason }
    } else {
        OpenError::Engine { path, reason }
    }
}
