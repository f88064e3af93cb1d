//! Votes of 108 masternodes through the node's own [`Voting`]: its mailbox, actor, replica and cache of signers.
//!
//! A round is a block, followed by the 73 votes that certify it. Each vote is decoded as the network does it, verified,
//! counted, and sent on. The same votes a second time are duplicates. Rates are per second of processor time of the
//! whole process, including the sender. Signatures and blocks are made before the measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::{Address, Bytes, U256, hex, keccak256};
use alloy_rlp::Encodable;
use clap::Args;
use serde_json::{Value, json};
use tenon_api::{
    BatchObserver, Block, BlockPort, BlockProductionError, BlockVerdict, FailedBlock, Header, NativeSeal,
    PeerTransactions, PendingTransactions, RecoveredTransaction, RoundBuilder, RoundMessage, RoundMessageKind,
    RoundMessages, RoundNetwork, SealedHeader, SignError, StoreError, SubmitError,
};
use tenon_bus::Bus;
use tenon_chain::Genesis;
use tenon_memory_chain::MemoryChain;
use tenon_native_consensus::v2::MasternodeKey;
use tenon_native_consensus::{BlockInfo, ExtraFields, NativeEngine, QuorumCertificate, Vote, vote_digest};
use tenon_native_spec::read_genesis;
use tenon_native_voting::{Voting, VotingPorts};
use tenon_network_wire::{Kind, Message, version};
use tenon_supervisor::Supervisor;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Outcome, processor};

const MASTERNODES: usize = 108;
/// Number of votes that certify a block: 0.667 of the masternodes.
const QUORUM: usize = 73;
/// Number of the last rounds whose votes are sent again. Few enough that the voting still remembers all of their votes.
const REPEATED_ROUNDS: usize = 200;
const VERSION: u32 = 100;
/// Limit of the wait for the actor to finish.
const LIMIT: Duration = Duration::from_secs(60);

/// Size of the measurement.
#[derive(Args)]
pub(crate) struct Plan {
    /// Rounds, each with 73 votes; at most 899, those of an epoch
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..900))]
    rounds: u64,
    /// How often the votes of the last rounds are sent again
    #[arg(long, default_value_t = 60)]
    repeats: usize,
}

/// A block and the encoded votes for it.
struct Round {
    header: SealedHeader,
    votes: Vec<Vec<u8>>,
}

/// The parts of a node that the voting needs, except the chain. It accepts and makes no blocks, and counts messages.
#[derive(Default)]
struct Ports {
    sent: AtomicUsize,
}

impl RoundNetwork for Ports {
    fn broadcast(&self, _: RoundMessage) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    fn repeat(&self, _: RoundMessage) {}

    fn announce(&self, _: Arc<Block>, _: U256) {}
}

impl BlockPort for Ports {
    fn verify_header(&self, _: &SealedHeader) -> BlockVerdict {
        BlockVerdict::ParentUnknown
    }

    fn insert(&self, _: Block) -> BlockVerdict {
        BlockVerdict::ParentUnknown
    }

    fn import(&self, _: Box<dyn Iterator<Item = Block> + Send>, _: &mut dyn BatchObserver) -> Result<(), FailedBlock> {
        Ok(())
    }
}

impl RoundBuilder for Ports {
    fn build(
        &self,
        _: &SealedHeader,
        _: Header,
        _: Vec<RecoveredTransaction>,
        _: &dyn Fn(Header) -> Result<SealedHeader, SignError>,
    ) -> Result<Block, BlockProductionError> {
        Err(BlockProductionError::new(std::io::Error::other("no blocks are made")))
    }
}

impl PendingTransactions for Ports {
    fn best(&self, _: Option<u64>) -> Vec<RecoveredTransaction> {
        Vec::new()
    }
}

impl PeerTransactions for Ports {
    fn offer(&self, _: &[Bytes]) {}

    fn pending(&self) -> Vec<RecoveredTransaction> {
        Vec::new()
    }

    fn submit_own(&self, _: &[u8]) -> Result<(), SubmitError> {
        Ok(())
    }

    fn next_nonce(&self, _: Address) -> Result<u64, StoreError> {
        Ok(0)
    }
}

