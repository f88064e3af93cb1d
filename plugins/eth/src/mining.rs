//! The mining methods (`docs/spec/rpc-eth.md` 13). Mining corresponds to the module `sealing` here, which needs no
//! proof of work: no work is given out and nothing is hashed.

use tenon_sdk::prelude::*;

use crate::EthContext;

const NO_ETHERBASE: &str = "etherbase must be explicitly specified";

pub(crate) async fn etherbase(context: EthContext) -> Result<Address, Failure> {
    chosen_etherbase(&context).await?.ok_or_else(|| Failure::server(NO_ETHERBASE))
}

/// The etherbase of `miner_setEtherbase`, else of the settings, else the first account of the wallets, as in the
/// reference.
async fn chosen_etherbase(context: &EthContext) -> Result<Option<Address>, Failure> {
    if let Some(etherbase) = context.call(GetSealing).await?.etherbase.or(context.settings.etherbase) {
        return Ok(Some(etherbase));
    }
    if let Some(first) = context.call(ListAccounts).await?.first() {
        return Ok(Some(*first));
    }
    Ok(crate::dialect(context).await?.default_etherbase)
}

/// Whether this node makes blocks.
pub(crate) async fn mining(context: EthContext) -> Result<bool, Failure> {
    Ok(context.call(GetSealing).await?.is_sealing)
}

/// Blocks are made without hashing, so the rate is zero whether the node makes blocks or not.
pub(crate) async fn hashrate(_context: EthContext) -> Result<Quantity, Failure> {
    Ok(Quantity(0))
}

/// Always an error: this node gives no work to miners. If it makes no blocks, the error says what is missing for that,
/// as in the reference; the call does not start block production.
pub(crate) async fn get_work(context: EthContext) -> Result<Vec<B256>, Failure> {
    const NO_WORK: &str = "mining not ready: no work available yet, don't panic";
    if context.call(GetSealing).await?.is_sealing {
        return Err(Failure::server(NO_WORK));
    }
    let Some(etherbase) = chosen_etherbase(&context).await? else {
        return Err(Failure::server(format!("etherbase missing: {NO_ETHERBASE}")));
    };
    let needs_signer = crate::dialect(&context).await?.work_needs_signer;
    if needs_signer && !context.call(ListAccounts).await?.contains(&etherbase) {
        return Err(Failure::server("signer missing: unknown account"));
    }
    Err(Failure::server(NO_WORK))
}

/// No work was given out, so none can be accepted.
pub(crate) async fn submit_work(
    _context: EthContext,
    _nonce: B64,
    _header_hash: B256,
    _mix_digest: B256,
) -> Result<bool, Failure> {
    Ok(false)
}

/// Rates of miners are accepted and ignored: there is no work to hash for.
pub(crate) async fn submit_hashrate(_context: EthContext, _rate: Quantity, _miner: B256) -> Result<bool, Failure> {
    Ok(true)
}
