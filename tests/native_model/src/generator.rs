//! Generates chains block by block: missed turns, failed rounds, forks.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::{Block, BlockNumber, ChainReader as _, RecoveredBlock, SealAttributes};
use tenon_differential_tests::{Node, SplitMix64};

use crate::{Facts, Model, ModelEngine, Network, Plan, network::GAS_LIMIT, traffic::Traffic};

/// A block in the order in which a node receives it.
pub struct Made {
    /// The block.
    pub block: Block,
    /// The same block with one wei too much in its rewards, if it pays any.
    pub overpaid: Option<Block>,
}

/// A growing chain.
pub struct Generator {
    /// Makes the blocks, and knows their facts.
    pub engine: Arc<ModelEngine>,
    network: Arc<Network>,
    node: Node,
    silent: Vec<Address>,
    /// Total difficulty that the current branch must exceed to win.
    to_beat: u64,
    /// Number of forks.
    pub forks: u64,
    /// Rounds without a block.
    pub missed_rounds: u64,
    /// Transactions.
    pub transactions: u64,
}

impl Generator {
    /// A chain of block 0 only.
    pub fn new(network: Arc<Network>) -> Self {
        let engine = Arc::new(ModelEngine::new(Model::new(Arc::clone(&network))));
        let for_node = Arc::clone(&engine);
        let node = Node::new(&network.genesis, move |_| Arc::clone(&for_node) as _);
        Self { engine, network, node, silent: Vec::new(), to_beat: 0, forks: 0, missed_rounds: 0, transactions: 0 }
    }

    /// The newest block.
    pub fn tip(&self) -> Arc<Facts> {
        let head = self.node.store.head();
        let facts = self.engine.model.lock().facts(head.header.hash());
        facts.unwrap_or_else(|| panic!("the model did not make the head, block {}", head.number()))
    }

    /// Returns whether a branch has not won yet, so that the chain must not end here.
    pub fn is_in_fork(&self) -> bool {
        self.tip().total_difficulty <= self.to_beat
    }

    /// Makes the next block, sometimes after going back a few blocks; `None` if none can be made, because all
    /// candidates are penalised.
    pub fn step(&mut self, random: &mut SplitMix64) -> Option<Made> {
        if !self.is_in_fork() && random.chance(4) {
            self.fork(random);
        }
        if random.chance(if self.network.switch_block == 0 { 10 } else { 2 }) {
            self.change_who_is_silent(random);
        }
        let plan = self.next_plan(random)?;
        let parent = Arc::clone(&plan.parent);
        let recent: Vec<B256> =
            self.engine.model.lock().chain(&parent).iter().rev().take(40).map(|block| block.hash).collect();
        let transactions = Traffic::of_block(&self.network, random, &self.node, &parent, &recent, &self.silent);
        self.engine.plan(plan);
        let overpaid = self.pays().then(|| {
            *self.engine.bonus.lock() = U256::ONE;
            let block = self.produce(transactions.clone());
            *self.engine.bonus.lock() = U256::ZERO;
            self.node.importer.set_head(BlockNumber(parent.number)).unwrap();
            block.block.clone()
        });
        let block = self.produce(transactions);
        self.engine.record(&block);
        self.transactions += block.transactions.len() as u64;
        Some(Made { block: block.block.clone(), overpaid })
    }

    fn pays(&self) -> bool {
        let plan = self.engine.planned();
        !self.engine.model.lock().rewards(&plan).is_empty()
    }

