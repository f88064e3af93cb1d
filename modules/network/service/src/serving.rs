//! Answers to what peers ask for (`docs/spec/p2p.md` 15): headers, bodies, receipts and code, bounded in items and bytes.
//!
//! After a database error the answer ends early, as if the node had no more items: the peer can ask another node.

use std::ops::ControlFlow;
use std::sync::Arc;

use alloy_primitives::B256;
use alloy_rlp::{Encodable, Header};
use tenon_api::{BlockNumber, ChainReader, EMPTY_ROOT_HASH, EncodedChainReader, SealedHeader, StoreError};
use tenon_network_wire::limits::{MAX_BODIES, MAX_HEADERS, MAX_NODE_DATA, MAX_RECEIPTS, SOFT_ANSWER_BYTES};
use tenon_network_wire::{HeaderOrigin, HeaderRequest, Kind, encode_block_receipts};

/// Maximum number of headers read to find an ancestor on a side branch. Canonical ones are found by their height.
const MAX_STEPS_ON_BRANCH: u64 = 1024;

/// What a peer asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeerRequest {
    /// Headers.
    Headers(HeaderRequest),
    /// Bodies of blocks.
    Bodies(Vec<B256>),
    /// Receipts of blocks.
    Receipts(Vec<B256>),
    /// Code of contracts. Trie nodes are stored by path, so they cannot be served by hash.
    NodeData(Vec<B256>),
}

/// The answer: its kind and its payload.
pub(crate) fn answer(chain: &dyn EncodedChainReader, request: &PeerRequest) -> (Kind, Vec<u8>) {
    let (kind, mut items) = match request {
        PeerRequest::Headers(_) => (Kind::BlockHeaders, Items::new(MAX_HEADERS)),
        PeerRequest::Bodies(hashes) => (Kind::BlockBodies, Items::new(MAX_BODIES.min(hashes.len()))),
        PeerRequest::Receipts(hashes) => (Kind::Receipts, Items::new(MAX_RECEIPTS.min(hashes.len()))),
        PeerRequest::NodeData(hashes) => (Kind::NodeData, Items::new(MAX_NODE_DATA.min(hashes.len()))),
    };
    let gathered = match request {
        PeerRequest::Headers(request) => headers(chain, request, &mut items),
        PeerRequest::Bodies(hashes) => chain.encoded_bodies(hashes, &mut |body| items.take(body)),
        PeerRequest::Receipts(hashes) => each(hashes, &mut items, |hash| receipts(chain, hash)),
        PeerRequest::NodeData(hashes) => codes(chain, hashes, &mut items),
    };
    if let Err(error) = gathered {
        tracing::warn!(%error, "database error while answering a peer; the answer is incomplete");
    }
    (kind, items.into_list())
}

/// Maximum size of the memory reserved for an answer before all items are known.
const MAX_RESERVED_BYTES: usize = 256 << 10;

/// Bytes reserved for the list's RLP header. The header of an answer between 64 KiB and 16 MiB has this length.
const HEADER_ROOM: usize = 4;

/// Items of an answer.
struct Items {
    /// [`HEADER_ROOM`] bytes, and the items, one after the other.
    encoded: Vec<u8>,
    count: usize,
    max: usize,
}

impl Items {
    fn new(max: usize) -> Self {
        Self { encoded: vec![0; HEADER_ROOM], count: 0, max }
    }

