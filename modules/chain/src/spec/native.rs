//! Parameters of a native chain's rules beyond the Ethereum forks: heights, consensus parameters by round, contracts,
//! lists. The reference has some of them in its code, by network id, and others in the genesis file
//! (`docs/spec/chain.md` 5.1, 7.1; `docs/spec/consensus.md` 12); the former are in `config/networks/*.json`.

use std::sync::LazyLock;

use alloy_primitives::{Address, B256};
use serde::Deserialize;
use serde_json::Value;

use crate::genesis::LooseAddress;

/// Blocks of an epoch if the file says 0.
const DEFAULT_EPOCH: u64 = 900;
/// The minimum gas price before `gas50x`, wei.
const MIN_PRICE: u64 = 250_000_000;
/// The minimum gas price from `gas50x` on, wei.
const MIN_PRICE_50X: u64 = 12_500_000_000;
/// Exclusive upper bound of the exponent of a timeout (`docs/spec/consensus.md` 5.7).
const MAX_EXPONENT_BOUND: u8 = 32;

/// Why the consensus part of a genesis file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NativeConfigError {
    /// A member is missing or has the wrong form.
    #[error("genesis file: config.XDPoS: {0}")]
    Form(#[from] serde_json::Error),
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
}

/// Heights from which native rules apply, by network id (`docs/spec/chain.md` 5.1). A rule applies in a block whose
/// number is at least the height.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NativeHeights {
    /// Only blocks with `number % 15 == 0` are signed and counted.
    pub tip2019: u64,
    /// Signing transactions get special treatment; penalties are derived from them.
    pub tip_signing: u64,
    /// Second signers rotate; v1 penalises creators that made no blocks.
    pub tip_randomize: u64,
    /// The later v1 limit of masternodes.
    pub tip_increase_masternodes: u64,
    /// Full reward again.
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
    /// Fees are paid to the owner, from the next block on.
    #[serde(rename = "tipTRC21Fee")]
    pub tip_trc21_fee: u64,
    /// The denylist applies.
    pub denylist: u64,
    /// Sponsored gas price and pool minimum of 12.5 gwei.
    pub gas50x: u64,
    /// Exchange precompiles disappear.
    #[serde(rename = "tipXDCXMinerDisable")]
    pub tip_xdcx_miner_disable: u64,
    /// 0x91 to 0x94 are no longer special.
    #[serde(rename = "tipXDCXReceiverDisable")]
    pub tip_xdcx_receiver_disable: u64,
    /// No effect; see `eip1559`.
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
}

/// Heights that a genesis file may lower (`docs/spec/chain.md` 5.1, predicates).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileHeights {
    pub(crate) petersburg: Option<u64>,
    pub(crate) istanbul: Option<u64>,
    pub(crate) berlin: Option<u64>,
    pub(crate) london: Option<u64>,
    pub(crate) merge: Option<u64>,
    pub(crate) shanghai: Option<u64>,
    pub(crate) eip1559: Option<u64>,
    pub(crate) cancun: Option<u64>,
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

    /// Every height with its name in `config/networks`, in the order of the fields.
    pub fn named(&self) -> [(&'static str, u64); 21] {
        [
            ("tip2019", self.tip2019),
            ("tipSigning", self.tip_signing),
            ("tipRandomize", self.tip_randomize),
            ("tipIncreaseMasternodes", self.tip_increase_masternodes),
            ("tipNoHalvingReward", self.tip_no_halving_reward),
            ("tipXDCX", self.tip_xdcx),
            ("tipXDCXLending", self.tip_xdcx_lending),
            ("tipXDCXCancellationFee", self.tip_xdcx_cancellation_fee),
            ("tipTRC21Fee", self.tip_trc21_fee),
            ("denylist", self.denylist),
            ("gas50x", self.gas50x),
            ("tipXDCXMinerDisable", self.tip_xdcx_miner_disable),
            ("tipXDCXReceiverDisable", self.tip_xdcx_receiver_disable),
            ("berlin", self.berlin),
            ("london", self.london),
            ("merge", self.merge),
            ("shanghai", self.shanghai),
            ("eip1559", self.eip1559),
            ("cancun", self.cancun),
            ("petersburg", self.petersburg),
            ("istanbul", self.istanbul),
        ]
    }

    fn brought_forward(mut self, file: FileHeights) -> Self {
        self.petersburg = self.tip_xdcx_cancellation_fee;
        self.istanbul = self.tip_xdcx_cancellation_fee;
        let pairs = [
            (&mut self.petersburg, file.petersburg),
            (&mut self.istanbul, file.istanbul),
            (&mut self.berlin, file.berlin),
            (&mut self.london, file.london),
            (&mut self.merge, file.merge),
            (&mut self.shanghai, file.shanghai),
            (&mut self.eip1559, file.eip1559),
            (&mut self.cancun, file.cancun),
        ];
        for (height, written) in pairs {
            *height = (*height).min(written.unwrap_or(u64::MAX));
        }
        self
    }
}

