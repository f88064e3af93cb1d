//! All messages of the protocol, decoded and encoded (`docs/spec/p2p.md` 13).

use std::collections::HashSet;
use std::sync::Arc;

use alloy_primitives::{B256, Bytes};
use alloy_rlp::{Decodable, Encodable, Header as RlpHeader, RlpDecodable, RlpEncodable};
use tenon_api::{Receipt, SealedHeader, Transaction};
use tenon_chain::round_messages::{SyncInfo, Timeout, Vote};

use crate::blocks::{
    BlockBody, NewBlock, encode_block_receipts, read_bodies, read_headers, read_new_block, read_receipts,
    read_transactions, write_body, write_header, write_items, write_new_block, write_transaction,
};
use crate::exchange::{Integer, Lending, Order};
use crate::limits::{
    MAX_ANNOUNCED_BLOCKS, MAX_ANSWER_ITEMS, MAX_BODIES, MAX_CONSENSUS_BYTES, MAX_MESSAGE_BYTES, MAX_NODE_DATA,
    MAX_ORDERS, MAX_POOLED_TRANSACTIONS, MAX_RECEIPTS, MAX_TRANSACTION_HASHES,
};
use crate::{HeaderRequest, Kind, Status, Version, WireError, read};

/// A block that a peer announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Announced {
    /// Its hash.
    pub hash: B256,
    /// Its height, as stated by the peer.
    pub number: u64,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Status, the first message of a session.
    Status(Status),
    /// Blocks that the peer has: the first ones of the message, each once.
    NewBlockHashes(Vec<Announced>),
    /// Transactions.
    Transactions(Vec<Arc<Transaction>>),
    /// Requests headers.
    GetBlockHeaders(HeaderRequest),
    /// Headers, each with its hash.
    BlockHeaders(Vec<SealedHeader>),
    /// Requests bodies: the first hashes, at most as many as an answer may contain.
    GetBlockBodies(Vec<B256>),
    /// Bodies, in the order of the request.
    BlockBodies(Vec<BlockBody>),
    /// A block.
    NewBlock(Box<NewBlock>),
    /// Orders of the exchange, never sent.
    Orders(Vec<Order>),
    /// Lendings of the exchange, never sent.
    Lendings(Vec<Lending>),
    /// Requests nodes of tries and code: the first hashes, at most as many as an answer may contain.
    GetNodeData(Vec<B256>),
    /// Nodes of tries and code.
    NodeData(Vec<Bytes>),
    /// Requests receipts: the first block hashes, at most as many as an answer may contain.
    GetReceipts(Vec<B256>),
    /// Receipts of blocks, in the order of the request.
    Receipts(Vec<Vec<Receipt>>),
    /// A vote.
    Vote(Vote),
    /// A vote for a block whose height no chain can have. Nodes may relay such a vote, so its sender is not penalised.
    UnusableVote,
    /// A timeout.
    Timeout(Timeout),
    /// The highest certificates.
    SyncInfo(Box<SyncInfo>),
    /// Hashes of transactions that the peer has.
    NewPooledTransactionHashes(Vec<B256>),
    /// Requests transactions: the first hashes, at most as many as an answer may contain.
    GetPooledTransactions(Vec<B256>),
    /// Requested transactions.
    PooledTransactions(Vec<Arc<Transaction>>),
}

/// A vote whose height may be too large.
#[derive(RlpDecodable)]
#[expect(dead_code, reason = "only its layout is checked")]
struct WideVote {
    block: WideBlock,
    signature: Bytes,
    gap_number: u64,
}

#[derive(RlpDecodable)]
#[expect(dead_code, reason = "only its layout is checked")]
struct WideBlock {
    hash: B256,
    round: u64,
    number: Integer,
}

