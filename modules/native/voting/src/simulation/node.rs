//! A simulated node: the real actor, engine, replica and synchronisation over the simulated ports.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use alloy_primitives::{Address, B256, U256};
use tenon_api::{Block, BlockNumber, BlockPort, BlockSigner, ChainReader, FailedBlock, RoundMessage, SealedHeader};
use tenon_bus::Bus;
use tenon_chain::ChainSpec;
use tenon_memory_chain::{MemoryChain, MemoryRecords};
use tenon_native_consensus::v2::MasternodeKey;
use tenon_native_consensus::{NativeEngine, SignerCache, VotingState};
use tenon_network_identity::NodeId;
use tenon_network_sync::{ChainSync, CheckedBody};
use tenon_network_wire::{BlockBody, HeaderOrigin, HeaderRequest};

use super::ports::{Blocks, DelayedSigner, FixedCandidates, Outbox, OwnClock, Pool, Recovered, VirtualTiming};
use crate::actor::{Input, VotingActor};
use crate::received::MessageCollector;
use crate::{VotingCounts, VotingPorts};

/// Data shared by all nodes of a network.
pub(super) struct Network {
    pub(super) spec: Arc<ChainSpec>,
    pub(super) masternodes: Arc<[Address]>,
    pub(super) genesis: SealedHeader,
    /// Cache of recovered signers, shared by all nodes: each signature is recovered once for the whole network.
    pub(super) signers: Arc<SignerCache>,
    pub(super) recovered: Arc<Recovered>,
    /// False once the faults have ended: external signers then always answer.
    pub(super) has_faults: Arc<AtomicBool>,
}

/// A node: the state that survives restarts, and the running node.
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) key: MasternodeKey,
    /// Whether the key is held by another process, which signs with a delay.
    pub(super) signs_late: bool,
    pub(super) chain: Arc<MemoryChain>,
    disk: Arc<MemoryRecords>,
    pub(super) clock: OwnClock,
    /// Error of the node's clock in milliseconds.
    pub(super) clock_error: i64,
    /// `None` while it is down.
    pub(super) running: Option<Running>,
    /// Number of starts and crashes. Events scheduled for an earlier life are ignored.
    pub(super) life: u32,
    /// The committed block when it was last checked.
    pub(super) committed: Option<B256>,
    /// The last vote or timeout that this node was the first to send.
    pub(super) last_sent: Option<RoundMessage>,
}

/// A running node.
pub(super) struct Running {
    pub(super) actor: VotingActor,
    pub(super) sync: ChainSync,
    pub(super) blocks: Arc<Blocks>,
    pub(super) pool: Arc<Pool>,
    pub(super) outbox: Outbox,
    /// Outcome of the current import so far; `None` if there is none.
    pub(super) importing: Option<Result<(), FailedBlock>>,
    pub(super) is_syncing: bool,
    pub(super) collector: MessageCollector,
    /// Whether the node is far behind, as the actor reads it.
    pub(super) syncing: Arc<AtomicBool>,
    /// The time of the scheduled wake-up.
    pub(super) wakes_at: Option<u64>,
    /// The last head that was sent to the actor.
    pub(super) reported_head: B256,
}

impl Node {
    pub(super) fn new(index: usize, key: MasternodeKey, network: &Network) -> Self {
        let chain = Arc::new(MemoryChain::default());
        let genesis = tenon_chain::assemble_block(network.genesis.clone(), Vec::new(), Vec::new(), None);
        chain.push(Arc::new(tenon_chain::recover_senders(genesis).unwrap()));
        let mut id = NodeId([0; 64]);
        id.0[..2].copy_from_slice(&u16::try_from(index + 1).unwrap().to_be_bytes());
        let (disk, clock) = (Arc::default(), OwnClock::default());
        Self {
            id,
            key,
            signs_late: false,
            chain,
            disk,
            clock,
            clock_error: 0,
            running: None,
            life: 0,
            committed: None,
            last_sent: None,
        }
    }

    /// Starts the node with its stored state.
    pub(super) fn start(&mut self, network: &Network) {
        self.life += 1;
        let outbox = Outbox::default();
        let (ports, blocks) = self.ports(network, &outbox);
        let timing = Box::new(VirtualTiming(self.clock.clone(), outbox.clone()));
        let syncing = Arc::<AtomicBool>::default();
        let mut actor = VotingActor::new(ports, timing, Arc::<VotingCounts>::default(), Arc::clone(&syncing));
        tenon_supervisor::Actor::handle(&mut actor, Input::Begin);
        self.running = Some(Running {
            actor,
            sync: ChainSync::new(),
            pool: Arc::clone(&blocks.pool),
            blocks,
            outbox,
            importing: None,
            is_syncing: false,
            collector: MessageCollector::default(),
            syncing,
            wakes_at: None,
            reported_head: self.chain.head().header.hash(),
        });
    }

