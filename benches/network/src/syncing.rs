//! Peers from which a node syncs: each answers requests for the blocks of a file after a delay, like over a connection with
//! this round-trip time. Some never answer, and one sends the bodies of other blocks.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tenon_api::{B256, Block, U256};
use tenon_network_wire::limits::SOFT_ANSWER_BYTES;
use tenon_network_wire::{HeaderOrigin, HeaderRequest, Kind, Message, encode_body, encode_list};
use tokio::time::{Instant, sleep_until};

use crate::peer::{Peer, Target, source};
use crate::{Outcome, blocks};

/// The peers and their chain.
#[derive(Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    target: Target,
    /// Blocks as RLP, from the genesis block on
    #[arg(long)]
    chain: PathBuf,
    /// Number of peers
    #[arg(long, default_value_t = 8)]
    peers: u8,
    /// How many of them never answer
    #[arg(long, default_value_t = 2)]
    stalling: u8,
    /// How many of them send bodies of other blocks
    #[arg(long, default_value_t = 1)]
    lying: u8,
    /// Milliseconds before each answer
    #[arg(long, default_value_t = 50)]
    delay: u64,
}

/// How a peer answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    Honest,
    Stalling,
    Lying,
}

/// The encoded blocks, by height.
struct Chain {
    head: B256,
    total_difficulty: U256,
    headers: Vec<Vec<u8>>,
    bodies: Vec<Vec<u8>>,
    places: HashMap<B256, usize>,
}

impl Chain {
    fn new(blocks: &[Block]) -> Outcome<Self> {
        let head = blocks.last().ok_or("no blocks")?.hash();
        let sum = |total: U256, block: &Block| total + block.header.difficulty;
        let total_difficulty = blocks.iter().fold(U256::ZERO, sum);
        let (mut headers, mut bodies, mut places) = (Vec::new(), Vec::new(), HashMap::new());
        for (place, block) in blocks.iter().enumerate() {
            let (mut header, mut body) = (Vec::new(), Vec::new());
            tenon_chain::encode_header(&block.header, &mut header);
            encode_body(&block.transactions, &block.ommers, &mut body);
            headers.push(header);
            bodies.push(body);
            places.insert(block.hash(), place);
        }
        Ok(Self { head, total_difficulty, headers, bodies, places })
    }

    fn answer(&self, request: &Message, behaviour: Behaviour) -> Option<(Kind, Vec<u8>)> {
        match request {
            _ if behaviour == Behaviour::Stalling => None,
            Message::GetBlockHeaders(request) => Some((Kind::BlockHeaders, self.headers(request))),
            Message::GetBlockBodies(hashes) => Some((Kind::BlockBodies, self.bodies(hashes, behaviour))),
            _ => None,
        }
    }

    fn headers(&self, request: &HeaderRequest) -> Vec<u8> {
        let first = match request.origin {
            HeaderOrigin::Hash(hash) => self.places.get(&hash).copied(),
            HeaderOrigin::Number(number) => usize::try_from(number).ok(),
        };
        let step = usize::try_from(request.skip.saturating_add(1)).unwrap_or(usize::MAX);
        let next = |place: &usize| match request.is_reverse {
            true => place.checked_sub(step),
            false => place.checked_add(step),
        };
        let amount = usize::try_from(request.amount.min(192)).unwrap_or_default();
        let places = std::iter::successors(first, next).take(amount);
        let found: Vec<&[u8]> = places.map_while(|place| self.headers.get(place)).map(Vec::as_slice).collect();
        encode_list(found)
    }

    fn bodies(&self, hashes: &[B256], behaviour: Behaviour) -> Vec<u8> {
        let (mut found, mut bytes): (Vec<&[u8]>, usize) = (Vec::new(), 0);
        for place in hashes.iter().filter_map(|hash| self.places.get(hash)) {
            if bytes >= SOFT_ANSWER_BYTES {
                break;
            }
            let place = if behaviour == Behaviour::Lying { self.bodies.len() - 1 - place } else { *place };
            bytes += self.bodies[place].len();
            found.push(&self.bodies[place]);
        }
        encode_list(found)
    }
}

/// Answers until the connection ends.
async fn serve(mut peer: Peer, chain: Arc<Chain>, behaviour: Behaviour, delay: Duration) -> Outcome<()> {
    let mut answers: VecDeque<(Instant, Kind, Vec<u8>)> = VecDeque::new();
    loop {
        let due = answers.front().map(|(due, ..)| *due);
        tokio::select! {
            message = peer.next() => {
                let (code, payload) = message?;
                let request = peer.decode(code, &payload)?;
                if let Some((kind, payload)) = chain.answer(&request, behaviour) {
                    answers.push_back((Instant::now() + delay, kind, payload));
                }
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                if let Some((_, kind, payload)) = answers.pop_front() {
                    peer.send(kind, &payload).await?;
                }
            }
        }
    }
}

/// Connects the peers, reports that, and serves until its input ends.
pub(crate) async fn run(plan: &Plan) -> Outcome<Value> {
    let chain = Arc::new(Chain::new(&blocks::read(&plan.chain)?)?);
    let delay = Duration::from_millis(plan.delay);
    for place in 0..plan.peers {
        let behaviour = match place {
            place if place < plan.stalling => Behaviour::Stalling,
            place if place < plan.stalling + plan.lying => Behaviour::Lying,
            _ => Behaviour::Honest,
        };
        let peer = plan.target.connect(source(place), chain.head, chain.total_difficulty).await?;
        // A disconnected peer ends; the node continues with the others.
        tokio::spawn(serve(peer, Arc::clone(&chain), behaviour, delay));
    }
    println!("connected");
    crate::input_ends().await?;
    Ok(Value::Null)
}
