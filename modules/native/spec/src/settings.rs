//! Parameters of a native chain's rules beyond the Ethereum forks: heights, consensus parameters by round, contracts,
//! lists. The reference has some of them in its code, by network id, and others in the genesis file
//! (`docs/spec/chain.md` 5.1, 7.1; `docs/spec/consensus.md` 12); the former are in `config/networks/*.json`.

use std::sync::LazyLock;

use alloy_primitives::{Address, B256};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;
use tenon_chain::GenesisError;
use tenon_chain::genesis::LenientAddress;

use crate::heights::{FileHeights, HeightSource, NamedHeight, NativeHeights};

/// Blocks of an epoch if the file says 0.
const DEFAULT_EPOCH: u64 = 900;
/// Exclusive upper bound of the exponent of a timeout (`docs/spec/consensus.md` 5.7).
const MAX_EXPONENT_BOUND: u8 = 32;
/// Exclusive upper bound of a role's reward, coins: far above all coins of any chain, and its wei fit 256 bits.
const MAX_REWARD: f64 = 1e30;

/// Why the native part of a genesis file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NativeConfigError {
    /// A member is missing or has the wrong form.
    #[error("genesis file: config.XDPoS: {0}")]
    Form(#[from] serde_json::Error),
    /// A rule that this release does not know.
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
    /// The switch block is not a checkpoint.
    #[error("v2 switch number is not epoch switch block {switch_block}, epoch {epoch}")]
    SwitchBlock {
        /// The last v1 block.
        switch_block: u64,
        /// Blocks of an epoch.
        epoch: u64,
    },
    /// The gap is not inside an epoch.
    #[error("genesis file: config.XDPoS: gap {gap} is not below epoch {epoch}")]
    Gap {
        /// Distance of the gap block from the next epoch.
        gap: u64,
        /// Blocks of an epoch.
        epoch: u64,
    },
    /// A key of `allConfigs` is not a round.
    #[error("genesis file: config.XDPoS.v2.allConfigs: `{key}` is not a decimal number")]
    RoundKey {
        /// The key.
        key: String,
    },
    /// The entry for round 0 is missing.
    #[error("genesis file: config.XDPoS.v2.allConfigs has no entry for round 0")]
    NoFirstRound,
    /// The timeout's exponent is out of range.
    #[error("max_exponent ({exponent})= >= max_exponent_upperbound (32)")]
    Exponent {
        /// The exponent.
        exponent: u8,
    },
    /// The timeout would overflow.
    #[error("base^max_exponent ({base}^{exponent}) should be less than 2^32")]
    Growth {
        /// The base.
        base: f64,
        /// The exponent.
        exponent: u8,
    },
    /// A rule begins before the one that it builds on.
    #[error("genesis file: {later} at block {later_at} comes before {earlier} at block {earlier_at}")]
    HeightOrder {
        /// The rule that must come first.
        earlier: &'static str,
        /// Its height.
        earlier_at: u64,
        /// The rule that must come after it.
        later: &'static str,
        /// Its height.
        later_at: u64,
    },
    /// A reward is negative or not a number.
    #[error("genesis file: config.XDPoS.v2.allConfigs.{round}: a reward of {reward} coins can't be paid")]
    Reward {
        /// The entry's key.
        round: u64,
        /// The reward, coins.
        reward: f64,
    },
}

impl From<NativeConfigError> for GenesisError {
    fn from(error: NativeConfigError) -> Self {
        Self::Family(Box::new(error))
    }
}

/// Contracts read by native rules, in addition to those at fixed addresses (`docs/spec/chain.md` 3.1).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NativeContracts {
    /// Issuer of tokens that pay their transfers' fees.
    pub trc21_issuer: Address,
    /// Listings of the exchange.
    pub xdcx_listing: Address,
    /// Relayers.
    pub relayer_registration: Address,
    /// Lending.
    pub lending_registration: Address,
}

/// Contracts in the `config` member of a genesis file, which replace the built-in ones (`docs/spec/upgrades.md` 2.3).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileContracts {
    pub(crate) trc21_issuer: Option<Address>,
    pub(crate) xdcx_listing: Option<Address>,
    pub(crate) relayer_registration: Option<Address>,
    pub(crate) lending_registration: Option<Address>,
}

