//! Current and coming forks (EIP-7910).

use tenon_api::{
    BlockNumber, ChainReader, StoreError,
    messages::{ContractLevel, ForkRules, ForkSchedule},
};
use tenon_chain::{Activation, Fork};

use super::{Answers, error::AnswerError};

impl Answers {
    /// The forks that are activated by time. Chains that have one are past all forks activated by height.
    pub(super) fn fork_schedule(&self) -> Result<ForkSchedule, AnswerError> {
        let head = self.store.head();
        let hash = self.store.canonical_hash(BlockNumber::GENESIS)?;
        let genesis = hash.map(|hash| self.store.header(hash)).transpose()?.flatten();
        let genesis = genesis.ok_or_else(|| StoreError::UnknownBlock { what: "0".to_owned() })?;
        let times = self.spec.activations().iter().filter_map(|(fork, activation)| match activation {
            Activation::Time(time) => Some((*time, *fork)),
            _ => None,
        });
        let mut times: Vec<(u64, Fork)> = times.collect();
        times.sort_unstable();
        // If several forks activate at the same time, the newest applies.
        times.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                earlier.1 = later.1;
            }
            is_same
        });
        let rules = |time: u64, fork: Fork, number: u64, timestamp: u64| ForkRules {
            activation: time,
            fork_id: self.spec.fork_id(genesis.hash(), genesis.timestamp, number, timestamp).hash,
            contracts: contract_level(fork),
            blobs: self.spec.blob_parameters(timestamp).map(|blobs| (blobs.target, blobs.max, blobs.update_fraction)),
            deposit_contract: self.spec.deposit_contract.filter(|_| fork >= Fork::Prague),
        };
        let passed = times.iter().rev().find(|(time, _)| *time <= head.header.timestamp);
        let (time, fork) = passed.copied().unwrap_or_else(|| (0, self.spec.fork_of(&head.header)));
        let future = |(time, fork): &(u64, Fork)| rules(*time, *fork, u64::MAX, *time);
        let later = || times.iter().filter(|(time, _)| *time > head.header.timestamp);
        Ok(ForkSchedule {
            chain_id: self.info.chain_id,
            current: rules(time, fork, head.header.number, head.header.timestamp),
            next: later().next().map(future),
            last: later().next_back().map(future),
        })
    }
}

fn contract_level(fork: Fork) -> ContractLevel {
    match fork {
        fork if fork >= Fork::Osaka => ContractLevel::Osaka,
        fork if fork >= Fork::Prague => ContractLevel::Prague,
        fork if fork >= Fork::Cancun => ContractLevel::Cancun,
        fork if fork >= Fork::Istanbul => ContractLevel::Istanbul,
        fork if fork >= Fork::Byzantium => ContractLevel::Byzantium,
        _ => ContractLevel::Frontier,
    }
}
