//! Genesis files and parameters of the native networks.

use alloy_primitives::b256;
use tenon_api::messages::Profile;
use tenon_chain::Genesis;
use tenon_native_spec::{NativeSettings, PublicNetwork, read_genesis};

#[test]
fn the_genesis_files_of_the_networks_give_their_hashes() {
    let networks = [
        (
            "mainnet",
            50,
            b256!("4a9d748bd78a8d0385b67788c2435dcdb914f98a96250b68863a1f8b7642d6b1"),
            b256!("49be235b0098b048f9805aed38a279d8c189b469ff9ba307b39c7ad3a3bc55ae"),
        ),
        (
            "testnet",
            51,
            b256!("bdea512b4f12ff1135ec92c00dc047ffb93890c2ea1aa0eefe9b013d80640075"),
            b256!("8e3faa435358e7027e68989700c2edd281c87518f82c127e8523df46c41c160f"),
        ),
        (
            "devnet",
            551,
            b256!("3c636c841ebee9121374fa76bd5480d17a23e1ba61d425dde21d7b3caba864f4"),
            b256!("2b7f0763d42031f27f11bd281a95b3a423dc9e02f2ea9a876b1ae656dd618f09"),
        ),
        (
            "devnet-5551",
            5551,
            b256!("b8be003946a9c2688e9f1e255a5567c3d144293ccde2ffb38452a5840081b402"),
            b256!("ce02d584d0a675e2c49ed3011c6923d88c0feb863d6784d1ac878e7dcb0bd098"),
        ),
        // A network of the reference on which every fork is active from the start, so its genesis has a base fee.
        (
            "local",
            5151,
            b256!("50ddb5d648de6d3e8eafed3032ed638ee29e976754cdc8ed6e3dfe0abb216d28"),
            b256!("53b098092b4936825c0eff2dcbac794fdb67bb6243fff3694f05be8336a6d8c2"),
        ),
    ];
    for (name, chain_id, hash, state_root) in networks {
        let genesis = match PublicNetwork::by_name(name) {
            Some(network) => network.genesis().unwrap(),
            None => read_genesis(&tenon_test_data::unpacked(format!("chain/native-genesis-{name}.json.gz"))).unwrap(),
        };

        let block = genesis.commit().unwrap().block;

        assert_eq!(genesis.spec.chain_id, chain_id);
        assert_eq!(genesis.spec.profile(), Profile::Native);
        assert!(NativeSettings::of(&genesis.spec).is_some());
        assert_eq!(block.header.state_root, state_root, "{name}");
        assert_eq!(block.hash(), hash, "{name}");
    }
}

#[test]
fn the_networks_have_their_published_parameters() {
    let rows =
        [("mainnet", 80_370_000, 89_300, 5000, 7, 98_800_200), ("testnet", 56_828_700, 63_143, 5000, 4, 71_550_000)];
    for (name, switch_block, switch_epoch, reward, rounds, eip1559) in rows {
        let genesis = read_genesis(&tenon_test_data::unpacked(format!("chain/native-genesis-{name}.json.gz"))).unwrap();
        let native = NativeSettings::of(&genesis.spec).unwrap();
        let consensus = &native.consensus;
        assert_eq!((consensus.switch_block, consensus.switch_epoch), (switch_block, switch_epoch), "{name}");
        assert_eq!((consensus.epoch, consensus.gap, consensus.reward, consensus.period), (900, 450, reward, 2));
        assert_eq!(consensus.rounds().len(), rounds);
        assert_eq!(native.heights.eip1559, eip1559);
        assert_eq!(native.denylist.len(), 61);
        assert_eq!(native.unchecked_checkpoints, [1_032_300, 1_033_200, 27_307_800, 28_270_800]);
        assert_eq!(native.skips_second_signer, name == "testnet");
    }
}

/// The built-in parameters of a known genesis replace the file's: devnet's file has a timeout of 10 seconds.
#[test]
fn the_key_of_a_round_decides_and_a_known_genesis_has_built_in_parameters() {
    let genesis = read_genesis(&tenon_test_data::unpacked("chain/native-genesis-devnet.json.gz")).unwrap();
    let consensus = &NativeSettings::of(&genesis.spec).unwrap().consensus;

    let masternodes = [0, 251_999, 252_000, 261_000, 300_000].map(|round| consensus.at_round(round).max_masternodes);

    assert_eq!(masternodes, [108, 108, 10, 12, 12]);
    assert_eq!(consensus.at_round(252_000).switch_round, 250_000);
    assert_eq!(consensus.at_round(0).timeout_period, 5);
    assert_eq!(consensus.reward, 10);
}

