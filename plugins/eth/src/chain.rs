//! Facts about the chain and the node: `docs/spec/rpc-eth.md` 8, 13.

use tenon_sdk::{prelude::*, shapes::JsonWriter};

use crate::{Answer, EthContext, dialect::Dialect, write_data_list};

pub(crate) async fn block_number(context: EthContext) -> Result<Quantity, Failure> {
    Ok(Quantity(context.call(GetHeadNumber).await?.0))
}

pub(crate) async fn chain_id(context: EthContext) -> Result<Quantity, Failure> {
    Ok(Quantity(crate::chain_info(&context).await?.chain_id))
}

pub(crate) async fn protocol_version(context: EthContext) -> Result<Quantity, Failure> {
    Ok(Quantity(crate::dialect(&context).await?.protocol_version))
}

/// The blocks for which this node has which data, for programs that route requests.
pub(crate) async fn capabilities(context: EthContext) -> Answer {
    let Availability { head: (number, hash), oldest_state, state_window } = context.call(GetAvailability).await?;
    let mut json = JsonWriter::with_capacity(500);
    json.begin_object();
    json.key("head").begin_object();
    json.key("number").quantity(number.0);
    json.key("hash").data(hash);
    json.end_object();
    let resources = [
        ("state", oldest_state, state_window),
        ("tx", BlockNumber::GENESIS, None),
        ("logs", BlockNumber::GENESIS, None),
        ("receipts", BlockNumber::GENESIS, None),
        ("blocks", BlockNumber::GENESIS, None),
        ("stateproofs", oldest_state, state_window),
    ];
    for (name, oldest, window) in resources {
        json.key(name).begin_object();
        json.key("disabled").boolean(false);
        json.key("oldestBlock").quantity(oldest.0);
        if let Some(blocks) = window {
            json.key("deleteStrategy").begin_object();
            json.key("type").string("window");
            json.key("retentionBlocks").quantity(blocks);
            json.end_object();
        }
        json.end_object();
    }
    json.end_object();
    Ok(json)
}

pub(crate) async fn syncing(context: EthContext) -> Answer {
    let dialect = crate::dialect(&context).await?;
    let status = context.call(GetSyncStatus).await?;
    let mut json = JsonWriter::with_capacity(160);
    match status {
        Some(status) => write_sync_status(&mut json, dialect, &status),
        None => json.boolean(false),
    }
    Ok(json)
}

/// How far the node has come since it began to synchronise.
pub(crate) fn write_sync_status(json: &mut JsonWriter, dialect: &Dialect, status: &SyncStatus) {
    json.begin_object();
    json.key("startingBlock").quantity(status.starting.0);
    json.key("currentBlock").quantity(status.current.0);
    json.key("highestBlock").quantity(status.highest.0);
    if dialect.counts_pulled_states {
        json.key("pulledStates").quantity(0);
        json.key("knownStates").quantity(0);
    }
    json.end_object();
}

pub(crate) async fn accounts(context: EthContext) -> Answer {
    let accounts = context.call(ListAccounts).await?;
    let mut json = JsonWriter::with_capacity(accounts.len() * 45 + 2);
    write_data_list(&mut json, accounts);
    Ok(json)
}
