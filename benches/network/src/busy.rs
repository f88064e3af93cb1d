//! Peers that keep a node busy: each requests headers and bodies in turn, and sends transactions.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use tenon_network_wire::{Kind, Message};

use crate::peer::{Peer, Target, source};
use crate::serving::{hashes, headers_from};
use crate::{Outcome, blocks};

/// Transactions in a message: some 100 KB of the chain `load`.
const TRANSACTIONS: usize = 800;
const BODIES: usize = 128;

/// The peers.
#[derive(Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    target: Target,
    /// Blocks as RLP, whose transactions are sent
    #[arg(long)]
    chain: PathBuf,
    /// Number of peers
    #[arg(long, default_value_t = 50)]
    peers: u8,
}

/// The actions of a peer, in turn.
#[derive(Clone)]
struct Script {
    bodies: Message,
    /// The payload.
    transactions: Vec<u8>,
}

async fn keep_busy(mut peer: Peer, script: Script) -> Outcome<()> {
    loop {
        peer.send_message(&headers_from(1)).await?;
        drop(peer.next_of(Kind::BlockHeaders).await?);
        peer.send(Kind::Transactions, &script.transactions).await?;
        peer.send_message(&script.bodies).await?;
        drop(peer.next_of(Kind::BlockBodies).await?);
    }
}

/// Connects the peers, reports that, and keeps the node busy until its input ends. Reports how many are still connected.
pub(crate) async fn run(plan: &Plan) -> Outcome<Value> {
    let blocks = blocks::read(&plan.chain)?;
    let mut first = plan.target.connect_empty(source(plan.peers)).await?;
    let mut hashes = hashes(&mut first).await?;
    hashes.truncate(BODIES);
    drop(first);
    let transactions = blocks.iter().flat_map(|block| block.transactions.iter().cloned()).take(TRANSACTIONS).collect();
    let (_, transactions) = Message::Transactions(transactions).encode().ok_or("never sent")?;
    let script = Script { bodies: Message::GetBlockBodies(hashes), transactions };
    let mut peers = Vec::new();
    for place in 0..plan.peers {
        peers.push(plan.target.connect_empty(source(place)).await?);
    }
    let running: Vec<_> = peers.into_iter().map(|peer| tokio::spawn(keep_busy(peer, script.clone()))).collect();
    println!("connected");
    crate::input_ends().await?;
    Ok(json!({ "peers": running.iter().filter(|peer| !peer.is_finished()).count() }))
}
