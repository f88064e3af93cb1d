//! Converts changes in memory into hashes and stored nodes, from the leaves up.

use std::collections::HashSet;

use alloy_primitives::{B256, Bytes, keccak256};
use rayon::prelude::*;
use tenon_api::{EMPTY_ROOT_HASH, TrieNodeWrite, TriePosition, TrieReader};

use super::change::{Change, Removed};
use super::node::{Branch, HASHED_FROM, Node};
use super::source::Source;
use super::walk::collect_nodes;
use super::{TrieError, TrieUpdate};

/// Batches of at least this size hash the children of the topmost branch on several threads.
const PARALLEL_FROM: usize = 128;

/// Applies a sorted batch to the trie with this root. A wiped trie starts empty, and all its nodes are superseded
/// except those that are created again.
pub(super) fn update_trie(
    nodes: &dyn TrieReader,
    owner: Option<B256>,
    root: B256,
    changes: &[Change],
    wiped: bool,
) -> Result<TrieUpdate, TrieError> {
    let source = Source { nodes, owner };
    let mut removed = Vec::new();
    let start = if wiped {
        collect_nodes(source, root, &mut removed)?;
        Node::Empty
    } else {
        stored(root)
    };
    let (node, _) = source.apply(start, 0, changes, &mut removed)?;
    let mut writer = Writer { owner, path: Vec::with_capacity(64), writes: Vec::new() };
    let root = writer.write_root(&node, changes.len() >= PARALLEL_FROM);
    let mut writes = writer.writes;
    if wiped {
        cancel_unchanged(&mut writes, &mut removed);
    }
    let superseded = removed.into_iter().map(|(path, hash)| (TriePosition { owner, path }, hash)).collect();
    Ok(TrieUpdate { root, writes, superseded })
}

fn stored(root: B256) -> Node {
    if root == EMPTY_ROOT_HASH { Node::Empty } else { Node::Stored(root) }
}

/// Removes nodes that are both written and superseded: they exist before and after.
fn cancel_unchanged(writes: &mut Vec<TrieNodeWrite>, removed: &mut Vec<Removed>) {
    let old: HashSet<Removed> = removed.drain(..).collect();
    let mut kept = HashSet::new();
    writes.retain(|write| {
        let key = (write.position.path.clone(), write.hash);
        if !old.contains(&key) {
            return true;
        }
        kept.insert(key);
        false
    });
    removed.extend(old.into_iter().filter(|key| !kept.contains(key)));
}

struct Writer {
    owner: Option<B256>,
    /// Path of the node being written.
    path: Vec<u8>,
    writes: Vec<TrieNodeWrite>,
}

impl Writer {
    /// Writes the whole trie and returns its root. A root of less than 32 bytes is stored, too.
    fn write_root(&mut self, node: &Node, parallel: bool) -> B256 {
        match node {
            Node::Empty => return EMPTY_ROOT_HASH,
            Node::Stored(hash) => return *hash,
            _ => {}
        }
        let rlp = match node {
            Node::Branch(branch) if parallel => self.encode_branch_in_parallel(branch),
            _ => self.encode(node),
        };
        self.store(rlp)
    }

    fn encode(&mut self, node: &Node) -> Vec<u8> {
        let mut rlp = Vec::with_capacity(128);
        node.encode(&mut rlp, |step, child, out| self.write_reference(step, child, out));
        rlp
    }

    /// Appends the reference to a child: its hash, or the node itself if it is short.
    fn write_reference(&mut self, step: &[u8], child: &Node, out: &mut Vec<u8>) {
        if matches!(child, Node::Empty | Node::Stored(_)) {
            child.encode(out, |_, _, _| {});
            return;
        }
        self.path.extend_from_slice(step);
        let rlp = self.encode(child);
        if rlp.len() < HASHED_FROM {
            out.extend_from_slice(&rlp);
        } else {
            let hash = self.store(rlp);
            Node::Stored(hash).encode(out, |_, _, _| {});
        }
        self.path.truncate(self.path.len() - step.len());
    }

    fn encode_branch_in_parallel(&mut self, branch: &Branch) -> Vec<u8> {
        let parts: Vec<(Vec<u8>, Vec<TrieNodeWrite>)> = (0u8..16)
            .into_par_iter()
            .map(|nibble| {
                let mut part = Self { owner: self.owner, path: self.path.clone(), writes: Vec::new() };
                let mut reference = Vec::with_capacity(33);
                part.write_reference(&[nibble], &branch.children[usize::from(nibble)], &mut reference);
                (reference, part.writes)
            })
            .collect();
        let mut references = Vec::with_capacity(16);
        for (reference, mut writes) in parts {
            self.writes.append(&mut writes);
            references.push(reference);
        }
        let mut rlp = Vec::with_capacity(544);
        Node::encode_branch(&references, branch.value.as_deref(), &mut rlp);
        rlp
    }

    fn store(&mut self, rlp: Vec<u8>) -> B256 {
        let hash = keccak256(&rlp);
        let position = TriePosition { owner: self.owner, path: self.path.clone() };
        self.writes.push(TrieNodeWrite { position, hash, rlp: Bytes::from(rlp) });
        hash
    }
}
