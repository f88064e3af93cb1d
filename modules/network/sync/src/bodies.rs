//! The blocks of a cycle in order: headers that wait for their bodies, and blocks that wait for the import
//! (`docs/spec/p2p.md` 19.2, steps 4 and 5; 19.3).

use std::collections::VecDeque;
use std::time::Duration;

use alloy_primitives::B256;
use tenon_api::{Block, EMPTY_OMMERS_HASH, EMPTY_ROOT_HASH, SealedHeader};
use tenon_network_identity::NodeId;
use tenon_network_wire::BlockBody;

use crate::port::CheckedBody;

/// Maximum bytes of waiting bodies; the last answers may exceed it.
const MAX_BODY_BYTES: u64 = 32 << 20;
/// Maximum number of blocks at the import.
const MAX_IMPORTING: usize = 2048;
/// Maximum bytes of blocks at the import.
const MAX_IMPORTING_BYTES: u64 = 16 << 20;
/// With at least this many blocks queued, the import is not waiting for peers. It takes up to 32 blocks at a time.
const MIN_IMPORTING_BUSY: usize = 64;
/// Approximate bytes of a header without its certificates.
const HEADER_BYTES: u64 = 1024;

#[derive(Debug)]
enum Body {
    Missing,
    Asked { by: NodeId, at: Duration },
    Available(BlockBody),
}

#[derive(Debug)]
struct Slot {
    header: SealedHeader,
    body: Body,
    bytes: u64,
}

/// A block at the import.
#[derive(Clone, Copy, Debug)]
struct Importing {
    hash: B256,
    bytes: u64,
    /// Whether it was not stored when it was passed to the import.
    is_new: bool,
}

/// The blocks of a cycle, oldest first.
#[derive(Debug, Default)]
pub(crate) struct BlockQueue {
    slots: VecDeque<Slot>,
    body_bytes: u64,
    importing: VecDeque<Importing>,
    importing_bytes: u64,
}

/// The result of matching an answer's bodies with the requested blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matched {
    /// Number of bodies that belong to a requested block.
    pub(crate) fitting: usize,
    /// Whether it contained a body that was not requested.
    pub(crate) has_unrequested: bool,
}

impl BlockQueue {
    /// Number of headers that wait for their bodies, or for earlier blocks.
    pub(crate) fn waiting(&self) -> usize {
        self.slots.len()
    }

