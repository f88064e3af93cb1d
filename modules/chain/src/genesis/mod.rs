//! Block 0 of a chain: read from a genesis file, and converted to a commit.

mod development;
mod file;
mod lenient;
mod networks;
mod schedule;

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256, b256, keccak256};
use serde_json::{Value, value::RawValue};
use tenon_api::{
    Account, AccountChange, BlockCommit, EMPTY_CODE_HASH, EMPTY_OMMERS_HASH, EMPTY_ROOT_HASH, Header, NativeSeal,
    RecoveredBlock, SealedHeader, SlotChange, StoreError, TrieReader,
};

use crate::codec::{assemble_block, seal};
use crate::spec::{ChainSpec, Fork, INITIAL_BASE_FEE, NATIVE_BASE_FEE, NativeConfigError, NativeSettings};
use crate::trie::{TrieError, update_state_trie};
pub use development::{DevelopmentEngine, NATIVE_DEVELOPMENT_CHAIN, NativeDevelopment};
use file::{ConfigFile, GenesisFile};
pub(crate) use lenient::LenientAddress;
pub use networks::PublicNetwork;

/// SHA-256 of empty input: the requests hash of a block without requests.
pub const EMPTY_REQUESTS_HASH: B256 = b256!("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
/// Gas limit if a genesis file gives none or zero.
const DEFAULT_GAS_LIMIT: u64 = 4_712_388;
/// Difficulty if a genesis file gives none.
const DEFAULT_DIFFICULTY: u64 = 131_072;

/// Why a genesis file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// The text is not JSON, or a member has the wrong form. The error names line and column.
    #[error("genesis file: {0}")]
    Json(#[from] serde_json::Error),
    /// A member of `config` has the wrong form.
    #[error("genesis file: config.{member}: {message} at line {line} column {column}")]
    Config {
        /// The member's name.
        member: String,
        /// The problem.
        message: String,
        /// Line of the file, counted from 1.
        line: usize,
        /// Column of that line, counted from 1.
        column: usize,
    },
    /// A rule of a native chain that this release does not know.
    #[error(
        "genesis file: config.{member} is not a rule that this release knows on a native chain; update tenon, or \
         correct or remove the member, at line {line} column {column}"
    )]
    UnknownRule {
        /// The member's name.
        member: String,
        /// Line of the file, counted from 1.
        line: usize,
        /// Column of that line, counted from 1.
        column: usize,
    },
    /// A required member is missing.
    #[error("genesis file: missing required field '{member}' for Genesis")]
    Missing {
        /// Its name.
        member: &'static str,
    },
    /// The file has no `config`.
    #[error("genesis has no chain configuration")]
    NoConfig,
    /// The schedule has a fork that this program does not implement.
    #[error("genesis file: fork {name} is not supported; update tenon or remove the member")]
    UnsupportedFork {
        /// The member's name.
        name: &'static str,
    },
    /// Forks in the wrong order.
    #[error("genesis file: fork {later} at {later_at} comes before {earlier} at {earlier_at}")]
    ForkOrder {
        /// The fork that must come first.
        earlier: Fork,
        /// Its height or time.
        earlier_at: u64,
        /// The fork that must come after it.
        later: Fork,
        /// Its height or time.
        later_at: u64,
    },
    /// Invalid blob parameters.
    #[error("genesis file: blobSchedule.{fork}: need target <= max <= 65535 and baseFeeUpdateFraction > 0")]
    BlobSchedule {
        /// The fork's name.
        fork: String,
    },
    /// The consensus part of a native chain's configuration.
    #[error(transparent)]
    Native(#[from] NativeConfigError),
    /// The genesis state could not be converted into a trie.
    #[error("genesis state: {0}")]
    Trie(#[from] TrieError),
}

/// An account of the genesis state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GenesisAccount {
    /// Wei.
    pub balance: U256,
    /// Transactions sent.
    pub nonce: u64,
    /// Code; empty for a plain account.
    pub code: Bytes,
    /// Slots; zero values are not stored.
    pub storage: BTreeMap<B256, U256>,
}

/// The data of block 0.
#[derive(Clone, Debug)]
pub struct Genesis {
    /// The chain's rules.
    pub spec: Arc<ChainSpec>,
    /// The header; its state root is computed by [`Genesis::commit`] and ignored here.
    pub header: Header,
    /// The state.
    pub alloc: BTreeMap<Address, GenesisAccount>,
    /// The `config` member of the file.
    pub config: Value,
}

