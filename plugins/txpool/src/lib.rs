//! The `txpool` namespace: the content of the transaction pool.
//!
//! It owns the grouping by sender and nonce and the summaries; [`tenon_sdk::shapes`] owns the transactions' JSON.
//! Invariant: an answer is one view of the pool, from one message. It keeps nothing between calls but the chain's
//! profile and knows no chain data.
//!
//! Sources: `docs/spec/rpc-eth.md` 16, on the Ethereum profile go-ethereum's address keys (`0x` and EIP-55).

#![deny(unsafe_code)]

use std::{
    fmt::Write,
    sync::{Arc, OnceLock},
};

use tenon_sdk::{
    prelude::*,
    shapes::{JsonWriter, pooled_bytes, pooled_json_bytes, schema, spelled_address, write_transaction},
};

/// Maximum length of the text before a transaction: its nonce, and the sender before the first one.
const KEY_BYTES: usize = 80;
/// Maximum length of a line of [`inspect`] with the text before it.
const LINE_BYTES: usize = 360;
/// Maximum length of the text around the lists.
const FRAME_BYTES: usize = 32;
/// Answers up to this size are not counted, because the call itself already accounts for them.
const UNCOUNTED_BYTES: usize = 16 << 10;

/// The running plugin.
#[derive(Default)]
pub struct TransactionPool {
    /// Requested once: it never changes while the node runs.
    chain_info: OnceLock<Arc<ChainInfo>>,
    /// The spelling of senders as member names; requested once too.
    spelling: OnceLock<Spelling>,
}

impl Plugin for TransactionPool {
    fn start(_host: Host, _settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
        Ok(Self::default())
    }
}

type PoolContext = Context<TransactionPool>;

async fn profile(context: &PoolContext) -> Result<Profile, Failure> {
    if let Some(info) = context.chain_info.get() {
        return Ok(info.profile);
    }
    let info = context.call(GetChainInfo).await?;
    Ok(context.chain_info.get_or_init(|| info).profile)
}

async fn spelling(context: &PoolContext) -> Result<Spelling, Failure> {
    match context.spelling.get() {
        Some(spelling) => Ok(*spelling),
        None => {
            let spelling = context.call(GetSpelling).await?;
            Ok(*context.spelling.get_or_init(|| spelling))
        }
    }
}

async fn status(context: PoolContext) -> Result<JsonWriter, Failure> {
    let status = context.call(GetPoolStatus).await?;
    let mut json = JsonWriter::with_capacity(64);
    json.begin_object();
    json.key("pending").quantity(status.pending);
    json.key("queued").quantity(status.queued);
    json.end_object();
    Ok(json)
}

async fn content(context: PoolContext) -> Result<JsonWriter, Failure> {
    let (profile, spelling) = (profile(&context).await?, spelling(&context).await?);
    let (content, bytes, _memory) = pool_content(&context, None).await?;
    Ok(by_list(bytes, &content.pending, &content.queued, |json, list| {
        by_sender(json, spelling, list, |json, pooled| {
            write_transaction(json, profile, &pooled.transaction, pooled.sender, None);
        });
    }))
}

async fn content_from(context: PoolContext, sender: Address) -> Result<JsonWriter, Failure> {
    let profile = profile(&context).await?;
    let (content, bytes, _memory) = pool_content(&context, Some(sender)).await?;
    Ok(by_list(bytes, &content.pending, &content.queued, |json, list| {
        by_nonce(json, list, &|json: &mut JsonWriter, pooled: &RecoveredTransaction| {
            write_transaction(json, profile, &pooled.transaction, pooled.sender, None);
        });
    }))
}

async fn inspect(context: PoolContext) -> Result<JsonWriter, Failure> {
    let spelling = spelling(&context).await?;
    let summary = context.call(GetPoolSummary { sender: None }).await?;
    let count = summary.pending.len() + summary.queued.len();
    let bytes = count * LINE_BYTES + FRAME_BYTES;
    let _memory = hold(&context, bytes)?;
    Ok(by_list(bytes, &summary.pending, &summary.queued, |json, list| {
        by_sender(json, spelling, list, |json, pooled| json.string(&line_of(pooled)));
    }))
}

/// The pool's content, its maximum length as JSON, and the memory for both. The memory is counted before anything is
/// loaded: a full pool is a gigabyte of text.
async fn pool_content(
    context: &PoolContext,
    sender: Option<Address>,
) -> Result<(PoolContent, usize, Option<HeldMemory>), Failure> {
    let summary = context.call(GetPoolSummary { sender }).await?;
    let all = || summary.pending.iter().chain(&summary.queued);
    let json = all().map(|pooled| pooled_json_bytes(pooled) + KEY_BYTES).sum::<usize>() + FRAME_BYTES;
    let memory = hold(context, json.saturating_add(all().map(pooled_bytes).sum()))?;
    let content = context.call(GetPoolContent { sender }).await?;
    Ok((content, json, memory))
}