impl NativeContracts {
    fn with_file(&self, file: &FileContracts) -> Self {
        Self {
            trc21_issuer: file.trc21_issuer.unwrap_or(self.trc21_issuer),
            xdcx_listing: file.xdcx_listing.unwrap_or(self.xdcx_listing),
            relayer_registration: file.relayer_registration.unwrap_or(self.relayer_registration),
            lending_registration: file.lending_registration.unwrap_or(self.lending_registration),
        }
    }
}

/// Consensus parameters that apply from a round on (`docs/spec/consensus.md` 12.3, `docs/spec/upgrades.md` 2.2).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoundConfig {
    /// Maximum number of masternodes of an epoch.
    pub max_masternodes: usize,
    /// The value in the file; the entry's key takes precedence.
    #[serde(default)]
    pub switch_round: u64,
    /// Minimum time between two blocks, seconds.
    pub mine_period: u64,
    /// Own timeouts between two sync infos.
    #[serde(default)]
    pub timeout_sync_threshold: u64,
    /// Duration of a round before it times out, seconds.
    #[serde(default)]
    pub timeout_period: u64,
    /// Share of the masternodes that a certificate needs.
    #[serde(rename = "certificateThreshold")]
    pub certificate_threshold: f64,
    /// Growth of the timeout with every failed round.
    #[serde(default, rename = "expTimeoutConfig")]
    pub timeout_growth: TimeoutGrowth,
    /// Number of candidates that are paid as protectors.
    #[serde(default)]
    pub max_protector_nodes: usize,
    /// Number of candidates after the protectors that are paid as observers. The reference's own spelling is accepted.
    #[serde(default, alias = "maxObverserNodes")]
    pub max_observer_nodes: usize,
    /// Reward of a masternode for an epoch from `tip_upgrade_reward` on, coins.
    #[serde(default)]
    pub masternode_reward: f64,
    /// Reward of a protector.
    #[serde(default)]
    pub protector_reward: f64,
    /// Reward of an observer.
    #[serde(default)]
    pub observer_reward: f64,
    /// Blocks that a masternode must make in an epoch, from `tip_upgrade_penalty` on.
    #[serde(default)]
    pub minimum_miner_block_per_epoch: u64,
    /// Minimum duration of a penalty, epochs; 0 counts as 1.
    #[serde(default)]
    pub limit_penalty_epoch: u64,
    /// Signing transactions in one epoch that end a penalty.
    #[serde(default, rename = "minimumSigningTx")]
    pub minimum_signing_transactions: u64,
}

impl RoundConfig {
    /// The rewards of masternodes, protectors and observers, coins.
    pub const fn rewards(&self) -> [f64; 3] {
        [self.masternode_reward, self.protector_reward, self.observer_reward]
    }
}

/// Growth of a timeout: multiplied by `base` to the power of the number of failed rounds, at most `max_exponent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TimeoutGrowth {
    /// Base; 0 with exponent 0 counts as 1.
    pub base: f64,
    /// Maximum exponent.
    #[serde(default)]
    pub max_exponent: u8,
}

/// Consensus parameters of both engines (`docs/spec/consensus.md` 12).
#[derive(Clone, Debug, PartialEq)]
pub struct NativeConsensus {
    /// Minimum time between two v1 blocks, seconds.
    pub period: u64,
    /// Blocks (v1) or rounds (v2) of an epoch.
    pub epoch: u64,
    /// Distance of the gap block from the next multiple of `epoch`, blocks.
    pub gap: u64,
    /// Reward of an epoch, whole coins.
    pub reward: u64,
    /// Blocks between two rewards.
    pub reward_checkpoint: u64,
    /// Receiver of the foundation's share.
    pub foundation_wallet: Address,
    /// Whether v1 headers are not verified at all; for tests of the reference only.
    pub skip_v1_validation: bool,
    /// Last block of engine v1.
    pub switch_block: u64,
    /// Number of the first v2 epoch.
    pub switch_epoch: u64,
    /// By first round, ascending; the first is for round 0.
    rounds: Vec<(u64, RoundConfig)>,
}

