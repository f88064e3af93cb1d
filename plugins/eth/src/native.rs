//! Methods of native chains beyond Ethereum's: accounts in one object, owners, rewards, signers, candidates, proofs
//! (`docs/spec/rpc-eth.md` 8, 9, 17). On the Ethereum profile these methods do not exist.

use tenon_sdk::{
    param::EpochParam,
    prelude::*,
    shapes::{JsonWriter, epoch_reward_json, spelled_address},
};

use crate::{Answer, EthContext, StateBlock, block_or_default, named_block, null, write_data_list};

/// The voting contract.
const VOTING_CONTRACT: Address = Address::new([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x88]);
/// Slot of its mapping from candidates to their records, whose first word is the owner (`docs/spec/chain.md` 10.1).
const RECORDS_POSITION: u8 = 1;

/// Refuses a method of native chains on other chains.
pub(crate) async fn require_native(context: &EthContext, method: &str) -> Result<(), Failure> {
    if crate::dialect(context).await?.has_native_methods {
        return Ok(());
    }
    Err(Failure::method_not_found(method))
}

/// An account in one object, also for accounts without code. The reference answers `not found` for these, which is a
/// defect.
pub(crate) async fn get_account_info(context: EthContext, address: Address, block: StateBlock) -> Answer {
    require_native(&context, "eth_getAccountInfo").await?;
    let block = block_or_default(&context, block, 1).await?;
    let account = context.call(GetAccount { address, block }).await?;
    let is_missing = account == Account::default();
    let code = if is_missing { Bytes::new() } else { context.call(GetCode { address, block }).await? };
    let hash = |hash: B256| if is_missing { B256::ZERO } else { hash };
    let mut json = JsonWriter::with_capacity(400);
    json.begin_object();
    json.key("address").data(address);
    json.key("balance").balance(&account);
    json.key("codeHash").data(hash(account.code_hash));
    json.key("codeSize").raw(&code.len().to_string());
    json.key("nonce").raw(&account.nonce.to_string());
    json.key("storageHash").data(hash(account.storage_root));
    json.end_object();
    Ok(json)
}

/// The owner of a masternode in the voting contract after a block; the zero address if it is not a candidate.
pub(crate) async fn get_owner_by_coinbase(
    context: EthContext,
    coinbase: Address,
    block: BlockNumberParam,
) -> Result<Address, Failure> {
    require_native(&context, "eth_getOwnerByCoinbase").await?;
    let block = named_block(&context, block, 1).await?;
    let slot = keccak256([coinbase.into_word(), B256::with_last_byte(RECORDS_POSITION)].concat());
    let record = context.call(GetStorage { address: VOTING_CONTRACT, slot, block }).await?;
    Ok(Address::from_word(B256::from(record)))
}

/// The rewards that a block paid; an empty object if it paid none.
pub(crate) async fn get_reward_by_hash(context: EthContext, hash: B256) -> Answer {
    require_native(&context, "eth_getRewardByHash").await?;
    let reward = context.call(GetEpochReward { block: hash }).await?;
    Ok(reward.map_or_else(|| JsonWriter::from_json("{}".to_owned()), |reward| epoch_reward_json(&reward)))
}

/// Proofs of a transaction and of its receipt under a block's roots.
pub(crate) async fn get_transaction_and_receipt_proof(context: EthContext, hash: B256) -> Answer {
    require_native(&context, "eth_getTransactionAndReceiptProof").await?;
    let Some(proof) = context.call(GetTransactionProof { hash }).await? else { return Ok(null()) };
    let nodes = proof.transaction_nodes.iter().chain(&proof.receipt_nodes);
    let mut json = JsonWriter::with_capacity(nodes.map(|node| node.len() * 2 + 80).sum::<usize>() + 400);
    json.begin_object();
    json.key("blockHash").data(proof.block_hash);
    json.key("key").data(&proof.key);
    json.key("receiptProofKeys");
    write_data_list(&mut json, proof.receipt_nodes.iter().map(keccak256));
    json.key("receiptProofValues");
    write_data_list(&mut json, &proof.receipt_nodes);
    json.key("receiptRoot").data(proof.receipts_root);
    json.key("txProofKeys");
    write_data_list(&mut json, proof.transaction_nodes.iter().map(keccak256));
    json.key("txProofValues");
    write_data_list(&mut json, &proof.transaction_nodes);
    json.key("txRoot").data(proof.transactions_root);
    json.end_object();
    Ok(json)
}