#[test]
fn an_unknown_network_has_the_main_networks_heights_and_its_own_consensus() {
    let text =
        br#"{"config":{"chainId":4243,"shanghaiBlock":500,"XDPoS":{"period":2,"epoch":0,"gap":450,"reward":250}},
        "difficulty":"0x1","gasLimit":"0x47b760","alloc":{}}"#;
    let native = NativeSettings::of(&read_genesis(text).unwrap().spec).cloned().unwrap();

    assert_eq!(
        (native.heights.tip_signing, native.heights.shanghai, native.heights.cancun),
        (3_000_000, 500, 98_802_000)
    );
    assert_eq!(
        (native.consensus.epoch, native.consensus.switch_block, native.consensus.switch_epoch),
        (900, 80_370_000, 0)
    );
    assert_eq!(native.consensus.rounds().len(), 7);
}

/// A genesis file of a private network with these ids and members of `config`.
fn private(chain_id: u64, members: &str) -> Genesis {
    let text = format!(
        r#"{{"config":{{"chainId":{chain_id},{members}"XDPoS":{{"period":2,"epoch":900,"gap":450,"reward":250,
        "v2":{{"switchBlock":900,"allConfigs":{{"0":{{"maxMasternodes":4,"minePeriod":1,"certificateThreshold":0.667}}}}}}}}}},
        "difficulty":"0x1","gasLimit":"0x47b760","alloc":{{}}}}"#
    );
    read_genesis(text.as_bytes()).unwrap()
}

/// The constants depend on the network id, which is the chain id unless the operator sets another one
/// (`docs/spec/chain.md` 5.1). Four ids have their own constants; every other id has the main network's.
#[test]
fn the_network_id_determines_the_built_in_heights_and_lists() {
    let rows = [
        (50, 38_383_838, 61, 4, false),
        (51, 23_779_191, 61, 4, true),
        (551, 0, 61, 4, false),
        (5151, 0, 0, 0, false),
        (5551, 0, 61, 4, false),
        (1, 38_383_838, 61, 4, false),
        (5152, 38_383_838, 61, 4, false),
    ];
    for (id, tip_xdcx, denied, unchecked, skips) in rows {
        let by_chain_id = private(id, "");
        let by_network_id = private(4243, "").with_network_id(id).unwrap();
        for genesis in [&by_chain_id, &by_network_id] {
            let native = NativeSettings::of(&genesis.spec).unwrap();
            assert_eq!(native.heights.tip_xdcx, tip_xdcx, "{id}");
            assert_eq!((native.denylist.len(), native.unchecked_checkpoints.len()), (denied, unchecked), "{id}");
            assert_eq!(native.skips_second_signer, skips, "{id}");
            // Only a known genesis has built-in consensus parameters; here they come from the file.
            assert_eq!((native.consensus.reward, native.consensus.switch_block), (250, 900), "{id}");
            assert_eq!(genesis.spec.network_id, id);
        }
        assert_eq!(by_network_id.spec.chain_id, 4243);
    }
    let local = private(5151, "");
    let heights = NativeSettings::of(&local.spec).unwrap().heights.named();
    assert!(heights.iter().all(|rule| rule.height.is_none_or(|height| height == 0)), "{heights:?}");
    assert_eq!(local.header.base_fee_per_gas, Some(12_500_000_000));
}

/// On every network the file can set an earlier height for a rule, but not a later one.
#[test]
fn a_file_can_bring_forks_forward_but_not_postpone_them() {
    let members = r#""berlinBlock":10,"londonBlock":20,"mergeBlock":30,"shanghaiBlock":40,"eip1559Block":50,"cancunBlock":60,
        "petersburgBlock":7,"istanbulBlock":8,"#;
    let heights = |id| NativeSettings::of(&private(id, members).spec).cloned().unwrap().heights;
    let early = heights(4243);
    assert_eq!((early.berlin, early.london, early.merge, early.shanghai), (10, 20, 30, 40));
    assert_eq!((early.eip1559, early.cancun, early.petersburg, early.istanbul), (50, 60, 7, 8));
    assert_eq!(early.tip_signing, 3_000_000, "no member of the file sets it");
    let local = heights(5151);
    assert_eq!((local.berlin, local.eip1559, local.cancun, local.petersburg), (0, 0, 0, 0));
}

