//! The rules of a chain by height (`docs/spec/upgrades.md` 11.3, `eth_config`).

use alloy_primitives::address;
use tenon_api::{
    Address, B256, BlockNumber, StoreError,
    messages::{NativeRules, NativeSchedule},
};
use tenon_chain::{Activation, ChainSpec, Fork, ForkId};
use tenon_native_spec::NativeSettings;

use super::Queries;

/// Precompiled contracts: name, last byte of the address, heights at which it is active.
const PRECOMPILES: [(&str, u8, Since); 13] = [
    ("ECREC", 0x01, Since::Genesis),
    ("SHA256", 0x02, Since::Genesis),
    ("RIPEMD160", 0x03, Since::Genesis),
    ("ID", 0x04, Since::Genesis),
    ("MODEXP", 0x05, Since::Byzantium),
    ("BN254_ADD", 0x06, Since::Byzantium),
    ("BN254_MUL", 0x07, Since::Byzantium),
    ("BN254_PAIRING", 0x08, Since::Byzantium),
    ("BLAKE2F", 0x09, Since::Istanbul),
    ("RING_SIG_VERIFY", 0x1e, Since::UntilExchangeEnds),
    ("BULLET_PROOF_VERIFY", 0x28, Since::UntilExchangeEnds),
    ("XDCX_LAST_PRICE", 0x29, Since::UntilExchangeEnds),
    ("XDCX_EPOCH_PRICE", 0x2a, Since::UntilExchangeEnds),
];

/// The history contract (EIP-2935).
const HISTORY_STORAGE: Address = address!("0000f90827f1c53a10cb7a02335b175320002935");

/// Heights at which a precompiled contract is active (`docs/spec/chain.md` 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    Genesis,
    Byzantium,
    Istanbul,
    /// From Byzantium until the exchange's miners stop.
    UntilExchangeEnds,
}

/// The address that ends with this byte; all other bytes are zero.
const fn low(byte: u8) -> Address {
    Address::with_last_byte(byte)
}

impl Queries {
    /// The rules of the head, the next ones and the last ones.
    pub(super) fn schedule(&self) -> Result<NativeSchedule, StoreError> {
        let genesis = self.chain.canonical_hash(BlockNumber::GENESIS)?;
        let genesis = genesis.ok_or_else(|| StoreError::UnknownBlock { what: "0".to_owned() })?;
        Ok(Schedule { spec: &self.spec, settings: &self.settings, genesis }.at(self.chain.head().header.number))
    }
}

/// The data from which a schedule is computed.
struct Schedule<'a> {
    spec: &'a ChainSpec,
    settings: &'a NativeSettings,
    genesis: B256,
}

