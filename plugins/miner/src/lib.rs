//! The `miner` namespace (`docs/spec/rpc-node.md` 5): starts, stops and configures block production.
//!
//! It owns the parameters and error texts of the namespace. Invariants: `miner_start` and `miner_stop` switch the
//! module `sealing`, so operators see the change and it survives a restart; all other changes take effect immediately
//! and last until the node stops.

#![deny(unsafe_code)]

#[cfg(test)]
mod tests;

use tenon_sdk::prelude::*;

/// The module that makes blocks.
const SEALING: &str = "sealing";
/// Maximum bytes of a header's extra data.
const MAX_EXTRA_BYTES: usize = 32;

struct Miner;

impl Plugin for Miner {
    fn start(_host: Host, _settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
        Ok(Self)
    }
}

type MinerContext = Context<Miner>;

fn table() -> Table<Miner> {
    Table::new("miner", "1.0")
        .capabilities(&[Capability::ReadNode, Capability::Administer])
        .method("miner_start", &["threads"], "Starts making blocks; the number of threads is ignored.", start)
        .method("miner_stop", &[], "Stops making blocks; transactions stay pending.", stop)
        .method("miner_setEtherbase", &["etherbase"], "Sets the account that receives fees.", set_etherbase)
        .method("miner_setExtra", &["extra"], "Sets the extra data of blocks, 32 bytes at most.", set_extra)
        .method("miner_setGasLimit", &["gasLimit"], "Sets the gas limit that blocks approach.", set_gas_limit)
        .method("miner_setGasPrice", &["gasPrice"], "Sets the minimum tip that the pool accepts.", set_gas_price)
        .read("miner_getHashrate", &[], "Hashes per second: always zero.", hashrate)
}

tenon_sdk::export!(Miner, table);

async fn start(context: MinerContext, _threads: Option<Number>) -> Result<bool, Failure> {
    let refusal = match context.call(StartSealing).await? {
        SealingStart::Running => return Ok(true),
        SealingStart::NoEtherbase => "etherbase missing: etherbase must be explicitly specified",
        SealingStart::NoSigner => "signer missing: unknown account",
        SealingStart::Unsupported => {
            "this node makes no blocks of this chain: only `tenon dev`, and the one masternode of a native network, make \
             blocks; `tenon import` adds existing ones"
        }
    };
    Err(Failure::server(refusal))
}

async fn stop(context: MinerContext) -> Result<bool, Failure> {
    if context.call(GetSealing).await?.is_sealing {
        let change = ModuleChange::Disable;
        context.call(ChangeModule { name: SEALING.to_owned(), change, waits_for_drain: true }).await?;
    }
    Ok(true)
}

async fn set_etherbase(context: MinerContext, etherbase: Address) -> Result<bool, Failure> {
    set(&context, SealingChange::Etherbase(etherbase)).await
}

async fn set_extra(context: MinerContext, extra: String) -> Result<bool, Failure> {
    let found = extra.len();
    if found > MAX_EXTRA_BYTES {
        return Err(Failure::server(format!("extra exceeds max length: {found} > {MAX_EXTRA_BYTES}")));
    }
    set(&context, SealingChange::ExtraData(extra.into_bytes().into())).await
}

async fn set_gas_limit(context: MinerContext, limit: Quantity) -> Result<bool, Failure> {
    set(&context, SealingChange::GasLimit(limit.0)).await
}

async fn set(context: &MinerContext, change: SealingChange) -> Result<bool, Failure> {
    context.call(SetSealing { change }).await?;
    Ok(true)
}

async fn set_gas_price(context: MinerContext, tip: U256) -> Result<bool, Failure> {
    context.call(SetMinTip { tip }).await?;
    Ok(true)
}

async fn hashrate(_context: MinerContext) -> Result<u64, Failure> {
    Ok(0)
}
