//! The forms of the typed client's answers against a real node: a change of one side without the other fails here.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::path::Path;

use alloy_primitives::{U64, U256};
use alloy_rpc_types_eth::{BlockId, BlockNumberOrTag, TransactionRequest};
use serde_json::{Value, json};
use support::{RunningNode, build, until};
use tenon_ipc_client::{
    AdminClient as _, CandidateStatus, ConsensusClient as _, DebugClient as _, EthClient as _, NativeEthClient as _,
    TxpoolClient as _,
};

/// Builds plugins that the other tests do not use, and writes settings with them.
fn settings_with(folder: &Path, names: &[&str]) -> String {
    let packages: Vec<String> = names.iter().map(|name| format!("tenon-plugin-{name}")).collect();
    let built = build(&packages);
    let mut settings = String::new();
    for name in names {
        let library = built.join(format!("libtenon_plugin_{name}.so"));
        settings += &format!("[plugins.{name}]\npath = {library:?}\n");
    }
    let path = folder.join("node.toml");
    std::fs::write(&path, settings).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Checks that the client's form of an answer keeps every member.
fn unchanged(typed: &impl serde::Serialize, answer: &Value) {
    assert_eq!(&json!(typed), answer);
}

#[test]
fn answers_of_a_native_chain_keep_every_member() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings_with(folder.path(), &["consensus", "debug", "txpool"]);
    let node = RunningNode::start_dev(&["--profile", "native", "--epoch", "4", "--config", &settings]);
    let client = node.client();
    let raw = |method: &str, params: Value| client.call_method(method, &params).unwrap();
    let accounts = client.answer(client.accounts()).unwrap();
    let transfer = TransactionRequest::default().from(accounts[0]).to(accounts[1]).value(U256::ONE).gas_limit(21_000);
    for _ in 0..6 {
        client.answer(client.send_transaction(transfer.clone())).unwrap();
    }
    let latest = BlockNumberOrTag::Latest;

    let masternodes = client.answer(client.masternodes_by_number(latest)).unwrap();
    unchanged(&masternodes, &raw("Consensus_getMasternodesByNumber", json!(["latest"])));
    assert_eq!((masternodes.masternodes.len(), masternodes.error.as_str()), (1, ""));
    let block = client.answer(client.v2_block_by_number(BlockNumberOrTag::Number(3))).unwrap();
    unchanged(&block, &raw("Consensus_getV2BlockByNumber", json!(["0x3"])));
    unchanged(&client.answer(client.v2_block_by_hash(block.hash)).unwrap(), &json!(block));
    let snapshot = client.answer(client.snapshot(latest)).unwrap();
    unchanged(&snapshot, &raw("Consensus_getSnapshot", json!(["latest"])));
    let at_hash = client.answer(client.snapshot_at_hash(block.hash)).unwrap();
    unchanged(&at_hash, &raw("Consensus_getSnapshotAtHash", json!([block.hash])));
    assert_eq!(client.answer(client.signers(latest)).unwrap(), snapshot.signers);
    assert_eq!(client.answer(client.signers_at_hash(block.hash)).unwrap(), snapshot.signers);
    let network = client.answer(client.network_information()).unwrap();
    assert_eq!((network.network_id, network.consensus_configs.epoch), (U64::from(0x141f), 4));
    let missed = client.answer(client.missed_rounds(latest)).unwrap();
    unchanged(&missed, &raw("Consensus_getMissedRoundsInEpochByBlockNum", json!(["latest"])));
    let switches = client.answer(client.epoch_numbers_between(BlockNumberOrTag::Number(1), latest)).unwrap();
    assert_eq!(switches, [1, 4].map(U64::from));
    let epoch = client.answer(client.epoch_blocks(1)).unwrap();
    unchanged(&epoch, &raw("Consensus_getBlockInfoByEpochNum", json!([1])));

    let masternode = masternodes.masternodes[0];
    let account = client.answer(client.account_info(accounts[0], BlockId::latest())).unwrap();
    unchanged(&account, &raw("eth_getAccountInfo", json!([accounts[0], "latest"])));
    let candidate = client.answer(client.candidate_status(masternode, latest)).unwrap();
    assert_eq!((candidate.status, candidate.success), (CandidateStatus::Masternode, true));
    let candidates = client.answer(client.candidates(latest)).unwrap();
    assert_eq!(candidates.candidates.values().next().unwrap().capacity, candidate.capacity);
    client.answer(client.owner_by_coinbase(masternode, latest)).unwrap();
    client.answer(client.block_finality_by_number(latest)).unwrap();
    client.answer(client.block_signers_by_number(latest)).unwrap();
    client.answer(client.reward_by_hash(block.hash)).unwrap();
    client.answer(client.block_by_number(latest, true)).unwrap().unwrap();
    client.answer(client.block_receipts(BlockId::latest())).unwrap().unwrap();
}

