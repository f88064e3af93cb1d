//! The mining methods: nothing is mined by proof of work, so they answer as the reference does when it is not
//! mining (`spec/rpc-eth.md` 13).

use tenon_sdk::prelude::*;

use crate::EthContext;

const NO_ETHERBASE: &str = "etherbase must be explicitly specified";

pub(crate) async fn etherbase(context: EthContext) -> Result<Address, Failure> {
    context.settings.etherbase.ok_or_else(|| Failure::server(NO_ETHERBASE))
}

pub(crate) async fn mining(_context: EthContext) -> Result<bool, Failure> {
    Ok(false)
}

pub(crate) async fn hashrate(_context: EthContext) -> Result<Quantity, Failure> {
    Ok(Quantity(0))
}

/// The reference tries to start proposing here; that side effect is a defect and is not copied.
pub(crate) async fn get_work(context: EthContext) -> Result<Vec<B256>, Failure> {
    Err(match context.settings.etherbase {
        None => Failure::server(format!("etherbase missing: {NO_ETHERBASE}")),
        Some(_) => Failure::server("mining not ready: no work available yet, don't panic"),
    })
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