impl NativeConsensus {
    /// The parameters of a round: those with the largest key that is not above it.
    pub fn at_round(&self, round: u64) -> &RoundConfig {
        let after = self.rounds.partition_point(|(key, _)| *key <= round);
        // The constructor requires an entry for round 0, so `after` is at least 1.
        &self.rounds[after.saturating_sub(1)].1
    }

    /// All parameters by first round, ascending.
    pub fn rounds(&self) -> &[(u64, RoundConfig)] {
        &self.rounds
    }

    /// Parses the `XDPoS` member of a genesis file. A file without `v2` gets the main network's switch block and
    /// rounds, and 0 as the number of the first v2 epoch (`docs/spec/consensus.md` 1.1).
    fn from_value(value: &Value) -> Result<Self, NativeConfigError> {
        let file: EngineFile = serde_json::from_value(value.clone())?;
        let foundation_wallet = file.foundation_wallet();
        let v2 = match file.v2 {
            Some(v2) => v2,
            None => V2File { switch_epoch: 0, ..mainnet_v2()? },
        };
        let epoch = if file.epoch == 0 { DEFAULT_EPOCH } else { file.epoch };
        let consensus = Self {
            period: file.period,
            epoch,
            gap: file.gap,
            reward: file.reward,
            reward_checkpoint: file.reward_checkpoint,
            foundation_wallet,
            skip_v1_validation: file.skip_v1_validation,
            switch_block: v2.switch_block,
            switch_epoch: v2.switch_epoch,
            rounds: rounds_of(v2)?,
        };
        consensus.check()?;
        Ok(consensus)
    }

    fn check(&self) -> Result<(), NativeConfigError> {
        let (switch_block, epoch, gap) = (self.switch_block, self.epoch, self.gap);
        if !switch_block.is_multiple_of(epoch) {
            return Err(NativeConfigError::SwitchBlock { switch_block, epoch });
        }
        if gap >= epoch {
            return Err(NativeConfigError::Gap { gap, epoch });
        }
        for (key, round) in &self.rounds {
            if let Some(reward) = round.rewards().into_iter().find(|reward| !(0.0..MAX_REWARD).contains(reward)) {
                return Err(NativeConfigError::Reward { round: *key, reward });
            }
            let TimeoutGrowth { base, max_exponent: exponent } = round.timeout_growth;
            if exponent >= MAX_EXPONENT_BOUND {
                return Err(NativeConfigError::Exponent { exponent });
            }
            let max = base.powi(i32::from(exponent));
            if max.is_nan() || max >= f64::from(2_u32).powi(32) {
                return Err(NativeConfigError::Growth { base, exponent });
            }
        }
        Ok(())
    }
}

fn rounds_of(v2: V2File) -> Result<Vec<(u64, RoundConfig)>, NativeConfigError> {
    let mut rounds = Vec::with_capacity(v2.all_configs.len());
    for (key, round) in v2.all_configs {
        let Ok(first) = key.parse() else { return Err(NativeConfigError::RoundKey { key }) };
        rounds.push((first, round));
    }
    rounds.sort_by_key(|(key, _)| *key);
    match rounds.first() {
        Some((0, _)) => Ok(rounds),
        _ => Err(NativeConfigError::NoFirstRound),
    }
}

fn mainnet_v2() -> Result<V2File, NativeConfigError> {
    let engine = NETWORKS.mainnet.engine.clone().unwrap_or_default();
    let file: EngineFile = serde_json::from_value(engine)?;
    file.v2.ok_or(NativeConfigError::NoFirstRound)
}

/// Refuses heights in another order than the reference's (`docs/spec/upgrades.md` 2.3).
fn check_order(heights: &NativeHeights) -> Result<(), NativeConfigError> {
    let mut last: Option<(&'static str, u64)> = None;
    for (later, later_at) in heights.upgrades_in_order() {
        match last {
            Some((earlier, earlier_at)) if later_at < earlier_at => {
                return Err(NativeConfigError::HeightOrder { earlier, earlier_at, later, later_at });
            }
            _ => last = Some((later, later_at)),
        }
    }
    Ok(())
}

/// The rules in the `config` member of a genesis file, outside `XDPoS`.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileRules {
    pub(crate) heights: FileHeights,
    pub(crate) contracts: FileContracts,
}