    /// Whether every block was passed to the import.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.slots.is_empty()
    }

    /// Appends headers.
    pub(crate) fn push(&mut self, headers: Vec<SealedHeader>) {
        self.slots.extend(headers.into_iter().map(|header| {
            let is_empty = header.transactions_root == EMPTY_ROOT_HASH && header.ommers_hash == EMPTY_OMMERS_HASH;
            let nothing = BlockBody { transactions: Vec::new(), ommers: Vec::new() };
            let body = if is_empty { Body::Available(nothing) } else { Body::Missing };
            Slot { header, body, bytes: 0 }
        }));
    }

    /// Returns the blocks whose bodies to request from a peer, at most `max`: the first ones that were not requested
    /// yet. If the first missing body has been requested from another peer for longer than `reassign_after`, that peer's
    /// outstanding bodies are requested again.
    pub(crate) fn assign(
        &mut self,
        peer: NodeId,
        max: usize,
        now: Duration,
        reassign_after: Duration,
        is_usable: impl Fn(&SealedHeader) -> bool,
    ) -> Vec<(u64, B256)> {
        let first_wait = self.slots.iter().find_map(|slot| match slot.body {
            Body::Asked { by, at } => Some((by, at)),
            Body::Missing => Some((peer, now)),
            Body::Available(_) => None,
        });
        let late = first_wait.filter(|(by, at)| *by != peer && now >= *at + reassign_after).map(|(by, _)| by);
        if late.is_none() && self.body_bytes >= MAX_BODY_BYTES {
            return Vec::new();
        }
        let mut hashes = Vec::new();
        for slot in &mut self.slots {
            if hashes.len() >= max {
                break;
            }
            let is_wanted = match slot.body {
                Body::Missing => true,
                Body::Asked { by, .. } => late == Some(by),
                Body::Available(_) => false,
            };
            if is_wanted && is_usable(&slot.header) {
                slot.body = Body::Asked { by: peer, at: now };
                hashes.push((slot.header.number, slot.header.hash()));
            }
        }
        hashes
    }

    /// Whether an answer can belong to a request for these blocks: it has the body of one of them, or one of them has
    /// left the queue and can no longer be compared.
    pub(crate) fn fits(&self, asked: &[(u64, B256)], bodies: &[CheckedBody]) -> bool {
        asked.iter().any(|(number, hash)| {
            let slot = self.slot(*number).filter(|slot| slot.header.hash() == *hash);
            slot.is_none_or(|slot| bodies.iter().any(|body| body.belongs_to(&slot.header)))
        })
    }

    /// The slot of a height, if its block is in the queue.
    fn slot(&self, number: u64) -> Option<&Slot> {
        let first = self.slots.front()?.header.number;
        self.slots.get(usize::try_from(number.checked_sub(first)?).ok()?)
    }

    /// Matches the bodies of an answer with their headers. Headers without a body are requested again.
    pub(crate) fn take(&mut self, peer: NodeId, asked: &[(u64, B256)], bodies: Vec<CheckedBody>) -> Matched {
        let mut matched = Matched { fitting: 0, has_unrequested: false };
        let mut bodies = bodies.into_iter().peekable();
        let first = self.slots.front().map_or(u64::MAX, |slot| slot.header.number);
        // False after a requested block that has left the queue, because another peer has delivered it: its body in
        // this answer cannot be matched.
        let mut are_all_in_queue = true;
        for (number, hash) in asked {
            let index = number.checked_sub(first).and_then(|index| usize::try_from(index).ok());
            let slot = index.and_then(|index| self.slots.get_mut(index)).filter(|slot| slot.header.hash() == *hash);
            let Some(slot) = slot else {
                are_all_in_queue = false;
                continue;
            };
            if !are_all_in_queue {
                while bodies.peek().is_some_and(|body| !body.belongs_to(&slot.header)) && bodies.len() > 1 {
                    bodies.next();
                }
            }
            if bodies.peek().is_some_and(|body| body.belongs_to(&slot.header))
                && let Some(body) = bodies.next()
            {
                matched.fitting += 1;
                if !matches!(slot.body, Body::Available(_)) {
                    slot.bytes = body.bytes;
                    self.body_bytes += body.bytes;
                    slot.body = Body::Available(body.body);
                }
            } else if matches!(slot.body, Body::Asked { by, .. } if by == peer) {
                slot.body = Body::Missing;
            }
        }
        matched.has_unrequested = are_all_in_queue && bodies.next().is_some();
        matched
    }

    /// Marks the bodies that were requested from a peer as missing.
    pub(crate) fn release(&mut self, peer: NodeId) {
        for slot in &mut self.slots {
            if matches!(slot.body, Body::Asked { by, .. } if by == peer) {
                slot.body = Body::Missing;
            }
        }
    }

    /// The first block whose body is missing and not requested.
    pub(crate) fn first_missing(&self) -> Option<(u64, B256)> {
        let slot = self.slots.iter().find(|slot| matches!(slot.body, Body::Missing))?;
        Some((slot.header.number, slot.header.hash()))
    }

    /// The next block for the import, if its body is here and the import has room. `is_new`: whether it is not stored.
    pub(crate) fn next_block(&mut self, is_new: impl Fn(&SealedHeader) -> bool) -> Option<Block> {
        let is_full = self.importing.len() >= MAX_IMPORTING || self.importing_bytes >= MAX_IMPORTING_BYTES;
        if is_full || !matches!(self.slots.front()?.body, Body::Available(_)) {
            return None;
        }
        let Slot { header, body: Body::Available(body), bytes } = self.slots.pop_front()? else { return None };
        self.body_bytes -= bytes;
        let bytes = bytes + HEADER_BYTES + header.extra_data.len() as u64;
        self.importing.push_back(Importing { hash: header.hash(), bytes, is_new: is_new(&header) });
        self.importing_bytes += bytes;
        Some(tenon_chain::assemble_block(header, body.transactions, body.ommers, None))
    }

    /// Whether enough blocks are queued that the import does not wait for peers.
    pub(crate) fn keeps_import_busy(&self) -> bool {
        self.importing.len() >= MIN_IMPORTING_BUSY
    }

    /// The import has inserted a block, and with it those before it. Returns whether one of them was new.
    pub(crate) fn imported(&mut self, hash: B256) -> bool {
        let mut has_new = false;
        if !self.importing.iter().any(|block| block.hash == hash) {
            return has_new;
        }
        while let Some(block) = self.importing.pop_front() {
            self.importing_bytes -= block.bytes;
            has_new |= block.is_new;
            if block.hash == hash {
                break;
            }
        }
        has_new
    }
}
