//! A node that imports the blocks, and must agree with the model on each.

use std::sync::{Arc, OnceLock};

use alloy_primitives::{Address, U256};
use tenon_api::{Block, BlockNumber, ChainReader as _, ConsensusEngine as _, EngineRecords as _, InsertOutcome};
use tenon_chain::Genesis;
use tenon_differential_tests::Node;
use tenon_native_consensus::{ContractCandidates, NativeEngine, TimeoutCertificate, read_candidates};

use crate::{Facts, Model, Network};

/// Number of facts on which a node and the model agreed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreement {
    /// Blocks that became the head.
    pub heads: u64,
    /// Blocks that opened an epoch.
    pub epochs: u64,
    /// Penalties in them.
    pub penalties: u64,
    /// Candidates that were penalised in one epoch and masternodes in the next.
    pub come_backs: u64,
    /// Blocks that paid rewards.
    pub paid: u64,
    /// Blocks with two signatures.
    pub signed_twice: u64,
    /// Blocks that undid others.
    pub reorganisations: u64,
    /// Invalid blocks that were refused.
    pub refused: u64,
    /// Accepted certificates of failed rounds; as many with one signature too few were refused.
    pub failed_rounds: u64,
}

/// A node with the native engine over a database, as in the program.
pub struct Follower {
    /// The node.
    pub node: Node,
    /// Its engine.
    pub engine: Arc<NativeEngine>,
}

