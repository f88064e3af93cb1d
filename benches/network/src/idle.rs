//! Peers that only answer Pings.

use clap::Args;
use serde_json::{Value, json};

use crate::Outcome;
use crate::peer::{Peer, Target, source};

/// The peers.
#[derive(Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    target: Target,
    /// Number of peers
    #[arg(long, default_value_t = 25)]
    peers: u8,
}

async fn answer_pings(mut peer: Peer) -> Outcome<()> {
    loop {
        // The session answers them. Messages of the node are dropped.
        peer.next().await?;
    }
}

/// Connects the peers, reports that, and answers Pings until its input ends. Reports how many are still connected.
pub(crate) async fn run(plan: &Plan) -> Outcome<Value> {
    let mut peers = Vec::new();
    for place in 0..plan.peers {
        peers.push(plan.target.connect_empty(source(place)).await?);
    }
    let running: Vec<_> = peers.into_iter().map(|peer| tokio::spawn(answer_pings(peer))).collect();
    println!("connected");
    crate::input_ends().await?;
    Ok(json!({ "peers": running.iter().filter(|peer| !peer.is_finished()).count() }))
}
