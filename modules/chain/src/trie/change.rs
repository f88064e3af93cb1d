//! Applies a sorted batch of changes to a trie. Every node on the paths to the changed keys is read once, regardless of
//! the number of keys below it. The only other node read is the last child of a branch that loses its other children.

use std::mem;
use std::ops::Range;

use alloy_primitives::B256;
use rayon::prelude::*;

use super::TrieError;
use super::nibbles::common_prefix;
use super::node::{Branch, Node};
use super::source::Source;

/// Batches of at least this size are spread over threads; for smaller ones, handing the work over costs more than it
/// saves.
const PARALLEL_FROM: usize = 128;
/// Branches down to this depth spread their children: at most 256 tasks.
const PARALLEL_DEPTH: usize = 2;

/// One key's new value; `None` deletes it. A batch is sorted by key, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Nibbles.
    pub(super) key: Vec<u8>,
    pub(super) value: Option<Vec<u8>>,
}

/// A stored node that the new trie does not contain: its path and hash.
pub(super) type Removed = (Vec<u8>, B256);

/// A node after the changes, and whether it has changed. An unchanged node that was not read is returned unread.
type Applied = Result<(Node, bool), TrieError>;

impl Source<'_> {
    /// Applies `changes`, whose keys share their first `depth` nibbles, to the node at that position.
    pub(super) fn apply(&self, node: Node, depth: usize, changes: &[Change], removed: &mut Vec<Removed>) -> Applied {
        let Some(first) = changes.first() else { return Ok((node, false)) };
        match node {
            Node::Empty => {
                let built = build(&entries(changes, depth), 0);
                let changed = !built.is_empty();
                Ok((built, changed))
            }
            Node::Stored(hash) => {
                let path = &first.key[..depth];
                let (node, changed) = self.apply(self.resolve(path, hash)?, depth, changes, removed)?;
                if !changed {
                    return Ok((Node::Stored(hash), false));
                }
                removed.push((path.to_vec(), hash));
                Ok((node, true))
            }
            Node::Leaf { path, value } => Ok(apply_to_leaf(path, value, depth, changes)),
            Node::Extension { path, child } => self.apply_to_extension(path, *child, depth, changes, removed),
            Node::Branch(branch) => self.apply_to_branch(branch, depth, changes, removed),
        }
    }

    fn apply_to_extension(
        &self,
        path: Vec<u8>,
        child: Node,
        depth: usize,
        changes: &[Change],
        removed: &mut Vec<Removed>,
    ) -> Applied {
        // Deletions of keys outside the extension delete nothing; insertions of such keys split it.
        let shared = |change: &Change| common_prefix(&change.key[depth..], &path);
        let split = changes.iter().filter(|change| change.value.is_some()).map(shared).min().unwrap_or(path.len());
        let relevant = &changes[subrange(changes, |change| change.key[depth..].starts_with(&path[..split]))];
        if split == path.len() {
            let (child, changed) = self.apply(child, depth + split, relevant, removed)?;
            let node = if changed { child.behind(&path) } else { Node::Extension { path, child: Box::new(child) } };
            return Ok((node, changed));
        }
        let mut branch = Box::<Branch>::default();
        branch.children[usize::from(path[split])] = child.behind(&path[split + 1..]);
        let (node, _) = self.apply_to_branch(branch, depth + split, relevant, removed)?;
        Ok((node.behind(&path[..split]), true))
    }

    fn apply_to_branch(
        &self,
        mut branch: Box<Branch>,
        depth: usize,
        changes: &[Change],
        removed: &mut Vec<Removed>,
    ) -> Applied {
        let Some(first) = changes.first() else { return Ok((Node::Branch(branch), false)) };
        let path = &first.key[..depth];
        let ends_here = usize::from(first.key.len() == depth);
        let mut changed = false;
        if ends_here == 1 && branch.value != first.value {
            branch.value.clone_from(&first.value);
            changed = true;
        }
        let below = &changes[ends_here..];
        changed |= if below.len() >= PARALLEL_FROM && depth < PARALLEL_DEPTH {
            self.apply_to_children_in_parallel(&mut branch, depth, below, removed)?
        } else {
            self.apply_to_children(&mut branch, depth, below, removed)?
        };
        if !changed {
            return Ok((Node::Branch(branch), false));
        }
        Ok((self.normalise(branch, path, removed)?, true))
    }

    fn apply_to_children(
        &self,
        branch: &mut Branch,
        depth: usize,
        changes: &[Change],
        removed: &mut Vec<Removed>,
    ) -> Result<bool, TrieError> {
        let mut any_changed = false;
        for group in changes.chunk_by(|left, right| left.key[depth] == right.key[depth]) {
            let child = &mut branch.children[usize::from(group[0].key[depth])];
            let (node, changed) = self.apply(mem::take(child), depth + 1, group, removed)?;
            *child = node;
            any_changed |= changed;
        }
        Ok(any_changed)
    }

    fn apply_to_children_in_parallel(
        &self,
        branch: &mut Branch,
        depth: usize,
        changes: &[Change],
        removed: &mut Vec<Removed>,
    ) -> Result<bool, TrieError> {
        let outcomes = branch
            .children
            .par_iter_mut()
            .enumerate()
            .map(|(nibble, child)| {
                let group = &changes[subrange(changes, |change| usize::from(change.key[depth]) == nibble)];
                let mut removed = Vec::new();
                let (node, changed) = self.apply(mem::take(child), depth + 1, group, &mut removed)?;
                *child = node;
                Ok((changed, removed))
            })
            .collect::<Result<Vec<_>, TrieError>>()?;
        let mut any_changed = false;
        for (changed, mut below) in outcomes {
            any_changed |= changed;
            removed.append(&mut below);
        }
        Ok(any_changed)
    }

    /// Normalises a changed branch, which must have at least two children.
    fn normalise(&self, mut branch: Box<Branch>, path: &[u8], removed: &mut Vec<Removed>) -> Result<Node, TrieError> {
        match (branch.child_count(), branch.value.take()) {
            (0, None) => Ok(Node::Empty),
            (0, Some(value)) => Ok(Node::Leaf { path: Vec::new(), value }),
            (1, None) => {
                let Some((nibble, child)) = branch.only_child() else { return Ok(Node::Branch(branch)) };
                self.absorb(child, nibble, path, removed)
            }
            (_, value) => {
                branch.value = value;
                Ok(Node::Branch(branch))
            }
        }
    }

    /// Merges a branch's only remaining child into its parent path. A leaf or extension takes the nibble into its own
    /// path and so leaves its position in the store; a branch keeps its position, behind an extension.
    fn absorb(&self, child: Node, nibble: u8, path: &[u8], removed: &mut Vec<Removed>) -> Result<Node, TrieError> {
        let Node::Stored(hash) = child else { return Ok(child.behind(&[nibble])) };
        let child_path = [path, &[nibble]].concat();
        match self.resolve(&child_path, hash)? {
            Node::Branch(_) => Ok(Node::Stored(hash).behind(&[nibble])),
            short => {
                removed.push((child_path, hash));
                Ok(short.behind(&[nibble]))
            }
        }
    }
}

