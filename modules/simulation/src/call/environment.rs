//! Prepares the EVM's input from a call object.

use std::borrow::Cow;

use alloy_primitives::{Address, U256};
use revm::{
    context::{BlockEnv, TxEnv},
    primitives::{TxKind, hardfork::SpecId},
};
use tenon_api::{
    Header, SealedHeader, TransactionType,
    messages::{AccountOverride, BlockOverrides, CallContradiction, CallRequest},
};
use tenon_bus::CallContext;
use tenon_execution_interface::{BlockRules, BlockState, Interrupt, access_list, authorizations, price};
use tenon_simulation_interface::{CallEnvironment, CallError, CallPlace, bounded_gas, check_prices};

use super::{Calls, apply_block_overrides};

impl Calls {
    /// Stops a call when its time limit has passed or its caller has disconnected.
    pub(crate) fn interrupt(&self, caller: &CallContext) -> Interrupt {
        Interrupt::for_caller(caller, std::time::Instant::now().checked_add(self.limits.call_timeout))
    }
}

/// Prepares a call on a state, in the context of a block.
///
/// # Errors
/// Contradictory or invalid members of the call object or the overrides; the block's author or rules are unknown; the
/// database failed, or the client's memory is used up.
pub(crate) fn prepare(
    calls: &Calls,
    header: &SealedHeader,
    state: &mut BlockState,
    request: &CallRequest,
    account_overrides: &[(Address, AccountOverride)],
    block_overrides: &BlockOverrides,
) -> Result<CallEnvironment, CallError> {
    let author = calls.engine.author(header)?;
    let pretended = header_for_rules(header, block_overrides);
    let (blocks, family) = (calls.executor.family(), &calls.family);
    let mut rules = blocks.rules(&pretended)?;
    let mut block = blocks.block_env(&rules, &pretended, author);
    relax_for_calls(&mut rules);
    apply_block_overrides(block_overrides, &mut block);
    let precompiles = family.override_accounts(account_overrides, rules.precompiles, state)?;
    let (base_fee, gas_cap) = (header.header().base_fee_per_gas, calls.limits.call_gas_cap);
    let (transaction, call_rules) =
        family.message(request, &CallPlace { base_fee, spec_id: rules.spec_id(), gas_cap })?;
    waive_fees_of_free_calls(&transaction, &mut block);
    let records = family.records(&calls.chain, &calls.engine, header, pretended.number);
    Ok(CallEnvironment { rules, block, transaction, precompiles, call_rules, records })
}

/// The header that determines the fork. With an overridden height or time the fork may be another one, whose header
/// items the block may lack.
fn header_for_rules<'h>(header: &'h SealedHeader, overrides: &BlockOverrides) -> Cow<'h, Header> {
    let has_items = header.parent_beacon_block_root.is_some() && header.excess_blob_gas.is_some();
    if has_items && overrides.number.is_none() && overrides.time.is_none() {
        return Cow::Borrowed(header.header());
    }
    let mut header = header.header().clone();
    header.number = overrides.number.map_or(header.number, |number| number.saturating_to());
    header.timestamp = overrides.time.unwrap_or(header.timestamp);
    header.parent_beacon_block_root.get_or_insert_default();
    header.excess_blob_gas.get_or_insert_default();
    Cow::Owned(header)
}

/// Relaxes rules that apply to transactions only: a call's sender may be a contract, its nonce is ignored, and its gas
/// is limited by this node's settings instead of the block.
fn relax_for_calls(rules: &mut BlockRules) {
    rules.cfg.disable_nonce_check = true;
    rules.cfg.disable_eip3607 = true;
    rules.cfg.disable_block_gas_limit = true;
    rules.cfg.tx_gas_limit_cap = Some(u64::MAX);
    rules.cfg.max_blobs_per_tx = None;
}