impl Schedule<'_> {
    fn at(&self, head: u64) -> NativeSchedule {
        let heights = self.heights();
        let current = heights.iter().rev().find(|height| **height <= head).copied().unwrap_or_default();
        let next = heights.iter().find(|height| **height > head).copied();
        let last = next.and(heights.last().copied());
        NativeSchedule {
            chain_id: self.spec.chain_id,
            current: self.rules(current, &heights),
            next: next.map(|height| self.rules(height, &heights)),
            last: last.map(|height| self.rules(height, &heights)),
        }
    }

    /// The height of a fork that the genesis file sets.
    fn of_file(&self, fork: Fork) -> Option<u64> {
        match self.spec.activation(fork) {
            Some(Activation::Block(height)) => Some(height),
            _ => None,
        }
    }

    /// The heights at which rules change, ascending, without genesis.
    fn heights(&self) -> Vec<u64> {
        let of_file =
            [Fork::Homestead, Fork::TangerineWhistle, Fork::SpuriousDragon, Fork::Byzantium, Fork::Constantinople];
        let of_file = of_file.into_iter().filter_map(|fork| self.of_file(fork));
        let more = [self.spec.eip155_block, self.spec.dao_fork_block, Some(self.settings.consensus.switch_block)];
        let named = self.settings.heights.named().into_iter().filter_map(|rule| rule.height);
        let mut heights: Vec<u64> = of_file.chain(more.into_iter().flatten()).chain(named).collect();
        // A rule that a network does not have may have the largest height.
        heights.retain(|height| (1..u64::MAX).contains(height));
        heights.sort_unstable();
        heights.dedup();
        heights
    }

    fn rules(&self, height: u64, heights: &[u64]) -> NativeRules {
        NativeRules {
            activation: height,
            fork_id: ForkId::of_heights(self.genesis, heights, height).hash,
            forks: self.forks(height),
            precompiles: self.precompiles(height),
            system_contracts: self.system_contracts(height),
        }
    }

    /// Names of the rules in force, in the reference's order.
    fn forks(&self, height: u64) -> Vec<String> {
        let of = &self.settings.heights;
        let since = |start: u64| height >= start;
        let of_file = |start: Option<u64>| start.is_some_and(since);
        let exchange_until = |end: u64| since(of.tip_xdcx) && !since(end);
        let forks = [
            ("Berlin", since(of.berlin)),
            ("Byzantium", of_file(self.of_file(Fork::Byzantium))),
            ("Cancun", since(of.cancun)),
            ("Constantinople", of_file(self.of_file(Fork::Constantinople))),
            ("DAO", of_file(self.spec.dao_fork_block)),
            ("Denylist", since(of.denylist)),
            ("DynamicGasLimit", of.is_dynamic_gas_limit(height)),
            ("EIP1559", since(of.eip1559)),
            ("EIP158", of_file(self.of_file(Fork::SpuriousDragon))),
            ("Gas50x", since(of.gas50x)),
            ("Homestead", of_file(self.of_file(Fork::Homestead))),
            ("Istanbul", since(of.istanbul)),
            ("London", since(of.london)),
            ("Merge", since(of.merge)),
            ("Petersburg", since(of.petersburg)),
            ("Prague", of.is_prague(height)),
            ("Shanghai", since(of.shanghai)),
            ("SpuriousDragon", of_file(self.spec.eip155_block)),
            ("TIP2019", since(of.tip2019)),
            ("TIPIncreaseMasternodes", since(of.tip_increase_masternodes)),
            ("TIPNoHalvingMNReward", since(of.tip_no_halving_reward)),
            ("TIPRandomize", since(of.tip_randomize)),
            ("TIPSigning", since(of.tip_signing)),
            ("TIPTRC21Fee", since(of.tip_trc21_fee)),
            ("TIPUpgradePenalty", of.is_upgrade_penalty(height)),
            ("TIPUpgradeReward", of.is_upgrade_reward(height)),
            ("TIPXDCX", since(of.tip_xdcx)),
            ("TIPXDCXCancellationFee", since(of.tip_xdcx_cancellation_fee)),
            ("TIPXDCXLending", since(of.tip_xdcx_lending)),
            ("TIPXDCXMiner", exchange_until(of.tip_xdcx_miner_disable)),
            ("TIPXDCXReceiver", exchange_until(of.tip_xdcx_receiver_disable)),
            ("TangerineWhistle", of_file(self.of_file(Fork::TangerineWhistle))),
            ("TIPEpochHalving", of_file(of.tip_epoch_halving)),
            ("XDCxDisable", since(of.tip_xdcx_miner_disable)),
            ("XDPoSV2", since(self.settings.consensus.switch_block)),
        ];
        forks.into_iter().filter(|(_, holds)| *holds).map(|(name, _)| name.to_owned()).collect()
    }

    fn precompiles(&self, height: u64) -> Vec<(String, Address)> {
        let of = &self.settings.heights;
        let has_byzantium = self.of_file(Fork::Byzantium).is_some_and(|start| height >= start);
        let has_ended = height >= of.tip_xdcx_miner_disable || height >= of.eip1559;
        let has_istanbul = height >= of.istanbul || has_ended;
        let holds = |since: Since| match since {
            Since::Genesis => true,
            Since::Byzantium => has_byzantium || has_istanbul,
            Since::Istanbul => has_istanbul,
            Since::UntilExchangeEnds => (has_byzantium || has_istanbul) && !has_ended,
        };
        let held = PRECOMPILES.iter().filter(|(.., since)| holds(*since));
        held.map(|(name, byte, _)| ((*name).to_owned(), low(*byte))).collect()
    }

    /// As in the reference, the contract of signing transactions is listed before its rule begins, and not afterwards.
    fn system_contracts(&self, height: u64) -> Vec<(String, Address)> {
        let of = &self.settings.heights;
        let contracts = &self.settings.contracts;
        let has_exchange = height >= of.tip_xdcx;
        let receives = of.has_exchange(height);
        let all = [
            ("MASTERNODE_VOTING_SMC", low(0x88), true),
            ("BLOCK_SIGNERS", low(0x89), height < of.tip_signing),
            ("RANDOMIZE_SMC", low(0x90), height >= of.tip_randomize),
            ("XDCX_LISTING_SMC", contracts.xdcx_listing, has_exchange),
            ("RELAYER_REGISTRATION_SMC", contracts.relayer_registration, has_exchange),
            ("LENDING_REGISTRATION_SMC", contracts.lending_registration, height >= of.tip_xdcx_lending),
            ("XDCX_ADDRESS", low(0x91), receives),
            ("TRADING_STATE_ADDRESS", low(0x92), receives),
            ("XDCX_LENDING_ADDRESS", low(0x93), receives),
            ("XDCX_LENDING_FINALIZED_TRADE_ADDRESS", low(0x94), receives),
            ("TRC21_ISSUER_SMC", contracts.trc21_issuer, height >= of.tip_trc21_fee),
            ("HISTORY_STORAGE_ADDRESS", HISTORY_STORAGE, of.is_prague(height)),
        ];
        let held = all.into_iter().filter(|(_, address, holds)| *holds && !address.is_zero());
        held.map(|(name, address, _)| (name.to_owned(), address)).collect()
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::b256;
    use tenon_native_spec::PublicNetwork;

    use super::*;

    const MAINNET: B256 = b256!("0x4a9d748bd78a8d0385b67788c2435dcdb914f98a96250b68863a1f8b7642d6b1");

    fn schedule(head: u64) -> NativeSchedule {
        of_network("mainnet", head)
    }

    fn of_network(name: &str, head: u64) -> NativeSchedule {
        let genesis = PublicNetwork::by_name(name).unwrap().genesis().unwrap();
        let settings = NativeSettings::of(&genesis.spec).unwrap();
        let hash = genesis.sealed_header().unwrap().hash();
        assert!(name != "mainnet" || hash == MAINNET);
        Schedule { spec: &genesis.spec, settings, genesis: hash }.at(head)
    }

    // Checksums: docs/spec/upgrades.md 12.2.
    #[test]
    fn the_upgrade_is_the_last_change_of_testnet_and_of_the_new_devnet() {
        let upgrade = ["DynamicGasLimit", "Prague", "TIPUpgradePenalty", "TIPUpgradeReward"].map(str::to_owned);
        for (name, height, before, from) in [
            ("testnet", 83_600_000, [0xeb, 0xce, 0x67, 0x95], [0x7f, 0xcf, 0xc8, 0xb0]),
            ("devnet-5551", 50_000, [0; 4], [0x5f, 0xbb, 0x68, 0xb7]),
        ] {
            let earlier = of_network(name, height - 1);
            if name == "testnet" {
                assert_eq!(earlier.current.fork_id, before, "{name}");
            }
            assert_eq!(earlier.next.map(|rules| (rules.activation, rules.fork_id)), Some((height, from)), "{name}");
            let rules = of_network(name, height).current;
            assert_eq!(rules.fork_id, from, "{name}");
            let added: Vec<_> = rules.forks.iter().filter(|fork| !earlier.current.forks.contains(fork)).collect();
            assert_eq!(added, upgrade.each_ref(), "{name}");
            assert_eq!(rules.precompiles, earlier.current.precompiles, "{name}");
            assert_eq!(rules.system_contracts.last(), Some(&("HISTORY_STORAGE_ADDRESS".to_owned(), HISTORY_STORAGE)));
            assert_eq!(rules.system_contracts.len(), earlier.current.system_contracts.len() + 1);
        }
        assert_eq!(of_network("devnet-5551", 0).current.fork_id, [0x70, 0x2a, 0x75, 0x30]);
    }

    fn names(contracts: &[(String, Address)]) -> Vec<&str> {
        contracts.iter().map(|(name, _)| name.as_str()).collect()
    }

    // Checksums: docs/spec/upgrades.md 12.2.
    #[test]
    fn the_rules_of_mainnet_come_one_after_another() {
        let genesis = schedule(0);
        assert_eq!((genesis.current.activation, genesis.current.fork_id), (0, [0x0f, 0x33, 0x14, 0x19]));
        assert!(genesis.current.forks.is_empty(), "{:?}", genesis.current.forks);
        assert_eq!(names(&genesis.current.precompiles), ["ECREC", "SHA256", "RIPEMD160", "ID"]);
        assert_eq!(names(&genesis.current.system_contracts), ["MASTERNODE_VOTING_SMC", "BLOCK_SIGNERS"]);
        assert_eq!(genesis.next.map(|rules| rules.activation), Some(1));
        assert_eq!(genesis.last.map(|rules| rules.activation), Some(98_802_000));

        let exchange = schedule(50_000_000).current;
        assert_eq!(exchange.activation, 38_383_838);
        assert!(names(&exchange.precompiles).contains(&"XDCX_LAST_PRICE"));
        assert!(exchange.forks.iter().any(|name| name == "TIPXDCXReceiver"));

        let newest = schedule(99_000_000);
        assert_eq!((newest.current.activation, newest.current.fork_id), (98_802_000, [0x8a, 0xd3, 0x36, 0x42]));
        assert_eq!((newest.next, newest.last), (None, None));
        assert_eq!(newest.current.precompiles.len(), 9);
        assert_eq!(newest.current.forks.last().map(String::as_str), Some("XDPoSV2"));
        let ended = |name: &str| !newest.current.forks.iter().any(|fork| fork == name);
        assert!(ended("TIPXDCXMiner") && ended("TIPXDCXReceiver") && !ended("XDCxDisable"));
    }

    #[test]
    fn a_rule_applies_at_its_height_and_not_one_block_before() {
        let (before, at) = (schedule(98_801_999), schedule(98_802_000));
        let has_cancun = |rules: &NativeRules| rules.forks.iter().any(|fork| fork == "Cancun");

        assert!(!has_cancun(&before.current) && before.next.as_ref().is_some_and(has_cancun));
        assert_eq!(before.next, before.last);
        assert!(has_cancun(&at.current) && at.next.is_none());
    }
}
