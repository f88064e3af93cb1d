//! The methods and subscriptions of the namespace, in the order of `docs/spec/rpc-eth.md` 7.

use tenon_sdk::prelude::*;

use crate::{
    Eth, blocks, calls, chain, config, fees, filters, logs, mining, native, results, sending, simulation, state,
    subscriptions, token_stats, transactions, typed_data, uncles,
};

pub(crate) fn table() -> Table<Eth> {
    let table = Table::new("eth", "1.0").capabilities(&[
        Capability::ReadChain,
        Capability::CallEvm,
        Capability::SubmitTransactions,
        Capability::Sign,
        Capability::ReadNode,
    ]);
    let table = with_state(with_chain(table));
    let table = with_transactions(with_blocks(table));
    let table = with_calls_and_fees(table);
    let table = with_logs(with_sending(table));
    with_native(table)
        .results(results::RESULTS)
        .parameters(results::PARAMETERS)
        .lasting_subscriptions()
        .background(filters::remove_idle)
        .subscription("newHeads", subscriptions::new_heads)
        .subscription("logs", subscriptions::logs)
        .subscription("newPendingTransactions", subscriptions::new_pending_transactions)
        .subscription("syncing", subscriptions::syncing)
}

fn with_chain(table: Table<Eth>) -> Table<Eth> {
    table
        .read("eth_blockNumber", &[], "The height of the head.", chain::block_number)
        .read("eth_chainId", &[], "The chain id of EIP-155.", chain::chain_id)
        .read("eth_protocolVersion", &[], "The peer protocol's version.", chain::protocol_version)
        .read("eth_syncing", &[], "Progress of synchronising, or false.", chain::syncing)
        .read("eth_accounts", &[], "Addresses that this node can sign with.", chain::accounts)
        .read(
            "eth_requestAccounts",
            &[],
            "Addresses that this node can sign with, by the name that wallets use.",
            chain::accounts,
        )
        .slow_read("eth_config", &[], "The current and the next rules of the chain (EIP-7910).", config::config)
        .read(
            "eth_capabilities",
            &[],
            "The range of blocks for which each kind of data is available.",
            chain::capabilities,
        )
        .read("eth_coinbase", &[], "The address that receives rewards.", mining::etherbase)
        .read("eth_etherbase", &[], "The address that receives rewards.", mining::etherbase)
        .read("eth_mining", &[], "Whether the node makes blocks.", mining::mining)
        .read("eth_hashrate", &[], "Hashes per second: always zero.", mining::hashrate)
        .read("eth_getWork", &[], "Always an error: this node gives no work to miners.", mining::get_work)
        .method(
            "eth_submitHashrate",
            &["rate", "id"],
            "Accepts a miner's hash rate, without effect.",
            mining::submit_hashrate,
        )
        .method(
            "eth_submitWork",
            &["nonce", "headerHash", "mixDigest"],
            "Submits a miner's work: never accepted.",
            mining::submit_work,
        )
}

fn with_state(table: Table<Eth>) -> Table<Eth> {
    table
        .read("eth_getBalance", &["address", "block"], "Balance of an account, wei.", state::get_balance)
        .read(
            "eth_getTransactionCount",
            &["address", "block"],
            "Nonce of an account; `pending` counts the pool.",
            state::get_transaction_count,
        )
        .read("eth_getCode", &["address", "block"], "Code of an account.", state::get_code)
        .read("eth_getStorageAt", &["address", "key", "block"], "A storage slot.", state::get_storage_at)
        .read(
            "eth_getStorageValues",
            &["requests", "block"],
            "Storage slots of one or more accounts, 1,024 at most.",
            state::get_storage_values,
        )
        .read(
            "eth_getProof",
            &["address", "storageKeys", "block"],
            "An account and some of its slots with proofs.",
            state::get_proof,
        )
}

