//! Genesis files in the spellings that occur in practice.

use alloy_primitives::{B256, U256, address};
use serde_json::json;
use tenon_api::{EMPTY_ROOT_HASH, messages::Profile};
use tenon_chain::{Activation, EMPTY_REQUESTS_HASH, Fork, Genesis, GenesisError};

fn genesis(file: &serde_json::Value) -> Result<Genesis, GenesisError> {
    Genesis::from_json(file.to_string().as_bytes())
}

#[test]
fn every_spelling_of_numbers_bytes_and_addresses_is_read() {
    let file = json!({
        "config": { "chainId": 18_446_744_073_709_551_615_u64, "homesteadBlock": "0x5", "londonBlock": null, "unknown": [1] },
        "nonce": "0x42", "timestamp": 17, "extraData": "abc", "gasLimit": "5000", "difficulty": "0x0400000000",
        "coinbase": "xdc0000000000000000000000000000000000000088",
        "baseFeePerGas": null, "excessBlobGas": null, "blobGasUsed": null, "unknown": {},
        "alloc": {
            "0000000000000000000000000000000000000001": { "balance": "1000000000000000000000000000" },
            "0x00000000000000000000000000000000000000Ab": { "balance": "0x10", "nonce": "0x3", "code": "0x6001",
                "storage": { "0x1": "0x02", "00ff": "0x0000000000000000000000000000000000000000000000000000000000000000" } },
            "XDC00000000000000000000000000000000000000cd": { "balance": 5 },
        },
    });

    let genesis = genesis(&file).unwrap();

    assert_eq!(genesis.spec.chain_id, u64::MAX);
    assert_eq!(genesis.spec.profile(), Profile::Ethereum);
    assert_eq!(genesis.spec.activation(Fork::Homestead), Some(Activation::Block(5)));
    assert_eq!(genesis.spec.activation(Fork::London), None);
    assert_eq!(genesis.header.nonce.0, [0, 0, 0, 0, 0, 0, 0, 0x42]);
    assert_eq!(genesis.header.extra_data.as_ref(), [0x0a, 0xbc]);
    assert_eq!((genesis.header.timestamp, genesis.header.gas_limit), (17, 5000));
    assert_eq!(genesis.header.difficulty, U256::from(0x0400000000_u64));
    assert_eq!(genesis.header.beneficiary, address!("0000000000000000000000000000000000000088"));
    assert_eq!(genesis.header.base_fee_per_gas, None);
    let contract = &genesis.alloc[&address!("00000000000000000000000000000000000000ab")];
    assert_eq!((contract.balance, contract.nonce, contract.code.as_ref()), (U256::from(16), 3, &[0x60, 0x01][..]));
    assert_eq!(contract.storage[&B256::with_last_byte(1)], U256::from(2));
    assert_eq!(genesis.alloc.len(), 3);
    assert_eq!(genesis.config["unknown"], json!([1]));

    let commit = genesis.commit().unwrap();
    assert_eq!(commit.accounts.len(), 3);
    let contract = commit.accounts.iter().find(|change| !change.slots.is_empty()).unwrap();
    assert_eq!(contract.slots.len(), 1, "zero values are not stored");
    assert_ne!(contract.account.unwrap().storage_root, EMPTY_ROOT_HASH);
    assert_eq!(commit.codes.len(), 1);
}

#[test]
fn a_terminal_total_difficulty_of_any_length_keeps_its_digits() {
    let file = br#"{"config":{"chainId":1,"terminalTotalDifficulty":58750000000000000000001},"alloc":{}}"#;

    let genesis = Genesis::from_json(file).unwrap();

    assert_eq!(genesis.spec.terminal_total_difficulty(), Some(U256::from(58_750_000_000_000_000_000_001_u128)));
}

#[test]
fn a_genesis_in_the_newest_fork_has_all_header_items() {
    let file = json!({
        "config": { "chainId": 7, "homesteadBlock": 0, "londonBlock": 0, "terminalTotalDifficulty": 0,
            "shanghaiTime": 0, "cancunTime": 0, "pragueTime": 0 },
        "difficulty": "0x0", "excessBlobGas": "0x20000", "alloc": {},
    });

    let commit = genesis(&file).unwrap().commit().unwrap();

    let header = &commit.block.header;
    assert_eq!(header.base_fee_per_gas, Some(1_000_000_000));
    assert_eq!(header.withdrawals_root, Some(EMPTY_ROOT_HASH));
    assert_eq!((header.blob_gas_used, header.excess_blob_gas), (Some(0), Some(0x20000)));
    assert_eq!(header.parent_beacon_block_root, Some(B256::ZERO));
    assert_eq!(header.requests_hash, Some(EMPTY_REQUESTS_HASH));
    assert_eq!(header.state_root, EMPTY_ROOT_HASH);
    assert_eq!(commit.block.withdrawals, Some(vec![]));
}

#[test]
fn missing_members_have_the_customary_values() {
    let header = genesis(&json!({ "config": { "chainId": 1 }, "alloc": {} })).unwrap().header;

    assert_eq!(header.gas_limit, 4_712_388);
    assert_eq!(header.difficulty, U256::from(131_072));
}

#[test]
fn unusable_files_are_refused_with_the_members_name() {
    let cases = [
        (json!({ "alloc": {} }), "genesis has no chain configuration"),
        (json!({ "config": {}, "alloc": {} }), "missing required field 'config.chainId' for Genesis"),
        (json!({ "config": { "chainId": 1 } }), "missing required field 'alloc' for Genesis"),
        (json!({ "config": { "chainId": 1, "verkleTime": 5 }, "alloc": {} }), "fork verkleTime is not supported"),
        (
            json!({ "config": { "chainId": 1, "berlinBlock": 9, "londonBlock": 8 }, "alloc": {} }),
            "fork London at 8 comes before Berlin at 9",
        ),
        (
            json!({ "config": { "chainId": 1, "blobSchedule": { "cancun": { "target": 7, "max": 6,
                "baseFeeUpdateFraction": 1 } } }, "alloc": {} }),
            "blobSchedule.cancun",
        ),
        (json!({ "config": { "chainId": 1 }, "alloc": { "0x12": {} } }), "`0x12` is not an address"),
        (json!({ "config": { "chainId": 1 }, "gasLimit": "0xzz", "alloc": {} }), "`0xzz` is not a number"),
        (json!({ "config": { "chainId": 1 }, "gasLimit": "0x10000000000000000", "alloc": {} }), "does not fit 64 bits"),
    ];
    for (file, wanted) in cases {
        let error = genesis(&file).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let error = Genesis::from_json(b"{\n \"config\": }").unwrap_err().to_string();
    assert!(error.contains("line 2"), "{error}");
}

#[test]
fn a_file_of_another_family_is_refused_unless_the_family_is_given() {
    let file = json!({ "config": { "chainId": 1, "XDPoS": { "epoch": 900 } }, "alloc": {} });
    let error = genesis(&file).unwrap_err();
    assert!(matches!(error, GenesisError::OtherFamily { member: "XDPoS" }), "{error}");
    let absent = json!({ "config": { "chainId": 1, "XDPoS": null }, "alloc": {} });
    assert_eq!(genesis(&absent).unwrap().spec.profile(), Profile::Ethereum);
}
