//! A data folder with its database open and its chain known.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenon_api::messages::ChainInfo;
use tenon_api::{
    B256, BlockCommit, ChainReader, ChainWriter as _, ConsensusEngine, EncodedChainReader, SealedHeader, StoreError,
};
use tenon_chain::{ChainSpec, Genesis, GenesisError};
use tenon_config::{DatabaseSettings, Durability, HistoryMode, Network, Origin, Resolved, Settings};
use tenon_storage::{Mode, OpenError, Store, StoreOptions};

use crate::bounded_file;
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::family::{Engine, NodeFamily, PublicNetwork, family_of, read_genesis};
use crate::new_folder::NewFolder;
use crate::restoring;
use crate::rules_in_force;
use crate::sealing::OneMasternode;

/// The genesis given to a start.
#[derive(Debug)]
pub(crate) struct ChosenGenesis {
    /// Its JSON.
    pub(crate) text: Vec<u8>,
    /// The operator's file that contained it, if any.
    pub(crate) file: Option<PathBuf>,
}

impl ChosenGenesis {
    /// Parses it, under the network id of the settings.
    pub(crate) fn read(&self, settings: &Settings) -> Result<Genesis, GenesisError> {
        let genesis = read_genesis(&self.text)?;
        match settings.node.network_id {
            Some(network_id) => genesis.with_network_id(network_id),
            None => Ok(genesis),
        }
    }

    /// Checks it as a start does.
    ///
    /// # Errors
    /// [`Stop::Usage`] naming its file.
    pub(crate) fn check(&self, settings: &Settings) -> Result<(), Stop> {
        self.read(settings).map(drop).map_err(|error| self.refusal(&error))
    }

    fn refusal(&self, error: &GenesisError) -> Stop {
        let Some(file) = &self.file else { return Stop::Usage(error.to_string()) };
        let (file, text) = (file.display(), error.to_string());
        let problem = text.strip_prefix("genesis file: ").unwrap_or(&text);
        Stop::Usage(format!("genesis file {file}: {problem}; `tenon genesis verify {file}` checks all of it"))
    }
}

impl From<Vec<u8>> for ChosenGenesis {
    fn from(text: Vec<u8>) -> Self {
        Self { text, file: None }
    }
}

/// A chain that is ready to be read and written.
pub(crate) struct OpenedChain {
    /// The rules.
    pub(crate) spec: Arc<ChainSpec>,
    /// What its family decides about the node.
    pub(crate) family: Arc<dyn NodeFamily>,
    /// The database, which contains at least the genesis block.
    pub(crate) store: Arc<Store>,
    /// Constant facts.
    pub(crate) info: Arc<ChainInfo>,
    /// Keeps its records in the database.
    engine: Engine,
}

/// Relation of the configured rules to the chain of a folder.
#[derive(Clone, Copy)]
enum Rules {
    /// Compared, because blocks will be added to the chain.
    MustMatch,
    /// Not compared, because no blocks will be added.
    NotCompared,
}

/// Refuses a `database.history` that would prune states which the engine reads again.
fn check_history(settings: &Settings, family: &dyn NodeFamily) -> Result<(), Stop> {
    let database = &settings.database;
    let needed = family.states_for_engine();
    if database.mode != HistoryMode::Pruned || database.history >= needed {
        return Ok(());
    }
    Err(Stop::Usage(format!(
        "`database.history` is {}: the consensus of this chain reads states up to {needed} blocks before the head; \
         keep at least {needed} (--history.state {needed}), or all (--gcmode archive)",
        database.history
    )))
}

/// Parses the genesis of a start. The error for the copy in the folder says how to replace it.
fn read_chosen(settings: &Settings, folder: &DataFolder, chosen: &ChosenGenesis) -> Result<Genesis, Stop> {
    chosen.read(settings).map_err(|error| match folder.genesis() {
        Ok(Some(kept)) if kept == chosen.text => Stop::DataFolder(format!(
            "{}: {error}; remove this copy, and give the genesis of the chain again (--genesis or --network; \
             `tenon dev` creates its own)",
            folder.genesis_path().display()
        )),
        _ => chosen.refusal(&error),
    })
}