impl Follower {
    /// A node with block 0 only, whose engine keeps its records in the database.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn new(network: &Network) -> Self {
        Self::of_genesis(&network.genesis)
    }

    /// The same for any native chain.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn of_genesis(genesis: &Genesis) -> Self {
        let engine = OnceLock::new();
        let node = Node::keeping(genesis, |spec, store| {
            let clock = Arc::new(|| u64::MAX);
            let records = Arc::clone(store) as _;
            let made = NativeEngine::with_records_and_source(&spec, Arc::new(ContractCandidates), clock, records);
            Arc::clone(engine.get_or_init(|| Arc::new(made.unwrap()))) as _
        });
        Self { node, engine: engine.into_inner().expect("the node made its engine") }
    }

    /// Imports a block.
    ///
    /// # Panics
    /// If the node refuses it, or differs from the model on it.
    pub fn follow(&self, block: &Block, model: &Model, agreement: &mut Agreement) {
        let number = block.header.number;
        let outcome = self.node.importer.insert(block.clone()).unwrap_or_else(|error| panic!("{error}"));
        let InsertOutcome::Head { reorganised } = outcome else { return };
        let facts = model.facts(block.header.hash()).unwrap_or_else(|| panic!("the model did not make block {number}"));
        agreement.heads += 1;
        agreement.reorganisations += u64::from(!reorganised.is_empty());
        let head = self.node.store.head();
        assert_eq!(head.total_difficulty, U256::from(facts.total_difficulty), "total difficulty of {number}");
        let finalized = model.finalized(&facts).map(BlockNumber);
        assert_eq!(head.finalized, finalized, "finalized at {number}");
        assert_eq!(self.engine.author(&block.header).unwrap(), facts.author, "author of {number}");
        self.agrees_on_lists(block, &facts, model, agreement);
        self.agrees_on_candidates(&facts);
        self.agrees_on_failed_round(&facts, model, agreement);
    }

    fn agrees_on_lists(&self, block: &Block, facts: &Facts, model: &Model, agreement: &mut Agreement) {
        let (number, store) = (facts.number, &*self.node.store);
        let opens = facts.epoch.number == number;
        if self.engine.is_v2(number) {
            let epoch = self.engine.v2().epoch_info(&block.header, store).unwrap();
            assert_eq!(&*epoch.masternodes, facts.epoch.masternodes, "masternodes at {number}");
            assert_eq!(epoch.penalties, facts.epoch.penalties, "penalties at {number}");
            assert_eq!((epoch.switch.number, epoch.switch.round > 0), (facts.epoch.number, true), "epoch of {number}");
        } else {
            let masternodes = self.engine.v1().masternodes(&block.header, store).unwrap();
            assert_eq!(masternodes, facts.epoch.masternodes, "masternodes at {number}");
            agreement.signed_twice += u64::from(number > model.network.epoch);
        }
        if opens {
            let before = parent_of(facts, model);
            let is_back = |who: &&Address| facts.epoch.masternodes.contains(who);
            agreement.epochs += 1;
            agreement.penalties += facts.epoch.penalties.len() as u64;
            agreement.come_backs += before.epoch.penalties.iter().filter(is_back).count() as u64;
        }
        let paid = self.engine.epoch_rewards(&block.header, store).unwrap();
        agreement.paid += u64::from(paid.is_some_and(|paid| !paid.signers.is_empty()));
    }

    /// Checks that the voting contract's storage matches its calls.
    fn agrees_on_candidates(&self, facts: &Facts) {
        let state = self.node.store.state_at(BlockNumber(facts.number)).unwrap();
        assert_eq!(read_candidates(&*state).unwrap(), facts.table.candidates(), "candidates after {}", facts.number);
    }

    /// Checks the certificate of the round that failed before a block: by the required number of the parent's
    /// masternodes, and by one less (`docs/spec/consensus.md` 5.6). No header contains it.
    fn agrees_on_failed_round(&self, facts: &Facts, model: &Model, agreement: &mut Agreement) {
        let before = parent_of(facts, model);
        if !self.engine.is_v2(before.number) || before.round + 1 == facts.round {
            return;
        }
        let (round, masternodes) = (facts.round - 1, &before.epoch.masternodes);
        let needed = model.quorum(masternodes.len(), round);
        let gap_number = model.gap_number(before.epoch.number);
        let store = &*self.node.store;
        let header = store.header(before.hash).unwrap();
        let header = header.unwrap_or_else(|| panic!("the node lacks block {}", before.number));
        let epoch = self.engine.v2().epoch_info(&header, store).unwrap();
        let verdict = |count: usize| {
            let mut certificate = TimeoutCertificate { round, signatures: Vec::new(), gap_number };
            let digest = certificate.digest();
            let sign = |who: &Address| model.network.candidates[who].sign(digest).to_vec().into();
            certificate.signatures = masternodes.iter().take(count).map(sign).collect();
            self.engine.v2().verify_timeout_certificate(&certificate, &epoch, store).map_err(|error| error.to_string())
        };
        assert_eq!(verdict(needed), Ok(()), "round {round}");
        assert_eq!(verdict(needed - 1), Err("invalid TC Signatures".to_owned()), "round {round}");
        agreement.failed_rounds += 1;
    }

    /// Imports a block that pays too much.
    ///
    /// # Panics
    /// If the node accepts it, or refuses it for anything but its state.
    pub fn refuses(&self, block: &Block, agreement: &mut Agreement) {
        match self.node.importer.insert(block.clone()) {
            // Not executed until its branch wins.
            Ok(InsertOutcome::SideBranch { .. }) => {}
            Ok(outcome) => panic!("block {} pays too much and was taken: {outcome:?}", block.header.number),
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("state root"), "{error}");
                agreement.refused += 1;
            }
        }
    }

    /// The engine's persistent records on the candidates of gap blocks.
    ///
    /// # Panics
    /// If the database fails.
    pub fn records(&self) -> Vec<Option<Vec<u8>>> {
        (0..32).map(|place| self.node.store.record(&format!("candidates/{place}")).unwrap()).collect()
    }
}

/// The parent of a block that the model made.
fn parent_of(facts: &Facts, model: &Model) -> Arc<Facts> {
    model.facts(facts.parent).unwrap_or_else(|| panic!("the model did not make the parent of block {}", facts.number))
}