    fn produce(&self, transactions: Vec<tenon_api::RecoveredTransaction>) -> Arc<RecoveredBlock> {
        let attributes = SealAttributes {
            timestamp: 0,
            beneficiary: Address::ZERO,
            gas_limit: GAS_LIMIT,
            extra_data: Bytes::new(),
            mix_hash: B256::ZERO,
        };
        self.node.importer.produce(&attributes, transactions).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Goes back a few blocks, so that the next ones are another branch. Forks avoid checkpoints of v1: their lists can
    /// be verified only on top of a canonical parent (`docs/spec/consensus.md` 2.6 reads the newest state).
    fn fork(&mut self, random: &mut SplitMix64) {
        let (tip, switch) = (self.tip(), self.network.switch_block);
        let depth = 1 + random.below(4);
        let Some(target) = tip.number.checked_sub(depth).filter(|target| *target > 0) else { return };
        let place = target % self.network.epoch;
        if target <= switch + 4 && (place + 12 > self.network.epoch || place < 2) {
            return;
        }
        self.to_beat = tip.total_difficulty;
        self.forks += 1;
        self.node.importer.set_head(BlockNumber(target)).unwrap();
    }

    fn change_who_is_silent(&mut self, random: &mut SplitMix64) {
        let names: Vec<Address> = self.network.candidates.keys().copied().collect();
        self.silent = names.iter().filter(|_| random.chance(22)).copied().collect();
    }

    fn next_plan(&mut self, random: &mut SplitMix64) -> Option<Plan> {
        let parent = self.tip();
        let plan = |generator: &mut Self, random: &mut SplitMix64| {
            if parent.number < generator.network.switch_block {
                generator.v1_plan(&parent, random)
            } else {
                generator.v2_plan(&parent, random)
            }
        };
        plan(self, random).or_else(|| {
            self.silent.clear();
            plan(self, random)
        })
    }

    /// The next active masternode; skipped ones reduce the difficulty (`docs/spec/consensus.md` 2.4).
    fn v1_plan(&self, parent: &Arc<Facts>, random: &mut SplitMix64) -> Option<Plan> {
        let list = &parent.epoch.masternodes;
        let epoch = self.engine.model.lock().epoch(parent, 0);
        let next = list.iter().position(|who| *who == parent.author).map_or(0, |place| place + 1);
        // A second branch begins with another creator, or its block would be the same.
        let passed = usize::try_from(if self.is_in_fork() { random.below(2) } else { 0 }).unwrap();
        (passed..list.len()).chain(0..passed).find_map(|passed| {
            let author = list[(next + passed) % list.len()];
            let may = !self.silent.contains(&author)
                && (author != parent.author || list.len() == 1)
                && epoch.masternodes.contains(&author);
            may.then(|| Plan {
                parent: Arc::clone(parent),
                author,
                round: 0,
                difficulty: (list.len() - passed) as u64,
                timestamp: parent.timestamp + 1 + random.below(3),
                epoch: Arc::clone(&epoch),
                voters: Vec::new(),
            })
        })
    }

    /// A later round with an active leader. Sometimes many rounds fail, so that an epoch ends early or is left out.
    fn v2_plan(&mut self, parent: &Arc<Facts>, random: &mut SplitMix64) -> Option<Plan> {
        let length = self.network.epoch;
        let mut first = parent.round + 1;
        if random.chance(15) {
            first += random.below(3);
        }
        if random.chance(if length == 900 { 4 } else { 1 }) {
            first += random.below(length * 3 / 2);
        }
        for round in first..first + 40 {
            let epoch = self.engine.model.lock().epoch(parent, round);
            let list = &epoch.masternodes;
            let leader = list.get(usize::try_from(round % length).unwrap() % list.len().max(1))?;
            if self.silent.contains(leader) {
                continue;
            }
            self.missed_rounds += round - parent.round - 1;
            return Some(Plan {
                parent: Arc::clone(parent),
                author: *leader,
                round,
                difficulty: 1,
                timestamp: parent.timestamp + self.network.rules(round).mine_period + random.below(3),
                voters: self.voters(parent, random),
                epoch,
            });
        }
        None
    }

    /// A quorum of the parent's epoch, often more, in any order; the switch block needs none (`docs/spec/consensus.md`
    /// 3.5).
    fn voters(&self, parent: &Facts, random: &mut SplitMix64) -> Vec<Address> {
        if parent.round == 0 {
            return Vec::new();
        }
        let mut voters = parent.epoch.masternodes.clone();
        let count = voters.len();
        for place in 0..count {
            voters.swap(place, place + usize::try_from(random.below((count - place) as u64)).unwrap());
        }
        let needed = self.engine.model.lock().quorum(count, parent.round);
        voters.truncate(needed + usize::try_from(random.below((count - needed) as u64 + 1)).unwrap());
        // Duplicate votes count once.
        if random.chance(10) {
            voters.push(voters[0]);
        }
        voters
    }
}