/// Opens the folder's database, and stores the genesis block in a new one or compares it with that of an existing one.
///
/// A folder without a copy of the genesis gets one before the database, so that a folder with a database always has a
/// copy, even if the process is killed in between.
fn open_store(
    settings: &Settings,
    folder: &DataFolder,
    chosen: &ChosenGenesis,
    commit: &BlockCommit,
    chain_id: u64,
) -> Result<Arc<Store>, Stop> {
    let _creation = if folder.database().exists() { None } else { restoring::lock_creation(folder)? };
    let is_new = folder.genesis()?.is_none();
    if is_new {
        folder.keep_genesis(&chosen.text)?;
    }
    let opened = Store::open(&folder.database(), store_options(&settings.database))
        .and_then(|store| store.initialise(commit, chain_id).map(|()| store));
    opened.map_err(|error| {
        if is_new {
            folder.forget_genesis();
        }
        refusal(folder, error)
    })
}

/// Repeats the engine's work after the last commit, in case the process was killed before that work was done.
fn catch_up(store: &Arc<Store>, engine: &dyn ConsensusEngine) -> Result<(), StoreError> {
    let head = store.head();
    if head.header.number == 0 {
        return Ok(());
    }
    engine.observe_head(&head.header, &**store);
    let (finalized, safe) = engine.finality(&head.header, &**store);
    store.take_writer()?.set_finality(finalized, safe)
}

/// Applies `recovery.check`. If it is 0, the default stays, which checks in builds with debug assertions.
fn check_signers(settings: &Settings) {
    if settings.recovery.check > 0 {
        tenon_recovery::check_one_in(settings.recovery.check);
    }
}

impl OpenedChain {
    /// The database alone, so that its last owner can close it.
    pub(crate) fn into_store(self) -> Arc<Store> {
        self.store
    }

    /// Opens the database of a folder for the chain of this genesis, which is stored in a new folder and compared with
    /// that of an existing one.
    ///
    /// # Errors
    /// [`Stop::Usage`] if the genesis is invalid; [`Stop::DataFolder`] if the folder is in use, has another chain, or
    /// can't be used.
    pub(crate) fn open(settings: &Settings, folder: &DataFolder, chosen: &ChosenGenesis) -> Result<Self, Stop> {
        Self::open_under(settings, folder, chosen, Rules::MustMatch)
    }

    fn open_under(
        settings: &Settings,
        folder: &DataFolder,
        chosen: &ChosenGenesis,
        rules: Rules,
    ) -> Result<Self, Stop> {
        check_signers(settings);
        let genesis = read_chosen(settings, folder, chosen)?;
        let spec = Arc::clone(&genesis.spec);
        let family = family_of(&spec);
        check_history(settings, &*family)?;
        let commit = genesis.commit().map_err(Stop::failure)?;
        let store = open_store(settings, folder, chosen, &commit, spec.chain_id)?;
        let taken_over = match rules {
            Rules::MustMatch => rules_in_force::compare(&spec, &*family, &store)?,
            Rules::NotCompared => None,
        };
        // A copy of another genesis is replaced only now, after the database has accepted the chosen one.
        if folder.genesis()?.as_deref() != Some(&chosen.text[..]) {
            folder.keep_genesis(&chosen.text)?;
        }
        // After the genesis file: if the process is killed in between, the next start compares the rules again.
        if let Some(rules) = taken_over {
            rules.keep(&store)?;
        }
        let engine = family.engine(&store, settings.sync.certificates)?;
        if let Err(error) = catch_up(&store, &*engine.checking) {
            tracing::warn!(%error, "could not store the finality of the head");
        }
        let info = Arc::new(ChainInfo {
            chain_id: spec.chain_id,
            network_id: spec.network_id,
            genesis_hash: commit.block.hash(),
            profile: spec.profile(),
        });
        Ok(Self { spec, family, store, info, engine })
    }