/// Contracts read by native rules, besides those at fixed addresses (`docs/spec/chain.md` 3.1).
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

/// Consensus parameters that apply from a round on (`docs/spec/consensus.md` 12.3).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
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
}

/// Growth of a timeout: multiplied by `base` to the power of the number of failed rounds, at most `max_exponent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
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
            foundation_wallet: file.foundation_wallet.0,
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
        for (_, round) in &self.rounds {
            let TimeoutGrowth { base, max_exponent: exponent } = round.timeout_growth;
            if exponent >= MAX_EXPONENT_BOUND {
                return Err(NativeConfigError::Exponent { exponent });
            }
            let most = base.powi(i32::from(exponent));
            if most.is_nan() || most >= f64::from(2_u32).powi(32) {
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
}

impl NativeSettings {
    /// The rules of a chain with this network id and `XDPoS` member. Unknown networks have the main network's heights
    /// and lists.
    pub(crate) fn new(network_id: u64, engine: &Value, file: FileHeights) -> Result<Self, NativeConfigError> {
        let network = NETWORKS.by_id(network_id);
        let mut denylist = if network.has_denylist { NETWORKS.denylist.clone() } else { Vec::new() };
        denylist.sort_unstable();
        Ok(Self {
            heights: network.heights.clone().brought_forward(file),
            consensus: NativeConsensus::from_value(engine)?,
            contracts: network.contracts.clone(),
            late_v1_masternodes: network.late_v1_masternodes,
            denylist,
            unchecked_checkpoints: network.unchecked_checkpoints.clone(),
            skips_second_signer: network.skips_second_signer,
        })
    }

    /// Uses the built-in consensus parameters if the genesis block is a known network's: the file's are then ignored
    /// (`docs/spec/consensus.md` 12.4).
    pub(crate) fn adopt_built_in(&mut self, genesis_hash: B256) -> Result<(), NativeConfigError> {
        let known = [&NETWORKS.mainnet, &NETWORKS.testnet, &NETWORKS.devnet]
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

    /// The network whose built-in heights, contracts and lists apply to this id: 51, 551 and 5151 have their own, every
    /// other id the main network's, 50 (`docs/spec/chain.md` 5.1).
    pub fn constants_of(network_id: u64) -> u64 {
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EngineFile {
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
    /// The reference's spelling; with `0x` or `xdc` before it.
    #[serde(default, rename = "foudationWalletAddr")]
    foundation_wallet: LooseAddress,
    #[serde(default, rename = "SkipV1Validation")]
    skip_v1_validation: bool,
    v2: Option<V2File>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct V2File {
    #[serde(default, rename = "SwitchEpoch")]
    switch_epoch: u64,
    #[serde(default)]
    switch_block: u64,
    #[serde(default)]
    all_configs: std::collections::BTreeMap<String, RoundConfig>,
}

struct Networks {
    mainnet: NetworkFile,
    testnet: NetworkFile,
    devnet: NetworkFile,
    local: NetworkFile,
    denylist: Vec<Address>,
}

impl Networks {
    const fn by_id(&self, network_id: u64) -> &NetworkFile {
        match network_id {
            51 => &self.testnet,
            551 => &self.devnet,
            5151 => &self.local,
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
        local: read(include_str!("../../../../config/networks/local.json")),
        denylist: read(include_str!("../../../../config/networks/denylist.json")),
    }
});
