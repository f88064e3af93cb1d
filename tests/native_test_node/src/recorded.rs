//! Chains of networks of the reference client (`tests/data/native/README.md`), and an engine that trusts their headers,
//! so that execution is tested without consensus.

use std::{collections::HashMap, sync::Arc};

use alloy_primitives::{Address, U256};
use serde_json::Value;
use tenon_api::{
    Block, BlockNumber, BlockRewards, ChainReader, ChainWriter as _, ConsensusEngine, ConsensusError, Head, Header,
    RecoveredBlock, RefusalCause, SealAttributes, SealedHeader,
};
use tenon_bus::Bus;
use tenon_chain::{BlockStream, ChainSpec, Genesis, recover_senders_under};
use tenon_execution_block::Executor;
use tenon_native_consensus::{SigningIndex, recover, rewards, v1_seal_hash, v2_seal_hash};
use tenon_native_spec::{NativeSettings, read_genesis};
use tenon_simulation::CallLimits;

use tenon_test_node::{MemoryChain, test_data};

use crate::{answer_calls, rules_of_blocks};

/// A recorded chain: its genesis, its blocks, and a line on every block.
pub struct RecordedChain {
    pub genesis: Genesis,
    pub blocks: Vec<Arc<RecoveredBlock>>,
    pub lines: HashMap<u64, Value>,
}

impl RecordedChain {
    pub fn read(genesis: &str, chain: &str, lines: Option<&str>) -> Self {
        let genesis = read_genesis(&test_data(genesis)).unwrap();
        let file = test_data(chain);
        let blocks = BlockStream::new(&file[..]).map(|block| {
            let block = block.unwrap();
            let rules = genesis.spec.signer_rules(block.header.number, block.header.timestamp);
            Arc::new(recover_senders_under(block, &rules).unwrap())
        });
        let blocks = blocks.collect();
        let text = lines.map(|lines| String::from_utf8(test_data(lines)).unwrap()).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let lines = lines
            .map(|line| (line["number"].as_u64().unwrap_or_else(|| panic!("a line has no number: {line}")), line))
            .collect();
        Self { genesis, blocks, lines }
    }
}

/// A recorded chain, executed, that answers calls, simulations and traces.
pub struct NativeNode {
    pub recorded: RecordedChain,
    pub spec: Arc<ChainSpec>,
    pub chain: MemoryChain,
    pub engine: Arc<TrustingEngine>,
    pub bus: Bus,
}

impl NativeNode {
    /// The recorded chain of this name; `reorg` up to the head of its first branch.
    pub fn new(name: &str, limits: CallLimits) -> Self {
        let (genesis, blocks) = match name {
            "reorg" => ("native/chains/reorg.genesis.json.gz".to_owned(), "reorg-a"),
            name => (format!("chain/native-genesis-{name}.json.gz"), name),
        };
        let recorded = RecordedChain::read(&genesis, &format!("native/chains/{blocks}.rlp.gz"), None);
        let spec = Arc::clone(&recorded.genesis.spec);
        let chain = MemoryChain::new(&recorded.genesis.commit().unwrap());
        let engine = Arc::new(TrustingEngine::new(&spec, chain.clone()));
        let executor = Executor::new(rules_of_blocks(&spec));
        for block in &recorded.blocks[1..] {
            let parent = chain.head().header.clone();
            let commit = executor.execute(&chain, &*engine, Arc::clone(block), &parent).unwrap();
            chain.commit(&Arc::new(commit)).unwrap();
        }
        let bus = Bus::new();
        answer_calls(&bus, &spec, Arc::new(chain.clone()), Arc::clone(&engine) as _, limits);
        Self { recorded, spec, chain, engine, bus }
    }
}

/// An engine without checks: only execution decides.
pub struct TrustingEngine {
    settings: NativeSettings,
    chain: MemoryChain,
    signing: SigningIndex,
}

impl TrustingEngine {
    pub fn new(spec: &ChainSpec, chain: MemoryChain) -> Self {
        Self { settings: NativeSettings::of(spec).cloned().unwrap(), chain, signing: SigningIndex::default() }
    }

    fn refusal(header: &SealedHeader, reason: impl ToString) -> ConsensusError {
        ConsensusError {
            number: header.number.into(),
            hash: header.hash(),
            cause: RefusalCause::BrokenRule,
            reason: reason.to_string(),
        }
    }
}

impl ConsensusEngine for TrustingEngine {
    fn name(&self) -> &'static str {
        "trusting"
    }

    fn verify_header(&self, _: &SealedHeader, _: &SealedHeader, _: &dyn ChainReader) -> Result<(), ConsensusError> {
        Ok(())
    }

    fn verify_body(&self, _: &Block, _: &dyn ChainReader) -> Result<(), ConsensusError> {
        Ok(())
    }

    fn is_better(&self, _: &SealedHeader, candidate: U256, head: &Head) -> bool {
        candidate > head.total_difficulty
    }

    fn author(&self, header: &SealedHeader) -> Result<Address, ConsensusError> {
        if header.number == 0 {
            return Ok(Address::ZERO);
        }
        let signer = if header.number <= self.settings.consensus.switch_block {
            let start = header.extra_data.len().saturating_sub(65);
            recover(v1_seal_hash(header), &header.extra_data[start..])
        } else {
            let fields = header.native_seal.as_ref().unwrap();
            recover(v2_seal_hash(header), &fields.validator)
        };
        signer.map_err(|error| Self::refusal(header, format!("{error:?}")))
    }

    fn rewards(&self, block: &Block, chain: &dyn ChainReader) -> Result<BlockRewards, ConsensusError> {
        let parent = self.chain.state_at(BlockNumber(block.header.number - 1)).unwrap();
        let rewards = rewards::of_block(&self.settings, &block.header, &*parent, chain, &self.signing)
            .map_err(|error| Self::refusal(&block.header, error))?;
        Ok(rewards.map(rewards::EpochRewards::into_block_rewards).unwrap_or_default())
    }

    fn prepare(
        &self,
        parent: &SealedHeader,
        _: &SealAttributes,
        _: &dyn ChainReader,
    ) -> Result<Header, ConsensusError> {
        Err(Self::refusal(parent, "makes no blocks"))
    }

    fn seal(&self, header: Header) -> Result<SealedHeader, ConsensusError> {
        Ok(tenon_chain::seal(header))
    }

    fn finality(&self, _: &SealedHeader, _: &dyn ChainReader) -> (Option<BlockNumber>, Option<BlockNumber>) {
        (None, None)
    }
}
