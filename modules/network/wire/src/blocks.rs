//! Headers, bodies, blocks, transactions and receipts in messages (`docs/spec/p2p.md` 14.1 to 14.4).

use std::sync::Arc;

use alloy_primitives::{U256, keccak256};
use alloy_rlp::{Encodable, Header as RlpHeader};
use tenon_api::{Block, Header, Receipt, SealedHeader, Transaction, TransactionType};
use tenon_chain::{
    decode_block, decode_header, decode_list_transaction, decode_receipt, decode_sealed_header, encode_block,
    encode_header, encode_list_transaction, encode_receipt, encoded_transactions_root, require_native_header,
};

use crate::limits::{MAX_ANSWER_ITEMS, MAX_GOSSIPED_TRANSACTIONS, MAX_LOGS, MAX_TRANSACTIONS, max_transactions};
use crate::{WireError, read};

/// The parts of a block other than its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockBody {
    /// Transactions.
    pub transactions: Vec<Arc<Transaction>>,
    /// Headers of uncles; these chains have none.
    pub ommers: Vec<Header>,
}

/// A block that a peer propagates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBlock {
    /// The block.
    pub block: Block,
    /// Total difficulty, including this block's. A number of more than 256 bits is decoded as the largest one.
    pub total_difficulty: U256,
}

/// Number of further items that a message may contain, over all its blocks.
struct Remaining(usize);

impl Remaining {
    fn take(&mut self, items: usize, limit: usize) -> Result<(), WireError> {
        self.0 = self.0.checked_sub(items).ok_or(WireError::TooManyItems { limit })?;
        Ok(())
    }
}

/// The messages of these networks have native headers.
fn native(header: &Header) -> Result<(), WireError> {
    require_native_header(header).map_err(|_| WireError::ForeignHeader)
}

fn supported(transaction: &Transaction) -> Result<(), WireError> {
    if transaction.transaction_type() == TransactionType::Blob { Err(WireError::BlobTransaction) } else { Ok(()) }
}

pub(crate) fn read_headers(payload: &[u8]) -> Result<Vec<SealedHeader>, WireError> {
    read::items(read::list(&mut &*payload)?, MAX_ANSWER_ITEMS, |input| {
        let header = decode_sealed_header(input)?;
        native(&header)?;
        Ok(header)
    })
}

/// The first transactions of a message; the rest is ignored.
pub(crate) fn read_transactions(payload: &[u8]) -> Result<Vec<Arc<Transaction>>, WireError> {
    let mut content = read::list(&mut &*payload)?;
    read::count(content, max_transactions(payload.len()))?;
    let mut transactions = Vec::new();
    while !content.is_empty() && transactions.len() < MAX_GOSSIPED_TRANSACTIONS {
        transactions.push(read_transaction(&mut content)?);
    }
    Ok(transactions)
}

fn read_transaction(input: &mut &[u8]) -> Result<Arc<Transaction>, WireError> {
    let transaction = decode_list_transaction(input)?;
    supported(&transaction)?;
    Ok(Arc::new(transaction))
}

fn transactions(content: &[u8], remaining: &mut Remaining, limit: usize) -> Result<Vec<Arc<Transaction>>, WireError> {
    read::items(content, limit, |input| {
        remaining.take(1, limit)?;
        read_transaction(input)
    })
}

fn ommers(content: &[u8]) -> Result<Vec<Header>, WireError> {
    read::items(content, MAX_ANSWER_ITEMS, |input| {
        let header = decode_header(input)?;
        native(&header)?;
        Ok(header)
    })
}

pub(crate) fn read_bodies(payload: &[u8]) -> Result<Vec<BlockBody>, WireError> {
    let limit = max_transactions(payload.len());
    let mut remaining = Remaining(limit);
    read::items(read::list(&mut &*payload)?, MAX_ANSWER_ITEMS, |input| {
        let mut body = read::list(input)?;
        let transactions = transactions(read::list(&mut body)?, &mut remaining, limit)?;
        let ommers = ommers(read::list(&mut body)?)?;
        read::end(body)?;
        Ok(BlockBody { transactions, ommers })
    })
}

pub(crate) fn read_new_block(payload: &[u8]) -> Result<NewBlock, WireError> {
    let mut list = read::list(&mut &*payload)?;
    // Transactions are counted before any is decoded.
    let mut parts = read::list(&mut { list })?;
    let header = RlpHeader::decode(&mut parts)?;
    parts = parts.get(header.payload_length..).unwrap_or_default();
    read::count(read::list(&mut parts)?, max_transactions(payload.len()))?;
    read::count(read::list(&mut parts)?, MAX_ANSWER_ITEMS)?;
    let block = decode_block(&mut list)?;
    native(&block.header)?;
    block.ommers.iter().try_for_each(native)?;
    block.transactions.iter().try_for_each(|transaction| supported(transaction))?;
    let total_difficulty = read::saturating(&mut list)?;
    read::end(list)?;
    Ok(NewBlock { block, total_difficulty })
}

