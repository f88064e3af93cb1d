//! The rules of one block, selected once by the chain's fork schedule.
//!
//! Everything that depends on a block's fork is a value in [`BlockRules`], and the steps of a block read those values
//! instead of checking the fork. Ethereum's are here; another family makes its own
//! ([`ChainFamily::rules`](crate::ChainFamily::rules)).

use alloy_primitives::{Address, B256, Bytes, U256};
use revm::{
    bytecode::opcode,
    context::{BlockEnv, CfgEnv},
    context_interface::{block::BlobExcessGasAndPrice, cfg::gas_params::GasId},
    primitives::hardfork::SpecId,
};
use tenon_api::Header;
use tenon_chain::{ChainSpec, Fork};

use super::instruction_changes::InstructionChanges;
use super::precompiles::PrecompileSet;
use super::system_contracts::{
    BEACON_ROOTS_ADDRESS, CONSOLIDATION_REQUESTS_ADDRESS, HISTORY_STORAGE_ADDRESS, WITHDRAWAL_REQUESTS_ADDRESS,
};
use crate::ExecutionError;

/// Maximum blobs of one transaction from Osaka on (EIP-7594).
const MAX_BLOBS_PER_TRANSACTION: u64 = 6;

/// Maximum RLP size of a block from Osaka on, bytes: 10 MiB minus 2 MiB for the enclosing beacon block (EIP-7934).
const MAX_BLOCK_BYTES: u64 = 8 * 1024 * 1024;

/// Everything in a block's execution that depends on its fork.
pub struct BlockRules {
    /// The EVM's configuration: fork, chain id, gas table, limits.
    pub cfg: CfgEnv,
    /// Whether SSTORE is metered by EIP-1283, which was active between Constantinople and Petersburg only.
    pub has_net_gas_metering_1283: bool,
    /// Whether receipts contain the status (Byzantium); before, they contain a state root.
    pub receipts_have_status: bool,
    /// Whether touched empty accounts are deleted (EIP-158/161).
    pub clears_empty_accounts: bool,
    /// Whether existing storage prevents the creation of a contract, even without nonce and code (EIP-7610).
    pub storage_prevents_creation: bool,
    /// Whether the block tracks accounts that are empty in its parent's state, to decide which of them it writes back
    /// ([`crate::DirtyMarks`]).
    pub tracks_empty_accounts: bool,
    /// Whether code of the form of EIP-7702 is a delegation. Before that fork, on native chains, it is ordinary code
    /// with an invalid first instruction (`docs/spec/chain.md` 5.3).
    pub has_delegations: bool,
    /// Whether the block begins with the balance transfer of the DAO fork.
    pub moves_dao_balances: bool,
    /// Calls to system contracts before the first transaction, with their input.
    pub opening_calls: Vec<(Address, Bytes)>,
    /// How execution-layer requests are collected (EIP-7685); `None` before Prague.
    pub requests: Option<RequestRules>,
    /// Maximum blob gas of the block; zero before Cancun.
    pub max_blob_gas: u64,
    /// Maximum RLP size of the block, bytes.
    pub max_block_bytes: u64,
    /// Instructions that differ from the EVM's.
    pub instructions: InstructionChanges,
    /// Precompiled contracts.
    pub precompiles: PrecompileSet,
}

/// Sources of execution-layer requests.
pub struct RequestRules {
    /// The contract whose logs contain deposits (EIP-6110).
    pub deposit_contract: Option<Address>,
    /// Contracts that are called after the last transaction, with the type byte of their output (EIP-7002, EIP-7251).
    pub queues: [(u8, Address); 2],
}

impl BlockRules {
    /// The rules of a block with this header on a chain of Ethereum's family.
    ///
    /// # Errors
    /// The header lacks an item of its fork.
    pub(crate) fn of_ethereum(spec: &ChainSpec, header: &Header) -> Result<Self, ExecutionError> {
        let fork = spec.fork_of(header);
        let spec_id = spec_id(fork);
        let blobs = spec.blob_parameters(header.timestamp).filter(|_| fork >= Fork::Cancun);
        let mut cfg = CfgEnv::new_with_spec(spec_id).with_chain_id(spec.chain_id);
        if let Some(blobs) = &blobs {
            let per_transaction =
                if fork >= Fork::Osaka { MAX_BLOBS_PER_TRANSACTION.min(blobs.max) } else { blobs.max };
            cfg.max_blobs_per_tx = Some(per_transaction);
            cfg.blob_base_fee_update_fraction = Some(blobs.update_fraction);
        }
        let has_net_gas_metering_1283 = fork == Fork::Constantinople;
        if has_net_gas_metering_1283 {
            cfg.gas_params.override_gas(gas_table_of_eip_1283());
        }
        Ok(Self {
            cfg,
            has_net_gas_metering_1283,
            receipts_have_status: fork >= Fork::Byzantium,
            clears_empty_accounts: fork >= Fork::SpuriousDragon,
            storage_prevents_creation: true,
            tracks_empty_accounts: false,
            has_delegations: true,
            moves_dao_balances: spec.dao_fork_support && spec.dao_fork_block == Some(header.number),
            opening_calls: opening_calls(fork, header)?,
            requests: (fork >= Fork::Prague).then_some(RequestRules {
                deposit_contract: spec.deposit_contract,
                queues: [(1, WITHDRAWAL_REQUESTS_ADDRESS), (2, CONSOLIDATION_REQUESTS_ADDRESS)],
            }),
            max_blob_gas: blobs.map_or(0, |blobs| blobs.max_gas()),
            max_block_bytes: if fork >= Fork::Osaka { MAX_BLOCK_BYTES } else { u64::MAX },
            instructions: InstructionChanges::default(),
            precompiles: PrecompileSet { standard: spec_id, extras: None },
        })
    }

