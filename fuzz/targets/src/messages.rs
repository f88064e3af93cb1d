//! Bus messages at the plugin boundary, and the frames around them on a plugin's socket.

use serde::{Serialize, de::DeserializeOwned};
use tenon_api::{Event, Request, codec, messages::*};

/// Decodes a message and checks that it round-trips.
fn message<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(value) = codec::decode::<T>(bytes) else { return };
    let encoded = codec::encode(&value).expect("what was decoded has an encoding");
    let again: T = codec::decode(&encoded).expect("what was encoded decodes");
    let second = codec::encode(&again).expect("what was decoded has an encoding");
    assert_eq!(second, encoded, "a message comes back as it went");
}

/// A kind of message: topic, and how to decode its request (or event) and its reply.
pub(crate) struct Kind {
    pub(crate) topic: u32,
    read: fn(&[u8]),
    read_reply: fn(&[u8]),
}

const fn request<R: Request>() -> Kind {
    Kind { topic: R::TOPIC.0, read: message::<R>, read_reply: message::<R::Reply> }
}

const fn event<E: Event>() -> Kind {
    Kind { topic: E::TOPIC.0, read: message::<E>, read_reply: message::<E> }
}

macro_rules! kinds {
    (requests $($request:ident)*; events $($event:ident)*;) => {
        &[$(request::<$request>(),)* $(event::<$event>(),)*]
    };
}

/// Every message of the schema; a test compares it with the schema's list.
pub(crate) const KINDS: &[Kind] = kinds! {
    requests
        GetHead GetHeader GetBlock GetBlockReceipts GetTransaction GetReceipt GetLogs GetRaw GetChainChanges
        GetChainInfo SetHead GetTransactionProof ImportChain ExportChain GetChainConfig GetHeadNumber GetAccount GetCode
        GetStorage GetProof Call EstimateGas CreateAccessList Trace SuggestTip GetFeeHistory GetNextBlockFees SubmitTransaction
        GetPoolStatus GetPoolContent GetPoolSummary GetPoolTransaction GetPoolNonce GetPendingSince GetRawPoolTransaction
        ListAccounts SignMessage SignTransaction SendTransaction ListWallets CreateAccount ImportKey UnlockAccount
        LockAccount UseWallet RecoverSigner GetClientVersion GetNetworkStatus GetSyncStatus
        ListNamespaces GetDataFolder StartFrontEnd ListModules GetModule ChangeModule GetRecords ScanRecords
        CommitRecords GetSpaceUsage PurgeSpace GetEpochReward GetBlockSigners GetCandidates GetStakingReturn GetAuthorised
        GetEpochMembers GetRound GetMissedRounds GetEpochSwitches GetEpochBlocks GetVotingPool GetConsensusParameters GetNativeSchedule DumpAccounts
        GetModifiedAccounts GetPreimage GetStorageRange GetDatabaseStatistics CompactDatabase GetBadBlocks
        MakeCheckpoint SetExposure GetMemoryStatistics ListThreads SetLogLevel SetLogModules AwaitSealing ReloadSettings ListNamespaceVersions
        SetMinTip GetSealing SetSealing StartSealing SignTypedData DescribeSigner CountTransactions GetTransactionInBlock GetBlockOutline GetSpelling
        SuggestGasPrice GetAvailability GetForkSchedule Simulate RecoverSendersAhead
        GetIntermediateRoots GetExecutionWitness GetAccountRange ReadRequestFile RecordProfile
        GetNetworkNode ListPeers ChangePeer;
    events
        BlockCommitted NewHead LogsChanged TransactionPending SyncChanged BlocksUnwound ModuleChanged WalletChanged PeerChanged WalletPrompted;
};

/// A message by its position in the list, a byte whose lowest bit selects the reply, then the frame.
pub(crate) fn bus(input: &[u8]) {
    let Some((&[position, direction], frame)) = input.split_first_chunk::<2>() else { return };
    let kind = &KINDS[usize::from(position) % KINDS.len()];
    if direction & 1 == 0 { (kind.read)(frame) } else { (kind.read_reply)(frame) }
}

/// Data on the socket of a plugin's process, in one piece and in small ones; the first byte is their size.
pub(crate) fn isolation(input: &[u8]) {
    let Some((piece, stream)) = input.split_first() else { return };
    let piece = usize::from(*piece) + 1;
    let whole = tenon_isolation::fuzzing::read_frames(stream, usize::MAX);
    assert_eq!(tenon_isolation::fuzzing::read_frames(stream, piece), whole, "the same in pieces of {piece}");
    let mut written = Vec::new();
    for frame in &whole.frames {
        assert!(frame.body.len() <= stream.len());
        written.extend(tenon_isolation::fuzzing::write_frame(frame));
        tenon_isolation::fuzzing::read_body(frame);
    }
    assert!(stream.starts_with(&written), "a frame has one encoding");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_of_the_schema_is_fuzzed() {
        let mut fuzzed: Vec<u32> = KINDS.iter().map(|kind| kind.topic).collect();
        fuzzed.sort_unstable();
        let schema: Vec<u32> = tenon_api::schema_entries().iter().map(|entry| entry.topic.0).collect();
        assert_eq!(fuzzed, schema, "add the message to KINDS");
    }
}
