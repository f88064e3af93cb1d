//! Sending and signing: `docs/spec/rpc-eth.md` 12.

use std::time::Duration;

use tenon_sdk::{
    param::ParamDescription,
    prelude::*,
    shapes::{CallArguments, JsonWriter, pooled_bytes, pooled_json_bytes, receipt_json, write_transaction},
    transactions::{self, signed_json, unsigned_hash, unsigned_json, with_nonce},
};

use crate::{Answer, EthContext, chain_info, dialect::Dialect, go_rlp, native::require_native};

/// Answers up to this size are not counted, because the call itself already accounts for them.
const UNCOUNTED_BYTES: usize = 16 << 10;

/// EIP-7966's code for a transaction that was not included in time.
const NOT_IN_TIME: FailureCode = FailureCode(4);

pub(crate) async fn send_raw_transaction(context: EthContext, raw: Bytes) -> Result<B256, Failure> {
    let dialect = crate::dialect(&context).await?;
    let hash = submit(&context, dialect, raw).await?;
    Ok(wait_until_sealed(&context, hash).await)
}

/// Submits a transaction to the pool. Bytes that cannot be decoded get the error text of Go's decoder.
async fn submit(context: &EthContext, dialect: &Dialect, raw: Bytes) -> Result<B256, Failure> {
    context.submit(raw.clone()).await.map_err(|failure| go_rlp::refusal(dialect, &raw).map_or(failure, Failure::server))
}

/// Sends and waits for the receipt (EIP-7966). The reference and go-ethereum wait 20 seconds by default, and at most a
/// minute.
pub(crate) async fn send_raw_transaction_sync(context: EthContext, raw: Bytes, timeout: Option<Millis>) -> Answer {
    const DEFAULT_WAIT: Duration = Duration::from_secs(20);
    const MAX: Duration = Duration::from_mins(1);
    /// One look-up of a receipt takes some microseconds.
    const POLL: Duration = Duration::from_millis(20);
    let wait = timeout.map(|Millis(millis)| Duration::from_millis(millis)).filter(|wait| !wait.is_zero());
    let wait = wait.unwrap_or(DEFAULT_WAIT).min(MAX);
    let end = context.host().now().saturating_add(wait);
    let dialect = crate::dialect(&context).await?;
    let hash = wait_until_sealed(&context, submit(&context, dialect, raw).await?).await;
    loop {
        if let Some(located) = context.call(GetReceipt { hash }).await? {
            return Ok(receipt_json(dialect.profile, &located));
        }
        let left = end.saturating_sub(context.host().now());
        if left.is_zero() {
            let millis = wait.as_millis();
            let message = format!("the transaction is in the pool, but no block included it within {millis} ms");
            return Err(Failure { code: NOT_IN_TIME, message, data: Some(format!("\"{hash}\"")) });
        }
        context.sleep(left.min(POLL)).await;
    }
}

/// A time in milliseconds: a plain number, or a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Millis(u64);

impl Param for Millis {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        match raw.kind() {
            "string" => Quantity::decode(raw).map(|millis| Self(millis.0)),
            _ => Number::decode(raw).map(|millis| Self(millis.0)),
        }
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"anyOf":[{"type":"integer","minimum":0},{"type":"string"}]}"#)
    }
}

/// Makes the pool recover the senders of a batch's transactions together. Parameters that are not transactions are
/// skipped: their own calls report the error.
pub(crate) async fn recover_senders_ahead(context: EthContext, calls: BatchOfSends) -> Result<(), Failure> {
    context.call(RecoverSendersAhead { raw: calls.0 }).await
}

/// The first parameters of a batch's calls, if they are bytes.
pub(crate) struct BatchOfSends(Vec<Bytes>);

impl Param for BatchOfSends {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let calls = raw.array().ok_or(ArgumentError::mismatch(raw.kind(), "[][]string"))?;
        let first = |params: RawArgument<'_>| params.array()?.next()?.string()?.parse().ok();
        Ok(Self(calls.filter_map(first).collect()))
    }
}

/// The transaction that would be sent, without signature. Native chains only.
pub(crate) async fn fill_transaction(context: EthContext, arguments: CallArguments) -> Answer {
    require_native(&context, "eth_fillTransaction").await?;
    let request = fill(&context, arguments).await?;
    let request = with_nonce(&context, request).await?;
    Ok(unsigned_json(&request))
}

pub(crate) async fn send_transaction(context: EthContext, arguments: CallArguments) -> Result<B256, Failure> {
    require_account(&context, arguments.from).await?;
    // The node chooses the nonce, for all plugins that send.
    let request = fill(&context, arguments).await?;
    let hash = context.call(SendTransaction { request, password: None }).await.or_failure()?;
    Ok(wait_until_sealed(&context, hash).await)
}

pub(crate) async fn sign(context: EthContext, address: Address, message: Bytes) -> Result<Bytes, Failure> {
    require_account(&context, Some(address)).await?;
    context.call(SignMessage { address, message, password: None }).await
}

/// Signs without sending: the caller must have given all values that affect money.
pub(crate) async fn sign_transaction(context: EthContext, arguments: CallArguments) -> Answer {
    if arguments.gas.is_none() {
        return Err(Failure::server("not specify Gas"));
    }
    let has_caps = arguments.max_fee_per_gas.is_some() && arguments.max_priority_fee_per_gas.is_some();
    if arguments.gas_price.is_none() && !has_caps {
        return Err(Failure::server("missing gasPrice or maxFeePerGas/maxPriorityFeePerGas"));
    }
    if arguments.nonce.is_none() {
        return Err(Failure::server("not specify Nonce"));
    }
    require_account(&context, arguments.from).await?;
    let request = fill(&context, arguments).await?;
    let signed = context.call(SignTransaction { request: request.clone(), password: None }).await?;
    signed_json(&request, &signed)
}

