//! Instructions, gas prices and precompiled contracts by height (`docs/spec/chain.md` 5.1, 5.2).

use alloy_primitives::{Address, keccak256};
use revm::{
    context::{BlockEnv, CfgEnv},
    context_interface::{block::BlobExcessGasAndPrice, cfg::gas_params::GasId},
    primitives::hardfork::SpecId,
};
use tenon_api::Header;
use tenon_chain::{Activation, ChainSpec, Fork};
use tenon_native_spec::{NativeHeights, NativeSettings};

use super::{
    instructions::{balance, base_fee, gas_price, push0, random, self_balance, self_destruct},
    precompiles::NativePrecompiles,
};
use tenon_execution_interface::{
    BlockRules, ExecutionError, InstructionChanges, PrecompileSet, block_env_of_every_family, gas_table_of_eip_1283,
};

/// Tokens per nonzero data byte, four gas each: 68, since EIP-2028 was never activated (`docs/spec/chain.md` 2.4).
const TOKENS_PER_NONZERO_BYTE: u64 = 17;

/// The rules of a native block.
///
/// # Errors
/// [`ExecutionError::Unsupported`] for an order of forks whose mixture of rules no known chain has.
pub(crate) fn rules(spec: &ChainSpec, native: &NativeSettings, header: &Header) -> Result<BlockRules, ExecutionError> {
    let active = Active::at(spec, &native.heights, header.number);
    active.check_order(header)?;
    let spec_id = active.spec_id();
    let mut cfg = CfgEnv::new_with_spec(spec_id).with_chain_id(spec.chain_id);
    // The floor of EIP-7623 counts other tokens: the handlers compute it.
    cfg.gas_params.override_gas([
        (GasId::tx_token_non_zero_byte_multiplier(), TOKENS_PER_NONZERO_BYTE),
        (GasId::tx_floor_cost_per_token(), 0),
        (GasId::tx_floor_cost_base_gas(), 0),
    ]);
    let has_net_gas_metering_1283 = spec_id == SpecId::PETERSBURG && !active.petersburg;
    if has_net_gas_metering_1283 {
        cfg.gas_params.override_gas(gas_table_of_eip_1283());
    }
    Ok(BlockRules {
        cfg,
        has_net_gas_metering_1283,
        receipts_have_status: active.byzantium,
        clears_empty_accounts: active.eip158,
        storage_prevents_creation: native.heights.is_later_program(header.number),
        tracks_empty_accounts: true,
        has_delegations: active.prague,
        moves_dao_balances: spec.dao_fork_support && spec.dao_fork_block == Some(header.number),
        opening_calls: Vec::new(),
        requests: None,
        max_blob_gas: 0,
        max_block_bytes: u64::MAX,
        instructions: active.instruction_changes(),
        precompiles: active.precompiles(),
    })
}

/// The block environment on native chains: the random value is the hash of the height, and blobs are free since there
/// are none (`docs/spec/chain.md` 5.2).
pub(super) fn block_env(header: &Header, author: Address) -> BlockEnv {
    let height = header.number.to_be_bytes();
    let digits = &height[(header.number.leading_zeros() / 8) as usize..];
    BlockEnv {
        prevrandao: Some(keccak256(digits)),
        blob_excess_gas_and_price: Some(BlobExcessGasAndPrice { excess_blob_gas: 0, blob_gasprice: 0 }),
        ..block_env_of_every_family(header, author)
    }
}

/// The conditions that apply at a height. The "Berlin" to "Shanghai" heights add instructions only; the gas rules of
/// those forks start together with `eip1559`.
#[allow(clippy::struct_excessive_bools, reason = "one condition each, as the reference has them")]
struct Active {
    homestead: bool,
    eip150: bool,
    eip158: bool,
    byzantium: bool,
    constantinople: bool,
    petersburg: bool,
    istanbul: bool,
    berlin: bool,
    london: bool,
    merge: bool,
    shanghai: bool,
    eip1559: bool,
    cancun: bool,
    prague: bool,
    static_calls_are_static: bool,
    without_exchange: bool,
}

