//! Heights of the native rules (`docs/spec/chain.md` 5.1, `docs/spec/upgrades.md` 1): built-in values by network id,
//! which a genesis file may change.

use serde::Deserialize;
use tenon_api::TransactionType;

/// The minimum gas price before `gas50x`, wei.
const MIN_PRICE: u64 = 250_000_000;
/// The minimum gas price from `gas50x` on, wei.
const MIN_PRICE_50X: u64 = 12_500_000_000;

/// Heights from which native rules apply, by network id (`docs/spec/chain.md` 5.1). A rule applies in a block whose
/// number is at least the height. A rule after v2.7.0 without a height never applies (`docs/spec/upgrades.md` 1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NativeHeights {
    /// Only blocks with `number % 15 == 0` are signed and counted.
    pub tip2019: u64,
    /// Signing transactions get special treatment; penalties are derived from them.
    pub tip_signing: u64,
    /// Second signers rotate; v1 penalises creators that made no blocks.
    pub tip_randomize: u64,
    /// The later v1 limit of masternodes.
    pub tip_increase_masternodes: u64,
    /// Rewards are no longer halved.
    pub tip_no_halving_reward: u64,
    /// The exchange starts.
    #[serde(rename = "tipXDCX")]
    pub tip_xdcx: u64,
    /// Lending starts.
    #[serde(rename = "tipXDCXLending")]
    pub tip_xdcx_lending: u64,
    /// Petersburg and Istanbul rules; static calls become static.
    #[serde(rename = "tipXDCXCancellationFee")]
    pub tip_xdcx_cancellation_fee: u64,
    /// Fees are paid to the owner of the block's author, from the block after this height on.
    #[serde(rename = "tipTRC21Fee")]
    pub tip_trc21_fee: u64,
    /// The denylist applies.
    pub denylist: u64,
    /// Sponsored gas price and pool minimum of 12.5 gwei.
    pub gas50x: u64,
    /// Exchange precompiles disappear.
    #[serde(rename = "tipXDCXMinerDisable")]
    pub tip_xdcx_miner_disable: u64,
    /// Transactions to the addresses 0x91 to 0x94 are ordinary ones again.
    #[serde(rename = "tipXDCXReceiverDisable")]
    pub tip_xdcx_receiver_disable: u64,
    /// Has no effect on blocks, because Berlin's gas rules begin at `eip1559`. The height is used in the order of
    /// forks, the fork id and `eth_config`.
    pub berlin: u64,
    /// The BASEFEE opcode.
    pub london: u64,
    /// Opcode 0x44 becomes PREVRANDAO.
    pub merge: u64,
    /// PUSH0.
    pub shanghai: u64,
    /// Gas rules of Berlin to Shanghai, typed transactions, base fee.
    pub eip1559: u64,
    /// Transient storage, MCOPY, blob opcodes, EIP-6780.
    pub cancun: u64,
    /// Petersburg rules: with `tip_xdcx_cancellation_fee`, or earlier if the file says so.
    #[serde(skip)]
    pub petersburg: u64,
    /// Istanbul rules: with `tip_xdcx_cancellation_fee`, or earlier if the file says so.
    #[serde(skip)]
    pub istanbul: u64,
    /// EIP-2935, EIP-7623 and EIP-7702 (`docs/spec/upgrades.md` 7).
    pub prague: Option<u64>,
    /// Scheduled nowhere, and not implemented: a genesis file with a height is refused (`docs/spec/upgrades.md` 8).
    pub osaka: Option<u64>,
    /// Makers of blocks move the gas limit in steps (`docs/spec/upgrades.md` 6). Does not affect the validity of
    /// blocks.
    pub dynamic_gas_limit: Option<u64>,
    /// Fixed rewards by role, and the supply record (`docs/spec/upgrades.md` 3, 4).
    pub tip_upgrade_reward: Option<u64>,
    /// Penalties for too few blocks, and parole (`docs/spec/upgrades.md` 5).
    pub tip_upgrade_penalty: Option<u64>,
    /// Changes of the program after v2.7.0 that have no height of their own: the owner of the author is read before
    /// each transaction, and no contract is created at an address that has storage (`docs/spec/upgrades.md` 9.1, 9.3).
    /// Blocks from this height on are made by that program; earlier ones follow the rules of v2.7.0. Equals `prague`
    /// unless a network sets another height.
    pub later_program: Option<u64>,
    /// No effect: the reference has a height and nothing that reads it (`docs/spec/upgrades.md` 8).
    pub tip_epoch_halving: Option<u64>,
}

