//! The namespaces: one file each, with its trait and the forms of its answers; the modules of `admin` have their own.

mod admin;
mod approvals;
mod consensus;
mod debug;
mod eth;
mod module;
mod native_eth;
mod personal;
mod txpool;

pub use admin::{
    AdminClient, AdminSubscriptions, EnableOptions, LoadOptions, ModuleTerms, NodeChain, NodeInfo, NodePorts,
    NodeProtocols, Peer, PeerChain, PeerEth, PeerEvent, PeerNetwork, PeerProtocols, ReplaceOptions,
};
pub use approvals::{
    ApprovalsClient, Derived, PolicyClient, PresentationLine, RequestPresentation, SignerWallet, WaitingRequest,
    WalletsClient,
};
pub use consensus::{
    ConsensusClient, ConsensusConfig, EpochBlocks, EpochMasternodes, HeaderTally, HeaderVote, MissedRound,
    MissedRounds, NetworkInformation, RoundConfig, Snapshot, TimeoutConfig, V2Block, V2Config, VotingPool,
    WaitingSigners,
};
pub use debug::DebugClient;
pub use eth::{EthClient, EthSubscriptions};
pub use module::Module;
pub use native_eth::{AccountInfo, Candidate, CandidateInfo, CandidateStatus, Candidates, NativeEthClient};
pub use personal::PersonalClient;
pub use txpool::{BySender, PoolContent, PoolContentFrom, PoolStatus, PoolSummary, TxpoolClient};

/// Serialises a `U256` as a JSON number of any size, which a `u64` or `f64` cannot hold.
mod digits {
    use alloy_primitives::U256;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _, ser::Error as _};
    use serde_json::value::RawValue;

    pub(super) fn serialize<S: Serializer>(number: &U256, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(number.to_string()).map_err(S::Error::custom)?.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<U256, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        U256::from_str_radix(text.get(), 10).map_err(|error| D::Error::custom(format!("{text}: {error}")))
    }

    /// Serialises an optional `U256` in this way; -1 means `None`.
    pub(super) mod optional {
        use super::*;

        const NONE: &str = "-1";

        pub(in crate::namespaces) fn serialize<S: Serializer>(
            number: &Option<U256>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            let text = number.map_or_else(|| NONE.to_owned(), |number| number.to_string());
            RawValue::from_string(text).map_err(S::Error::custom)?.serialize(serializer)
        }

        pub(in crate::namespaces) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<U256>, D::Error> {
            let text = Box::<RawValue>::deserialize(deserializer)?;
            match text.get() {
                NONE => Ok(None),
                digits => U256::from_str_radix(digits, 10)
                    .map(Some)
                    .map_err(|error| D::Error::custom(format!("{digits}: {error}"))),
            }
        }
    }
}