impl Genesis {
    /// Reads a genesis file in go-ethereum's form, of either profile.
    ///
    /// Numbers may be JSON numbers or strings, decimal or hexadecimal, also without `0x`; addresses may begin with
    /// `xdc`; null members count as absent. Unknown members are ignored, except rules of a native chain: they are
    /// refused, because the chain would have other rules than its file says.
    ///
    /// # Errors
    /// [`GenesisError`].
    pub fn from_json(text: &[u8]) -> Result<Self, GenesisError> {
        let file: GenesisFile<'_> = serde_json::from_slice(text)?;
        let raw_config = file.config.ok_or(GenesisError::NoConfig)?;
        let config = read_config(text, raw_config.get())?;
        if config.native_engine.is_some() {
            refuse_unknown_rules(text, raw_config.get())?;
        }
        let spec = schedule::chain_spec(&config)?;
        if spec.native().is_some() {
            require_native_members(&file)?;
        }
        let header = genesis_header(&file, &spec);
        let accounts = file.alloc.ok_or(GenesisError::Missing { member: "alloc" })?;
        let alloc = accounts.into_iter().map(|(address, account)| (address.0, account.into())).collect();
        let mut genesis = Self { spec: Arc::new(spec), header, alloc, config: serde_json::from_str(raw_config.get())? };
        genesis.adopt_built_in()?;
        Ok(genesis)
    }

    /// The same chain with another network id. On a native chain the network id determines the built-in heights,
    /// contracts and lists (`docs/spec/chain.md` 5.1); block 0 does not change.
    ///
    /// # Errors
    /// Those of [`Genesis::from_json`].
    pub fn with_network_id(mut self, network_id: u64) -> Result<Self, GenesisError> {
        if self.spec.native().is_some() {
            let config: ConfigFile = serde_json::from_value(self.config.clone())?;
            let hash = self.sealed_header()?.hash();
            if let Some(mut native) = schedule::native_settings(&config, network_id)? {
                native.adopt_built_in(hash)?;
                Arc::make_mut(&mut self.spec).set_native(native);
            }
        }
        Arc::make_mut(&mut self.spec).network_id = network_id;
        Ok(self)
    }

    /// Replaces the file's consensus parameters by the built-in ones if this is block 0 of a known network.
    fn adopt_built_in(&mut self) -> Result<(), GenesisError> {
        if self.spec.native().is_none() || NativeSettings::known_genesis(self.spec.chain_id).is_none() {
            return Ok(());
        }
        let hash = self.sealed_header()?.hash();
        if let Some(native) = Arc::make_mut(&mut self.spec).native_mut() {
            native.adopt_built_in(hash)?;
        }
        Ok(())
    }

    /// The commit of block 0: sealed header with state root, accounts, codes, trie nodes.
    ///
    /// # Errors
    /// [`GenesisError::Trie`]; never, unless the trie code is wrong.
    pub fn commit(&self) -> Result<BlockCommit, GenesisError> {
        let mut accounts: Vec<AccountChange> =
            self.alloc.iter().map(|(address, account)| account_change(*address, account)).collect();
        let update = update_state_trie(&NoNodes, EMPTY_ROOT_HASH, &mut accounts, &|_| Ok(None))?;
        let mut header = self.header.clone();
        header.state_root = update.root;
        let withdrawals = header.withdrawals_root.is_some().then(Vec::new);
        let block = assemble_block(seal(header), Vec::new(), Vec::new(), withdrawals);
        Ok(BlockCommit {
            total_difficulty: block.header.difficulty,
            block: Arc::new(RecoveredBlock { block, senders: Vec::new() }),
            receipts: Arc::new(Vec::new()),
            accounts,
            codes: self.codes(),
            trie_nodes: update.writes,
            superseded_trie_nodes: update.superseded,
        })
    }

    /// The sealed header of block 0. Computes the state root; use [`Genesis::commit`] if the other parts are needed
    /// too.
    ///
    /// # Errors
    /// See [`Genesis::commit`].
    pub fn sealed_header(&self) -> Result<SealedHeader, GenesisError> {
        Ok(self.commit()?.block.header.clone())
    }

    /// Every distinct code of the state by its hash.
    fn codes(&self) -> Vec<(B256, Bytes)> {
        let codes: BTreeMap<B256, Bytes> = self
            .alloc
            .values()
            .filter(|account| !account.code.is_empty())
            .map(|account| (keccak256(&account.code), account.code.clone()))
            .collect();
        codes.into_iter().collect()
    }
}

/// Checks the members without which the reference rejects a native chain's file (`docs/spec/chain.md` 7.2).
fn require_native_members(file: &GenesisFile<'_>) -> Result<(), GenesisError> {
    let missing = |member| Err(GenesisError::Missing { member });
    if file.gas_limit.is_none() {
        return missing("gasLimit");
    }
    if file.difficulty.is_none() {
        return missing("difficulty");
    }
    match file.alloc.iter().flatten().any(|(_, account)| account.balance.is_none()) {
        true => missing("alloc.balance"),
        false => Ok(()),
    }
}

/// Refuses a rule in the `config` of a native chain that this release does not know, with its place.
fn refuse_unknown_rules(file: &[u8], config: &str) -> Result<(), GenesisError> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(config)?;
    for (member, value) in members {
        if value.get() != "null" && file::is_unknown_native_rule(&member) {
            let (line, column) = place(file, value.get());
            return Err(GenesisError::UnknownRule { member, line, column });
        }
    }
    Ok(())
}