    /// [`OpenedChain::open`] for a folder that the start may have created. Keeps the folder if another node is using it
    /// by now.
    ///
    /// # Errors
    /// As [`OpenedChain::open`].
    pub(crate) fn open_new(
        settings: &Settings,
        folder: &DataFolder,
        genesis: &ChosenGenesis,
        made: &mut NewFolder,
    ) -> Result<Self, Stop> {
        let opened = Self::open(settings, folder, genesis);
        if let Err(Stop::InUse(_)) = &opened {
            made.keep();
        }
        opened
    }

    /// Opens a folder that already has a chain, with the genesis kept in it. Only for reading the chain or removing
    /// blocks. Removing blocks is also the remedy if the chain's rules have changed, so the rules are not compared.
    ///
    /// # Errors
    /// As [`OpenedChain::open`].
    pub(crate) fn open_existing(settings: &Settings) -> Result<Self, Stop> {
        let folder = DataFolder::existing(&settings.node.datadir)?;
        let genesis = folder.genesis()?.ok_or_else(|| no_chain(folder.path()))?;
        Self::open_under(settings, &folder, &genesis.into(), Rules::NotCompared)
    }

    /// The engine that checks blocks made by others.
    pub(crate) fn checking_engine(&self) -> Arc<dyn ConsensusEngine> {
        Arc::clone(&self.engine.checking)
    }

    /// The engine in all its types.
    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The masternode of a native chain that has had exactly one since its genesis; `None` for others.
    ///
    /// # Errors
    /// [`Stop::Failure`] when the database can't be read.
    pub(crate) fn one_masternode(&self) -> Result<Option<OneMasternode>, Stop> {
        self.family.one_masternode(&self.store, &*self.genesis_header()?)
    }

    /// The gas limit of the head, which a sealer keeps by default.
    pub(crate) fn head_gas_limit(&self) -> u64 {
        self.store.head().header.gas_limit
    }

    /// Block 0.
    ///
    /// # Errors
    /// [`Stop::Failure`] when the database can't be read.
    pub(crate) fn genesis_header(&self) -> Result<Arc<SealedHeader>, Stop> {
        let header = self.store.header(self.info.genesis_hash)?;
        header.ok_or_else(|| Stop::failure("block 0 is missing; run `tenon db verify`"))
    }

    /// The chain's read interface.
    pub(crate) fn reader(&self) -> Arc<dyn ChainReader> {
        Arc::clone(&self.store) as Arc<dyn ChainReader>
    }

    /// The chain as peers receive it.
    pub(crate) fn encoded_reader(&self) -> Arc<dyn EncodedChainReader> {
        self.store.clone()
    }
}

/// The chain chosen in the settings.
pub(crate) enum Named {
    /// By a file, or by the name of a public network.
    Chosen(ChosenGenesis),
    /// The development network, whose genesis follows from its settings or is kept in the folder.
    Development,
    /// None; the folder may have one.
    Nothing,
}

/// The genesis choice in the settings alone.
///
/// # Errors
/// [`Stop::Usage`] if two are chosen, or if the file can't be read.
pub(crate) fn named_genesis(resolved: &Resolved) -> Result<Named, Stop> {
    let node = &resolved.settings.node;
    match (&node.genesis, &node.network) {
        (Some(_), Some(network)) => Err(Stop::Usage(format!(
            "`genesis` ({}) and `network` ({network}, {}) exclude each other; give one",
            resolved.origin("genesis"),
            resolved.origin("network"),
        ))),
        (Some(path), None) => genesis_file(path, resolved.origin("genesis")).map(Named::Chosen),
        (None, Some(name)) => match Network::by_name(name, resolved.origin("network"))? {
            Network::Dev => Ok(Named::Development),
            Network::Public(name) => Ok(Named::Chosen(public_genesis(name)?.into())),
            Network::File(path) => genesis_file(&path, resolved.origin("network")).map(Named::Chosen),
        },
        (None, None) => Ok(Named::Nothing),
    }
}

