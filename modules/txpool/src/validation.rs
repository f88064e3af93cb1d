//! Checks that need no account, in go-ethereum's order.

use tenon_api::{Address, Header, Transaction, TransactionPayload, TransactionType, U256, messages::PoolRefusal};
use tenon_chain::{
    ChainSpec, Fork, SignerRules, floor_data_gas, intrinsic_gas,
    spec::{MAX_INITCODE_SIZE, TRANSACTION_GAS_CAP},
};
use tenon_txpool_interface::{Candidate, Senders, Source};

use crate::{PoolOptions, blobs};

/// Maximum size of a transaction, canonical bytes without sidecar.
pub(crate) const MAX_TRANSACTION_BYTES: u64 = 128 * 1024;

/// The rules for the block after a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) fork: Fork,
    signer: SignerRules,
    /// The head's gas limit.
    gas_limit: u64,
    /// Maximum number of blobs in a block; 0 before Cancun.
    pub(crate) max_blobs: u64,
}

impl Rules {
    pub(crate) fn after(spec: &ChainSpec, head: &Header) -> Self {
        let number = head.number.saturating_add(1);
        Self {
            fork: spec.fork_at(number, head.timestamp).max(spec.fork_of(head)),
            signer: spec.signer_rules(number, head.timestamp),
            gas_limit: head.gas_limit,
            max_blobs: spec.blob_parameters(head.timestamp).map_or(0, |parameters| parameters.max),
        }
    }
}

/// The interface's checks, before the pool's own: they catch mistakes of the operator.
pub(crate) fn check_submission(transaction: &Transaction, options: &PoolOptions) -> Result<(), PoolRefusal> {
    let fee = U256::from(transaction.gas_limit).saturating_mul(transaction.max_fee_per_gas());
    if !options.fee_cap.is_zero() && fee > options.fee_cap {
        return Err(PoolRefusal::FeeCap { fee, cap: options.fee_cap });
    }
    if !options.allows_unprotected && transaction.chain_id.is_none() {
        return Err(PoolRefusal::Unprotected);
    }
    Ok(())
}

/// All checks that need no account, including recovery of the sender.
pub(crate) fn check(candidate: &Candidate<'_>, rules: &Rules, senders: &Senders) -> Result<Address, PoolRefusal> {
    let Candidate { transaction, size, source, min_tip, .. } = *candidate;
    check_form(transaction, size, rules)?;
    let sender =
        senders.sender(&rules.signer, transaction).map_err(|error| PoolRefusal::InvalidSender(error.into()))?;
    if transaction.nonce == u64::MAX {
        return Err(PoolRefusal::NonceAtEnd);
    }
    check_gas(transaction, rules)?;
    let tip = transaction.max_priority_fee_per_gas();
    if source != Source::Reorganisation && tip < min_tip {
        return Err(PoolRefusal::Underpriced { tip, needed: min_tip });
    }
    match &transaction.payload {
        TransactionPayload::Blob { .. } => blobs::check_fields(transaction, rules).map_err(PoolRefusal::Blobs)?,
        TransactionPayload::SetCode { authorization_list, .. } if authorization_list.is_empty() => {
            return Err(PoolRefusal::NoAuthorizations);
        }
        _ => {}
    }
    Ok(sender)
}

fn check_form(transaction: &Transaction, size: u64, rules: &Rules) -> Result<(), PoolRefusal> {
    let transaction_type: TransactionType = transaction.transaction_type();
    if !rules.signer.is_active(transaction_type) {
        return Err(PoolRefusal::TypeNotActive(transaction_type));
    }
    if size > MAX_TRANSACTION_BYTES {
        return Err(PoolRefusal::Oversized { size, limit: MAX_TRANSACTION_BYTES });
    }
    let code = transaction.input.len();
    if rules.fork >= Fork::Shanghai && transaction.to.is_none() && code > MAX_INITCODE_SIZE {
        return Err(PoolRefusal::InitCodeTooLong { size: code, limit: MAX_INITCODE_SIZE });
    }
    let gas_limit = transaction.gas_limit;
    if rules.fork >= Fork::Osaka && gas_limit > TRANSACTION_GAS_CAP {
        return Err(PoolRefusal::GasLimitTooHigh { gas_limit, cap: TRANSACTION_GAS_CAP });
    }
    if gas_limit > rules.gas_limit {
        return Err(PoolRefusal::ExceedsBlockGasLimit);
    }
    let (tip, fee) = (transaction.max_priority_fee_per_gas(), transaction.max_fee_per_gas());
    if tip > fee {
        return Err(PoolRefusal::TipAboveFeeCap { tip, fee });
    }
    Ok(())
}

fn check_gas(transaction: &Transaction, rules: &Rules) -> Result<(), PoolRefusal> {
    let gas_limit = transaction.gas_limit;
    let needed = intrinsic_gas(transaction, rules.fork);
    if gas_limit < needed {
        return Err(PoolRefusal::IntrinsicGas { gas_limit, needed });
    }
    let needed = floor_data_gas(transaction, rules.fork);
    if gas_limit < needed {
        return Err(PoolRefusal::FloorDataGas { gas_limit, needed });
    }
    Ok(())
}