/// The range of a sorted batch for which `belongs` is true; it must be contiguous.
fn subrange(changes: &[Change], belongs: impl Fn(&Change) -> bool) -> Range<usize> {
    let Some(start) = changes.iter().position(&belongs) else { return 0..0 };
    let length = changes[start..].iter().take_while(|change| belongs(change)).count();
    start..start + length
}

/// A key (or its remainder) and its value.
type Entry<'a> = (&'a [u8], &'a [u8]);

/// The insertions of a batch, without their first `depth` nibbles.
fn entries(changes: &[Change], depth: usize) -> Vec<Entry<'_>> {
    changes.iter().filter_map(|change| Some((&change.key[depth..], change.value.as_deref()?))).collect()
}

fn apply_to_leaf(path: Vec<u8>, value: Vec<u8>, depth: usize, changes: &[Change]) -> (Node, bool) {
    let mut entries = entries(changes, depth);
    let is_named = changes.iter().any(|change| change.key[depth..] == *path);
    if !is_named {
        let at = entries.partition_point(|(key, _)| *key < path.as_slice());
        entries.insert(at, (&path, &value));
    }
    if entries == [(path.as_slice(), value.as_slice())] {
        return (Node::Leaf { path, value }, false);
    }
    (build(&entries, 0), true)
}

/// A trie of these entries, sorted by key, without the first `offset` nibbles that they share.
fn build(entries: &[Entry<'_>], offset: usize) -> Node {
    let (first, last) = match entries {
        [] => return Node::Empty,
        [(key, value)] => return Node::Leaf { path: key[offset..].to_vec(), value: value.to_vec() },
        [(first, _), .., (last, _)] => (*first, *last),
    };
    let fork = offset + common_prefix(&first[offset..], &last[offset..]);
    let mut branch = Box::<Branch>::default();
    let mut below = entries;
    if first.len() == fork {
        branch.value = Some(entries[0].1.to_vec());
        below = &entries[1..];
    }
    for group in below.chunk_by(|left, right| left.0[fork] == right.0[fork]) {
        branch.children[usize::from(group[0].0[fork])] = build(group, fork + 1);
    }
    Node::Branch(branch).behind(&first[offset..fork])
}
