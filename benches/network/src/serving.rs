//! Measures how many answers a node serves: each peer sends its next request when it has the previous answer.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use tenon_api::B256;
use tenon_network_wire::{HeaderOrigin, HeaderRequest, Kind, Message};

use crate::Outcome;
use crate::peer::{Peer, Target, source};
use crate::processor;

const HEADERS: u64 = 192;
const BODIES: usize = 128;
/// Time before the measurement during which peers already send requests.
const WARM_UP: Duration = Duration::from_secs(1);

/// Options of the measurement.
#[derive(Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    target: Target,
    /// Number of peers
    #[arg(long, default_value_t = 4)]
    peers: u8,
    /// Seconds of each kind of request
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// The node's process, whose processor time counts
    #[arg(long)]
    process: u32,
}

/// The request for headers of these blocks.
pub(crate) const fn headers_from(first: u64) -> Message {
    let origin = HeaderOrigin::Number(first);
    Message::GetBlockHeaders(HeaderRequest { origin, amount: HEADERS, skip: 0, is_reverse: false })
}

/// The hashes of the first blocks after the genesis, as many as an answer has headers.
pub(crate) async fn hashes(peer: &mut Peer) -> Outcome<Vec<B256>> {
    peer.send_message(&headers_from(1)).await?;
    match peer.next_message(Kind::BlockHeaders).await? {
        Message::BlockHeaders(headers) => Ok(headers.iter().map(|header| header.hash()).collect()),
        other => Err(format!("not headers: {other:?}").into()),
    }
}

/// Number of answers of a kind in a time, and the size of one.
struct Served {
    answers: usize,
    bytes: usize,
}

async fn ask(peer: &mut Peer, request: &Message, answer: Kind, seconds: f64) -> Outcome<Served> {
    let mut served = Served { answers: 0, bytes: 0 };
    let began = Instant::now();
    let until = WARM_UP + Duration::from_secs_f64(seconds);
    while began.elapsed() < until {
        peer.send_message(request).await?;
        served.bytes = peer.next_of(answer).await?.len();
        let at = began.elapsed();
        served.answers += usize::from(at >= WARM_UP && at < until);
    }
    Ok(served)
}

/// Processor time that the node uses during the measurement, seconds.
async fn processor_seconds(plan: &Plan) -> Outcome<f64> {
    tokio::time::sleep(WARM_UP).await;
    let before = processor::used_by(plan.process)?;
    tokio::time::sleep(Duration::from_secs_f64(plan.seconds)).await;
    Ok(processor::used_by(plan.process)?.saturating_sub(before).as_secs_f64())
}

/// All peers send the same request. Returns answers per second of wall-clock time, and of the node's processor time.
async fn all_ask(plan: &Plan, request: &Message, answer: Kind) -> Outcome<Value> {
    let mut tasks = tokio::task::JoinSet::new();
    for place in 0..plan.peers {
        let (request, seconds) = (request.clone(), plan.seconds);
        let mut peer = plan.target.connect_empty(source(place)).await?;
        tasks.spawn(async move { ask(&mut peer, &request, answer, seconds).await });
    }
    let used = processor_seconds(plan).await?;
    let (mut answers, mut bytes) = (0, 0);
    while let Some(done) = tasks.join_next().await {
        let served = done??;
        answers += served.answers;
        bytes = served.bytes;
    }
    let answers = answers as f64;
    Ok(json!({ "a_second": answers / plan.seconds, "a_processor_second": answers / used, "bytes": bytes }))
}

/// Answers of 192 headers, and of 128 bodies, per second.
pub(crate) async fn measure(plan: &Plan) -> Outcome<Value> {
    let mut first = plan.target.connect_empty(source(plan.peers)).await?;
    let mut hashes = hashes(&mut first).await?;
    if hashes.len() < HEADERS as usize {
        return Err(format!("the node has {} blocks", hashes.len()).into());
    }
    hashes.truncate(BODIES);
    let bodies = Message::GetBlockBodies(hashes);
    first.send_message(&bodies).await?;
    let Message::BlockBodies(found) = first.next_message(Kind::BlockBodies).await? else {
        return Err("not bodies".into());
    };
    drop(first);
    let headers = all_ask(plan, &headers_from(1), Kind::BlockHeaders).await?;
    let answers = all_ask(plan, &bodies, Kind::BlockBodies).await?;
    Ok(json!({ "headers": headers, "bodies": answers, "bodies_in_an_answer": found.len() }))
}