/// Whether the body in the payload of a NewBlock message matches the roots in its header. Compares the encoded bytes,
/// because many small transactions need ten times the memory of the message when they are decoded.
///
/// # Errors
/// [`WireError`] for a payload that is not the list of a block and its total difficulty, or has too many transactions.
pub fn has_own_body(payload: &[u8]) -> Result<bool, WireError> {
    let mut list = read::list(&mut &*payload)?;
    let mut parts = read::list(&mut list)?;
    read::saturating(&mut list)?;
    read::end(list)?;
    let header = decode_header(&mut parts)?;
    let mut content = read::list(&mut parts)?;
    let ommers = parts;
    read::list(&mut parts)?;
    read::end(parts)?;
    let count = read::count(content, max_transactions(payload.len()))?;
    if keccak256(ommers) != header.ommers_hash {
        return Ok(false);
    }
    let mut transactions = Vec::with_capacity(count);
    while !content.is_empty() {
        transactions.push(read::canonical(&mut content)?.1);
    }
    Ok(encoded_transactions_root(&transactions) == header.transactions_root)
}

pub(crate) fn read_receipts(payload: &[u8]) -> Result<Vec<Vec<Receipt>>, WireError> {
    let (mut receipts_left, mut logs_left) = (Remaining(MAX_TRANSACTIONS), Remaining(MAX_LOGS));
    read::items(read::list(&mut &*payload)?, MAX_ANSWER_ITEMS, |input| {
        read::items(read::list(input)?, MAX_TRANSACTIONS, |input| {
            receipts_left.take(1, MAX_TRANSACTIONS)?;
            let receipt = read_receipt(input)?;
            logs_left.take(receipt.logs.len(), MAX_LOGS)?;
            Ok(receipt)
        })
    })
}

/// Decodes a receipt of a list: a list (type 0), or a string with the canonical bytes of a typed receipt.
fn read_receipt(input: &mut &[u8]) -> Result<Receipt, WireError> {
    let (is_list, canonical) = read::canonical(input)?;
    let receipt = decode_receipt(canonical)?;
    // A string must contain a typed receipt, a list a receipt of type 0.
    if is_list != (receipt.transaction_type == TransactionType::Legacy) {
        return Err(alloy_rlp::Error::UnexpectedString.into());
    }
    if receipt.transaction_type == TransactionType::Blob {
        return Err(WireError::BlobTransaction);
    }
    Ok(receipt)
}

pub(crate) fn write_header(header: &Header, out: &mut Vec<u8>) {
    encode_header(header, out);
}

pub(crate) fn write_transaction(transaction: &Transaction, out: &mut Vec<u8>) {
    encode_list_transaction(transaction, out);
}

pub(crate) fn write_body(body: &BlockBody, out: &mut Vec<u8>) {
    encode_body(&body.transactions, &body.ommers, out);
}

/// Appends a body as encoded in an answer, without copying the block.
pub fn encode_body(transactions: &[Arc<Transaction>], ommers: &[Header], out: &mut Vec<u8>) {
    let mut content = Vec::new();
    write_items(transactions, &mut content, |transaction, out| write_transaction(transaction, out));
    write_items(ommers, &mut content, write_header);
    write_list(&content, out);
}

pub(crate) fn write_new_block(new: &NewBlock) -> Vec<u8> {
    let mut content = encode_block(&new.block);
    new.total_difficulty.encode(&mut content);
    let mut out = Vec::with_capacity(content.len() + 5);
    write_list(&content, &mut out);
    out
}

/// Appends the receipts of one block as encoded in an answer.
pub fn encode_block_receipts(receipts: &[Receipt], out: &mut Vec<u8>) {
    write_items(receipts, out, |receipt, out| {
        let canonical = encode_receipt(receipt);
        if receipt.transaction_type == TransactionType::Legacy {
            out.extend_from_slice(&canonical);
        } else {
            canonical.as_slice().encode(out);
        }
    });
}

/// Appends a list of items.
pub(crate) fn write_items<T>(items: &[T], out: &mut Vec<u8>, mut write: impl FnMut(&T, &mut Vec<u8>)) {
    let mut content = Vec::new();
    items.iter().for_each(|item| write(item, &mut content));
    write_list(&content, out);
}

/// Appends a list with this content.
pub(crate) fn write_list(content: &[u8], out: &mut Vec<u8>) {
    RlpHeader { list: true, payload_length: content.len() }.encode(out);
    out.extend_from_slice(content);
}