    /// The items as an RLP list. A large one is not copied.
    fn into_list(mut self) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER_ROOM);
        Header { list: true, payload_length: self.encoded.len() - HEADER_ROOM }.encode(&mut header);
        // Moves the items only if the header has another length.
        self.encoded.splice(..HEADER_ROOM, header);
        self.encoded
    }

    /// Whether another item is added. The last one may exceed the byte limit.
    const fn has_room(&self) -> bool {
        self.count < self.max && self.encoded.len() < HEADER_ROOM + SOFT_ANSWER_BYTES
    }

    /// Adds an item, given in parts.
    fn add(&mut self, item: &[&[u8]]) {
        if self.count == 0 {
            // Items of an answer mostly have similar sizes. Without this, the answer would be copied each time it grows.
            let bytes: usize = item.iter().map(|part| part.len()).sum();
            self.encoded.reserve(bytes.saturating_mul(self.max).min(MAX_RESERVED_BYTES));
        }
        item.iter().for_each(|part| self.encoded.extend_from_slice(part));
        self.count += 1;
    }

    /// Adds an item, given in parts, and returns whether another one may follow.
    fn take(&mut self, item: &[&[u8]]) -> ControlFlow<()> {
        self.add(item);
        if self.has_room() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

fn each(
    hashes: &[B256],
    items: &mut Items,
    mut read: impl FnMut(B256) -> Result<Option<Vec<u8>>, StoreError>,
) -> Result<(), StoreError> {
    for hash in hashes {
        if !items.has_room() {
            break;
        }
        if let Some(item) = read(*hash)? {
            items.add(&[&item]);
        }
    }
    Ok(())
}

fn headers(chain: &dyn EncodedChainReader, request: &HeaderRequest, items: &mut Items) -> Result<(), StoreError> {
    items.max = items.max.min(usize::try_from(request.amount).unwrap_or(usize::MAX));
    match start_of_range(chain, request)? {
        Some(first) => chain.encoded_headers(first, &mut |header| items.take(&[header])),
        None => one_by_one(chain, request, items),
    }
}

/// The first block if the request is for several consecutive canonical blocks in ascending order, which are stored next
/// to each other.
fn start_of_range(chain: &dyn ChainReader, request: &HeaderRequest) -> Result<Option<BlockNumber>, StoreError> {
    if request.is_reverse || request.skip != 0 || request.amount < 2 {
        return Ok(None);
    }
    let hash = match request.origin {
        HeaderOrigin::Number(number) => return Ok(Some(BlockNumber(number))),
        HeaderOrigin::Hash(hash) => hash,
    };
    let Some(number) = chain.header(hash)?.map(|header| BlockNumber(header.number)) else { return Ok(None) };
    Ok((chain.canonical_hash(number)? == Some(hash)).then_some(number))
}

fn one_by_one(chain: &dyn ChainReader, request: &HeaderRequest, items: &mut Items) -> Result<(), StoreError> {
    let mut next = match request.origin {
        HeaderOrigin::Hash(hash) => chain.header(hash)?,
        HeaderOrigin::Number(number) => canonical(chain, number)?,
    };
    let mut budget = MAX_STEPS_ON_BRANCH;
    while let Some(header) = next {
        if !items.has_room() {
            break;
        }
        let mut encoded = Vec::new();
        tenon_chain::encode_header(&header, &mut encoded);
        items.add(&[&encoded]);
        next = following(chain, request, &header, &mut budget)?;
    }
    Ok(())
}

/// The header after this one in the request's direction.
fn following(
    chain: &dyn ChainReader,
    request: &HeaderRequest,
    header: &SealedHeader,
    budget: &mut u64,
) -> Result<Option<Arc<SealedHeader>>, StoreError> {
    let Some(step) = request.skip.checked_add(1) else { return Ok(None) };
    let is_by_hash = matches!(request.origin, HeaderOrigin::Hash(_));
    if request.is_reverse {
        let Some(number) = header.number.checked_sub(step) else { return Ok(None) };
        return if is_by_hash { ancestor(chain, header, number, budget) } else { canonical(chain, number) };
    }
    let Some(number) = header.number.checked_add(step) else { return Ok(None) };
    // Towards higher blocks, only the canonical chain can be followed.
    if is_by_hash && chain.canonical_hash(BlockNumber(header.number))? != Some(header.hash()) {
        return Ok(None);
    }
    canonical(chain, number)
}

fn canonical(chain: &dyn ChainReader, number: u64) -> Result<Option<Arc<SealedHeader>>, StoreError> {
    match chain.canonical_hash(BlockNumber(number))? {
        Some(hash) => chain.header(hash),
        None => Ok(None),
    }
}

/// The ancestor at this height. Walks back on a side branch; on the canonical chain it is read by height.
fn ancestor(
    chain: &dyn ChainReader,
    header: &SealedHeader,
    number: u64,
    budget: &mut u64,
) -> Result<Option<Arc<SealedHeader>>, StoreError> {
    let (mut hash, mut height) = (header.hash(), header.number);
    let mut parent = header.parent_hash;
    while height > number {
        if chain.canonical_hash(BlockNumber(height))? == Some(hash) {
            return canonical(chain, number);
        }
        let Some(left) = budget.checked_sub(1) else { return Ok(None) };
        *budget = left;
        let Some(above) = chain.header(parent)? else { return Ok(None) };
        (hash, height, parent) = (above.hash(), above.number, above.parent_hash);
    }
    chain.header(hash)
}

/// Receipts of a block; an empty list if it has no transaction, `None` if the node does not have them.
fn receipts(chain: &dyn ChainReader, hash: B256) -> Result<Option<Vec<u8>>, StoreError> {
    let mut encoded = Vec::new();
    if let Some(receipts) = chain.receipts(hash)? {
        encode_block_receipts(&receipts, &mut encoded);
        return Ok(Some(encoded));
    }
    let is_empty = chain.header(hash)?.is_some_and(|header| header.receipts_root == EMPTY_ROOT_HASH);
    Ok(is_empty.then(|| vec![alloy_rlp::EMPTY_LIST_CODE]))
}

fn codes(chain: &dyn ChainReader, hashes: &[B256], items: &mut Items) -> Result<(), StoreError> {
    let state = chain.state_at(chain.head().number())?;
    each(hashes, items, |hash| {
        let code = state.code(hash)?.filter(|code| !code.is_empty());
        Ok(code.map(|code| {
            let mut encoded = Vec::new();
            code.encode(&mut encoded);
            encoded
        }))
    })
}

#[cfg(test)]
mod tests;