/// Memory for an answer; `None` for a small one, which its call already accounts for.
fn hold(context: &PoolContext, bytes: usize) -> Result<Option<HeldMemory>, Failure> {
    if bytes <= UNCOUNTED_BYTES {
        return Ok(None);
    }
    let memory = context.hold(bytes).map_err(|_| {
        Failure::limit(format!(
            "the answer needs up to {bytes} bytes of memory, more than is available; request one sender"
        ))
    })?;
    Ok(Some(memory))
}

/// `{"pending": …, "queued": …}`.
fn by_list<T>(bytes: usize, pending: &[T], queued: &[T], write: impl Fn(&mut JsonWriter, &[T])) -> JsonWriter {
    let mut json = JsonWriter::with_capacity(bytes);
    json.begin_object();
    json.key("pending");
    write(&mut json, pending);
    json.key("queued");
    write(&mut json, queued);
    json.end_object();
    json
}

/// A transaction of the pool: whole, or its summary.
trait Pooled {
    fn sender(&self) -> Address;
    fn nonce(&self) -> u64;
}

impl Pooled for RecoveredTransaction {
    fn sender(&self) -> Address {
        self.sender
    }

    fn nonce(&self) -> u64 {
        self.transaction.nonce
    }
}

impl Pooled for PooledSummary {
    fn sender(&self) -> Address {
        self.sender
    }

    fn nonce(&self) -> u64 {
        self.nonce
    }
}

/// Senders to nonces to values. The list is sorted by sender and nonce.
fn by_sender<T: Pooled>(json: &mut JsonWriter, spelling: Spelling, list: &[T], write: impl Fn(&mut JsonWriter, &T)) {
    json.begin_object();
    for of_sender in list.chunk_by(|left, right| left.sender() == right.sender()) {
        if let Some(first) = of_sender.first() {
            json.key(&spelled_address(spelling, first.sender()));
            by_nonce(json, of_sender, &write);
        }
    }
    json.end_object();
}

/// Nonces, in decimal, to values.
fn by_nonce<T: Pooled>(json: &mut JsonWriter, list: &[T], write: &impl Fn(&mut JsonWriter, &T)) {
    json.begin_object();
    for pooled in list {
        json.key(&pooled.nonce().to_string());
        write(json, pooled);
    }
    json.end_object();
}

/// One readable line: receiver, value, gas and price.
fn line_of(pooled: &PooledSummary) -> String {
    let mut text = match pooled.to {
        Some(to) => to.to_checksum(None),
        None => "contract creation".to_owned(),
    };
    let price = pooled.max_fee_per_gas;
    // Writing to a string cannot fail.
    let _ = write!(text, ": {} wei + {} gas × {price} wei", pooled.value, pooled.gas_limit);
    text
}

fn table() -> Table<TransactionPool> {
    Table::new("txpool", "1.0")
        .capabilities(&[Capability::ReadChain])
        .read("txpool_status", &[], "Numbers of waiting transactions.", status)
        .slow_read("txpool_content", &[], "Waiting transactions, by sender and nonce.", content)
        .read("txpool_contentFrom", &["address"], "Waiting transactions of one sender, by nonce.", content_from)
        .slow_read("txpool_inspect", &[], "Waiting transactions, one line of text each.", inspect)
        .results(&[
            ("txpool_status", schema::OBJECT),
            ("txpool_content", schema::OBJECT),
            ("txpool_contentFrom", schema::OBJECT),
            ("txpool_inspect", schema::OBJECT),
        ])
}

tenon_sdk::export!(TransactionPool, table);

#[cfg(test)]
mod tests {
    use tenon_sdk::testing::FakeHost;

    use super::*;

    fn pooled(sender: u8, nonce: u64) -> RecoveredTransaction {
        let transaction = Transaction {
            hash: B256::repeat_byte(9),
            chain_id: Some(50),
            nonce,
            gas_limit: 21_000,
            to: (nonce != 7).then(|| Address::repeat_byte(0xab)),
            value: U256::from(5),
            input: Bytes::new(),
            payload: TransactionPayload::Legacy { gas_price: U256::from(3) },
            signature: TransactionSignature { v: 135, r: U256::from(1), s: U256::from(2) },
        };
        RecoveredTransaction { transaction: Arc::new(transaction), sender: Address::repeat_byte(sender) }
    }

    fn host(profile: Profile) -> FakeHost {
        let info = ChainInfo { chain_id: 50, network_id: 50, genesis_hash: B256::ZERO, profile };
        FakeHost::new()
            .answer(move |_: GetChainInfo| Ok(Arc::new(info.clone())))
            .answer(move |_: GetSpelling| {
                Ok(if profile == Profile::Native { Spelling::Reference } else { Spelling::Own })
            })
            .answer(|_: GetPoolStatus| Ok(PoolStatus { pending: 3, queued: 0 }))
            .answer(|request: GetPoolContent| Ok(PoolContent { pending: waiting(request.sender), queued: Vec::new() }))
            .answer(|request: GetPoolSummary| {
                let pending = waiting(request.sender).iter().map(PooledSummary::from).collect();
                Ok(PoolSummary { pending, queued: Vec::new() })
            })
    }

