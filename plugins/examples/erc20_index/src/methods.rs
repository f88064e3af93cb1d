//! The methods, which answer from the stored records.

use tenon_sdk::{api::LocatedLog, prelude::*};

use crate::{
    Erc20Index,
    keys::{self, Cursor, TransferPosition},
    ledger::{Counts, decode_balance},
    transfer::{self, Transfer},
};

/// Maximum number of entries per page.
const MAX_PAGE: u64 = 1_000;
/// Default number of entries per page.
const DEFAULT_PAGE: u64 = 100;

type TokenContext = Context<Erc20Index>;

fn check_token(context: &TokenContext, token: Address) -> Result<(), Failure> {
    if context.settings.tokens.contains(&token) {
        return Ok(());
    }
    let tokens: Vec<_> = context.settings.tokens.iter().map(ToString::to_string).collect();
    Err(Failure::invalid_params(format!("token {token} is not indexed; these are: {}", tokens.join(", "))))
}

/// `token_balanceOf`.
pub(crate) async fn balance_of(context: TokenContext, token: Address, holder: Address) -> Result<U256, Failure> {
    check_token(&context, token)?;
    Ok(decode_balance(context.storage().get(&keys::balance(token, holder)).await?.as_ref()))
}

/// The requested part of a list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Page {
    /// Number of entries.
    limit: Option<u64>,
    /// The `next` of the previous page.
    after: Option<Bytes>,
    /// Only transfers from or to this account.
    holder: Option<Address>,
}

impl Page {
    fn limit(&self) -> u64 {
        self.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE)
    }
}

/// A part of a list.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entries<T> {
    entries: Vec<T>,
    /// `after` of the next page; `None` at the end.
    next: Option<Bytes>,
}

/// An account and its balance.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Holder {
    address: Address,
    balance: U256,
}

/// `token_holders`.
pub(crate) async fn holders(
    context: TokenContext,
    token: Address,
    page: Option<Json<Page>>,
) -> Result<Entries<Holder>, Failure> {
    check_token(&context, token)?;
    let page = page.map(|Json(page)| page).unwrap_or_default();
    if page.holder.is_some() {
        return Err(Failure::invalid_params("page.holder belongs to token_transfers"));
    }
    let prefix = keys::of_token(b'R', token);
    let from = match &page.after {
        // The smallest key after that of the last entry.
        Some(after) => [prefix.as_slice(), after, &[0]].concat(),
        None => prefix.clone(),
    };
    let found = context.storage().range(&from, Some(&keys::after(&prefix)), page.limit()).await?;
    let rest = |key: &Bytes| Bytes::copy_from_slice(key.get(prefix.len()..).unwrap_or_default());
    let entries = found.records.iter().filter_map(|(key, _)| {
        let (balance, address) = keys::decode_rank(&rest(key))?;
        Some(Holder { address, balance })
    });
    let next = found.records.last().filter(|_| found.has_more).map(|(key, _)| rest(key));
    Ok(Entries { entries: entries.collect(), next })
}

/// A transfer in JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TransferEntry {
    token: Address,
    from: Address,
    to: Address,
    value: U256,
    block_number: Quantity,
    log_index: Quantity,
    transaction_hash: B256,
}

impl From<Transfer> for TransferEntry {
    fn from(transfer: Transfer) -> Self {
        Self {
            token: transfer.token,
            from: transfer.from,
            to: transfer.to,
            value: transfer.value,
            block_number: Quantity(transfer.position.block),
            log_index: Quantity(transfer.position.log),
            transaction_hash: transfer.transaction,
        }
    }
}