    /// The ports of an actor with the node's stored state.
    pub(super) fn ports(&self, network: &Network, outbox: &Outbox) -> (VotingPorts, Arc<Blocks>) {
        let clock = self.clock.clone();
        let source = Arc::new(FixedCandidates(Arc::clone(&network.masternodes)));
        let now = Arc::new(move || clock.seconds());
        let (disk, signers) = (Arc::clone(&self.disk) as _, Arc::clone(&network.signers));
        let engine = NativeEngine::with_records_source_and_signers(&network.spec, source, now, disk, signers).unwrap();
        let engine = Arc::new(engine);
        let pool = Arc::new(Pool::new(outbox.clone(), Arc::clone(&network.recovered)));
        let key: Arc<dyn BlockSigner> = match self.signs_late {
            true => {
                let has_faults = Arc::clone(&network.has_faults);
                Arc::new(DelayedSigner::new(self.key.clone(), self.clock.clone(), outbox.clone(), has_faults))
            }
            false => Arc::new(self.key.clone()),
        };
        let chain = Arc::clone(&self.chain);
        let blocks = Arc::new(Blocks { chain, engine: Arc::clone(&engine), pool: Arc::clone(&pool) });
        let ports = VotingPorts {
            engine,
            chain: Arc::clone(&self.chain) as _,
            blocks: Arc::clone(&blocks) as _,
            builder: Arc::clone(&blocks) as _,
            pending: Arc::clone(&pool) as _,
            pool: pool as _,
            network: Arc::new(outbox.clone()),
            bus: Bus::new(),
            key: Some(key),
            gas_limit: 50_000_000,
            chain_id: network.spec.chain_id,
        };
        (ports, blocks)
    }

    pub(super) fn state(&self) -> Option<&VotingState> {
        self.running.as_ref()?.actor.state()
    }

    pub(super) fn head_header(&self) -> Arc<SealedHeader> {
        Arc::clone(&self.chain.head().header)
    }

    pub(super) fn block(&self, hash: B256) -> Option<Arc<tenon_api::RecoveredBlock>> {
        self.chain.block(hash).unwrap()
    }

    pub(super) fn committed_height(&self) -> u64 {
        self.state().and_then(|state| state.committed).map_or(0, |block| block.number)
    }

    /// Hash and total difficulty of the head.
    pub(super) fn head(&self) -> (B256, U256) {
        let head = self.chain.head();
        (head.header.hash(), head.total_difficulty)
    }
}

impl Running {
    pub(super) fn handle(&mut self, input: Input) {
        tenon_supervisor::Actor::handle(&mut self.actor, input);
    }

    /// Imports the next block. After a block that was refused, the remaining ones are skipped.
    pub(super) fn import(&mut self, block: Block) {
        let Some(Ok(())) = self.importing else { return };
        let (number, hash) = (BlockNumber(block.header.number), block.hash());
        let mut observer = NoObserver;
        let outcome = self.blocks.import(Box::new(std::iter::once(block)), &mut observer);
        if outcome.is_ok() {
            self.sync.imported(hash);
        }
        self.importing = Some(outcome.map_err(|failed| FailedBlock { number: Some(number), ..failed }));
    }
}

struct NoObserver;

impl tenon_api::BatchObserver for NoObserver {
    fn passed(&mut self, _: BlockNumber, _: B256) {}

    fn is_cancelled(&self) -> bool {
        false
    }
}

/// The node with this identifier.
pub(super) fn index_of(id: NodeId) -> usize {
    usize::from(u16::from_be_bytes([id.0[0], id.0[1]])) - 1
}

/// Answers a request for headers.
pub(super) fn headers(chain: &MemoryChain, request: &HeaderRequest) -> Vec<SealedHeader> {
    let first = match request.origin {
        HeaderOrigin::Number(number) => Some(number),
        HeaderOrigin::Hash(hash) if request.amount == 1 => {
            return chain.header(hash).unwrap().map(|header| (*header).clone()).into_iter().collect();
        }
        HeaderOrigin::Hash(hash) => chain.header(hash).unwrap().map(|header| header.number),
    };
    let Some(first) = first else { return Vec::new() };
    let numbers = (0..request.amount.min(192)).map(|index| first + index * (request.skip + 1));
    let found = numbers.map_while(|number| {
        let hash = chain.canonical_hash(BlockNumber(number)).unwrap()?;
        chain.header(hash).unwrap()
    });
    found.map(|header| (*header).clone()).collect()
}

/// Answers a request for bodies.
pub(super) fn bodies(chain: &MemoryChain, hashes: &[B256]) -> Vec<CheckedBody> {
    let blocks = hashes.iter().filter_map(|hash| chain.block(*hash).unwrap());
    let body = |block: Arc<tenon_api::RecoveredBlock>| CheckedBody {
        transactions_root: tenon_chain::transactions_root(&block.transactions),
        ommers_hash: tenon_chain::ommers_hash(&block.ommers),
        body: BlockBody { transactions: block.transactions.clone(), ommers: block.ommers.clone() },
        bytes: 100,
    };
    blocks.map(body).collect()
}

/// A time of the simulated world in the form that the state machines use.
pub(super) const fn since_start(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