/// Parses `config`; an error names the member and its position in the whole file.
fn read_config(file: &[u8], config: &str) -> Result<ConfigFile, GenesisError> {
    let error = match serde_json::from_str(config) {
        Ok(config) => return Ok(config),
        Err(error) => error,
    };
    // The parser reports the end of the object, not the wrong member, so each member is parsed separately.
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(config)?;
    for (name, value) in members {
        let alone = BTreeMap::from([(&name, value)]);
        let Err(error) = serde_json::to_string(&alone).and_then(|text| serde_json::from_str::<ConfigFile>(&text))
        else {
            continue;
        };
        let text = error.to_string();
        let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message).to_owned();
        let (line, column) = place(file, value.get());
        return Err(GenesisError::Config { member: name, message, line, column });
    }
    Err(error.into())
}

/// Line and column, from 1, of a slice of the file.
fn place(file: &[u8], part: &str) -> (usize, usize) {
    let start = (part.as_ptr() as usize).saturating_sub(file.as_ptr() as usize);
    let before = file.get(..start).unwrap_or_default();
    let line = before.iter().filter(|byte| **byte == b'\n').count();
    let column = before.rsplit(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len);
    (line + 1, column + 1)
}

impl From<file::AccountFile> for GenesisAccount {
    fn from(file: file::AccountFile) -> Self {
        let storage = file.storage.unwrap_or_default();
        Self {
            balance: file.balance.map(|number| number.0).unwrap_or_default(),
            nonce: file.nonce.unwrap_or_default().0,
            code: file.code.unwrap_or_default().0,
            storage: storage.into_iter().map(|(slot, value)| (slot.0, value.0.into())).collect(),
        }
    }
}

fn account_change(address: Address, account: &GenesisAccount) -> AccountChange {
    let code_hash = if account.code.is_empty() { EMPTY_CODE_HASH } else { keccak256(&account.code) };
    AccountChange {
        address,
        // Listed accounts exist even if they are empty.
        account: Some(Account {
            nonce: account.nonce,
            balance: account.balance,
            balance_high: 0,
            code_hash,
            storage_root: EMPTY_ROOT_HASH,
        }),
        storage_wiped: false,
        slots: account
            .storage
            .iter()
            .filter(|(_, value)| !value.is_zero())
            .map(|(slot, value)| SlotChange { slot: *slot, value: *value })
            .collect(),
    }
}

fn genesis_header(file: &GenesisFile<'_>, spec: &ChainSpec) -> Header {
    let number = file.number.unwrap_or_default().0;
    let timestamp = file.timestamp.unwrap_or_default().0;
    let gas_limit = match file.gas_limit {
        Some(limit) if limit.0 > 0 => limit.0,
        _ => DEFAULT_GAS_LIMIT,
    };
    let mut header = Header {
        parent_hash: file.parent_hash.unwrap_or_default().0,
        ommers_hash: EMPTY_OMMERS_HASH,
        beneficiary: file.coinbase.unwrap_or_default().0,
        transactions_root: EMPTY_ROOT_HASH,
        receipts_root: EMPTY_ROOT_HASH,
        difficulty: file.difficulty.map_or(U256::from(DEFAULT_DIFFICULTY), |number| number.0),
        number,
        gas_limit,
        gas_used: file.gas_used.unwrap_or_default().0,
        timestamp,
        extra_data: file.extra_data.clone().unwrap_or_default().0,
        mix_hash: file.mix_hash.unwrap_or_default().0,
        nonce: file.nonce.unwrap_or_default().0,
        ..Header::default()
    };
    let given_base_fee = file.base_fee_per_gas.map(|number| number.0);
    let fork = spec.fork_at(number, timestamp);
    if spec.native().is_some() {
        header.native_seal = Some(NativeSeal::default());
        // The reference writes the base fee of the file even before base fees are active.
        let base_fee_in_force = spec.has_base_fee(number).then_some(NATIVE_BASE_FEE);
        header.base_fee_per_gas = given_base_fee.or(base_fee_in_force);
        return header;
    }
    header.base_fee_per_gas = spec.has_base_fee(number).then(|| given_base_fee.unwrap_or(INITIAL_BASE_FEE));
    header.withdrawals_root = (fork >= Fork::Shanghai).then_some(EMPTY_ROOT_HASH);
    if fork >= Fork::Cancun {
        header.blob_gas_used = Some(file.blob_gas_used.unwrap_or_default().0);
        header.excess_blob_gas = Some(file.excess_blob_gas.unwrap_or_default().0);
        header.parent_beacon_block_root = Some(file.parent_beacon_block_root.unwrap_or_default().0);
    }
    header.requests_hash = (fork >= Fork::Prague).then_some(EMPTY_REQUESTS_HASH);
    header
}

/// The trie before genesis, which has no nodes.
struct NoNodes;

impl TrieReader for NoNodes {
    fn node(&self, _: Option<B256>, _: &[u8], _: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(None)
    }
}
