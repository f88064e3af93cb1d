//! A writable chain, opened like in the node.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::Path,
    sync::Arc,
};

use flate2::read::MultiGzDecoder;
use tenon_api::{ChainReader, ConsensusEngine};
use tenon_bus::Bus;
use tenon_chain::{BlockStream, ChainSpec, Genesis};
use tenon_consensus::EthereumEngine;
use tenon_execution::Importer;
use tenon_execution_interface::{ChainFamily, EthereumFamily};
use tenon_native_consensus::NativeEngine;
use tenon_native_execution::family_of;
use tenon_native_spec::{NativeSettings, read_genesis};
use tenon_storage::{Store, StoreOptions};

use crate::Outcome;

/// Options of a database with a cache of this size.
pub(crate) fn store_options(cache_mebibytes: usize) -> StoreOptions {
    StoreOptions::with_cache(cache_mebibytes << 20)
}

/// Rules, database and engine of a new chain.
pub(crate) struct Chain {
    pub(crate) spec: Arc<ChainSpec>,
    pub(crate) store: Arc<Store>,
    pub(crate) engine: Arc<dyn ConsensusEngine>,
}

impl Chain {
    /// Stores the genesis block in a new database.
    pub(crate) fn create(genesis: &Genesis, folder: &Path) -> Outcome<Self> {
        let spec = Arc::clone(&genesis.spec);
        let store = Store::open(folder, store_options(512))?;
        store.initialise(&genesis.commit()?, spec.chain_id)?;
        let engine: Arc<dyn ConsensusEngine> = match NativeSettings::of(&spec) {
            Some(_) => Arc::new(NativeEngine::new(&spec)?),
            None => Arc::new(EthereumEngine::new(Arc::clone(&spec))),
        };
        Ok(Self { spec, store, engine })
    }

    pub(crate) fn reader(&self) -> Arc<dyn ChainReader> {
        Arc::clone(&self.store) as Arc<dyn ChainReader>
    }

    pub(crate) fn importer(&self) -> Outcome<Importer> {
        let writer = Arc::new(self.store.take_writer()?);
        let (rules, engine) = (rules_of_blocks(&self.spec), Arc::clone(&self.engine));
        Ok(Importer::new(rules, self.reader(), writer, engine, Bus::new()))
    }
}

/// The rules of blocks of the chain's family.
pub(crate) fn rules_of_blocks(spec: &Arc<ChainSpec>) -> Arc<dyn ChainFamily> {
    family_of(spec).unwrap_or_else(|| Arc::new(EthereumFamily::new(Arc::clone(spec))))
}

/// The genesis of a file.
pub(crate) fn genesis(path: &Path) -> Outcome<Genesis> {
    let mut text = Vec::new();
    open(path)?.read_to_end(&mut text)?;
    Ok(read_genesis(&text)?)
}

/// The blocks of a file.
pub(crate) fn blocks(path: &Path) -> Outcome<BlockStream<Box<dyn Read + Send>>> {
    Ok(BlockStream::new(open(path)?))
}

fn open(path: &Path) -> Outcome<Box<dyn Read + Send>> {
    let file = BufReader::with_capacity(1 << 20, File::open(path)?);
    let is_packed = path.extension().is_some_and(|extension| extension == "gz");
    Ok(if is_packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) })
}

/// Peak memory of this process, bytes; 0 if the system does not report it.
pub(crate) fn peak_memory() -> u64 {
    memory_line("VmHWM:")
}

/// Memory of this process now, bytes; 0 if the system does not report it.
pub(crate) fn resident_memory() -> u64 {
    memory_line("VmRSS:")
}

fn memory_line(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    kibibytes.unwrap_or_default() * 1024
}
