//! The rules after v2.7.0 as configuration (`docs/spec/upgrades.md` 1, 2).

use alloy_primitives::address;
use tenon_native_spec::{HeightSource, NativeHeights, NativeSettings, PublicNetwork, read_genesis};

/// A genesis file of a private network with these members of `config` and of the entry of round 0.
fn file(chain_id: u64, members: &str, round: &str) -> String {
    format!(
        r#"{{"config":{{"chainId":{chain_id},{members}
        "XDPoS":{{"period":2,"epoch":900,"gap":450,"reward":250,"v2":{{"switchBlock":900,"allConfigs":{{"0":
        {{"maxMasternodes":4,"minePeriod":1,"certificateThreshold":0.667{round}}}}}}}}}}},
        "difficulty":"0x1","gasLimit":"0x47b760","alloc":{{}}}}"#
    )
}

fn settings(chain_id: u64, members: &str, round: &str) -> NativeSettings {
    NativeSettings::of(&read_genesis(file(chain_id, members, round).as_bytes()).unwrap().spec).cloned().unwrap()
}

fn refusal(members: &str, round: &str) -> String {
    read_genesis(file(4243, members, round).as_bytes()).unwrap_err().to_string()
}

const fn upgrades(heights: &NativeHeights) -> [Option<u64>; 6] {
    [
        heights.prague,
        heights.osaka,
        heights.dynamic_gas_limit,
        heights.tip_upgrade_reward,
        heights.tip_upgrade_penalty,
        heights.tip_epoch_halving,
    ]
}

fn of_network(name: &str) -> NativeSettings {
    NativeSettings::of(&PublicNetwork::by_name(name).unwrap().genesis().unwrap().spec).cloned().unwrap()
}

// The table of section 1.
#[test]
fn the_networks_have_the_heights_of_the_activation_table() {
    let at = |height| [Some(height), None, Some(height), Some(height), Some(height), None];
    for (name, wanted) in
        [("mainnet", [None; 6]), ("testnet", at(83_600_000)), ("devnet", [None; 6]), ("devnet-5551", at(50_000))]
    {
        assert_eq!(upgrades(&of_network(name).heights), wanted, "{name}");
    }
    assert_eq!(upgrades(&settings(5151, "", "").heights), [None; 6]);
    assert_eq!(upgrades(&settings(4243, "", "").heights), [None; 6]);
}

// Sections 2.1 and 2.2.
#[test]
fn the_new_devnet_has_its_published_parameters() {
    let native = of_network("devnet-5551");
    let consensus = &native.consensus;

    assert_eq!((consensus.period, consensus.epoch, consensus.gap, consensus.reward), (2, 900, 450, 7_125));
    assert_eq!((consensus.switch_block, consensus.switch_epoch, consensus.reward_checkpoint), (2_700, 3, 900));
    assert_eq!(consensus.foundation_wallet, address!("4f288181b1d1aa599c6d7629f1168d46d5f96338"));
    assert_eq!((native.heights.eip1559, native.heights.cancun, native.heights.tip_trc21_fee), (25_000, 25_000, 0));
    let rounds: Vec<u64> = consensus.rounds().iter().map(|(key, _)| *key).collect();
    assert_eq!(rounds, [0, 50_000]);
    let [before, after] = [49_999, 50_000].map(|round| consensus.at_round(round));
    assert_eq!((before.max_masternodes, before.max_protector_nodes, before.max_observer_nodes), (108, 0, 0));
    assert_eq!((after.max_masternodes, after.max_protector_nodes, after.max_observer_nodes), (108, 324, 2_000));
    assert_eq!(after.rewards(), [63.42, 50.27, 25.13]);
}