fn with_blocks(table: Table<Eth>) -> Table<Eth> {
    table
        .read("eth_getBlockByNumber", &["block", "full"], "A block.", blocks::get_block_by_number)
        .read("eth_getBlockByHash", &["hash", "full"], "A block.", blocks::get_block_by_hash)
        .read("eth_getHeaderByNumber", &["block"], "A header.", blocks::get_header_by_number)
        .read("eth_getHeaderByHash", &["hash"], "A header.", blocks::get_header_by_hash)
        .read("eth_getBlockReceipts", &["block"], "Receipts of a block.", blocks::get_block_receipts)
        .read(
            "eth_getBlockTransactionCountByNumber",
            &["block"],
            "Number of transactions in a block.",
            blocks::transaction_count_by_number,
        )
        .read(
            "eth_getBlockTransactionCountByHash",
            &["hash"],
            "Number of transactions in a block.",
            blocks::transaction_count_by_hash,
        )
        .read("eth_getUncleCountByBlockNumber", &["block"], "Number of uncles of a block.", uncles::count_by_number)
        .read("eth_getUncleCountByBlockHash", &["hash"], "Number of uncles of a block.", uncles::count_by_hash)
        .read(
            "eth_getUncleByBlockNumberAndIndex",
            &["block", "index"],
            "An uncle of a block.",
            uncles::by_number_and_index,
        )
        .read("eth_getUncleByBlockHashAndIndex", &["hash", "index"], "An uncle of a block.", uncles::by_hash_and_index)
}

fn with_transactions(table: Table<Eth>) -> Table<Eth> {
    table
        .read(
            "eth_getTransactionByHash",
            &["hash"],
            "A transaction of the chain or the pool.",
            transactions::get_by_hash,
        )
        .read(
            "eth_getTransactionByBlockHashAndIndex",
            &["hash", "index"],
            "A transaction of a block.",
            transactions::get_by_block_hash_and_index,
        )
        .read(
            "eth_getTransactionByBlockNumberAndIndex",
            &["block", "index"],
            "A transaction of a block.",
            transactions::get_by_block_number_and_index,
        )
        .read(
            "eth_getRawTransactionByHash",
            &["hash"],
            "Canonical bytes of a transaction of the chain or the pool.",
            transactions::get_raw_by_hash,
        )
        .read(
            "eth_getRawTransactionByBlockHashAndIndex",
            &["hash", "index"],
            "Canonical bytes of a transaction of a block.",
            transactions::get_raw_by_block_hash_and_index,
        )
        .read(
            "eth_getRawTransactionByBlockNumberAndIndex",
            &["block", "index"],
            "Canonical bytes of a transaction of a block.",
            transactions::get_raw_by_block_number_and_index,
        )
        .read("eth_getTransactionReceipt", &["hash"], "Receipt of a transaction.", transactions::get_receipt)
}

fn with_calls_and_fees(table: Table<Eth>) -> Table<Eth> {
    table
        .slow_read(
            "eth_call",
            &["transaction", "block", "stateOverrides", "blockOverrides"],
            "Runs a call without a transaction and returns its output.",
            calls::call_contract,
        )
        .slow_read(
            "eth_estimateGas",
            &["transaction", "block", "stateOverrides", "blockOverrides"],
            "The smallest gas limit with which a call succeeds.",
            calls::estimate_gas,
        )
        .slow_read(
            "eth_createAccessList",
            &["transaction", "block", "stateOverrides"],
            "The accesses that a call makes.",
            calls::create_access_list,
        )
        .slow_read(
            "eth_simulateV1",
            &["simulation", "block"],
            "Simulates successive blocks of calls, without keeping them.",
            simulation::simulate,
        )
        .read("eth_gasPrice", &[], "Suggested gas price, wei per gas.", fees::gas_price)
        .read("eth_maxPriorityFeePerGas", &[], "Suggested tip, wei per gas.", fees::max_priority_fee_per_gas)
        .read("eth_baseFee", &[], "Price of one gas in the next block, wei.", fees::base_fee)
        .read("eth_blobBaseFee", &[], "Price of one blob gas in the next block, wei.", fees::blob_base_fee)
        .slow_read(
            "eth_feeHistory",
            &["blockCount", "newestBlock", "rewardPercentiles"],
            "Fees of a range of blocks.",
            fees::fee_history,
        )
}