/// The native part of a chain's configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct NativeSettings {
    /// Heights of the native rules.
    pub heights: NativeHeights,
    /// Parameters of the consensus engines.
    pub consensus: NativeConsensus,
    /// Contracts read by the rules.
    pub contracts: NativeContracts,
    /// Maximum number of masternodes of a v1 epoch from `tip_increase_masternodes` on.
    pub late_v1_masternodes: usize,
    /// Addresses that may neither send nor receive from `heights.denylist` on, ascending.
    pub denylist: Vec<Address>,
    /// v1 checkpoints whose lists are not checked (`docs/spec/consensus.md` 2.6).
    pub unchecked_checkpoints: Vec<u64>,
    /// Whether v1 blocks are accepted without a second signature (`docs/spec/consensus.md` 2.3; testnet).
    pub skips_second_signer: bool,
    /// Names of the heights that the genesis file set.
    heights_of_file: Vec<&'static str>,
    /// The network id of the built-in values, which apply to all other heights.
    built_in_network_id: u64,
}

impl NativeSettings {
    /// The rules of a chain with this network id and `XDPoS` member. Unknown networks have the main network's heights
    /// and lists.
    pub(crate) fn new(network_id: u64, engine: &Value, file: &FileRules) -> Result<Self, NativeConfigError> {
        let network = NETWORKS.by_id(network_id);
        let mut denylist = if network.has_denylist { NETWORKS.denylist.clone() } else { Vec::new() };
        denylist.sort_unstable();
        let (heights, heights_of_file) = network.heights.clone().with_file(&file.heights);
        check_order(&heights)?;
        let late_v1_masternodes = EngineFile::late_v1_masternodes(engine);
        Ok(Self {
            heights,
            consensus: NativeConsensus::from_value(engine)?,
            contracts: network.contracts.with_file(&file.contracts),
            late_v1_masternodes: late_v1_masternodes.unwrap_or(network.late_v1_masternodes),
            denylist,
            unchecked_checkpoints: network.unchecked_checkpoints.clone(),
            skips_second_signer: network.skips_second_signer,
            heights_of_file,
            built_in_network_id: network.network_id,
        })
    }

    /// Every height with its origin.
    pub fn heights_with_source(&self) -> impl Iterator<Item = (NamedHeight, HeightSource)> {
        self.heights.named().into_iter().map(|height| {
            let is_of_file = self.heights_of_file.contains(&height.name);
            (
                height,
                if is_of_file { HeightSource::GenesisFile } else { HeightSource::BuiltIn(self.built_in_network_id) },
            )
        })
    }

    /// Uses the built-in consensus parameters if the genesis block is a known network's: the file's are then ignored
    /// (`docs/spec/consensus.md` 12.4).
    pub(crate) fn adopt_consensus_of(&mut self, genesis_hash: B256) -> Result<(), NativeConfigError> {
        let known = [&NETWORKS.mainnet, &NETWORKS.testnet, &NETWORKS.devnet, &NETWORKS.devnet_5551]
            .into_iter()
            .find(|network| network.genesis_hash == Some(genesis_hash));
        if let Some(engine) = known.and_then(|network| network.engine.as_ref()) {
            self.consensus = NativeConsensus::from_value(engine)?;
        }
        Ok(())
    }

    /// Hash and state root of the genesis block of a known network.
    pub(crate) fn known_genesis(network_id: u64) -> Option<(B256, B256)> {
        let network = NETWORKS.by_id(network_id);
        let known = network.genesis_hash.zip(network.genesis_state_root);
        known.filter(|_| network.network_id == network_id)
    }

    /// The contracts of networks with this id.
    pub(crate) fn contracts_of(network_id: u64) -> &'static NativeContracts {
        &NETWORKS.by_id(network_id).contracts
    }

    /// The network whose built-in heights, contracts and lists apply to this id: 51, 551, 5151 and 5551 have their own,
    /// every other id the main network's, 50 (`docs/spec/chain.md` 5.1).
    pub fn built_in_network_id(network_id: u64) -> u64 {
        NETWORKS.by_id(network_id).network_id
    }

    /// Returns whether blocks of this height may not touch the address.
    pub fn is_denied(&self, address: &Address, number: u64) -> bool {
        number >= self.heights.denylist && self.denylist.binary_search(address).is_ok()
    }
}

