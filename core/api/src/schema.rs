//! The list of all messages, and the hash by which host and plugin check that their message types are equal.

use alloy_primitives::{B256, keccak256};

use crate::{Capability, Event, Request, Topic, messages::*};

/// One message type of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaEntry {
    /// Its topic.
    pub topic: Topic,
    /// Its schema number.
    pub schema: u16,
    /// Its name.
    pub name: &'static str,
    /// Capability that a plugin needs.
    pub capability: Capability,
}

const fn request<R: Request>() -> SchemaEntry {
    SchemaEntry { topic: R::TOPIC, schema: R::SCHEMA, name: R::NAME, capability: R::CAPABILITY }
}

const fn event<E: Event>() -> SchemaEntry {
    SchemaEntry { topic: E::TOPIC, schema: E::SCHEMA, name: E::NAME, capability: E::CAPABILITY }
}

/// Every message type, ascending by topic.
const ENTRIES: &[SchemaEntry] = &[
    request::<GetHead>(),
    request::<GetHeader>(),
    request::<GetBlock>(),
    request::<GetBlockReceipts>(),
    request::<GetTransaction>(),
    request::<GetReceipt>(),
    request::<GetLogs>(),
    request::<GetRaw>(),
    request::<GetChainChanges>(),
    request::<GetChainInfo>(),
    request::<SetHead>(),
    request::<GetTransactionProof>(),
    request::<ImportChain>(),
    request::<ExportChain>(),
    request::<GetChainConfig>(),
    request::<GetHeadNumber>(),
    request::<MakeCheckpoint>(),
    request::<CountTransactions>(),
    request::<GetTransactionInBlock>(),
    request::<GetBlockOutline>(),
    request::<GetAvailability>(),
    request::<GetForkSchedule>(),
    request::<GetAccount>(),
    request::<GetCode>(),
    request::<GetStorage>(),
    request::<GetProof>(),
    request::<Call>(),
    request::<EstimateGas>(),
    request::<CreateAccessList>(),
    request::<Trace>(),
    request::<Simulate>(),
    request::<SuggestTip>(),
    request::<GetFeeHistory>(),
    request::<GetNextBlockFees>(),
    request::<SuggestGasPrice>(),
    request::<SubmitTransaction>(),
    request::<GetPoolStatus>(),
    request::<GetPoolContent>(),
    request::<GetPoolTransaction>(),
    request::<GetPoolNonce>(),
    request::<GetPendingSince>(),
    request::<GetRawPoolTransaction>(),
    request::<AwaitSealing>(),
    request::<RecoverSendersAhead>(),
    request::<SetMinTip>(),
    request::<GetPoolSummary>(),
    request::<ListAccounts>(),
    request::<SignMessage>(),
    request::<SignTransaction>(),
    request::<SendTransaction>(),
    request::<ListWallets>(),
    request::<CreateAccount>(),
    request::<ImportKey>(),
    request::<UnlockAccount>(),
    request::<LockAccount>(),
    request::<UseWallet>(),
    request::<RecoverSigner>(),
    request::<SignTypedData>(),
    request::<DescribeSigner>(),
    request::<GetClientVersion>(),
    request::<GetNetworkStatus>(),
    request::<GetSyncStatus>(),
    request::<ListNamespaces>(),
    request::<GetDataFolder>(),
    request::<StartFrontEnd>(),
    request::<ListNamespaceVersions>(),
    request::<SetExposure>(),
    request::<GetSpelling>(),
    request::<ListModules>(),
    request::<GetModule>(),
    request::<ChangeModule>(),
    request::<ReloadSettings>(),
    request::<GetRecords>(),
    request::<ScanRecords>(),
    request::<CommitRecords>(),
    request::<GetSpaceUsage>(),
    request::<PurgeSpace>(),
    request::<GetEpochReward>(),
    request::<GetBlockSigners>(),
    request::<GetCandidates>(),
    request::<GetStakingReturn>(),
    request::<GetAuthorised>(),
    request::<GetEpochMembers>(),
    request::<GetRound>(),
    request::<GetMissedRounds>(),
    request::<GetEpochSwitches>(),
    request::<GetEpochBlocks>(),
    request::<GetVotingPool>(),
    request::<GetConsensusParameters>(),
    request::<GetNativeSchedule>(),
    request::<DumpAccounts>(),
    request::<GetModifiedAccounts>(),
    request::<GetPreimage>(),
    request::<GetStorageRange>(),
    request::<GetDatabaseStatistics>(),
    request::<CompactDatabase>(),
    request::<GetBadBlocks>(),
    request::<GetMemoryStatistics>(),
    request::<ListThreads>(),
    request::<SetLogLevel>(),
    request::<SetLogModules>(),
    request::<GetIntermediateRoots>(),
    request::<GetExecutionWitness>(),
    request::<GetAccountRange>(),
    request::<ReadRequestFile>(),
    request::<RecordProfile>(),
    request::<GetSealing>(),
    request::<SetSealing>(),
    request::<StartSealing>(),
    request::<GetNetworkNode>(),
    request::<ListPeers>(),
    request::<ChangePeer>(),
    event::<BlockCommitted>(),
    event::<NewHead>(),
    event::<LogsChanged>(),
    event::<TransactionPending>(),
    event::<SyncChanged>(),
    event::<BlocksUnwound>(),
    event::<ModuleChanged>(),
    event::<WalletChanged>(),
    event::<PeerChanged>(),
    event::<WalletPrompted>(),
];

/// Every message type, ascending by topic.
pub const fn schema_entries() -> &'static [SchemaEntry] {
    ENTRIES
}

/// keccak256 over the sorted list of (topic, schema number, name). Builds with equal hashes encode every message alike,
/// as long as `SCHEMA` is raised with every change of an encoding; the golden frames in the tests check that.
pub fn schema_hash() -> B256 {
    let mut text = String::new();
    for entry in schema_entries() {
        text.push_str(&format!("{:04x}:{}:{}\n", entry.topic.0, entry.schema, entry.name));
    }
    keccak256(text)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    #[test]
    fn topics_ascend_and_are_unique() {
        assert!(schema_entries().windows(2).all(|pair| pair[0].topic < pair[1].topic));
    }

    /// The names of the messages that a source file defines.
    fn messages_defined_in(file: &Path) -> Vec<String> {
        let text = fs::read_to_string(file).unwrap();
        let defined = text.lines().filter_map(|line| {
            let (keyword, definition) = line.split_once("!(")?;
            let is_message = matches!(keyword, "request" | "event");
            is_message.then(|| definition.split([',', ' ']).next().unwrap_or_default().to_owned())
        });
        defined.collect()
    }

    /// The host refuses messages that are not in the list.
    #[test]
    fn every_defined_message_is_listed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/messages");
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file());

        let defined: BTreeSet<_> = files.flat_map(|file| messages_defined_in(&file)).collect();

        let listed: BTreeSet<_> = schema_entries().iter().map(|entry| entry.name.to_owned()).collect();
        assert_eq!(defined, listed);
    }
}