impl Active {
    fn at(spec: &ChainSpec, heights: &NativeHeights, number: u64) -> Self {
        let by_file = |fork| matches!(spec.activation(fork), Some(Activation::Block(height)) if number >= height);
        let eip1559 = number >= heights.eip1559;
        let shanghai = eip1559 || number >= heights.shanghai;
        let merge = shanghai || number >= heights.merge;
        let london = merge || number >= heights.london;
        let berlin = london || number >= heights.berlin;
        Self {
            homestead: by_file(Fork::Homestead),
            eip150: by_file(Fork::TangerineWhistle),
            eip158: by_file(Fork::SpuriousDragon),
            byzantium: by_file(Fork::Byzantium),
            constantinople: by_file(Fork::Constantinople),
            petersburg: number >= heights.petersburg,
            istanbul: number >= heights.istanbul,
            berlin,
            london,
            merge,
            shanghai,
            eip1559,
            cancun: number >= heights.cancun,
            prague: heights.is_prague(number),
            static_calls_are_static: number >= heights.tip_xdcx_cancellation_fee,
            without_exchange: number >= heights.tip_xdcx_miner_disable,
        }
    }

    /// Refuses forks in an unusual order. A later instruction table contains the earlier ones, but gas for state
    /// access, refunds and code limits have heights of their own. An unusual order would give a mixture of rules that
    /// no known chain has.
    fn check_order(&self, header: &Header) -> Result<(), ExecutionError> {
        let late = self.constantinople || self.istanbul || self.berlin;
        let is_ordered = (!self.prague || self.cancun)
            && (!self.cancun || self.eip1559)
            && (!late || self.byzantium)
            && (!self.byzantium || (self.eip158 && self.eip150 && self.homestead))
            && (!self.eip158 || (self.eip150 && self.homestead))
            && (!self.eip150 || self.homestead);
        if is_ordered {
            return Ok(());
        }
        Err(ExecutionError::Unsupported {
            number: header.number.into(),
            what: "a fork schedule in which a later fork begins before an earlier one".to_owned(),
        })
    }

    const fn spec_id(&self) -> SpecId {
        match self {
            // Without the parts of Prague that this chain lacks (`docs/spec/upgrades.md` 7.1): its precompiled contracts
            // are those of `precompiles`, and it has neither requests nor blobs.
            Self { prague: true, .. } => SpecId::PRAGUE,
            Self { cancun: true, .. } => SpecId::CANCUN,
            Self { eip1559: true, .. } => SpecId::SHANGHAI,
            Self { berlin: true, .. } | Self { istanbul: true, .. } => SpecId::ISTANBUL,
            Self { constantinople: true, .. } => SpecId::PETERSBURG,
            Self { byzantium: true, .. } => SpecId::BYZANTIUM,
            Self { eip158: true, .. } => SpecId::SPURIOUS_DRAGON,
            Self { eip150: true, .. } => SpecId::TANGERINE,
            Self { homestead: true, .. } => SpecId::HOMESTEAD,
            _ => SpecId::FRONTIER,
        }
    }

    fn instruction_changes(&self) -> InstructionChanges {
        let mut changes = InstructionChanges {
            balance: Some(balance),
            self_balance: Some(self_balance),
            self_destruct: Some(self_destruct),
            gas_price: Some(gas_price),
            static_calls_may_write: self.byzantium && !self.static_calls_are_static,
            ..InstructionChanges::default()
        };
        if self.london {
            changes.base_fee = Some(base_fee);
        }
        if self.merge {
            changes.difficulty = Some(random);
        }
        if self.shanghai {
            changes.push0 = Some(push0);
        }
        changes
    }