// Section 2.2: these parameters depend on the round, and therefore also apply before the heights of the upgrades.
#[test]
fn the_testnet_has_25_masternodes_from_round_27360000_on() {
    let consensus = of_network("testnet").consensus;
    let [before, after] = [27_359_999, 27_360_000].map(|round| consensus.at_round(round).clone());

    assert_eq!((before.max_masternodes, after.max_masternodes), (108, 25));
    assert_eq!((after.max_protector_nodes, after.max_observer_nodes), (3, 2));
    assert_eq!(after.rewards(), [63.42, 50.27, 25.13]);
    assert_eq!(
        (after.minimum_miner_block_per_epoch, after.limit_penalty_epoch, after.minimum_signing_transactions),
        (5, 5, 30)
    );
    assert_eq!((after.timeout_period, after.timeout_sync_threshold, after.mine_period), (10, 3, 2));
    assert_eq!(before.rewards(), [0.0; 3]);
}

const ALL: &str = r#""cancunBlock":0,"eip1559Block":0,"pragueBlock":10,"dynamicGasLimitBlock":"0x14","tipUpgradeRewardBlock":30,
    "tipUpgradePenaltyBlock":40,"tipEpochHalvingBlock":50,"#;

#[test]
fn a_private_genesis_sets_the_rules_regardless_of_its_chain_id() {
    for id in [50, 51, 551, 4243, 5151, 5551] {
        let native = settings(id, ALL, "");
        let wanted = [Some(10), None, Some(20), Some(30), Some(40), Some(50)];
        assert_eq!(upgrades(&native.heights), wanted, "{id}");
        let sources: Vec<_> = native
            .heights_with_source()
            .filter(|(_, source)| *source == HeightSource::GenesisFile)
            .map(|(rule, _)| rule.name)
            .collect();
        assert!(
            sources.ends_with(&[
                "prague",
                "dynamicGasLimit",
                "tipUpgradeReward",
                "tipUpgradePenalty",
                "tipEpochHalving"
            ]),
            "{sources:?}"
        );
        let built_in = native.heights_with_source().find(|(rule, _)| rule.name == "osaka").unwrap();
        let constants = if id == 4243 { 50 } else { id };
        assert_eq!((built_in.0.height, built_in.1), (None, HeightSource::BuiltIn(constants)));
    }
}

/// The file can set every constant of the reference (2.3).
#[test]
fn a_private_genesis_sets_older_rules_and_contracts_under_their_newer_keys() {
    let members = r#""tip2019Block":1,"tipSigningBlock":2,"tipRandomizeBlock":3,"tipIncreaseMasternodesBlock":4,
        "tipNoHalvingMNRewardBlock":5,"tipXDCXBlock":6,"tipXDCXLendingBlock":7,"tipXDCXCancellationFeeBlock":8,
        "tipTRC21FeeBlock":9,"denylistBlock":10,"gas50xBlock":11,"tipXDCXMinerDisableBlock":12,
        "tipXDCXReceiverDisableBlock":13,"trc21IssuerSMC":"0x0000000000000000000000000000000000000001",
        "xdcxListingSMC":"xdc0000000000000000000000000000000000000002",
        "relayerRegistrationSMC":"0000000000000000000000000000000000000003",
        "lendingRegistrationSMC":"0x0000000000000000000000000000000000000004","#;

    let native = settings(4243, members, "");

    let heights: Vec<_> = native.heights.named().iter().take(13).map(|rule| rule.height.unwrap()).collect();
    assert_eq!(heights, (1..=13).collect::<Vec<_>>());
    assert_eq!((native.heights.petersburg, native.heights.istanbul), (8, 8));
    let contracts = native.contracts;
    let addresses = [
        contracts.trc21_issuer,
        contracts.xdcx_listing,
        contracts.relayer_registration,
        contracts.lending_registration,
    ];
    assert_eq!(addresses.map(|address| address.0[19]), [1, 2, 3, 4]);
}

