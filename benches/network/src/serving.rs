//! Measures how many answers a node serves. Each peer asks for the whole chain, part by part, as a node that syncs does,
//! and begins again at the end. It sends its next request when it has the previous answer. The peers start at different
//! blocks.

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
    hashes_of(peer, &headers_from(1)).await
}

async fn hashes_of(peer: &mut Peer, request: &Message) -> Outcome<Vec<B256>> {
    peer.send_message(request).await?;
    match peer.next_message(Kind::BlockHeaders).await? {
        Message::BlockHeaders(headers) => Ok(headers.iter().map(|header| header.hash()).collect()),
        other => Err(format!("not headers: {other:?}").into()),
    }
}

/// Number of answers of a kind in a time, and their size.
struct Served {
    answers: usize,
    bytes: usize,
}

/// Sends the requests in a circle.
async fn ask(peer: &mut Peer, requests: &[Message], answer: Kind, seconds: f64) -> Outcome<Served> {
    let mut served = Served { answers: 0, bytes: 0 };
    let began = Instant::now();
    let until = WARM_UP + Duration::from_secs_f64(seconds);
    for request in requests.iter().cycle() {
        peer.send_message(request).await?;
        let bytes = peer.next_of(answer).await?.len();
        let at = began.elapsed();
        if at >= until {
            break;
        }
        if at >= WARM_UP {
            served.answers += 1;
            served.bytes += bytes;
        }
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

/// All peers send these requests, each starting at a different one. Returns the answers per second of wall-clock time
/// and of the node's processor time, and the mean size of an answer.
async fn all_ask(plan: &Plan, requests: &[Message], answer: Kind) -> Outcome<Value> {
    let mut tasks = tokio::task::JoinSet::new();
    for place in 0..plan.peers {
        let (mut requests, seconds) = (requests.to_vec(), plan.seconds);
        let start = requests.len() * usize::from(place) / usize::from(plan.peers);
        requests.rotate_left(start);
        let mut peer = plan.target.connect_empty(source(place)).await?;
        tasks.spawn(async move { ask(&mut peer, &requests, answer, seconds).await });
    }
    let used = processor_seconds(plan).await?;
    let (mut answers, mut bytes) = (0, 0);
    while let Some(done) = tasks.join_next().await {
        let served = done??;
        answers += served.answers;
        bytes += served.bytes;
    }
    let mean_bytes = bytes.checked_div(answers).ok_or("no answer")?;
    let answers = answers as f64;
    Ok(json!({ "a_second": answers / plan.seconds, "a_processor_second": answers / used, "bytes": mean_bytes }))
}

/// The requests for all whole parts of the chain: headers by number, bodies by hash.
async fn requests(peer: &mut Peer) -> Outcome<(Vec<Message>, Vec<Message>)> {
    let (mut headers, mut hashes) = (Vec::new(), Vec::new());
    for request in (1..).step_by(HEADERS as usize).map(headers_from) {
        let part = hashes_of(peer, &request).await?;
        if part.len() < HEADERS as usize {
            break;
        }
        hashes.extend(part);
        headers.push(request);
    }
    let bodies = hashes.chunks_exact(BODIES).map(|part| Message::GetBlockBodies(part.to_vec())).collect();
    Ok((headers, bodies))
}

/// Answers of 192 headers, and of 128 bodies, per second.
pub(crate) async fn measure(plan: &Plan) -> Outcome<Value> {
    let mut first = plan.target.connect_empty(source(plan.peers)).await?;
    let (headers, bodies) = requests(&mut first).await?;
    let Some(request) = bodies.first() else { return Err("the node has too few blocks".into()) };
    first.send_message(request).await?;
    let Message::BlockBodies(found) = first.next_message(Kind::BlockBodies).await? else {
        return Err("not bodies".into());
    };
    drop(first);
    let of_headers = all_ask(plan, &headers, Kind::BlockHeaders).await?;
    let of_bodies = all_ask(plan, &bodies, Kind::BlockBodies).await?;
    Ok(json!({ "headers": of_headers, "bodies": of_bodies, "bodies_in_an_answer": found.len() }))
}