/// Sending methods are not slow methods. Where blocks are made on demand they wait for a block, and would occupy one of
/// the limited places of slow methods meanwhile. The gas estimate that they may need is a request of its own.
fn with_sending(table: Table<Eth>) -> Table<Eth> {
    table
        .method(
            "eth_sendRawTransaction",
            &["transaction"],
            "Submits a signed transaction to the pool.",
            sending::send_raw_transaction,
        )
        .ahead("eth_sendRawTransactionAhead", sending::recover_senders_ahead)
        .method(
            "eth_sendRawTransactionSync",
            &["transaction", "timeout"],
            "Submits a signed transaction to the pool and returns its receipt, if a block includes it in time.",
            sending::send_raw_transaction_sync,
        )
        .method(
            "eth_sendTransaction",
            &["transaction"],
            "Fills in, signs and sends a transaction.",
            sending::send_transaction,
        )
        .read("eth_sign", &["address", "message"], "Signs a message (EIP-191).", sending::sign)
        // Signing may wait for confirmation on a device, so it must not occupy a place of the slow methods.
        .read(
            "eth_signTypedData_v4",
            &["address", "data"],
            "Signs typed data (EIP-712): an object, or its JSON text.",
            typed_data::sign,
        )
        .slow_read(
            "eth_fillTransaction",
            &["transaction"],
            "The transaction that would be sent, unsigned (native chains).",
            sending::fill_transaction,
        )
        .read("eth_signTransaction", &["transaction"], "Signs a transaction.", sending::sign_transaction)
        .method(
            "eth_resend",
            &["transaction", "gasPrice", "gasLimit"],
            "Replaces a pooled transaction by one with another price or limit.",
            sending::resend,
        )
        .read(
            "eth_pendingTransactions",
            &[],
            "Pooled transactions of the node's own accounts.",
            sending::pending_transactions,
        )
}

/// Methods of native chains only.
fn with_native(table: Table<Eth>) -> Table<Eth> {
    let table = table
        .read("eth_getAccountInfo", &["address", "block"], "An account in one object.", native::get_account_info)
        .read(
            "eth_getOwnerByCoinbase",
            &["coinbase", "block"],
            "The owner of a masternode.",
            native::get_owner_by_coinbase,
        )
        .slow_read("eth_getRewardByHash", &["hash"], "The rewards that a block paid.", native::get_reward_by_hash)
        .slow_read(
            "eth_getTransactionAndReceiptProof",
            &["hash"],
            "Proofs that a transaction and its receipt are part of their block.",
            native::get_transaction_and_receipt_proof,
        )
        .slow_read(
            "eth_getBlockSignersByNumber",
            &["block"],
            "The masternodes that signed a block.",
            native::get_block_signers_by_number,
        )
        .slow_read(
            "eth_getBlockSignersByHash",
            &["hash"],
            "The masternodes that signed a block.",
            native::get_block_signers_by_hash,
        )
        .slow_read(
            "eth_getBlockFinalityByNumber",
            &["block"],
            "Percentage of the masternodes that signed a block.",
            native::get_block_finality_by_number,
        )
        .slow_read(
            "eth_getBlockFinalityByHash",
            &["hash"],
            "Percentage of the masternodes that signed a block.",
            native::get_block_finality_by_hash,
        );
    with_staking(table)
}

/// Methods about candidates, stakes and tokens of native chains.
fn with_staking(table: Table<Eth>) -> Table<Eth> {
    table
        .slow_read("eth_getCandidates", &["epoch"], "The candidates of an epoch.", native::get_candidates)
        .slow_read(
            "eth_getCandidateStatus",
            &["coinbase", "epoch"],
            "Status of a candidate in an epoch.",
            native::get_candidate_status,
        )
        .read(
            "eth_getTokenStats",
            &["epoch"],
            "Amounts minted and burned up to an epoch, wei.",
            token_stats::get_token_stats,
        )
        .slow_read("eth_getStakerROI", &[], "Yearly return of staking, percent.", native::get_staker_roi)
        .slow_read(
            "eth_getStakerROIMasternode",
            &["masternode"],
            "Yearly return of staking for a masternode, percent.",
            native::get_staker_roi_masternode,
        )
}

fn with_logs(table: Table<Eth>) -> Table<Eth> {
    table
        .slow_read("eth_getLogs", &["criteria"], "Logs of the chain.", logs::get_logs)
        .method("eth_newFilter", &["criteria"], "Installs a filter for logs.", filters::new_filter)
        .method("eth_newBlockFilter", &[], "Installs a filter for blocks.", filters::new_block_filter)
        .method(
            "eth_newPendingTransactionFilter",
            &[],
            "Installs a filter for pending transactions.",
            filters::new_pending_transaction_filter,
        )
        .slow_method("eth_getFilterChanges", &["id"], "Changes since the last poll.", filters::get_filter_changes)
        .slow_read("eth_getFilterLogs", &["id"], "All logs of a filter.", filters::get_filter_logs)
        .method("eth_uninstallFilter", &["id"], "Removes a filter.", filters::uninstall_filter)
}
