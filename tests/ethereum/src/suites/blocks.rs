//! `BlockchainTests`: a chain imported block by block into a database, like by a node.

use std::sync::Arc;

use alloy_primitives::{Address, B256, hex};
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tempfile::TempDir;
use tenon_api::{Block, ChainReader, EMPTY_CODE_HASH, Header, InsertOutcome, StateReader};
use tenon_bus::Bus;
use tenon_chain::{Genesis, assemble_block, blob_gas_used, encode_block, seal, transactions_root};
use tenon_consensus::EthereumEngine;
use tenon_execution::Importer;
use tenon_execution_interface::EthereumFamily;
use tenon_storage::{Durability, Mode, Store, StoreOptions};

use super::{Cases, FileReports, cases_of, headers::HeaderFile, parse_case};
use crate::{
    CaseReport, Difference,
    expectation::compare_refusal,
    lenient::{AccountFile, HexBytes, StateFile},
    network::{ConfigFile, spec},
    outcome::{Check, Passed, Unmet, require_equal},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChainCase {
    network: String,
    #[serde(default)]
    config: ConfigFile,
    pre: StateFile,
    genesis_block_header: HeaderFile,
    #[serde(rename = "genesisRLP")]
    genesis_rlp: Option<HexBytes>,
    blocks: Vec<BlockFile>,
    lastblockhash: B256,
    post_state: Option<StateFile>,
    post_state_hash: Option<B256>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockFile {
    rlp: HexBytes,
    block_header: Option<HeaderFile>,
    #[serde(default)]
    transactions: Vec<Value>,
    #[serde(default)]
    uncle_headers: Vec<Value>,
    withdrawals: Option<Vec<Value>>,
    expect_exception: Option<String>,
}

/// Beginning of the consensus error that the transactions do not match the header.
const WRONG_TRANSACTIONS_ROOT: &str = "transactions root: found";

/// A memory file system, if the system has one. Opening a database there takes a fifth of the time.
const MEMORY_FOLDER: &str = "/dev/shm";

pub(super) fn run(text: &[u8], cases: &Cases<'_>) -> FileReports {
    let run_one = |(name, raw): (String, &RawValue)| -> Option<CaseReport> {
        cases.run(&name, || parse_case::<ChainCase>(raw)?.run())
    };
    Ok(cases_of(text)?.into_par_iter().filter_map(run_one).collect())
}

/// A database in its own folder, and the importer over it.
struct Node {
    store: Arc<Store>,
    importer: Importer,
    // Dropped last: the database must be closed before its folder is removed.
    _folder: TempDir,
}

impl Node {
    fn new(genesis: &Genesis) -> Result<Self, Difference> {
        let failed = |error: &dyn std::fmt::Display| Difference::new("database", error, "one with the genesis block");
        let folder = tempfile::tempdir_in(MEMORY_FOLDER).or_else(|_| tempfile::tempdir());
        let folder = folder.map_err(|error| failed(&error))?;
        let store = Store::open(folder.path(), small_database()).map_err(|error| failed(&error))?;
        let commit = genesis.commit().map_err(|error| failed(&error))?;
        store.initialise(&commit, genesis.spec.network_id).map_err(|error| failed(&error))?;
        let engine = Arc::new(EthereumEngine::new(Arc::clone(&genesis.spec)));
        let writer = Arc::new(store.take_writer().map_err(|error| failed(&error))?);
        let reader = Arc::clone(&store) as _;
        let importer =
            Importer::new(Arc::new(EthereumFamily::new(Arc::clone(&genesis.spec))), reader, writer, engine, Bus::new());
        Ok(Self { store, importer, _folder: folder })
    }
}

/// The chains are a few blocks long, and thousands of databases are opened.
fn small_database() -> StoreOptions {
    StoreOptions {
        mode: Mode::Archive,
        durability: Durability::OnFlush,
        write_buffer_bytes: 4 << 20,
        trie_cache_bytes: 4 << 20,
        state_cache_bytes: 48 << 20,
        block_cache_bytes: 4 << 20,
        background_threads: 2,
        ..StoreOptions::with_cache(4 << 20)
    }
}

impl ChainCase {
    fn run(&self) -> Check {
        let genesis = self.genesis()?;
        let node = Node::new(&genesis)?;
        let mut passed = Passed::default();
        for (index, block) in self.blocks.iter().enumerate() {
            let checked = block.run(&node.importer).map_err(|unmet| match unmet {
                Unmet::Differs(Difference { field, found, wanted }) => {
                    Unmet::Differs(Difference { field: format!("block at {index}: {field}"), found, wanted })
                }
                not_built @ Unmet::NotBuilt(_) => not_built,
            })?;
            passed.not_compared += checked.not_compared;
        }
        self.check_end(&node.store)?;
        Ok(passed)
    }

    /// The chain's genesis, whose block must equal the case's.
    fn genesis(&self) -> Result<Genesis, Unmet> {
        let wanted = &self.genesis_block_header;
        let genesis = Genesis {
            spec: Arc::new(self.config.apply(spec(&self.network)?)?),
            header: wanted.header()?,
            alloc: self.pre.iter().map(|(address, account)| (*address, account.into())).collect(),
            config: Value::Null,
        };
        let block = genesis.commit().map_err(|error| Difference::new("genesis", error, "a block"))?.block;
        require_equal("genesis state root", block.header.state_root, wanted.header()?.state_root)?;
        require_equal("genesis hash", block.hash(), wanted.hash)?;
        if let Some(rlp) = &self.genesis_rlp {
            require_equal("genesis RLP", hex::encode(encode_block(&block)), hex::encode(&rlp.0))?;
        }
        Ok(genesis)
    }

    fn check_end(&self, store: &Store) -> Result<(), Difference> {
        let head = store.head();
        require_equal("head hash", head.header.hash(), self.lastblockhash)?;
        if let Some(root) = self.post_state_hash {
            require_equal("state root of the head", head.header.state_root, root)?;
        }
        let unreadable = |error| Difference::new("state of the head", error, "a readable one");
        let state = store.state_at(head.number()).map_err(unreadable)?;
        for (address, wanted) in self.post_state.iter().flatten() {
            compare_account(&*state, *address, wanted)?;
        }
        Ok(())
    }
}

/// Why a block was refused.
struct Refusal {
    words: String,
    /// The block, if its bytes are one.
    block: Option<Box<Block>>,
}

impl BlockFile {
    /// Decodes and imports the block.
    fn import(&self, importer: &Importer) -> Result<Block, Refusal> {
        let mut rest = &self.rlp.0[..];
        let malformed = |words: String| Refusal { words, block: None };
        let block = tenon_chain::decode_block(&mut rest).map_err(|error| malformed(error.to_string()))?;
        if !rest.is_empty() {
            return Err(malformed(format!("{} bytes follow the block at byte {}", rest.len(), self.rlp.0.len())));
        }
        match importer.insert(block.clone()) {
            Ok(_) => Ok(block),
            Err(error) => Err(Refusal { words: error.to_string(), block: Some(Box::new(block)) }),
        }
    }

    /// A block whose header is given must be accepted, any other refused.
    fn run(&self, importer: &Importer) -> Check {
        match (self.import(importer), &self.block_header) {
            (Ok(block), Some(header)) => {
                require_equal("hash", block.hash(), header.hash)?;
                header.compare(&block.header)?;
                require_equal("transactions", block.transactions.len(), self.transactions.len())?;
                require_equal("uncles", block.ommers.len(), self.uncle_headers.len())?;
                if let Some(withdrawals) = &self.withdrawals {
                    let found = block.withdrawals.as_ref().map_or(0, Vec::len);
                    require_equal("withdrawals", found, withdrawals.len())?;
                }
                Ok(Passed::default())
            }
            (Err(refusal), None) => self.check_refusal(refusal, importer),
            (Ok(_), None) => {
                let wanted = self.expect_exception.as_deref().unwrap_or("refused");
                Err(Difference::new("import", "accepted", wanted).into())
            }
            (Err(refusal), Some(_)) => Err(Difference::new("import", refusal.words, "accepted").into()),
        }
    }

    /// Many cases put an invalid transaction into a block whose header was made without it. The block is refused for
    /// its transactions root, and then once more with a corrected header for the reason in the case.
    fn check_refusal(&self, refusal: Refusal, importer: &Importer) -> Check {
        let Some(exception) = &self.expect_exception else { return Ok(Passed { not_compared: 1 }) };
        let checked = compare_refusal(exception, &refusal.words);
        match (checked, refusal.block) {
            (Err(_), Some(block)) if refusal.words.contains(WRONG_TRANSACTIONS_ROOT) => {
                match importer.insert(mended(*block)) {
                    // A side block whose parent's state is missing is executed when its branch wins.
                    Ok(InsertOutcome::SideBranch { .. }) => Ok(Passed { not_compared: 1 }),
                    Ok(_) => Err(Difference::new("import with a mended header", "accepted", exception).into()),
                    Err(error) => compare_refusal(exception, &error.to_string()),
                }
            }
            (checked, _) => checked,
        }
    }
}

/// The block with a header that matches its transactions.
fn mended(block: Block) -> Block {
    let blob_gas: u64 = block.transactions.iter().map(|transaction| blob_gas_used(transaction)).sum();
    let header = Header {
        transactions_root: transactions_root(&block.transactions),
        blob_gas_used: block.header.blob_gas_used.map(|_| blob_gas),
        ..block.header.header().clone()
    };
    assemble_block(seal(header), block.transactions, block.ommers, block.withdrawals)
}

fn compare_account(state: &dyn StateReader, address: Address, wanted: &AccountFile) -> Result<(), Difference> {
    let field = |name: &str| format!("{name} of {address}");
    let unreadable = |error| Difference::new(field("account"), error, "a readable one");
    let account = state.account(address).map_err(unreadable)?;
    let account = account.ok_or_else(|| Difference::new(field("account"), "none", "one"))?;
    require_equal(field("balance"), account.balance, wanted.balance.saturated())?;
    require_equal(field("nonce"), account.nonce, wanted.nonce.to_u64())?;
    let code =
        if account.code_hash == EMPTY_CODE_HASH { None } else { state.code(account.code_hash).map_err(unreadable)? };
    require_equal(field("code"), code.unwrap_or_default(), wanted.code.0.clone())?;
    for (slot, value) in &wanted.storage {
        let slot = B256::from(slot.0);
        let found = state.storage(address, slot).map_err(unreadable)?;
        require_equal(field(&format!("slot {slot}")), found, value.0)?;
    }
    Ok(())
}
