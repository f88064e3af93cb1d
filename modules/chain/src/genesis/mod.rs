//! Block 0 of a chain: read from a genesis file, and converted to a commit.

mod config;
mod file;
mod form;
mod lenient;
mod schedule;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256, b256, keccak256};
use serde_json::Value;
use tenon_api::{
    Account, AccountChange, BlockCommit, EMPTY_CODE_HASH, EMPTY_OMMERS_HASH, EMPTY_ROOT_HASH, Header, RecoveredBlock,
    SealedHeader, SlotChange,
};

use crate::codec::{assemble_block, seal};
use crate::spec::{ChainSpec, Fork};
use crate::trie::{TrieError, update_state_trie};
pub use config::{ConfigText, FamilyConfig, GenesisFamily, GenesisMembers};
use file::{ConfigFile, GenesisFile};
pub use form::FormError;
pub use lenient::{LenientAddress, Number64};

/// SHA-256 of empty input: the requests hash of a block without requests.
pub const EMPTY_REQUESTS_HASH: B256 = b256!("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
/// Gas limit if a genesis file gives none or zero.
const DEFAULT_GAS_LIMIT: u64 = 4_712_388;
/// Difficulty if a genesis file gives none.
const DEFAULT_DIFFICULTY: u64 = 131_072;

/// Why a genesis file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// The text is not JSON, or a member has the wrong form.
    #[error("genesis file: {0}")]
    Json(FormError),
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
    /// The file is of a family that was not passed to [`Genesis::from_json_of`].
    #[error("genesis file: config.{member} declares a chain family that this program does not support")]
    OtherFamily {
        /// The member of `config` that declares the family.
        member: &'static str,
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
    /// The rules of the chain's family cannot be used.
    #[error(transparent)]
    Family(Box<dyn std::error::Error + Send + Sync>),
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
    /// Reads the genesis file of a chain with Ethereum's rules, in go-ethereum's form.
    ///
    /// Numbers may be JSON numbers or strings, decimal or hexadecimal, also without `0x`; addresses may begin with
    /// `xdc`; null members count as absent. Unknown members are ignored.
    ///
    /// # Errors
    /// [`GenesisError`]; [`GenesisError::OtherFamily`] if the chain has other rules.
    pub fn from_json(text: &[u8]) -> Result<Self, GenesisError> {
        Self::from_json_of(text, &[])
    }

    /// Reads the genesis file of a chain of one of these families, or with Ethereum's rules if it is of none.
    ///
    /// # Errors
    /// Those of [`Genesis::from_json`], and those of the family.
    pub fn from_json_of(text: &[u8], families: &[&dyn GenesisFamily]) -> Result<Self, GenesisError> {
        let file: GenesisFile<'_> = serde_json::from_slice(text)?;
        let raw_config = file.config.ok_or(GenesisError::NoConfig)?;
        let config_text = ConfigText::new(text, raw_config);
        let (config, family) = match (config_text.read::<ConfigFile>(), family_config(&config_text, families)) {
            (Ok(config), family) => (config, family?),
            (Err(error), family) => return Err(first_by_name(error, family.err())),
        };
        if family.is_none() && config.other_engine.is_some() {
            return Err(GenesisError::OtherFamily { member: "XDPoS" });
        }
        let mut spec = schedule::chain_spec(&config)?;
        if let Some(family) = family {
            spec.set_family(family.family(spec.chain_id)?);
        }
        let members = file.members();
        if let Some(member) = spec.family().missing_member(&members) {
            return Err(GenesisError::Missing { member });
        }
        let mut header = genesis_header(&file);
        spec.family().complete_genesis_header(&spec, &mut header, &members);
        let accounts = file.alloc.ok_or(GenesisError::Missing { member: "alloc" })?;
        let alloc = accounts.into_iter().map(|(address, account)| (address.0, account.into())).collect();
        let mut genesis = Self { spec: Arc::new(spec), header, alloc, config: serde_json::from_str(raw_config.get())? };
        genesis.adopt_built_in()?;
        Ok(genesis)
    }

    /// The same chain with another network id, which determines the constants of some families; block 0 does not
    /// change.
    ///
    /// # Errors
    /// Those of [`Genesis::from_json_of`].
    pub fn with_network_id(mut self, network_id: u64) -> Result<Self, GenesisError> {
        if let Some(mut family) = self.spec.family().with_network_id(&self.config, network_id)? {
            family.adopt_built_in(self.sealed_header()?.hash())?;
            Arc::make_mut(&mut self.spec).set_family(family);
        }
        Arc::make_mut(&mut self.spec).network_id = network_id;
        Ok(self)
    }

    /// Replaces the file's parameters by the built-in ones if this is block 0 of a known network.
    fn adopt_built_in(&mut self) -> Result<(), GenesisError> {
        if !self.spec.family().has_built_in(self.spec.chain_id) {
            return Ok(());
        }
        let hash = self.sealed_header()?.hash();
        Arc::make_mut(&mut self.spec).family_mut().adopt_built_in(hash)
    }

    /// The commit of block 0: sealed header with state root, accounts, codes, trie nodes.
    ///
    /// # Errors
    /// [`GenesisError::Trie`]; never, unless the trie code is wrong.
    pub fn commit(&self) -> Result<BlockCommit, GenesisError> {
        let mut accounts: Vec<AccountChange> =
            self.alloc.iter().map(|(address, account)| account_change(*address, account)).collect();
        // The trie before genesis has no nodes.
        let update = update_state_trie(&HashMap::new(), EMPTY_ROOT_HASH, &mut accounts, &|_| Ok(None))?;
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

impl From<serde_json::Error> for GenesisError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(FormError::from(&error))
    }
}

/// Of two wrong members, Ethereum's and the family's, the one whose name comes first.
fn first_by_name(ethereum: GenesisError, family: Option<GenesisError>) -> GenesisError {
    match (&ethereum, family) {
        (GenesisError::Config { member, .. }, Some(GenesisError::Config { member: other, message, line, column }))
            if other < *member =>
        {
            GenesisError::Config { member: other, message, line, column }
        }
        _ => ethereum,
    }
}

/// The rules of the first family that the file belongs to.
fn family_config(
    config: &ConfigText<'_>,
    families: &[&dyn GenesisFamily],
) -> Result<Option<Box<dyn FamilyConfig>>, GenesisError> {
    for family in families {
        if let Some(found) = family.read(config)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
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

/// The items that every header has.
fn genesis_header(file: &GenesisFile<'_>) -> Header {
    let gas_limit = match file.gas_limit {
        Some(limit) if limit.0 > 0 => limit.0,
        _ => DEFAULT_GAS_LIMIT,
    };
    Header {
        parent_hash: file.parent_hash.unwrap_or_default().0,
        ommers_hash: EMPTY_OMMERS_HASH,
        beneficiary: file.coinbase.unwrap_or_default().0,
        transactions_root: EMPTY_ROOT_HASH,
        receipts_root: EMPTY_ROOT_HASH,
        difficulty: file.difficulty.map_or(U256::from(DEFAULT_DIFFICULTY), |number| number.0),
        number: file.number.unwrap_or_default().0,
        gas_limit,
        gas_used: file.gas_used.unwrap_or_default().0,
        timestamp: file.timestamp.unwrap_or_default().0,
        extra_data: file.extra_data.clone().unwrap_or_default().0,
        mix_hash: file.mix_hash.unwrap_or_default().0,
        nonce: file.nonce.unwrap_or_default().0,
        ..Header::default()
    }
}