    /// The EVM's identifier of the fork.
    pub const fn spec_id(&self) -> SpecId {
        self.cfg.spec
    }
}

/// The block environment of instructions on a chain of Ethereum's family.
pub(crate) fn ethereum_block_env(rules: &BlockRules, spec: &ChainSpec, header: &Header, author: Address) -> BlockEnv {
    let is_merged = rules.spec_id().is_enabled_in(SpecId::MERGE);
    let blob_price = spec.blob_base_fee(header).map(|price| BlobExcessGasAndPrice {
        excess_blob_gas: header.excess_blob_gas.unwrap_or_default(),
        blob_gasprice: price.saturating_to(),
    });
    BlockEnv {
        prevrandao: is_merged.then_some(header.mix_hash),
        blob_excess_gas_and_price: blob_price,
        ..block_env_of_every_family(header, author)
    }
}

/// The parts of the block environment in which families do not differ.
pub fn block_env_of_every_family(header: &Header, author: Address) -> BlockEnv {
    BlockEnv {
        number: U256::from(header.number),
        beneficiary: author,
        timestamp: U256::from(header.timestamp),
        gas_limit: header.gas_limit,
        basefee: header.base_fee_per_gas.unwrap_or_default(),
        difficulty: header.difficulty,
        ..BlockEnv::default()
    }
}

/// SSTORE of EIP-1283: the net metering of EIP-2200 with a base of 200 and without its stipend rule.
pub fn gas_table_of_eip_1283() -> [(GasId, u64); 6] {
    const BASE: u64 = 200;
    [
        (GasId::sstore_static(), BASE),
        (GasId::sstore_set_without_load_cost(), 20_000 - BASE),
        (GasId::sstore_reset_without_cold_load_cost(), 5_000 - BASE),
        (GasId::sstore_set_refund(), 20_000 - BASE),
        (GasId::sstore_reset_refund(), 5_000 - BASE),
        (GasId::sstore_clearing_slot_refund(), 15_000),
    ]
}

fn opening_calls(fork: Fork, header: &Header) -> Result<Vec<(Address, Bytes)>, ExecutionError> {
    let mut calls = Vec::new();
    if header.number == 0 {
        return Ok(calls);
    }
    if fork >= Fork::Cancun {
        let missing = || ExecutionError::MissingItem { number: header.number.into(), what: "parentBeaconBlockRoot" };
        let root: B256 = header.parent_beacon_block_root.ok_or_else(missing)?;
        calls.push((BEACON_ROOTS_ADDRESS, root.0.into()));
    }
    if fork >= Fork::Prague {
        calls.push((HISTORY_STORAGE_ADDRESS, header.parent_hash.0.into()));
    }
    Ok(calls)
}

/// The EVM's identifier of a fork. Forks without changed instructions have the previous one's.
const fn spec_id(fork: Fork) -> SpecId {
    match fork {
        Fork::Frontier => SpecId::FRONTIER,
        Fork::Homestead => SpecId::HOMESTEAD,
        Fork::TangerineWhistle => SpecId::TANGERINE,
        Fork::SpuriousDragon => SpecId::SPURIOUS_DRAGON,
        Fork::Byzantium => SpecId::BYZANTIUM,
        // The EVM crate has no Constantinople: it is Petersburg with another SSTORE.
        Fork::Constantinople | Fork::Petersburg => SpecId::PETERSBURG,
        Fork::Istanbul | Fork::MuirGlacier => SpecId::ISTANBUL,
        Fork::Berlin => SpecId::BERLIN,
        Fork::London | Fork::ArrowGlacier | Fork::GrayGlacier => SpecId::LONDON,
        Fork::Paris => SpecId::MERGE,
        Fork::Shanghai => SpecId::SHANGHAI,
        Fork::Cancun => SpecId::CANCUN,
        Fork::Prague => SpecId::PRAGUE,
        Fork::Osaka | Fork::Bpo1 | Fork::Bpo2 | Fork::Bpo3 | Fork::Bpo4 | Fork::Bpo5 => SpecId::OSAKA,
    }
}

/// The opcode with the metering of EIP-1283.
pub(crate) const NET_METERED_OPCODE: u8 = opcode::SSTORE;