fn masternodes() -> Outcome<Vec<MasternodeKey>> {
    let key = |number: usize| MasternodeKey::from_bytes(keccak256(number.to_be_bytes()).0).ok_or("not a key");
    let mut keys = (1..=MASTERNODES).map(key).collect::<Result<Vec<_>, _>>()?;
    keys.sort_by_key(MasternodeKey::address);
    Ok(keys)
}

/// One epoch. Its countdown is longer than the measurement.
fn genesis(masternodes: &[u8]) -> Outcome<Genesis> {
    let extra = [&[0; 32][..], masternodes, &[0; 65]].concat();
    let rules = json!({
        "maxMasternodes": MASTERNODES, "minePeriod": 2, "certificateThreshold": 0.667, "timeoutPeriod": 3_600,
        "timeoutSyncThreshold": 3, "expTimeoutConfig": { "base": 1.0, "maxExponent": 0 },
    });
    let engine = json!({
        "period": 2, "epoch": 900, "gap": 450, "v2": { "switchBlock": 0, "allConfigs": { "0": rules } },
    });
    let genesis = json!({
        "config": { "chainId": 5151, "XDPoS": engine }, "extraData": hex::encode_prefixed(extra),
        "difficulty": "0x1", "gasLimit": "0x2faf080", "alloc": {},
    });
    Ok(read_genesis(genesis.to_string().as_bytes())?)
}

/// The rounds of a chain in which every round has a block.
fn rounds(first: SealedHeader, keys: &[MasternodeKey], masternodes: &[u8], count: u64) -> Vec<Round> {
    let (mut parent, mut certificate) = (first, Vec::new());
    let mut rounds = Vec::new();
    for round in 1..=count {
        let certified = BlockInfo { hash: parent.hash(), round: round - 1, number: parent.number };
        let quorum = QuorumCertificate { block: certified, signatures: certificate, gap_number: 0 };
        let validators = if round == 1 { masternodes.to_vec() } else { Vec::new() };
        let header = tenon_chain::seal(Header {
            parent_hash: parent.hash(),
            number: round,
            timestamp: parent.timestamp + 2,
            extra_data: ExtraFields { round, quorum }.encode(),
            native_seal: Some(NativeSeal { validators: validators.into(), ..NativeSeal::default() }),
            ..parent.header().clone()
        });
        let block = BlockInfo { hash: header.hash(), round, number: round };
        let digest = vote_digest(&block, 0);
        certificate = keys.iter().take(QUORUM).map(|key| key.sign(digest).to_vec().into()).collect();
        let vote = |signature: &Bytes| Vote { block, signature: signature.clone(), gap_number: 0 };
        let encoded = |signature: &Bytes| alloy_rlp::encode(vote(signature));
        rounds.push(Round { header: header.clone(), votes: certificate.iter().map(encoded).collect() });
        parent = header;
    }
    rounds
}

/// A voting with its chain, and the peers' side of it.
struct Bench {
    voting: Voting,
    chain: Arc<MemoryChain>,
    ports: Arc<Ports>,
    /// One permit per connection: a peer's next message is read once the voting has processed the last one.
    connections: Arc<Semaphore>,
}

impl Bench {
    async fn start(genesis: &Genesis, key: MasternodeKey, supervisor: &Supervisor) -> Outcome<Self> {
        let chain = Arc::new(MemoryChain::default());
        chain.push_header(genesis.sealed_header()?);
        let (voting, ports) = (Voting::default(), Arc::new(Ports::default()));
        voting.start(
            supervisor,
            VotingPorts {
                engine: Arc::new(NativeEngine::for_headers_alone(&genesis.spec)?),
                chain: Arc::clone(&chain) as _,
                blocks: Arc::clone(&ports) as _,
                builder: Arc::clone(&ports) as _,
                pending: Arc::clone(&ports) as _,
                pool: Arc::clone(&ports) as _,
                network: Arc::clone(&ports) as _,
                bus: Bus::new(),
                // Without a record the voting only listens meanwhile. It compares every vote with its own signature.
                key: Some(Arc::new(key)),
                gas_limit: 50_000_000,
                chain_id: genesis.spec.chain_id,
            },
        )?;
        // The replica starts at the current head; this request is answered once it has started.
        drop(voting.waiting().await?);
        Ok(Self { voting, chain, ports, connections: Arc::new(Semaphore::new(MASTERNODES)) })
    }