/// Addresses of bootnodes of a known network; empty for other ids.
pub fn native_bootnodes(network_id: u64) -> &'static [String] {
    let network = NETWORKS.by_id(network_id);
    if network.network_id == network_id { &network.bootnodes } else { &[] }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NetworkFile {
    network_id: u64,
    genesis_hash: Option<B256>,
    genesis_state_root: Option<B256>,
    heights: NativeHeights,
    late_v1_masternodes: usize,
    has_denylist: bool,
    unchecked_checkpoints: Vec<u64>,
    skips_second_signer: bool,
    contracts: NativeContracts,
    engine: Option<Value>,
    bootnodes: Vec<String>,
}

/// The `XDPoS` member. All its members are rules, so an unknown member is refused.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EngineFile {
    #[serde(default)]
    period: u64,
    #[serde(default)]
    epoch: u64,
    #[serde(default)]
    reward: u64,
    #[serde(default)]
    reward_checkpoint: u64,
    #[serde(default)]
    gap: u64,
    /// With prefix `0x` or `xdc`, or without one.
    #[serde(default)]
    foundation_wallet_addr: LenientAddress,
    /// The reference's spelling up to v2.7.0, still read (`docs/spec/upgrades.md` 2.3).
    #[serde(default, rename = "foudationWalletAddr")]
    misspelt_foundation_wallet_addr: LenientAddress,
    #[serde(default, rename = "SkipV1Validation", alias = "skipV1Validation")]
    skip_v1_validation: bool,
    /// The limit of masternodes of v1 from `tip_increase_masternodes` on; see [`EngineFile::late_v1_masternodes`].
    #[serde(default, rename = "maxMasternodesV2")]
    _late_v1_masternodes: Option<usize>,
    v2: Option<V2File>,
}

impl EngineFile {
    fn foundation_wallet(&self) -> Address {
        let [wallet, misspelt] = [self.foundation_wallet_addr.0, self.misspelt_foundation_wallet_addr.0];
        if wallet.is_zero() { misspelt } else { wallet }
    }

    /// `maxMasternodesV2`, in files of the later line.
    fn late_v1_masternodes(engine: &Value) -> Option<usize> {
        engine.get("maxMasternodesV2").and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct V2File {
    #[serde(default, rename = "SwitchEpoch", alias = "switchEpoch")]
    switch_epoch: u64,
    #[serde(default)]
    switch_block: u64,
    #[serde(default)]
    all_configs: std::collections::BTreeMap<String, RoundConfig>,
    /// The entry in force; not a parameter.
    #[serde(default, rename = "config")]
    _config: Option<IgnoredAny>,
}

struct Networks {
    mainnet: NetworkFile,
    testnet: NetworkFile,
    devnet: NetworkFile,
    devnet_5551: NetworkFile,
    local: NetworkFile,
    denylist: Vec<Address>,
}

impl Networks {
    const fn by_id(&self, network_id: u64) -> &NetworkFile {
        match network_id {
            51 => &self.testnet,
            551 => &self.devnet,
            5151 => &self.local,
            5551 => &self.devnet_5551,
            _ => &self.mainnet,
        }
    }
}

/// The built-in definitions; a test reads all of them, so they cannot be malformed.
#[allow(clippy::expect_used, reason = "the text is part of the program and read by tests")]
static NETWORKS: LazyLock<Networks> = LazyLock::new(|| {
    fn read<T: serde::de::DeserializeOwned>(text: &str) -> T {
        serde_json::from_str(text).expect("a built-in network definition")
    }
    Networks {
        mainnet: read(include_str!("../../../../config/networks/mainnet.json")),
        testnet: read(include_str!("../../../../config/networks/testnet.json")),
        devnet: read(include_str!("../../../../config/networks/devnet.json")),
        devnet_5551: read(include_str!("../../../../config/networks/devnet-5551.json")),
        local: read(include_str!("../../../../config/networks/local.json")),
        denylist: read(include_str!("../../../../config/networks/denylist.json")),
    }
});
