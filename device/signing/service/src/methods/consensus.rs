//! Consensus messages of validators (`docs/spec/consensus.md` 1.2, 3.2, 3.3). They arrive as structured data; the
//! digest is computed here.

use alloy_primitives::{Address, B256, Bytes};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tenon_chain::round_messages::{
    BlockInfo, QuorumCertificate, SyncInfo, TimeoutCertificate, timeout_digest, vote_digest,
};
use tenon_native_consensus::{ExtraFields, v2_seal_hash};
use tenon_sdk::Failure;
use tenon_signing_policy::{Kind, Subject, ValidatorMessage};

use super::decoding::{Arguments, Whole};
use crate::service::SignatureRequest;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockInfoJson {
    hash: B256,
    round: Whole,
    number: Whole,
}

impl From<BlockInfoJson> for BlockInfo {
    fn from(BlockInfoJson { hash, round, number }: BlockInfoJson) -> Self {
        Self { hash, round: round.0, number: number.0 }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct VoteJson {
    proposed_block_info: BlockInfoJson,
    gap_number: Whole,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TimeoutJson {
    round: Whole,
    gap_number: Whole,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct QuorumJson {
    proposed_block_info: BlockInfoJson,
    signatures: Vec<Bytes>,
    gap_number: Whole,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TimeoutCertificateJson {
    round: Whole,
    signatures: Vec<Bytes>,
    gap_number: Whole,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SyncInfoJson {
    highest_quorum_cert: QuorumJson,
    highest_timeout_cert: TimeoutCertificateJson,
}

/// The account, the chain id and the third argument.
fn parts<T: DeserializeOwned>(arguments: &Arguments<'_>) -> Result<(Address, u64, T), Failure> {
    let chain_id: Whole = arguments.structure(1)?;
    Ok((arguments.address(0)?, chain_id.0, arguments.structure(2)?))
}

fn ask(account: Address, message: ValidatorMessage) -> SignatureRequest {
    SignatureRequest { account, subject: Subject::Validator(message), typed_data: None }
}

/// `consensus_signSeal`: account, chain id, and the header (RLP) with an empty seal.
pub(super) fn seal(arguments: &Arguments<'_>) -> Result<SignatureRequest, Failure> {
    let (account, chain_id, encoded): (_, _, Bytes) = parts(arguments)?;
    let invalid = |error: String| Failure::invalid_argument(2, format_args!("header: {error}"));
    let mut rest = &encoded[..];
    let header = tenon_chain::decode_header(&mut rest).map_err(|error| invalid(error.to_string()))?;
    if !rest.is_empty() {
        return Err(invalid("bytes follow it".to_owned()));
    }
    let extra = ExtraFields::decode(&header.extra_data).map_err(|error| invalid(format!("extra data: {error}")))?;
    let (kind, round, number) = (Kind::Seal, extra.round, Some(header.number));
    Ok(ask(account, ValidatorMessage { kind, chain_id, round, number, hash: v2_seal_hash(&header) }))
}

/// `consensus_signVote`: account, chain id, `{proposedBlockInfo, gapNumber}`.
pub(super) fn vote(arguments: &Arguments<'_>) -> Result<SignatureRequest, Failure> {
    let (account, chain_id, vote): (_, _, VoteJson) = parts(arguments)?;
    let block = BlockInfo::from(vote.proposed_block_info);
    let (kind, round, number) = (Kind::Vote, block.round, Some(block.number));
    let hash = vote_digest(&block, vote.gap_number.0);
    Ok(ask(account, ValidatorMessage { kind, chain_id, round, number, hash }))
}

/// `consensus_signTimeout`: account, chain id, `{round, gapNumber}`.
pub(super) fn timeout(arguments: &Arguments<'_>) -> Result<SignatureRequest, Failure> {
    let (account, chain_id, timeout): (_, _, TimeoutJson) = parts(arguments)?;
    let (kind, round) = (Kind::Timeout, timeout.round.0);
    let hash = timeout_digest(round, timeout.gap_number.0);
    Ok(ask(account, ValidatorMessage { kind, chain_id, round, number: None, hash }))
}

/// `consensus_signSyncInfo`: account, chain id, `{highestQuorumCert, highestTimeoutCert}`. The protocol has no
/// signature on this message; the hash that identifies it in gossip is signed.
pub(super) fn sync_info(arguments: &Arguments<'_>) -> Result<SignatureRequest, Failure> {
    let (account, chain_id, info): (_, _, SyncInfoJson) = parts(arguments)?;
    let (quorum, timeout) = (info.highest_quorum_cert, info.highest_timeout_cert);
    let info = SyncInfo {
        quorum: QuorumCertificate {
            block: quorum.proposed_block_info.into(),
            signatures: quorum.signatures,
            gap_number: quorum.gap_number.0,
        },
        timeout: TimeoutCertificate {
            round: timeout.round.0,
            signatures: timeout.signatures,
            gap_number: timeout.gap_number.0,
        },
    };
    let round = info.quorum.block.round.max(info.timeout.round);
    let (kind, number) = (Kind::SyncInfo, Some(info.quorum.block.number));
    Ok(ask(account, ValidatorMessage { kind, chain_id, round, number, hash: info.hash() }))
}