/// Sets the base fee to zero for a call without a gas price, and the blob price for a call without a blob price, as in
/// go-ethereum.
fn waive_fees_of_free_calls(transaction: &TxEnv, block: &mut BlockEnv) {
    if transaction.gas_price == 0 && transaction.gas_priority_fee.unwrap_or_default() == 0 {
        block.basefee = 0;
    }
    let is_without_blob_price = transaction.max_fee_per_blob_gas == 0;
    if let Some(blob) = block.blob_excess_gas_and_price.as_mut().filter(|_| is_without_blob_price) {
        blob.blob_gasprice = 0;
    }
}

/// Converts the call for the EVM.
///
/// # Errors
/// [`CallContradiction`].
pub(crate) fn message_env(
    request: &CallRequest,
    chain_id: u64,
    spec_id: SpecId,
    gas_cap: u64,
) -> Result<TxEnv, CallContradiction> {
    check_consistency(request, chain_id)?;
    let has_base_fee = spec_id.is_enabled_in(SpecId::LONDON);
    let (gas_price, tip) = prices(request, has_base_fee);
    let tx_type = message_type(request, tip.is_some(), spec_id);
    Ok(TxEnv {
        tx_type: tx_type as u8,
        caller: request.from.unwrap_or_default(),
        gas_limit: bounded_gas(request.gas, gas_cap),
        gas_price: price(gas_price)?,
        gas_priority_fee: tip.map(price).transpose()?,
        kind: request.to.map_or(TxKind::Create, TxKind::Call),
        value: request.value.unwrap_or_default(),
        data: request.input.clone(),
        // Nonces of calls are not checked. The caller's nonce is ignored, because the EVM refuses the maximum nonce
        // anyway.
        nonce: 0,
        chain_id: Some(chain_id),
        access_list: access_list(request.access_list.as_deref().unwrap_or_default()),
        blob_hashes: request.blob_versioned_hashes.clone().unwrap_or_default(),
        // Blobs without a price are free, as in go-ethereum.
        max_fee_per_blob_gas: request.max_fee_per_blob_gas.map(price).transpose()?.unwrap_or_default(),
        authorization_list: authorizations(request.authorization_list.as_deref().unwrap_or_default()),
    })
}

/// Refuses members that contradict one another or the chain.
///
/// # Errors
/// [`CallContradiction`].
pub(crate) fn check_consistency(request: &CallRequest, chain_id: u64) -> Result<(), CallContradiction> {
    check_prices(request)?;
    if let Some(given) = request.chain_id.filter(|given| *given != chain_id) {
        return Err(CallContradiction::WrongChain { given, chain_id });
    }
    if request.blob_versioned_hashes.as_ref().is_some_and(Vec::is_empty) {
        return Err(CallContradiction::NoBlobs);
    }
    let needs_receiver = request.blob_versioned_hashes.is_some() || request.authorization_list.is_some();
    if needs_receiver && request.to.is_none() {
        return Err(CallContradiction::NoReceiver);
    }
    Ok(())
}

/// The price or fee cap, and the tip cap if the call uses EIP-1559 prices.
fn prices(request: &CallRequest, has_base_fee: bool) -> (U256, Option<U256>) {
    if !has_base_fee || request.gas_price.is_some() {
        return (request.gas_price.unwrap_or_default(), None);
    }
    let fee_cap = request.max_fee_per_gas.unwrap_or_default();
    (fee_cap, Some(request.max_priority_fee_per_gas.unwrap_or_default()))
}

fn message_type(request: &CallRequest, has_tip: bool, spec_id: SpecId) -> TransactionType {
    if request.authorization_list.is_some() && spec_id.is_enabled_in(SpecId::PRAGUE) {
        TransactionType::SetCode
    } else if request.blob_versioned_hashes.is_some() && spec_id.is_enabled_in(SpecId::CANCUN) {
        TransactionType::Blob
    } else if has_tip {
        TransactionType::DynamicFee
    } else if spec_id.is_enabled_in(SpecId::BERLIN) {
        TransactionType::AccessList
    } else {
        TransactionType::Legacy
    }
}
