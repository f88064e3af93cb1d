//! Visits every node of a stored trie.

use std::ops::ControlFlow;

use alloy_primitives::B256;
use tenon_api::{EMPTY_ROOT_HASH, TrieReader};

use super::TrieError;
use super::change::Removed;
use super::node::Node;
use super::source::Source;

/// An item of a walk. Paths have one nibble per byte.
#[derive(Clone, Copy, Debug)]
pub enum TrieItem<'a> {
    /// A stored node. Embedded nodes are not reported.
    Node {
        /// Its path.
        path: &'a [u8],
        /// The hash by which it is stored; not compared with the bytes.
        hash: B256,
        /// Its RLP.
        rlp: &'a [u8],
    },
    /// A key and its value.
    Leaf {
        /// The whole key.
        path: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
}

/// Visits all stored nodes and all leaves of one trie in the order of paths, a node before its descendants. `owner` is
/// as in [`TrieReader::node`]. Stops early, with `Ok`, if `visit` breaks.
///
/// # Errors
/// [`TrieError`] if a node is missing or corrupt, or the database fails.
pub fn walk_trie(
    nodes: &dyn TrieReader,
    owner: Option<B256>,
    root: B256,
    visit: &mut dyn FnMut(TrieItem<'_>) -> ControlFlow<()>,
) -> Result<(), TrieError> {
    walk(nodes, owner, root, false, visit)
}

/// [`walk_trie`] from the last path to the first. A key that is a prefix of another still comes before it.
///
/// # Errors
/// See [`walk_trie`].
pub fn walk_trie_backwards(
    nodes: &dyn TrieReader,
    owner: Option<B256>,
    root: B256,
    visit: &mut dyn FnMut(TrieItem<'_>) -> ControlFlow<()>,
) -> Result<(), TrieError> {
    walk(nodes, owner, root, true, visit)
}

fn walk(
    nodes: &dyn TrieReader,
    owner: Option<B256>,
    root: B256,
    backwards: bool,
    visit: &mut dyn FnMut(TrieItem<'_>) -> ControlFlow<()>,
) -> Result<(), TrieError> {
    if root == EMPTY_ROOT_HASH {
        return Ok(());
    }
    let mut walker = TrieWalker { source: Source { nodes, owner }, path: Vec::with_capacity(64), backwards, visit };
    walker.node(&Node::Stored(root)).map(|_| ())
}

struct TrieWalker<'a, 'b> {
    source: Source<'a>,
    path: Vec<u8>,
    backwards: bool,
    visit: &'b mut dyn FnMut(TrieItem<'_>) -> ControlFlow<()>,
}

impl TrieWalker<'_, '_> {
    fn node(&mut self, node: &Node) -> Result<ControlFlow<()>, TrieError> {
        match node {
            Node::Empty => Ok(ControlFlow::Continue(())),
            Node::Stored(hash) => {
                let rlp = self.source.read(&self.path, *hash)?;
                if (self.visit)(TrieItem::Node { path: &self.path, hash: *hash, rlp: &rlp }).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                let node = self.source.decode(&self.path, *hash, &rlp)?;
                self.node(&node)
            }
            Node::Leaf { path, value } => {
                self.path.extend_from_slice(path);
                let flow = (self.visit)(TrieItem::Leaf { path: &self.path, value });
                self.path.truncate(self.path.len() - path.len());
                Ok(flow)
            }
            Node::Extension { path, child } => self.step(path, child),
            Node::Branch(branch) => {
                if let Some(value) = &branch.value
                    && (self.visit)(TrieItem::Leaf { path: &self.path, value }).is_break()
                {
                    return Ok(ControlFlow::Break(()));
                }
                for position in 0..16_u8 {
                    let nibble = if self.backwards { 15 - position } else { position };
                    if self.step(&[nibble], &branch.children[usize::from(nibble)])?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
        }
    }

    fn step(&mut self, step: &[u8], child: &Node) -> Result<ControlFlow<()>, TrieError> {
        self.path.extend_from_slice(step);
        let flow = self.node(child)?;
        self.path.truncate(self.path.len() - step.len());
        Ok(flow)
    }
}

/// Adds every stored node of a trie to `removed`.
pub(super) fn collect_nodes(source: Source<'_>, root: B256, removed: &mut Vec<Removed>) -> Result<(), TrieError> {
    walk_trie(source.nodes, source.owner, root, &mut |item| {
        if let TrieItem::Node { path, hash, .. } = item {
            removed.push((path.to_vec(), hash));
        }
        ControlFlow::Continue(())
    })
}