    /// Delivers a vote as the network does.
    async fn deliver(&self, payload: &[u8]) -> Outcome<()> {
        let version = version(VERSION).ok_or("no such version")?;
        let code = version.code(Kind::Vote).ok_or("no votes")?;
        let Message::Vote(vote) = Message::decode(version, code, payload)? else { return Err("not a vote".into()) };
        let mut payload = Vec::with_capacity(vote.length());
        vote.encode(&mut payload);
        let permit: OwnedSemaphorePermit = Arc::clone(&self.connections).acquire_owned().await?;
        let message = RoundMessage { kind: RoundMessageKind::Vote, payload: payload.into() };
        self.voting.receive(message, Box::new(permit));
        Ok(())
    }

    /// Waits until every delivered vote is processed.
    async fn settle(&self) -> Outcome<()> {
        let all = Arc::clone(&self.connections).acquire_many_owned(MASTERNODES as u32);
        drop(tokio::time::timeout(LIMIT, all).await??);
        Ok(())
    }

    async fn verify(&self, rounds: &[Round]) -> Outcome<()> {
        for round in rounds {
            self.chain.push_header(round.header.clone());
            self.voting.executed(Arc::new(round.header.clone()), true);
            for vote in &round.votes {
                self.deliver(vote).await?;
            }
        }
        self.settle().await
    }

    async fn repeat(&self, rounds: &[Round], repeats: usize) -> Outcome<usize> {
        let mut delivered = 0;
        for _ in 0..repeats {
            for vote in rounds.iter().flat_map(|round| &round.votes) {
                self.deliver(vote).await?;
                delivered += 1;
            }
        }
        self.settle().await?;
        Ok(delivered)
    }

    /// Every vote was verified, counted and sent on exactly once.
    fn check(&self, rounds: &[Round]) -> Outcome<()> {
        let (counts, votes) = (self.voting.counts(), rounds.len() * QUORUM);
        let [(_, received), ..] = counts.received();
        let sent = self.ports.sent.load(Ordering::Relaxed);
        let expected = (rounds.len() as u64 + 1, votes as u64, votes);
        if (counts.round(), received, sent) != expected {
            let round = counts.round();
            return Err(format!("round {round}, {received} votes taken, {sent} sent on; expected {expected:?}").into());
        }
        Ok(())
    }
}

/// Votes verified, and duplicates dropped, per second of processor time.
pub(crate) async fn measure(plan: &Plan) -> Outcome<Value> {
    let keys = masternodes()?;
    let addresses: Vec<u8> = keys.iter().flat_map(|key| key.address().0.0).collect();
    let genesis = genesis(&addresses)?;
    let rounds = rounds(genesis.sealed_header()?, &keys, &addresses, plan.rounds);
    let supervisor = Supervisor::new()?;
    let own = keys.last().ok_or("no masternode")?.clone();
    let bench = Bench::start(&genesis, own, &supervisor).await?;

    let (before, began) = (processor::used()?, Instant::now());
    bench.verify(&rounds).await?;
    let (verifying, verified_within) = (processor::used()?.saturating_sub(before), began.elapsed());
    bench.check(&rounds)?;

    let (before, began) = (processor::used()?, Instant::now());
    let repeated = bench.repeat(&rounds[rounds.len().saturating_sub(REPEATED_ROUNDS)..], plan.repeats).await?;
    let (dropping, dropped_within) = (processor::used()?.saturating_sub(before), began.elapsed());
    bench.check(&rounds)?;

    drop(supervisor.stop(LIMIT).await);
    let verified = rounds.len() * QUORUM;
    let rate = |count: usize, time: Duration| (count as f64 / time.as_secs_f64()).round();
    Ok(json!({
        "verified": verified,
        "verified_a_core": rate(verified, verifying),
        "verified_a_second": rate(verified, verified_within),
        "dropped": repeated,
        "dropped_a_core": rate(repeated, dropping),
        "dropped_a_second": rate(repeated, dropped_within),
    }))
}
