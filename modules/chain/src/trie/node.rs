//! Nodes in memory and as RLP.

use std::mem;

use alloy_primitives::B256;

use super::nibbles::{from_hex_prefix, to_hex_prefix};
use crate::codec::rlp::{Reader, write_bytes, write_list};
use crate::codec::{DecodeError, DecodeProblem};

/// Minimum length of a node's RLP for its parent to refer to it by hash; shorter nodes are embedded in their parent.
pub(super) const HASHED_FROM: usize = 32;

/// A part of a trie. Untouched parts stay [`Node::Stored`], unread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Node {
    /// An empty trie.
    #[default]
    Empty,
    /// A node in the store, by its hash.
    Stored(B256),
    /// The end of one key.
    Leaf {
        /// The rest of the key.
        path: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// A path shared by all keys below. Its child is a branch, in memory or stored.
    Extension {
        /// The path, not empty.
        path: Vec<u8>,
        /// The child.
        child: Box<Node>,
    },
    /// A branch.
    Branch(Box<Branch>),
}

/// The children of a branch, by nibble, and the value of the key that ends here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Branch {
    pub(super) children: [Node; 16],
    /// Only keys of different lengths can end in a branch; hashed keys never do.
    pub(super) value: Option<Vec<u8>>,
}

impl Node {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// Prepends a path to this node. A [`Node::Stored`] must be known to be a branch.
    pub(super) fn behind(self, prefix: &[u8]) -> Self {
        if prefix.is_empty() {
            return self;
        }
        match self {
            Self::Empty => Self::Empty,
            Self::Leaf { path, value } => Self::Leaf { path: [prefix, &path].concat(), value },
            Self::Extension { path, child } => Self::Extension { path: [prefix, &path].concat(), child },
            branch => Self::Extension { path: prefix.to_vec(), child: Box::new(branch) },
        }
    }

    /// Decodes all of a node's RLP.
    pub(super) fn decode(rlp: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(rlp);
        let node = Self::read(&mut reader)?;
        reader.finish("trie node")?;
        Ok(node)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut items = reader.list("trie node")?;
        match items.count_items("trie node")? {
            2 => Self::read_short(&mut items),
            17 => Self::read_branch(&mut items),
            found => Err(items.error("trie node", DecodeProblem::WrongItemCount { found })),
        }
    }

    fn read_short(items: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = *items;
        let invalid = || start.error("trie node path", DecodeProblem::InvalidValue);
        let (path, leaf) = from_hex_prefix(items.bytes("trie node path")?).ok_or_else(invalid)?;
        if leaf {
            return Ok(Self::Leaf { path, value: items.bytes("trie node value")?.to_vec() });
        }
        let child = Self::read_reference(items)?;
        if path.is_empty() || child.is_empty() {
            return Err(invalid());
        }
        Ok(Self::Extension { path, child: Box::new(child) })
    }

    fn read_branch(items: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut branch = Branch::default();
        for child in &mut branch.children {
            *child = Self::read_reference(items)?;
        }
        let value = items.bytes("trie node value")?;
        branch.value = (!value.is_empty()).then(|| value.to_vec());
        Ok(Self::Branch(Box::new(branch)))
    }

    fn read_reference(items: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = *items;
        if items.next_is_list() == Some(true) {
            let length = items.raw_item("trie node")?.len();
            if length >= HASHED_FROM {
                return Err(start.error("trie node", DecodeProblem::WrongLength { wanted: HASHED_FROM, found: length }));
            }
            // Shorter than 32 bytes, so the recursion ends within a few steps.
            return Self::read(&mut { start });
        }
        match items.bytes("trie node child")? {
            [] => Ok(Self::Empty),
            hash if hash.len() == 32 => Ok(Self::Stored(B256::from_slice(hash))),
            other => Err(start.error("trie node child", DecodeProblem::WrongLength { wanted: 32, found: other.len() })),
        }
    }

    /// Appends the RLP; `write_child` appends the reference to a child, given its path from here.
    pub(super) fn encode(&self, out: &mut Vec<u8>, mut write_child: impl FnMut(&[u8], &Self, &mut Vec<u8>)) {
        match self {
            Self::Empty => out.push(alloy_rlp::EMPTY_STRING_CODE),
            Self::Stored(hash) => write_bytes(out, hash.as_slice()),
            Self::Leaf { path, value } => write_list(out, |out| {
                write_bytes(out, &to_hex_prefix(path, true));
                write_bytes(out, value);
            }),
            Self::Extension { path, child } => write_list(out, |out| {
                write_bytes(out, &to_hex_prefix(path, false));
                write_child(path, child, out);
            }),
            Self::Branch(branch) => write_list(out, |out| {
                for (nibble, child) in (0u8..).zip(&branch.children) {
                    write_child(&[nibble], child, out);
                }
                write_bytes(out, branch.value.as_deref().unwrap_or_default());
            }),
        }
    }

    /// Appends the RLP of a branch whose sixteen references are already written.
    pub(super) fn encode_branch(references: &[Vec<u8>], value: Option<&[u8]>, out: &mut Vec<u8>) {
        write_list(out, |out| {
            references.iter().for_each(|reference| out.extend_from_slice(reference));
            write_bytes(out, value.unwrap_or_default());
        });
    }
}

impl Branch {
    /// Removes and returns the branch's only child, with its nibble; `None` if the branch has no child or more than
    /// one.
    pub(super) fn only_child(&mut self) -> Option<(u8, Node)> {
        let mut occupied = (0u8..).zip(&mut self.children).filter(|(_, child)| !child.is_empty());
        let (nibble, child) = occupied.next()?;
        if occupied.next().is_some() { None } else { Some((nibble, mem::take(child))) }
    }

    pub(super) fn child_count(&self) -> usize {
        self.children.iter().filter(|child| !child.is_empty()).count()
    }
}
