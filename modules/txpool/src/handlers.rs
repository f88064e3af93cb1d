//! The pool's handlers on the bus.

use tenon_api::{
    B256, BusError,
    messages::{
        GetPendingSince, GetPoolContent, GetPoolNonce, GetPoolStatus, GetPoolSummary, GetPoolTransaction,
        GetRawPoolTransaction, PoolRefusal, RecoverSendersAhead, SetMinTip, SubmitTransaction,
    },
};
use tenon_bus::{Bus, CallContext, RegisterError, Transport};
use tenon_txpool_interface::{PoolError, Source};

use crate::Pool;

/// Type byte of blob transactions, whose proofs take long to verify.
const BLOB_TYPE: u8 = 3;

/// Registers handlers for the requests `0x0400..`.
///
/// # Errors
/// [`RegisterError`] if one of them already has a handler.
pub fn register(bus: &Bus, pool: &Pool) -> Result<(), RegisterError> {
    let own = pool.clone();
    bus.handle::<SubmitTransaction, _, _>(move |request, context| submit(own.clone(), request, source_of(&context)))?;
    let own = pool.clone();
    bus.handle::<RecoverSendersAhead, _, _>(move |request, _| {
        let pool = own.clone();
        async move {
            pool.recover_senders_ahead(request.raw.iter().map(|raw| &raw[..]));
            Ok(())
        }
    })?;
    let own = pool.clone();
    bus.handle_read(move |_: GetPoolStatus, _: &CallContext| Ok(own.status()))?;
    let own = pool.clone();
    bus.handle_read(move |request: GetPoolContent, _: &CallContext| Ok(own.content(request.sender)))?;
    let own = pool.clone();
    bus.handle_read(move |request: GetPoolSummary, _: &CallContext| Ok(own.summary(request.sender)))?;
    let own = pool.clone();
    bus.handle_read(move |request: GetPoolTransaction, _: &CallContext| Ok(own.get(request.hash)))?;
    let own = pool.clone();
    bus.handle_read(move |request: GetRawPoolTransaction, _: &CallContext| {
        let pooled = own.get(request.hash);
        Ok(pooled.map(|pooled| tenon_chain::encode_transaction(&pooled.transaction).into()))
    })?;
    let own = pool.clone();
    bus.handle_read(move |request: GetPoolNonce, _: &CallContext| Ok(own.next_nonce(request.address)?))?;
    let own = pool.clone();
    bus.handle_read(move |request: SetMinTip, _: &CallContext| {
        own.set_min_tip(request.tip);
        Ok(())
    })?;
    let own = pool.clone();
    bus.handle_read(move |request: GetPendingSince, _: &CallContext| Ok(own.pending_since(request.cursor)))
}

/// The source of a submission. A plugin passes on the transport of its own request.
fn source_of(context: &CallContext) -> Source {
    match context.origin().transport {
        Transport::Inside | Transport::Socket => Source::Operator,
        Transport::Http | Transport::WebSocket => Source::Client,
    }
}

/// Most transactions are checked on the caller's task; those with blobs would block it for milliseconds. The actor's
/// thread would add a wake-up to each submission, and recover signatures one after the other.
async fn submit(pool: Pool, request: SubmitTransaction, source: Source) -> Result<Result<B256, PoolRefusal>, BusError> {
    if request.raw.first() != Some(&BLOB_TYPE) {
        return PoolError::reply(pool.submit(&request.raw, source));
    }
    let check = tokio::task::spawn_blocking(move || pool.submit(&request.raw, source));
    PoolError::reply(check.await.map_err(|_| BusError::failed("the check of a blob transaction failed"))?)
}