/// Replaces a pooled transaction of one of the node's accounts by one with another price or limit.
pub(crate) async fn resend(
    context: EthContext,
    arguments: CallArguments,
    price: Option<U256>,
    gas_limit: Option<Quantity>,
) -> Result<B256, Failure> {
    if arguments.nonce.is_none() {
        return Err(Failure::server("missing transaction nonce in transaction spec"));
    }
    require_account(&context, arguments.from).await?;
    let mut request = fill(&context, arguments).await?;
    if find_pooled(&context, &request).await?.is_none() {
        return Err(Failure::server(format!("transaction {:#x} not found", unsigned_hash(&request))));
    }
    // A new price or limit of zero means unchanged.
    if let Some(price) = price.filter(|price| !price.is_zero()) {
        replace_price(&mut request, price);
    }
    if let Some(gas_limit) = gas_limit.filter(|gas_limit| gas_limit.0 > 0) {
        request.gas = Some(gas_limit.0);
    }
    let hash = context.call(SendTransaction { request, password: None }).await.or_failure()?;
    Ok(wait_until_sealed(&context, hash).await)
}

/// Sets the gas price, or both caps of a transaction that has caps. The reference leaves caps unchanged, so it can
/// never replace such a transaction.
fn replace_price(request: &mut CallRequest, price: U256) {
    if request.max_fee_per_gas.is_none() {
        request.gas_price = Some(price);
        return;
    }
    request.max_fee_per_gas = Some(price);
    request.max_priority_fee_per_gas = Some(price);
}

/// The pool's executable transaction with the same content as `request`.
async fn find_pooled(context: &EthContext, request: &CallRequest) -> Result<Option<RecoveredTransaction>, Failure> {
    let content = context.call(GetPoolContent { sender: request.from }).await?;
    Ok(content.pending.into_iter().find(|pooled| is_same(&pooled.transaction, request)))
}

fn is_same(transaction: &Transaction, request: &CallRequest) -> bool {
    let max_fee = request.max_fee_per_gas.or(request.gas_price);
    let tip = request.max_priority_fee_per_gas.or(request.gas_price);
    Some(transaction.nonce) == request.nonce
        && transaction.to == request.to
        && Some(transaction.gas_limit) == request.gas
        && Some(transaction.value) == request.value
        && transaction.input == request.input
        && Some(transaction.max_fee_per_gas()) == max_fee
        && Some(transaction.max_priority_fee_per_gas()) == tip
        && transaction.access_list() == request.access_list.as_deref().unwrap_or_default()
}

pub(crate) async fn pending_transactions(context: EthContext) -> Answer {
    let profile = crate::profile(&context).await?;
    let accounts = context.call(ListAccounts).await?;
    let summary = match accounts.is_empty() {
        true => PoolSummary::default(),
        false => context.call(GetPoolSummary { sender: None }).await?,
    };
    let is_own = |pooled: &&PooledSummary| accounts.contains(&pooled.sender);
    let own: Vec<PooledSummary> = summary.pending.iter().filter(is_own).cloned().collect();
    let bytes = own.iter().map(pooled_json_bytes).sum::<usize>();
    // Counted before any transaction is loaded, including the queued ones.
    let all = summary.pending.iter().chain(&summary.queued).filter(is_own);
    let _memory = match bytes.saturating_add(all.map(pooled_bytes).sum()) {
        bytes if bytes > UNCOUNTED_BYTES => Some(context.hold(bytes).map_err(|_| too_large(bytes))?),
        _ => None,
    };
    let mut json = JsonWriter::with_capacity(bytes + 2);
    json.begin_list();
    for of_sender in own.chunk_by(|left, right| left.sender == right.sender) {
        let Some(first) = of_sender.first() else { continue };
        let content = context.call(GetPoolContent { sender: Some(first.sender) }).await?;
        // Transactions added since the summary are not in the reservation.
        for pooled in content.pending.iter().take(of_sender.len()) {
            write_transaction(&mut json, profile, &pooled.transaction, pooled.sender, None);
        }
    }
    json.end_list();
    Ok(json)
}

fn too_large(bytes: usize) -> Failure {
    Failure::limit(format!(
        "the answer needs up to {bytes} bytes of memory, more than is available; request one transaction"
    ))
}

/// A complete transaction except for its nonce, which the node chooses when it is sent.
async fn fill(context: &EthContext, arguments: CallArguments) -> Result<CallRequest, Failure> {
    transactions::fill(context, arguments, chain_info(context).await?.chain_id).await
}

/// Refuses an account whose key is not in this node, before any other check.
pub(crate) async fn require_account(context: &EthContext, address: Option<Address>) -> Result<(), Failure> {
    let accounts = context.call(ListAccounts).await?;
    match address.is_some_and(|address| accounts.contains(&address)) {
        true => Ok(()),
        false => Err(Failure::server("unknown account")),
    }
}

/// Returns the transaction's hash. Where blocks are made on demand, waits until the transaction is in a block. Clients
/// look for the receipt right after the answer. If it is missing, they wait for another block, which may never come.
async fn wait_until_sealed(context: &EthContext, hash: B256) -> B256 {
    // If the wait fails, the transaction is still in the pool, and the sender must get its hash.
    let _ = context.call(AwaitSealing { hash }).await;
    hash
}