impl Message {
    /// Decodes the message with this code. Bytes after the first value are ignored.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn decode(version: &Version, code: u64, payload: &[u8]) -> Result<Self, WireError> {
        if payload.len() > MAX_MESSAGE_BYTES {
            return Err(WireError::too_long(payload.len()));
        }
        let kind = version.kind(code).ok_or(WireError::Code { code })?;
        Ok(match kind {
            Kind::Status => Self::Status(Status::decode(version.status, payload)?),
            Kind::NewBlockHashes => Self::NewBlockHashes(read_announced(payload)?),
            Kind::Transactions => Self::Transactions(read_transactions(payload)?),
            Kind::GetBlockHeaders => Self::GetBlockHeaders(HeaderRequest::decode(payload)?),
            Kind::BlockHeaders => Self::BlockHeaders(read_headers(payload)?),
            Kind::GetBlockBodies => Self::GetBlockBodies(read_hashes(payload, MAX_BODIES)?),
            Kind::BlockBodies => Self::BlockBodies(read_bodies(payload)?),
            Kind::NewBlock => Self::NewBlock(Box::new(read_new_block(payload)?)),
            Kind::OrderTx => Self::Orders(read_values(payload, MAX_ORDERS)?),
            Kind::LendingTx => Self::Lendings(read_values(payload, MAX_ORDERS)?),
            Kind::GetNodeData => Self::GetNodeData(read_hashes(payload, MAX_NODE_DATA)?),
            Kind::NodeData => Self::NodeData(read_values(payload, MAX_ANSWER_ITEMS)?),
            Kind::GetReceipts => Self::GetReceipts(read_hashes(payload, MAX_RECEIPTS)?),
            Kind::Receipts => Self::Receipts(read_receipts(payload)?),
            Kind::Vote => read_vote(payload)?,
            Kind::Timeout => Self::Timeout(read_consensus(payload)?),
            Kind::SyncInfo => Self::SyncInfo(Box::new(read_consensus(payload)?)),
            Kind::NewPooledTransactionHashes => {
                Self::NewPooledTransactionHashes(read_values(payload, MAX_TRANSACTION_HASHES)?)
            }
            Kind::GetPooledTransactions => Self::GetPooledTransactions(read_hashes(payload, MAX_POOLED_TRANSACTIONS)?),
            Kind::PooledTransactions => Self::PooledTransactions(read_transactions(payload)?),
        })
    }

    /// Returns the kind and the payload of the message. `None` for orders, lendings and unusable votes, which are never
    /// sent.
    pub fn encode(&self) -> Option<(Kind, Vec<u8>)> {
        let mut out = Vec::new();
        let kind = match self {
            Self::Status(status) => return Some((Kind::Status, status.encode())),
            Self::GetBlockHeaders(request) => return Some((Kind::GetBlockHeaders, request.encode())),
            Self::NewBlock(new) => return Some((Kind::NewBlock, write_new_block(new))),
            Self::Orders(_) | Self::Lendings(_) | Self::UnusableVote => return None,
            Self::NewBlockHashes(announced) => written(Kind::NewBlockHashes, announced, &mut out),
            Self::GetBlockBodies(hashes) => written(Kind::GetBlockBodies, hashes, &mut out),
            Self::GetNodeData(hashes) => written(Kind::GetNodeData, hashes, &mut out),
            Self::GetReceipts(hashes) => written(Kind::GetReceipts, hashes, &mut out),
            Self::NodeData(items) => written(Kind::NodeData, items, &mut out),
            Self::NewPooledTransactionHashes(hashes) => written(Kind::NewPooledTransactionHashes, hashes, &mut out),
            Self::GetPooledTransactions(hashes) => written(Kind::GetPooledTransactions, hashes, &mut out),
            Self::Vote(vote) => written(Kind::Vote, vote, &mut out),
            Self::Timeout(timeout) => written(Kind::Timeout, timeout, &mut out),
            Self::SyncInfo(info) => written(Kind::SyncInfo, &**info, &mut out),
            Self::Transactions(transactions) => {
                write_items(transactions, &mut out, |transaction, out| write_transaction(transaction, out));
                Kind::Transactions
            }
            Self::PooledTransactions(transactions) => {
                write_items(transactions, &mut out, |transaction, out| write_transaction(transaction, out));
                Kind::PooledTransactions
            }
            Self::BlockHeaders(headers) => {
                write_items(headers, &mut out, |header, out| write_header(header, out));
                Kind::BlockHeaders
            }
            Self::BlockBodies(bodies) => {
                write_items(bodies, &mut out, write_body);
                Kind::BlockBodies
            }
            Self::Receipts(blocks) => {
                write_items(blocks, &mut out, |receipts, out| encode_block_receipts(receipts, out));
                Kind::Receipts
            }
        };
        Some((kind, out))
    }
}

fn written(kind: Kind, value: &impl Encodable, out: &mut Vec<u8>) -> Kind {
    value.encode(out);
    kind
}

/// Encodes a payload that is a list of items in their encoded form, as storage and the pool keep them: headers, bodies,
/// lists of receipts, or transactions.
pub fn encode_list<'a>(items: impl IntoIterator<Item = &'a [u8]> + Clone) -> Vec<u8> {
    let payload_length = items.clone().into_iter().map(<[u8]>::len).sum();
    let mut out = Vec::with_capacity(payload_length + 5);
    RlpHeader { list: true, payload_length }.encode(&mut out);
    items.into_iter().for_each(|item| out.extend_from_slice(item));
    out
}

fn read_values<T: Decodable>(payload: &[u8], limit: usize) -> Result<Vec<T>, WireError> {
    read::items(read::list(&mut &*payload)?, limit, |input| Ok(T::decode(input)?))
}

/// Decodes the first announced blocks of a message, each once.
fn read_announced(payload: &[u8]) -> Result<Vec<Announced>, WireError> {
    let mut announced = read::first(read::list(&mut &*payload)?, MAX_ANNOUNCED_BLOCKS)?;
    let mut hashes = HashSet::new();
    announced.retain(|block: &Announced| hashes.insert(block.hash));
    Ok(announced)
}

fn read_hashes(payload: &[u8], limit: usize) -> Result<Vec<B256>, WireError> {
    read::first(read::list(&mut &*payload)?, limit)
}

fn read_consensus<T: Decodable>(payload: &[u8]) -> Result<T, WireError> {
    if payload.len() > MAX_CONSENSUS_BYTES {
        return Err(WireError::TooLong { bytes: payload.len(), limit: MAX_CONSENSUS_BYTES });
    }
    Ok(T::decode(&mut &*payload)?)
}

fn read_vote(payload: &[u8]) -> Result<Message, WireError> {
    match read_consensus::<Vote>(payload) {
        Ok(vote) => Ok(Message::Vote(vote)),
        Err(error) => match read_consensus::<WideVote>(payload) {
            Ok(_) => Ok(Message::UnusableVote),
            Err(_) => Err(error),
        },
    }
}