/// The main network under another network id: it has other heights, but the same block 0 and the built-in consensus
/// parameters.
#[test]
fn a_known_genesis_keeps_its_consensus_under_another_network_id() {
    let genesis = PublicNetwork::Mainnet.genesis().unwrap();
    let (hash, consensus) =
        (genesis.sealed_header().unwrap().hash(), NativeSettings::of(&genesis.spec).cloned().unwrap().consensus);

    let moved = genesis.with_network_id(5151).unwrap();

    assert_eq!(moved.sealed_header().unwrap().hash(), hash);
    let native = NativeSettings::of(&moved.spec).unwrap();
    assert_eq!(native.consensus, consensus);
    assert_eq!(native.heights.eip1559, 0);
}

#[test]
fn public_networks_are_found_by_every_name_they_have() {
    for network in PublicNetwork::ALL {
        for name in network.names() {
            assert_eq!(PublicNetwork::by_name(name), Some(network));
            let block = PublicNetwork::by_name(name).unwrap().genesis().unwrap().sealed_header().unwrap();
            assert_eq!((block.hash(), block.state_root), (network.genesis_hash(), network.genesis_state_root()));
        }
        assert_eq!(PublicNetwork::by_chain_id(network.chain_id()), Some(network));
        assert_eq!(PublicNetwork::by_genesis_hash(network.genesis_hash()), Some(network));
    }
    assert_eq!((PublicNetwork::by_name("local"), PublicNetwork::by_chain_id(5151)), (None, None));
}

#[test]
fn an_invalid_consensus_part_is_refused_by_name() {
    let cases = [
        (
            r#""epoch":900,"gap":450,"v2":{"switchBlock":901,"allConfigs":{"0":ROUND}}"#,
            "v2 switch number is not epoch switch block 901, epoch 900",
        ),
        (
            r#""epoch":60,"gap":60,"v2":{"switchBlock":0,"allConfigs":{"0":ROUND}}"#,
            "genesis file: config.XDPoS: gap 60 is not below epoch 60",
        ),
        (
            r#""epoch":60,"gap":30,"v2":{"switchBlock":0,"allConfigs":{"1":ROUND}}"#,
            "genesis file: config.XDPoS.v2.allConfigs has no entry for round 0",
        ),
        (
            r#""epoch":60,"gap":30,"v2":{"switchBlock":0,"allConfigs":{"x":ROUND}}"#,
            "genesis file: config.XDPoS.v2.allConfigs: `x` is not a decimal number",
        ),
        (
            r#""epoch":60,"gap":30,"v2":{"switchBlock":0,"allConfigs":{"0":GROWING}}"#,
            "base^max_exponent (3^21) should be less than 2^32",
        ),
    ];
    let round = r#"{"maxMasternodes":4,"minePeriod":1,"certificateThreshold":0.667}"#;
    let growing = r#"{"maxMasternodes":4,"minePeriod":1,"certificateThreshold":0.667,"expTimeoutConfig":{"base":3.0,"maxExponent":21}}"#;
    for (engine, wanted) in cases {
        let engine = engine.replace("ROUND", round).replace("GROWING", growing);
        let text = format!(
            r#"{{"config":{{"chainId":5151,"XDPoS":{{{engine}}}}},"difficulty":"0x1","gasLimit":"0x1","alloc":{{}}}}"#
        );
        let error = read_genesis(text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), wanted);
    }
}

/// The reference, too, reads the last one.
#[test]
fn of_equal_names_in_the_consensus_part_the_last_one_counts() {
    let genesis = read_genesis(
        br#"{"config":{"chainId":5151,"XDPoS":{"epoch":60,"reward":1,"v2":{"allConfigs":{"0":{
        "maxMasternodes":4,"minePeriod":1,"minePeriod":3,"certificateThreshold":0.667}}},"reward":2,"epoch":900}},
        "difficulty":"0x1","gasLimit":"0x1","alloc":{}}"#,
    )
    .unwrap();

    let consensus = &NativeSettings::of(&genesis.spec).unwrap().consensus;
    assert_eq!((consensus.epoch, consensus.reward, consensus.at_round(0).mine_period), (900, 2, 3));
}

/// Ethereum's members and those of the family are read one after the other, but reported as one list.
#[test]
fn of_two_wrong_members_the_first_by_name_is_reported() {
    for (early, late) in [("gas50xBlock", "terminalTotalDifficulty"), ("cancunTime", "gas50xBlock")] {
        let text = format!(r#"{{"config":{{"chainId":7,"{late}":"b","{early}":"a","XDPoS":{{}}}},"alloc":{{}}}}"#);
        let error = read_genesis(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("genesis file: config.{early}: `a` is not a number")), "{error}");
    }
}