pub(crate) async fn get_block_signers_by_number(context: EthContext, block: BlockNumberParam) -> Answer {
    require_native(&context, "eth_getBlockSignersByNumber").await?;
    let block = named_block(&context, block, 0).await?;
    block_signers(&context, block).await
}

pub(crate) async fn get_block_signers_by_hash(context: EthContext, hash: B256) -> Answer {
    require_native(&context, "eth_getBlockSignersByHash").await?;
    block_signers(&context, BlockId::hash(hash)).await
}

async fn block_signers(context: &EthContext, block: BlockId) -> Answer {
    let Some(signers) = context.call(GetBlockSigners { block }).await?.signers else { return Ok(null()) };
    let mut json = JsonWriter::with_capacity(signers.len() * 45 + 2);
    write_data_list(&mut json, signers);
    Ok(json)
}

pub(crate) async fn get_block_finality_by_number(context: EthContext, block: BlockNumberParam) -> Result<u64, Failure> {
    require_native(&context, "eth_getBlockFinalityByNumber").await?;
    let block = named_block(&context, block, 0).await?;
    Ok(context.call(GetBlockSigners { block }).await?.finality)
}

pub(crate) async fn get_block_finality_by_hash(context: EthContext, hash: B256) -> Result<u64, Failure> {
    require_native(&context, "eth_getBlockFinalityByHash").await?;
    Ok(context.call(GetBlockSigners { block: BlockId::hash(hash) }).await?.finality)
}

/// All candidates of an epoch, with their stake and status.
pub(crate) async fn get_candidates(context: EthContext, epoch: EpochParam) -> Answer {
    require_native(&context, "eth_getCandidates").await?;
    let list = context.call(GetCandidates { epoch: epoch.0 }).await?;
    let spelling = crate::spelling(&context).await?;
    let mut json = JsonWriter::with_capacity(list.candidates.len() * 120 + 80);
    json.begin_object();
    if list.is_known {
        json.key("candidates");
        json.begin_object();
        for candidate in &list.candidates {
            let status = match candidate {
                CandidateStanding { is_slashed: true, .. } => "SLASHED",
                CandidateStanding { is_masternode: true, .. } => "MASTERNODE",
                CandidateStanding { .. } => "PROPOSED",
            };
            json.key(&spelled_address(spelling, candidate.address));
            json.begin_object();
            json.key("capacity").raw(&capacity(candidate));
            json.key("status").string(status);
            json.end_object();
        }
        json.end_object();
    }
    json.key("epoch").raw(&list.epoch.to_string());
    json.key("success").boolean(list.is_known);
    json.end_object();
    Ok(json)
}

/// The stake and status of one candidate. A masternode has the status of a masternode even if it is penalised for the
/// next epochs.
pub(crate) async fn get_candidate_status(context: EthContext, coinbase: Address, epoch: EpochParam) -> Answer {
    require_native(&context, "eth_getCandidateStatus").await?;
    let list = context.call(GetCandidates { epoch: epoch.0 }).await?;
    let candidate = list.candidates.iter().find(|candidate| candidate.address == coinbase);
    let status = match candidate {
        None => "",
        Some(CandidateStanding { is_masternode: true, .. }) => "MASTERNODE",
        Some(CandidateStanding { is_slashed: true, .. }) => "SLASHED",
        Some(_) => "PROPOSED",
    };
    let mut json = JsonWriter::with_capacity(120);
    json.begin_object();
    json.key("capacity").raw(&candidate.map_or_else(|| "0".to_owned(), capacity));
    json.key("epoch").raw(&list.epoch.to_string());
    json.key("status").string(status);
    json.key("success").boolean(list.is_known);
    json.end_object();
    Ok(json)
}

/// A bare decimal of any length; -1 for a masternode that is not a candidate.
fn capacity(candidate: &CandidateStanding) -> String {
    candidate.stake.map_or_else(|| "-1".to_owned(), |stake| stake.to_string())
}

pub(crate) async fn get_staker_roi(context: EthContext) -> Answer {
    require_native(&context, "eth_getStakerROI").await?;
    staking_return(&context, None).await
}

pub(crate) async fn get_staker_roi_masternode(context: EthContext, masternode: Address) -> Answer {
    require_native(&context, "eth_getStakerROIMasternode").await?;
    staking_return(&context, Some(masternode)).await
}

async fn staking_return(context: &EthContext, masternode: Option<Address>) -> Answer {
    let percent = context.call(GetStakingReturn { masternode }).await?.percent;
    if percent.is_infinite() {
        return Err(Failure::server("json: unsupported value: +Inf"));
    }
    let mut json = JsonWriter::with_capacity(24);
    json.float(percent);
    Ok(json)
}