/// Origin of a height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeightSource {
    /// The built-in values of this network id.
    BuiltIn(u64),
    /// The genesis file.
    GenesisFile,
}

/// A native rule with its height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedHeight {
    /// Its name in `config/networks`.
    pub name: &'static str,
    /// The first block that it applies to; `None` if it never does.
    pub height: Option<u64>,
}

/// Heights in the `config` member of a genesis file.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileHeights {
    /// Heights that move a built-in one forward and never back (`docs/spec/chain.md` 5.1, predicates), by the name of
    /// [`NamedHeight`].
    pub(crate) earlier: Vec<(&'static str, Option<u64>)>,
    /// Heights that replace a built-in one (`docs/spec/upgrades.md` 2.3).
    pub(crate) replaced: Vec<(&'static str, Option<u64>)>,
}

impl NativeHeights {
    /// Returns whether the exchange's transactions are special at this height (`docs/spec/chain.md` 6).
    pub const fn has_exchange(&self, number: u64) -> bool {
        number >= self.tip_xdcx && number < self.tip_xdcx_receiver_disable
    }

    /// The pools' minimum gas price at this height, wei; with a base fee the minimum is higher (`docs/spec/chain.md`
    /// 9.2 rule 15).
    pub const fn min_price(&self, number: u64) -> u64 {
        if number >= self.gas50x { MIN_PRICE_50X } else { MIN_PRICE }
    }

    /// Returns whether the rules of Prague apply at this height (`docs/spec/upgrades.md` 7).
    pub const fn is_prague(&self, number: u64) -> bool {
        is_reached(self.prague, number)
    }

    /// The newest transaction type at this height. Type 3 does not exist here (`docs/spec/upgrades.md` 7.1).
    pub const fn highest_transaction_type(&self, number: u64) -> TransactionType {
        match number {
            number if self.is_prague(number) => TransactionType::SetCode,
            number if number >= self.eip1559 => TransactionType::DynamicFee,
            _ => TransactionType::Legacy,
        }
    }

    /// Returns whether rewards at this height follow `docs/spec/upgrades.md` 3.
    pub const fn is_upgrade_reward(&self, number: u64) -> bool {
        is_reached(self.tip_upgrade_reward, number)
    }

    /// Returns whether penalties at this height follow `docs/spec/upgrades.md` 5.
    pub const fn is_upgrade_penalty(&self, number: u64) -> bool {
        is_reached(self.tip_upgrade_penalty, number)
    }

    /// Returns whether the maker of a block of this height moves the gas limit in steps (`docs/spec/upgrades.md` 6).
    pub const fn is_dynamic_gas_limit(&self, number: u64) -> bool {
        is_reached(self.dynamic_gas_limit, number)
    }

    /// Returns whether the later program's changes without a height apply at this height (`docs/spec/upgrades.md` 9).
    pub const fn is_later_program(&self, number: u64) -> bool {
        match self.later_program {
            Some(height) => number >= height,
            None => self.is_prague(number),
        }
    }

    /// Every height but `later_program`, with its name in `config/networks`, in the order of the fields.
    pub fn named(&self) -> [NamedHeight; 27] {
        let named = |name, height| NamedHeight { name, height };
        let always = |name, height| named(name, Some(height));
        [
            always("tip2019", self.tip2019),
            always("tipSigning", self.tip_signing),
            always("tipRandomize", self.tip_randomize),
            always("tipIncreaseMasternodes", self.tip_increase_masternodes),
            always("tipNoHalvingReward", self.tip_no_halving_reward),
            always("tipXDCX", self.tip_xdcx),
            always("tipXDCXLending", self.tip_xdcx_lending),
            always("tipXDCXCancellationFee", self.tip_xdcx_cancellation_fee),
            always("tipTRC21Fee", self.tip_trc21_fee),
            always("denylist", self.denylist),
            always("gas50x", self.gas50x),
            always("tipXDCXMinerDisable", self.tip_xdcx_miner_disable),
            always("tipXDCXReceiverDisable", self.tip_xdcx_receiver_disable),
            always("berlin", self.berlin),
            always("london", self.london),
            always("merge", self.merge),
            always("shanghai", self.shanghai),
            always("eip1559", self.eip1559),
            always("cancun", self.cancun),
            always("petersburg", self.petersburg),
            always("istanbul", self.istanbul),
            named("prague", self.prague),
            named("osaka", self.osaka),
            named("dynamicGasLimit", self.dynamic_gas_limit),
            named("tipUpgradeReward", self.tip_upgrade_reward),
            named("tipUpgradePenalty", self.tip_upgrade_penalty),
            named("tipEpochHalving", self.tip_epoch_halving),
        ]
    }

    /// The heights of a chain with this file, and the names of those that are the file's.
    pub(crate) fn with_file(mut self, file: &FileHeights) -> (Self, Vec<&'static str>) {
        let mut of_file = Vec::new();
        for (name, written) in &file.replaced {
            if let Some(height) = written {
                self.set(name, *height);
                of_file.push(*name);
            }
        }
        self.petersburg = self.tip_xdcx_cancellation_fee;
        self.istanbul = self.tip_xdcx_cancellation_fee;
        for (name, written) in &file.earlier {
            let built_in = self.named().into_iter().find(|height| height.name == *name).and_then(|found| found.height);
            if let Some(height) = written.filter(|height| built_in.is_none_or(|built_in| *height <= built_in)) {
                self.set(name, height);
                of_file.push(*name);
            }
        }
        (self, of_file)
    }

    /// Sets a height by its name in `config/networks`.
    fn set(&mut self, name: &str, height: u64) {
        let place = match name {
            "tip2019" => &mut self.tip2019,
            "tipSigning" => &mut self.tip_signing,
            "tipRandomize" => &mut self.tip_randomize,
            "tipIncreaseMasternodes" => &mut self.tip_increase_masternodes,
            "tipNoHalvingReward" => &mut self.tip_no_halving_reward,
            "tipXDCX" => &mut self.tip_xdcx,
            "tipXDCXLending" => &mut self.tip_xdcx_lending,
            "tipXDCXCancellationFee" => &mut self.tip_xdcx_cancellation_fee,
            "tipTRC21Fee" => &mut self.tip_trc21_fee,
            "denylist" => &mut self.denylist,
            "gas50x" => &mut self.gas50x,
            "tipXDCXMinerDisable" => &mut self.tip_xdcx_miner_disable,
            "tipXDCXReceiverDisable" => &mut self.tip_xdcx_receiver_disable,
            "berlin" => &mut self.berlin,
            "london" => &mut self.london,
            "merge" => &mut self.merge,
            "shanghai" => &mut self.shanghai,
            "eip1559" => &mut self.eip1559,
            "cancun" => &mut self.cancun,
            "petersburg" => &mut self.petersburg,
            "istanbul" => &mut self.istanbul,
            "prague" => self.prague.get_or_insert_default(),
            "osaka" => self.osaka.get_or_insert_default(),
            "dynamicGasLimit" => self.dynamic_gas_limit.get_or_insert_default(),
            "tipUpgradeReward" => self.tip_upgrade_reward.get_or_insert_default(),
            "tipUpgradePenalty" => self.tip_upgrade_penalty.get_or_insert_default(),
            "tipEpochHalving" => self.tip_epoch_halving.get_or_insert_default(),
            _ => return,
        };
        *place = height;
    }

    /// The rules after v2.7.0 in the order that the reference demands, with the fork that they build on. Those that
    /// never apply are left out (`docs/spec/upgrades.md` 2.3).
    pub(crate) fn upgrades_in_order(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let upgrades = [
            ("cancun", Some(self.cancun)),
            ("prague", self.prague),
            ("osaka", self.osaka),
            ("dynamicGasLimit", self.dynamic_gas_limit),
            ("tipUpgradeReward", self.tip_upgrade_reward),
            ("tipUpgradePenalty", self.tip_upgrade_penalty),
            ("tipEpochHalving", self.tip_epoch_halving),
        ];
        upgrades.into_iter().filter_map(|(name, height)| Some((name, height?)))
    }
}

const fn is_reached(height: Option<u64>, number: u64) -> bool {
    match height {
        Some(height) => number >= height,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_sets_its_own_height() {
        let names = NativeHeights::default().named().map(|height| height.name);
        for name in names {
            let mut heights = NativeHeights::default();
            heights.set(name, 7);
            let changed: Vec<_> = heights.named().into_iter().filter(|found| found.height == Some(7)).collect();
            assert_eq!(changed, [NamedHeight { name, height: Some(7) }]);
        }
    }

    #[test]
    fn a_rule_applies_from_its_height_and_one_without_height_never() {
        let heights = NativeHeights {
            prague: Some(5),
            dynamic_gas_limit: Some(6),
            tip_upgrade_reward: Some(7),
            tip_upgrade_penalty: Some(8),
            ..NativeHeights::default()
        };
        let at = |number| {
            [
                heights.is_prague(number),
                heights.is_dynamic_gas_limit(number),
                heights.is_upgrade_reward(number),
                heights.is_upgrade_penalty(number),
            ]
        };
        assert_eq!(at(4), [false; 4]);
        assert_eq!(at(5), [true, false, false, false]);
        assert_eq!(at(6), [true, true, false, false]);
        assert_eq!(at(7), [true, true, true, false]);
        assert_eq!(at(8), [true; 4]);
        assert_eq!([4, 5].map(|number| heights.is_later_program(number)), [false, true]);
        let other = NativeHeights { later_program: Some(9), ..heights };
        assert_eq!([8, 9].map(|number| other.is_later_program(number)), [false, true]);
        let never = NativeHeights::default();
        assert!(!never.is_prague(u64::MAX) && !never.is_upgrade_reward(u64::MAX));
        assert!(!never.is_upgrade_penalty(u64::MAX) && !never.is_dynamic_gas_limit(u64::MAX));
    }

    #[test]
    fn an_older_key_only_brings_a_rule_forward_and_a_newer_one_replaces_it() {
        let built_in = NativeHeights { cancun: 50, gas50x: 50, tip_xdcx_cancellation_fee: 50, ..Default::default() };
        let file = |height| FileHeights {
            earlier: vec![("cancun", Some(height)), ("istanbul", None), ("eip1559", None)],
            replaced: vec![("gas50x", Some(height)), ("prague", Some(height)), ("osaka", None)],
        };

        let (earlier, of_file) = built_in.clone().with_file(&file(40));
        assert_eq!((earlier.cancun, earlier.gas50x, earlier.prague, earlier.osaka), (40, 40, Some(40), None));
        assert_eq!((earlier.istanbul, earlier.petersburg), (50, 50));
        assert_eq!(of_file, ["gas50x", "prague", "cancun"]);
        let (later, of_file) = built_in.with_file(&file(60));
        assert_eq!((later.cancun, later.gas50x, later.prague), (50, 60, Some(60)));
        assert_eq!(of_file, ["gas50x", "prague"]);
    }
}