/// The operator's genesis file.
fn genesis_file(path: &Path, origin: &Origin) -> Result<ChosenGenesis, Stop> {
    let text = bounded_file::genesis(path)
        .map_err(|error| Stop::Usage(format!("{origin}: genesis file {}: {error}", path.display())))?;
    Ok(ChosenGenesis { text, file: Some(path.to_owned()) })
}

/// The built-in genesis file of a public network.
pub(crate) fn public_genesis(name: &str) -> Result<Vec<u8>, Stop> {
    let network = PublicNetwork::by_name(name).ok_or_else(|| Stop::Usage(format!("unknown network `{name}`")))?;
    network.genesis_text().map_err(Stop::failure)
}

/// Checks that a folder may contain a chain, without opening its database, because a node may be using it.
///
/// # Errors
/// [`Stop::Usage`] if there is no database.
pub(crate) fn require_chain(folder: &Path) -> Result<(), Stop> {
    if DataFolder::has_database(folder) { Ok(()) } else { Err(no_chain(folder)) }
}

/// The error for a folder without a chain.
pub(crate) fn no_chain(folder: &Path) -> Stop {
    Stop::Usage(format!(
        "no chain is chosen, and {} has none yet; give --network mainnet, testnet, devnet, devnet-5551 or a genesis file",
        folder.display()
    ))
}

/// Why the database is refused; public chains are mentioned by name.
fn refusal(folder: &DataFolder, error: OpenError) -> Stop {
    let OpenError::OtherChain { found_chain, found_genesis, wanted_chain, wanted_genesis } = error else {
        return error.into();
    };
    let describe = |chain: u64, genesis: B256| match PublicNetwork::by_genesis_hash(genesis) {
        Some(network) => format!("{network} (chain {chain}, genesis {genesis})"),
        None => format!("chain {chain} with genesis {genesis}"),
    };
    Stop::DataFolder(format!(
        "{} has {}, not {}; choose another --datadir",
        folder.path().display(),
        describe(found_chain, found_genesis),
        describe(wanted_chain, wanted_genesis)
    ))
}

/// Options for the database, from the settings.
pub(crate) fn store_options(database: &DatabaseSettings) -> StoreOptions {
    let cache = usize::try_from(u64::from(database.cache) << 20).unwrap_or(usize::MAX);
    let options = StoreOptions::with_cache(cache);
    let is_default_window = database.trie_window == DatabaseSettings::default().trie_window;
    StoreOptions {
        mode: match database.mode {
            HistoryMode::Archive => Mode::Archive,
            HistoryMode::Pruned => Mode::Pruned(database.history),
        },
        durability: match database.durability {
            Durability::Block => tenon_storage::Durability::EveryBlock,
            Durability::Process => tenon_storage::Durability::PROCESS,
        },
        // With the default window, the store uses a shorter window and larger batches for old blocks. A chosen window
        // applies to old blocks too.
        old_trie_window: if is_default_window { options.old_trie_window } else { database.trie_window },
        old_group_blocks: if is_default_window { options.old_group_blocks } else { 1 },
        trie_window: database.trie_window,
        max_open_files: i32::try_from(database.open_files).unwrap_or(i32::MAX),
        ..options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_the_settings_reaches_its_own_option_of_the_database() {
        let options =
            store_options(&DatabaseSettings { cache: 3, trie_window: 5, open_files: 7, ..DatabaseSettings::default() });

        assert_eq!((options.cache_bytes, options.trie_window, options.max_open_files), (3 << 20, 5, 7));
        assert_eq!((options.old_trie_window, options.old_group_blocks), (5, 1));
    }
}