    fn waiting(sender: Option<Address>) -> Vec<RecoveredTransaction> {
        let mut pending = vec![pooled(1, 0), pooled(1, 7), pooled(2, 4)];
        pending.retain(|pooled| sender.is_none_or(|sender| pooled.sender == sender));
        pending
    }

    fn call_method(profile: Profile, method: &str, params: &str) -> serde_json::Value {
        let plugin = Arc::new(TransactionPool::default());
        let text = host(profile).call_method(&table(), &plugin, method, params).expect("an answer");
        serde_json::from_str(&text).expect("JSON")
    }

    #[test]
    fn status_counts_in_quantities() {
        let answer = call_method(Profile::Ethereum, "txpool_status", "[]");

        assert_eq!(answer, serde_json::json!({"pending": "0x3", "queued": "0x0"}));
    }

    #[test]
    fn inspect_gives_a_line_by_sender_and_nonce() {
        let answer = call_method(Profile::Ethereum, "txpool_inspect", "[]");

        let line = "0xABaBaBaBABabABabAbAbABAbABabababaBaBABaB: 5 wei + 21000 gas × 3 wei";
        let expected = serde_json::json!({
            "pending": {
                "0x0101010101010101010101010101010101010101": {
                    "0": line, "7": "contract creation: 5 wei + 21000 gas × 3 wei"
                },
                "0x0202020202020202020202020202020202020202": {"4": line},
            },
            "queued": {},
        });
        assert_eq!(answer, expected);
    }

    #[test]
    fn content_has_native_keys_on_the_native_profile() {
        let answer = call_method(Profile::Native, "txpool_content", "[]");

        let transaction = &answer["pending"]["xdc0202020202020202020202020202020202020202"]["4"];
        assert_eq!(transaction["blockHash"], serde_json::Value::Null);
        assert_eq!(transaction["nonce"], "0x4");
        assert_eq!(transaction.get("blockTimestamp"), None);
        assert_eq!(transaction.get("chainId"), None);
    }

    #[test]
    fn keys_have_the_prefix_of_the_interface_document_if_aliases_are_off() {
        let host = host(Profile::Native).answer(|_: GetSpelling| Ok(Spelling::Own));
        let plugin = Arc::new(TransactionPool::default());

        for method in ["txpool_content", "txpool_inspect"] {
            let text = host.call_method(&table(), &plugin, method, "[]").expect("an answer");

            assert!(text.contains(r#""0x0202020202020202020202020202020202020202":{"4""#), "{method}: {text}");
            assert!(!text.contains("xdc"), "{method}: {text}");
        }
    }

    #[test]
    fn content_from_one_sender_is_keyed_by_nonce() {
        let answer =
            call_method(Profile::Ethereum, "txpool_contentFrom", r#"["0x0101010101010101010101010101010101010101"]"#);

        assert_eq!(answer["pending"]["7"]["to"], serde_json::Value::Null);
        assert_eq!(answer["pending"]["0"]["chainId"], "0x32");
        assert_eq!(answer["queued"], serde_json::json!({}));
    }

    #[test]
    fn an_answer_above_the_memory_limit_is_refused_before_it_is_built_and_lines_are_small() {
        let plugin = Arc::new(TransactionPool::default());
        let summary = |_: GetPoolSummary| {
            let large = PooledSummary { input_bytes: 125_000, ..PooledSummary::default() };
            Ok(PoolSummary { pending: vec![large; 10], queued: Vec::new() })
        };
        let host = host(Profile::Ethereum).with_memory(1 << 20).answer(summary);
        let host = host.answer(|_: GetPoolContent| -> Result<PoolContent, Failure> {
            panic!("the content was requested although its memory was refused")
        });

        for (method, params) in
            [("txpool_content", "[]"), ("txpool_contentFrom", r#"["0x0101010101010101010101010101010101010101"]"#)]
        {
            let refused = host.call_method(&table(), &plugin, method, params).expect_err("more than a megabyte");

            assert_eq!(refused.code, FailureCode::LIMIT_EXCEEDED);
            assert!(refused.message.starts_with("the answer needs up to "), "{}", refused.message);
        }
        assert!(host.call_method(&table(), &plugin, "txpool_inspect", "[]").is_ok());
        assert_eq!(host.held(0), 0);
    }

    #[test]
    fn a_line_and_its_keys_fit_into_their_capacity() {
        let largest = PooledSummary {
            nonce: u64::MAX,
            to: Some(Address::ZERO),
            value: U256::MAX,
            gas_limit: u64::MAX,
            max_fee_per_gas: U256::MAX,
            ..PooledSummary::default()
        };
        let (pending, room) = ([largest.clone(), largest], 2 * LINE_BYTES + FRAME_BYTES);

        let json = by_list(room, &pending[..1], &pending[1..], |json, list| {
            by_sender(json, Spelling::Own, list, |json, pooled| json.string(&line_of(pooled)));
        });

        assert!(json.into_bytes().len() <= room);
    }
}