#[test]
fn answers_about_node_pool_and_traces_keep_every_member() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings_with(folder.path(), &["debug", "txpool"]);
    let node = RunningNode::start_dev(&["--config", &settings]);
    let client = node.client();
    let raw = |method: &str, params: Value| client.call_method(method, &params).unwrap();
    let accounts = client.answer(client.accounts()).unwrap();
    let transfer = TransactionRequest::default().from(accounts[0]).to(accounts[1]).value(U256::ONE);
    let hash = client.answer(client.send_transaction(transfer.clone())).unwrap();

    unchanged(&client.answer(client.node_info()).unwrap(), &raw("admin_nodeInfo", json!([])));
    unchanged(&client.answer(client.peers()).unwrap(), &raw("admin_peers", json!([])));
    unchanged(&client.answer(client.list_modules()).unwrap(), &raw("admin_listModules", json!([])));
    unchanged(&client.answer(client.module_info("eth")).unwrap(), &raw("admin_moduleInfo", json!(["eth"])));
    let report = client.answer(client.reload_settings()).unwrap();
    unchanged(&report, &raw("admin_reloadSettings", json!([])));

    // A transaction that waits for an earlier nonce stays in the pool.
    client.answer(client.send_transaction(transfer.clone().nonce(7).gas_limit(21_000))).unwrap();
    let status = client.answer(client.pool_status()).unwrap();
    unchanged(&status, &raw("txpool_status", json!([])));
    assert_eq!(status.queued, U64::from(1));
    unchanged(&client.answer(client.pool_summary()).unwrap(), &raw("txpool_inspect", json!([])));
    let content = client.answer(client.pool_content()).unwrap();
    let of_sender = client.answer(client.pool_content_from(accounts[0])).unwrap();
    assert_eq!(content.queued.values().next(), Some(&of_sender.queued));

    let receipt = until("the receipt", || client.answer(client.transaction_receipt(hash)).unwrap());
    let block = BlockId::from(receipt.block_number.unwrap());
    client.answer(client.trace_transaction(hash, None)).unwrap();
    client.answer(client.trace_block_by_number(BlockNumberOrTag::Latest, None)).unwrap();
    client.answer(client.trace_call(transfer.clone(), block, None)).unwrap();
    assert!(!client.answer(client.raw_transaction(hash)).unwrap().is_empty());
    assert_eq!(client.answer(client.raw_receipts(block)).unwrap().len(), 1);
    let raw_block = client.answer(client.raw_block(block)).unwrap();
    assert!(raw_block.len() > client.answer(client.raw_header(block)).unwrap().len());
    let changed = client.answer(client.modified_accounts_by_number(U64::from(1))).unwrap();
    assert!(changed.contains(&accounts[0]), "{changed:?}");

    let latest = BlockId::latest();
    assert_eq!(client.answer(client.transaction_count(accounts[0], latest)).unwrap(), U64::from(1));
    client.answer(client.call(transfer.clone(), latest)).unwrap();
    assert_eq!(client.answer(client.estimate_gas(transfer, latest)).unwrap(), U64::from(21_000));
    let fees = client.answer(client.fee_history(U64::from(1), BlockNumberOrTag::Latest, vec![50.0])).unwrap();
    assert_eq!(fees.base_fee_per_gas.len(), 2);
    assert!(client.answer(client.logs(&alloy_rpc_types_eth::Filter::new())).unwrap().is_empty());
    client.answer(client.syncing()).unwrap();
}