/// `token_transfers`.
pub(crate) async fn transfers(
    context: TokenContext,
    token: Address,
    page: Option<Json<Page>>,
) -> Result<Entries<TransferEntry>, Failure> {
    check_token(&context, token)?;
    let page = page.map(|Json(page)| page).unwrap_or_default();
    let prefix = match page.holder {
        Some(holder) => keys::of_holder(token, holder),
        None => keys::of_token(b'T', token),
    };
    let end = match &page.after {
        Some(after) => [prefix.as_slice(), after].concat(),
        None => keys::after(&prefix),
    };
    let storage = context.storage();
    let found = storage.range_descending(&prefix, Some(&end), page.limit()).await?;
    let position = |key: &Bytes| key.get(prefix.len()..).and_then(TransferPosition::decode);
    let positions: Vec<TransferPosition> = found.records.iter().filter_map(|(key, _)| position(key)).collect();
    let records = storage.get_many(positions.iter().map(|position| keys::transfer(token, *position))).await?;
    // A transfer that was undone between the two reads is omitted.
    let entries =
        positions.iter().zip(records).filter_map(|(position, record)| Transfer::decode(token, *position, &record?));
    let next = positions.last().filter(|_| found.has_more).map(|position| Bytes::copy_from_slice(&position.encode()));
    Ok(Entries { entries: entries.map(TransferEntry::from).collect(), next })
}

/// Result of `token_status`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    /// The last indexed block; `None` before the first.
    indexed: Option<Indexed>,
    /// The node's head.
    head: Quantity,
    /// Whether the two are the same block.
    is_caught_up: bool,
    /// Why following last stopped; it restarts by itself.
    problem: Option<String>,
    tokens: Vec<TokenStatus>,
    storage: SpaceUsage,
}

#[derive(Clone, Debug, Serialize)]
struct Indexed {
    number: Quantity,
    hash: B256,
}

#[derive(Clone, Debug, Serialize)]
struct TokenStatus {
    token: Address,
    holders: u64,
    transfers: u64,
}

/// `token_status`.
pub(crate) async fn status(context: TokenContext) -> Result<Status, Failure> {
    let storage = context.storage();
    let cursor = storage.get(keys::CURSOR).await?.and_then(|record| Cursor::decode(&record));
    let tokens = &context.settings.tokens;
    let counts = storage.get_many(tokens.iter().map(|token| keys::counts(*token))).await?;
    let token_status = |(token, record): (&Address, Option<Bytes>)| {
        let Counts { holders, transfers } = Counts::decode(record.as_ref())?;
        Ok(TokenStatus { token: *token, holders, transfers })
    };
    let tokens = tokens.iter().zip(counts).map(token_status).collect::<Result<_, Failure>>()?;
    let (head, usage) = (context.head().await?, storage.usage().await?);
    Ok(Status {
        is_caught_up: cursor.is_some_and(|cursor| cursor.hash == head.header.hash()),
        indexed: cursor.map(|cursor| Indexed { number: Quantity(cursor.number), hash: cursor.hash }),
        head: Quantity(head.header.number),
        problem: context.problem().clone(),
        tokens,
        storage: usage,
    })
}

/// A notification of `transfers`.
#[derive(Clone, Debug, Serialize)]
struct Notification {
    #[serde(flatten)]
    transfer: TransferEntry,
    /// Whether a reorganisation removed it from the chain.
    removed: bool,
}

/// The subscription `transfers`: those of one token, or of all, as they join and leave the chain.
pub(crate) async fn subscribe(context: TokenContext, sink: Sink, token: Option<Address>) -> Result<(), Failure> {
    if let Some(token) = token {
        check_token(&context, token)?;
    }
    let wanted = match token {
        Some(token) => vec![token],
        None => context.settings.tokens.clone(),
    };
    let filter = LogFilter { addresses: wanted, topics: vec![vec![transfer::topic()]] };
    let mut events = context.events::<LogsChanged>();
    sink.accept().await;
    while let Some(delivery) = events.next().await? {
        // A subscriber that was too slow can query missed transfers with token_transfers.
        let Delivery::Event(event) = delivery else { continue };
        let is_wanted = |located: &&LocatedLog| filter.matches(&located.log);
        for located in event.logs.iter().filter(is_wanted) {
            if let Some(transfer) = Transfer::of_log(located) {
                sink.send(&Notification { transfer: transfer.into(), removed: located.removed }).await?;
            }
        }
    }
    Ok(())
}
