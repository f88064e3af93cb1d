//! Invalid trie nodes, and tries under random changes that must match their contents: two targets, because one input of
//! the second costs as much as a hundred of the first.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Mutex;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_trie::{HashBuilder, Nibbles};
use tenon_api::{Account, AccountChange, EMPTY_ROOT_HASH, SlotChange, StoreError, TrieReader};
use tenon_chain::TrieUpdate;
use tenon_chain::trie::{from_hex_prefix, prove_key, to_hex_prefix, update_plain_trie, walk_trie};

/// The first byte selects: invalid nodes, or a path in its packed form.
pub(crate) fn nodes(input: &[u8]) {
    let Some((mode, rest)) = input.split_first() else { return };
    if mode % 2 == 0 {
        read_invalid_nodes(rest);
    } else if let Some((path, is_leaf)) = from_hex_prefix(rest) {
        assert_eq!(to_hex_prefix(&path, is_leaf), rest, "a path has one packed form");
    }
}

/// A corrupt database: returns its nodes one after the other, for any requested hash, until there are none left.
struct WrongDatabase(Mutex<Vec<Bytes>>);

impl WrongDatabase {
    /// Nodes, each preceded by its length in one byte.
    fn read(mut input: &[u8]) -> Self {
        let mut nodes = Vec::new();
        while let Some((length, rest)) = input.split_first() {
            let (node, rest) = rest.split_at(usize::from(*length).min(rest.len()));
            nodes.push(Bytes::copy_from_slice(node));
            input = rest;
        }
        nodes.reverse();
        Self(Mutex::new(nodes))
    }
}

impl TrieReader for WrongDatabase {
    fn node(&self, _: Option<B256>, _: &[u8], _: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(self.0.lock().map_err(|_| StoreError::Engine("poisoned".into()))?.pop())
    }
}

/// No bytes from a database make the trie code panic.
fn read_invalid_nodes(input: &[u8]) {
    let root = B256::repeat_byte(7);
    let (address, slot) = (Address::repeat_byte(1), B256::repeat_byte(2));
    let _ = tenon_chain::prove(&WrongDatabase::read(input), root, address, &[slot]);
    let _ = walk_trie(&WrongDatabase::read(input), None, root, &mut |_| ControlFlow::Continue(()));
    for key in [&[][..], &[0x12], &[0x12, 0x34, 0x56], keccak256(address).as_slice()] {
        let _ = prove_key(&WrongDatabase::read(input), root, key);
        for value in [None, Some(vec![1; 40])] {
            let _ = update_plain_trie(&WrongDatabase::read(input), root, &BTreeMap::from([(key.to_vec(), value)]));
        }
    }
    let account = Account { balance: U256::from(1), storage_root: root, ..Account::default() };
    let mut changed = [AccountChange {
        address,
        account: Some(account),
        storage_wiped: false,
        slots: vec![SlotChange { slot, value: U256::from(3) }],
    }];
    let _ = tenon_chain::update_state_trie(&WrongDatabase::read(input), root, &mut changed, &|_| Ok(Some(account)));
}

/// Nodes by path and hash.
#[derive(Default)]
struct Memory(HashMap<(Vec<u8>, B256), Bytes>);

impl TrieReader for Memory {
    fn node(&self, _: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(self.0.get(&(path.to_vec(), hash)).cloned())
    }
}

impl Memory {
    /// Keeps exactly the nodes that the new root needs.
    fn apply(&mut self, update: TrieUpdate) {
        for (position, hash) in update.superseded {
            assert!(self.0.remove(&(position.path, hash)).is_some(), "a superseded node is missing");
        }
        for write in update.writes {
            self.0.insert((write.position.path, write.hash), write.rlp);
        }
    }
}

/// Three rounds of up to 16 changes, three bytes each: key, length of the value, its bytes. A length of zero deletes.
/// After each round the root equals that of the contents, computed in another way, and keys are provable; at the end no
/// unreachable node is kept.
pub(crate) fn changes(input: &[u8]) {
    let mut content: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let (mut memory, mut root) = (Memory::default(), EMPTY_ROOT_HASH);
    for round in input.chunks(48).take(3) {
        let changed: BTreeMap<_, _> = round.as_chunks::<3>().0.iter().copied().map(change).collect();
        let update = update_plain_trie(&memory, root, &changed).expect("every node is there");
        root = update.root;
        memory.apply(update);
        for (key, value) in &changed {
            match value {
                Some(value) => content.insert(key.clone(), value.clone()),
                None => content.remove(key),
            };
        }
        assert_eq!(root, root_of(&content));
        // One that this round has changed or deleted, one of any round, one that never existed.
        for key in changed.keys().take(1).chain(content.keys().next_back()).chain([&vec![0x77; 6]]) {
            let (found, proof) = prove_key(&memory, root, key).expect("every node is there");
            assert_eq!(found.as_ref(), content.get(key));
            assert_proof_verifies(root, key, found.as_ref(), &proof);
        }
    }
    let mut reached = 0;
    walk_trie(&memory, None, root, &mut |item| {
        reached += usize::from(matches!(item, tenon_chain::trie::TrieItem::Node { .. }));
        ControlFlow::Continue(())
    })
    .expect("every node is there");
    assert_eq!(reached, memory.0.len(), "nothing is kept that the root does not reach");
}

/// Makes keys with long common prefixes, and values for which nodes are embedded in their parents, close to that limit,
/// or separate.
fn change([place, length, byte]: [u8; 3]) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut key = vec![0x11; 6];
    key[usize::from(place >> 5) % 6] = place & 0x1f;
    let length = usize::from(length % 64);
    (key, (length > 0).then(|| vec![byte; length]))
}

/// Another implementation verifies the proof, unless the root node is shorter than 32 bytes, which it does not support.
fn assert_proof_verifies(root: B256, key: &[u8], value: Option<&Vec<u8>>, proof: &[Bytes]) {
    if proof.first().is_none_or(|node| node.len() >= 32) {
        let verified = alloy_trie::proof::verify_proof(root, Nibbles::unpack(key), value.cloned(), proof);
        verified.expect("the proof convinces");
    }
}

fn root_of(content: &BTreeMap<Vec<u8>, Vec<u8>>) -> B256 {
    let mut builder = HashBuilder::default();
    for (key, value) in content {
        builder.add_leaf(Nibbles::unpack(key), value);
    }
    builder.root()
}
