//! A node near the head of a network of 108 masternodes. A peer sends it the votes for the last block, as its certificate in
//! the next block lists them, and then the next block. Measured from the moment the block is sent: until the last of the
//! other peers has received it, and until the node's own vote for it has arrived at one of them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use alloy_primitives::{Address, B256, U256};
use clap::Args;
use serde_json::{Value, json};
use tenon_api::Block;
use tenon_chain::round_messages::Vote;
use tenon_native_consensus::ExtraFields;
use tenon_network_wire::{Message, NewBlock};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

use crate::peer::{Peer, Target, source};
use crate::{Outcome, blocks};

/// Limit of the wait for a message of the node.
const LIMIT: Duration = Duration::from_secs(3);
/// Time in which the node finishes its work for the votes.
const PAUSE: Duration = Duration::from_millis(100);

/// The node, the blocks that it gets, and its peers.
#[derive(Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    target: Target,
    /// Blocks as RLP
    #[arg(long)]
    chain: PathBuf,
    /// The node's height
    #[arg(long)]
    from: u64,
    /// Number of blocks that it gets
    #[arg(long, default_value_t = 110)]
    blocks: usize,
    /// Number of peers in addition to the sending one
    #[arg(long, default_value_t = 24)]
    peers: u8,
    /// Address of the node's masternode, whose votes are awaited. It does not vote for blocks of rounds that it leads
    #[arg(long)]
    masternode: Option<Address>,
}

/// What a peer has received, and when.
struct Arrival {
    peer: u8,
    at: Instant,
    is_vote: bool,
    block: B256,
}

/// Reports blocks and votes until the connection ends.
async fn listen(place: u8, mut peer: Peer, arrivals: UnboundedSender<Arrival>) -> Outcome<()> {
    loop {
        let (code, payload) = peer.next().await?;
        let at = Instant::now();
        let (is_vote, block) = match peer.decode(code, &payload)? {
            Message::NewBlock(new) => (false, new.block.hash()),
            Message::Vote(vote) => (true, vote.block.hash),
            _ => continue,
        };
        arrivals.send(Arrival { peer: place, at, is_vote, block })?;
    }
}

/// The peers.
struct Peers {
    sender: Peer,
    arrivals: UnboundedReceiver<Arrival>,
    count: u8,
}

/// Milliseconds from sending a block.
#[derive(Default)]
struct Times {
    /// Until every peer has the block.
    relayed: Option<f64>,
    /// Until the node's own vote arrives.
    voted: Option<f64>,
}

impl Peers {
    async fn connect(plan: &Plan) -> Outcome<Self> {
        let (send, arrivals) = unbounded_channel();
        for place in 0..plan.peers {
            let peer = plan.target.connect_empty(source(place)).await?;
            tokio::spawn(listen(place, peer, send.clone()));
        }
        let sender = plan.target.connect_empty(source(plan.peers)).await?;
        Ok(Self { sender, arrivals, count: plan.peers })
    }

    /// Waits until `is_last` accepts an arrival. Fails after [`LIMIT`], because the report would otherwise omit the
    /// longest times.
    async fn wait(&mut self, what: &str, mut is_last: impl FnMut(&Arrival) -> bool) -> Outcome<()> {
        let all = async {
            while let Some(arrival) = self.arrivals.recv().await {
                if is_last(&arrival) {
                    return Ok(());
                }
            }
            Err(format!("every connection ended before {what}").into())
        };
        timeout(LIMIT, all).await.map_err(|_| format!("{what}: not within {LIMIT:?}"))?
    }

    /// Sends the votes for a block's parent, and waits until the node has verified them, which it shows by forwarding them.
    async fn vote(&mut self, block: &Block) -> Outcome<()> {
        let quorum = ExtraFields::decode(&block.header.extra_data)?.quorum;
        let votes = quorum.signatures.len();
        for signature in quorum.signatures {
            let vote = Vote { block: quorum.block, signature, gap_number: quorum.gap_number };
            self.sender.send_message(&Message::Vote(vote)).await?;
        }
        let mut passed_on = 0;
        // The node's own vote completes the quorum before the last one, which may then be too late to be passed on.
        self.wait("votes passed on", |arrival| {
            passed_on += usize::from(arrival.peer == 0 && arrival.is_vote && arrival.block == quorum.block.hash);
            passed_on + 1 >= votes
        })
        .await?;
        sleep(PAUSE).await;
        while self.arrivals.try_recv().is_ok() {}
        Ok(())
    }

    async fn send(&mut self, block: &Block, waits_for_vote: bool) -> Outcome<Times> {
        let (hash, total_difficulty) = (block.hash(), U256::from(block.header.number + 1));
        let message = Message::NewBlock(Box::new(NewBlock { block: block.clone(), total_difficulty }));
        let (kind, payload) = message.encode().ok_or("never sent")?;
        let began = Instant::now();
        self.sender.send(kind, &payload).await?;
        let (mut received, mut times) = (BTreeSet::new(), Times::default());
        let count = usize::from(self.count);
        let what = format!("block {} at every peer, and the vote for it", block.header.number);
        self.wait(&what, |arrival| {
            if arrival.block == hash {
                let milliseconds = Some((arrival.at - began).as_secs_f64() * 1_000.0);
                match arrival.is_vote {
                    true => times.voted = times.voted.or(milliseconds),
                    false => _ = received.insert(arrival.peer),
                }
                if received.len() == count && times.relayed.is_none() {
                    times.relayed = milliseconds;
                }
            }
            times.relayed.is_some() && (times.voted.is_some() || !waits_for_vote)
        })
        .await?;
        Ok(times)
    }
}

/// The times of every block, ascending.
pub(crate) async fn measure(plan: &Plan) -> Outcome<Value> {
    let blocks = blocks::read(&plan.chain)?;
    let next = blocks.iter().filter(|block| block.header.number > plan.from).take(plan.blocks);
    let mut peers = Peers::connect(plan).await?;
    let (mut relayed, mut voted) = (Vec::new(), Vec::new());
    for block in next {
        peers.vote(block).await?;
        let is_voted_for = plan.masternode.is_some_and(|own| block.header.beneficiary != own);
        let times = peers.send(block, is_voted_for).await?;
        // Two blocks of fifteen have signing transactions.
        if block.transactions.is_empty() {
            relayed.extend(times.relayed);
            voted.extend(times.voted);
        }
    }
    relayed.sort_by(f64::total_cmp);
    voted.sort_by(f64::total_cmp);
    Ok(json!({ "relayed": relayed, "voted": voted }))
}