#[test]
fn both_spellings_of_the_foundations_wallet_and_of_observers_are_read() {
    let wallet = |members: &str| {
        let text =
            file(4243, "", r#","maxObverserNodes":7"#).replace(r#""period":2"#, &format!(r#"{members}"period":2"#));
        let native = NativeSettings::of(&read_genesis(text.as_bytes()).unwrap().spec).cloned().unwrap();
        assert_eq!(native.consensus.at_round(0).max_observer_nodes, 7);
        (native.consensus.foundation_wallet.0[19], native.late_v1_masternodes)
    };
    let [one, two] = ["01", "02"].map(|last| format!("\"0x{}{last}\"", "00".repeat(19)));

    assert_eq!(wallet(&format!(r#""foundationWalletAddr":{one},"#)).0, 1);
    assert_eq!(wallet(&format!(r#""foudationWalletAddr":{two},"#)).0, 2);
    assert_eq!(wallet(&format!(r#""foundationWalletAddr":{one},"foudationWalletAddr":{two},"#)).0, 1);
    assert_eq!((wallet("").1, wallet(r#""maxMasternodesV2":33,"#).1), (108, 33));
}

#[test]
fn a_rule_that_is_unknown_or_not_implemented_is_refused_by_name() {
    for (members, member) in [
        ("\n\"fusakaBlock\": 5,", "fusakaBlock"),
        ("\n\"PragueBlock\": 5,", "PragueBlock"),
        ("\n\"pragueTime\": 5,", "pragueTime"),
        ("\n\"tipSomethingNew\": 5,", "tipSomethingNew"),
        ("\n\"otherSMC\": \"0x00\",", "otherSMC"),
    ] {
        let error = refusal(members, "");
        assert!(error.contains(&format!("config.{member} is not a rule that this release knows")), "{error}");
        assert!(error.contains("at line 2 column "), "{error}");
    }
    let error = refusal(r#""osakaBlock":5,"#, "");
    assert!(error.contains("fork osakaBlock is not supported"), "{error}");
    let error = refusal("", r#","maxSomething":3"#);
    assert!(error.contains("config.XDPoS: unknown field `maxSomething`"), "{error}");
    let error = refusal("", r#","masternodeReward":-1.0"#);
    assert_eq!(error, "genesis file: config.XDPoS.v2.allConfigs.0: a reward of -1 coins can't be paid");
}

#[test]
fn a_null_rule_and_a_member_that_is_not_a_rule_are_ignored() {
    let native = settings(4243, r#""fusakaBlock":null,"pragueBlock":null,"comment":"ours","eip150Hash":"0x00","#, "");
    assert_eq!(upgrades(&native.heights), [None; 6]);
}

// Section 2.3: the reference checks the order when it starts.
#[test]
fn rules_in_another_order_are_refused() {
    let cancun = r#""eip1559Block":5,"cancunBlock":5,"#;
    let wrong = [
        (r#""pragueBlock":4,"#, "prague at block 4 comes before cancun at block 5"),
        (r#""pragueBlock":9,"dynamicGasLimitBlock":8,"#, "dynamicGasLimit at block 8 comes before prague at block 9"),
        (
            r#""dynamicGasLimitBlock":8,"tipUpgradeRewardBlock":7,"#,
            "tipUpgradeReward at block 7 comes before dynamicGasLimit at block 8",
        ),
        (
            r#""tipUpgradeRewardBlock":7,"tipUpgradePenaltyBlock":6,"#,
            "tipUpgradePenalty at block 6 comes before tipUpgradeReward at block 7",
        ),
    ];
    for (members, wanted) in wrong {
        let error = refusal(&format!("{cancun}{members}"), "");
        assert_eq!(error, format!("genesis file: {wanted}"));
    }
    // The order does not apply to a rule that never activates.
    let native = settings(4243, &format!(r#"{cancun}"tipUpgradePenaltyBlock":5,"#), "");
    assert_eq!(native.heights.tip_upgrade_penalty, Some(5));
}

#[test]
fn a_chain_that_has_not_reached_a_new_rule_adopts_it() {
    let spec = |members: &str| read_genesis(file(5151, members, "").as_bytes()).unwrap().spec;

    let changes = spec(r#""pragueBlock":50,"#).rules().changed_since(&spec("").rules());

    let [change] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(change.name, "native prague");
    let mut place = tenon_chain::BlockPlace {
        number: 49,
        timestamp: 0,
        parent_total_difficulty: alloy_primitives::U256::ZERO,
        round: None,
    };
    assert!(!change.concerns(&place));
    place.number = 50;
    assert!(change.concerns(&place));
}
