//! Blocks: `[header, transactions, uncles]`, with a fourth list of withdrawals from Shanghai on.

use std::sync::Arc;

use alloy_rlp::Encodable;
use tenon_api::{Block, Header, SealedHeader, Transaction, Withdrawal};

use super::error::{DecodeError, DecodeProblem};
use super::header::{encode_header, has_native_items, read_header, read_sealed_header};
use super::rlp::{Reader, write_list};
use super::transaction::{encode_list_transaction, read_list_transaction};

/// Decodes a block from the front of `input` and advances `input` past it. Hashes and size are computed.
///
/// Allocation is bounded by the length of the input: lengths claimed by the bytes are not trusted.
///
/// # Errors
/// [`DecodeError`] for anything but the one canonical encoding; `input` is unchanged then.
pub fn decode_block(input: &mut &[u8]) -> Result<Block, DecodeError> {
    let mut reader = Reader::new(input);
    let mut items = reader.list("block")?;
    let header = read_sealed_header(&mut items)?;
    let transactions = read_transactions(&mut items)?;
    let ommers = read_ommers(&mut items)?;
    let withdrawals = if items.is_empty() { None } else { Some(read_withdrawals(&mut items)?) };
    items.finish_list("block", 4)?;
    // Only a header without the native items can have the root of withdrawals: a block has three lists otherwise.
    if withdrawals.is_some() && has_native_items(&header) {
        return Err(items.error("block", DecodeProblem::WrongItemCount { found: 4 }));
    }
    let size = (input.len() - reader.rest().len()) as u64;
    *input = reader.rest();
    Ok(Block { header, transactions, ommers, withdrawals, size })
}

fn read_transactions(items: &mut Reader<'_>) -> Result<Vec<Arc<Transaction>>, DecodeError> {
    let mut list = items.list("block transactions")?;
    let mut transactions = Vec::new();
    while !list.is_empty() {
        transactions.push(Arc::new(read_list_transaction(&mut list)?));
    }
    Ok(transactions)
}

fn read_ommers(items: &mut Reader<'_>) -> Result<Vec<Header>, DecodeError> {
    let mut list = items.list("block uncles")?;
    let mut ommers = Vec::new();
    while !list.is_empty() {
        ommers.push(read_header(&mut list)?);
    }
    Ok(ommers)
}

fn read_withdrawals(items: &mut Reader<'_>) -> Result<Vec<Withdrawal>, DecodeError> {
    let mut list = items.list("block withdrawals")?;
    let mut withdrawals = Vec::new();
    while !list.is_empty() {
        let mut fields = list.list("withdrawal")?;
        withdrawals.push(Withdrawal {
            index: fields.u64("withdrawal index")?,
            validator_index: fields.u64("withdrawal validator index")?,
            address: fields.address("withdrawal address")?,
            amount: fields.u64("withdrawal amount")?,
        });
        fields.finish_list("withdrawal", 4)?;
    }
    Ok(withdrawals)
}

/// The block's RLP.
pub fn encode_block(block: &Block) -> Vec<u8> {
    let capacity = usize::try_from(block.size).unwrap_or_default().min(1 << 26);
    let mut out = Vec::with_capacity(capacity.saturating_add(16));
    encode_parts(&block.header, &block.transactions, &block.ommers, block.withdrawals.as_deref(), &mut out);
    out
}

fn encode_parts(
    header: &Header,
    transactions: &[Arc<Transaction>],
    ommers: &[Header],
    withdrawals: Option<&[Withdrawal]>,
    out: &mut Vec<u8>,
) {
    write_list(out, |out| {
        encode_header(header, out);
        write_list(out, |out| transactions.iter().for_each(|transaction| encode_list_transaction(transaction, out)));
        write_list(out, |out| ommers.iter().for_each(|ommer| encode_header(ommer, out)));
        if let Some(withdrawals) = withdrawals {
            write_list(out, |out| withdrawals.iter().for_each(|withdrawal| encode_withdrawal(withdrawal, out)));
        }
    });
}

/// Appends a withdrawal's RLP.
pub fn encode_withdrawal(withdrawal: &Withdrawal, out: &mut Vec<u8>) {
    write_list(out, |out| {
        withdrawal.index.encode(out);
        withdrawal.validator_index.encode(out);
        withdrawal.address.encode(out);
        withdrawal.amount.encode(out);
    });
}

/// Joins a sealed header and a body to a block, and computes its size. Does not check the body against the header.
pub fn assemble_block(
    header: SealedHeader,
    transactions: Vec<Arc<Transaction>>,
    ommers: Vec<Header>,
    withdrawals: Option<Vec<Withdrawal>>,
) -> Block {
    let mut block = Block { header, transactions, ommers, withdrawals, size: 0 };
    block.size = encode_block(&block).len() as u64;
    block
}