    /// The sets of `docs/spec/chain.md` 5.4, named by the Ethereum fork with the same contracts and prices. None
    /// includes point evaluation (0x0a).
    fn precompiles(&self) -> PrecompileSet {
        let (standard, has_extras) = match self {
            Self { eip1559: true, .. } => (SpecId::BERLIN, false),
            Self { without_exchange: true, .. } => (SpecId::ISTANBUL, false),
            Self { istanbul: true, .. } => (SpecId::ISTANBUL, true),
            Self { byzantium: true, .. } => (SpecId::BYZANTIUM, true),
            _ => (SpecId::HOMESTEAD, false),
        };
        PrecompileSet { standard, extras: has_extras.then_some(&NativePrecompiles) }
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, U256, b256};
    use tenon_native_spec::read_genesis;

    use super::*;

    fn spec(network: &str) -> std::sync::Arc<ChainSpec> {
        let text = tenon_test_data::unpacked(format!("../../config/networks/{network}-genesis.json.gz"));
        read_genesis(&text).unwrap().spec
    }

    fn rules_at(spec: &ChainSpec, number: u64) -> BlockRules {
        rules(spec, NativeSettings::of(spec).unwrap(), &Header { number, ..Header::default() }).unwrap()
    }

    // `docs/spec/chain.md` 5.2.
    #[test]
    fn the_main_network_has_the_instructions_of_the_table_at_every_height() {
        let spec = spec("mainnet");
        let table = [
            (0, SpecId::FRONTIER),
            (1, SpecId::HOMESTEAD),
            (2, SpecId::TANGERINE),
            (3, SpecId::SPURIOUS_DRAGON),
            (4, SpecId::BYZANTIUM),
            (38_383_837, SpecId::BYZANTIUM),
            (38_383_838, SpecId::ISTANBUL),
            (98_800_199, SpecId::ISTANBUL),
            (98_800_200, SpecId::SHANGHAI),
            (98_801_999, SpecId::SHANGHAI),
            (98_802_000, SpecId::CANCUN),
        ];
        for (number, expected) in table {
            assert_eq!(rules_at(&spec, number).spec_id(), expected, "block {number}");
        }
        assert!(rules_at(&spec, 38_383_837).instructions.static_calls_may_write);
        assert!(!rules_at(&spec, 38_383_838).instructions.static_calls_may_write);
        assert!(rules_at(&spec, 76_320_999).instructions.base_fee.is_none());
        assert!(rules_at(&spec, 76_321_000).instructions.push0.is_some());
        assert!(rules_at(&spec, 80_369_999).precompiles.has_extras());
        assert!(!rules_at(&spec, 80_370_000).precompiles.has_extras());
        assert_eq!(rules_at(&spec, 98_802_000).precompiles.standard, SpecId::BERLIN);
    }

    #[test]
    fn a_data_byte_costs_68_gas_at_every_height() {
        let spec = spec("devnet");
        for number in [1, 32_400, 43_200] {
            let params = rules_at(&spec, number).cfg.gas_params;
            assert_eq!(params.tx_token_cost() * params.tx_token_non_zero_byte_multiplier(), 68, "block {number}");
        }
    }

    // `docs/spec/chain.md` 11.
    #[test]
    fn the_random_value_is_the_hash_of_the_height() {
        let vectors = [
            (1, b256!("5fe7f977e71dba2ea1a68e21057beebb9be2ac30c6410aa38d4f3fbe41dcffd2")),
            (32_400, b256!("9b88cc0cdff18dbcc2444c7a8ff4a54aa2b4ef7ff35d3ccf313feaffc65fa511")),
            (76_321_000, b256!("6bab5a9aa055416f0137626763644e876084491f0e1bc9793f5746009ea4f749")),
            (98_800_200, b256!("07cee9422c47db42794d4624a0f6f6dc92aa8a9473bbb47112121655db25650b")),
        ];
        for (number, expected) in vectors {
            let header = Header { number, difficulty: U256::ONE, ..Header::default() };
            let block = block_env(&header, Address::ZERO);
            assert_eq!(block.prevrandao, Some(expected), "block {number}");
        }
    }
}
