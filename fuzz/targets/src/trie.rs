//! Trie nodes that are rubbish, and tries that are changed at random and must stay what their content says.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Mutex;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_trie::{HashBuilder, Nibbles};
use tenon_api::{Account, AccountChange, EMPTY_ROOT_HASH, SlotChange, StoreError, TrieReader};
use tenon_chain::TrieUpdate;
use tenon_chain::trie::{from_hex_prefix, prove_key, to_hex_prefix, update_plain_trie, walk_trie};

/// The first byte chooses: rubbish nodes, or changes to a trie.
pub(crate) fn nodes(input: &[u8]) {
    let Some((mode, rest)) = input.split_first() else { return };
    match mode % 3 {
        0 => rubbish(rest),
        1 => changes(rest),
        _ => {
            if let Some((path, is_leaf)) = from_hex_prefix(rest) {
                assert_eq!(to_hex_prefix(&path, is_leaf), rest, "a path has one packed form");
            }
        }
    }
}

/// Serves each node once, whatever hash is asked for: a database that lies, but not for ever.
struct Rubbish(Mutex<Vec<Bytes>>);

impl Rubbish {
    /// Nodes with a byte of length before each.
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

impl TrieReader for Rubbish {
    fn node(&self, _: Option<B256>, _: &[u8], _: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(self.0.lock().map_err(|_| StoreError::Engine("poisoned".into()))?.pop())
    }
}

/// No bytes that a database may give make the trie code panic.
fn rubbish(input: &[u8]) {
    let root = B256::repeat_byte(7);
    let (address, slot) = (Address::repeat_byte(1), B256::repeat_byte(2));
    let _ = tenon_chain::prove(&Rubbish::read(input), root, address, &[slot]);
    let _ = walk_trie(&Rubbish::read(input), None, root, &mut |_| ControlFlow::Continue(()));
    for key in [&[][..], &[0x12], &[0x12, 0x34, 0x56], keccak256(address).as_slice()] {
        let _ = prove_key(&Rubbish::read(input), root, key);
        for value in [None, Some(vec![1; 40])] {
            let _ = update_plain_trie(&Rubbish::read(input), root, &BTreeMap::from([(key.to_vec(), value)]));
        }
    }
    let account = Account { balance: U256::from(1), storage_root: root, ..Account::default() };
    let mut changed = [AccountChange {
        address,
        account: Some(account),
        storage_wiped: false,
        slots: vec![SlotChange { slot, value: U256::from(3) }],
    }];
    let _ = tenon_chain::update_state_trie(&Rubbish::read(input), root, &mut changed, &|_| Ok(Some(account)));
}

/// Nodes by their place.
#[derive(Default)]
struct Memory(HashMap<(Vec<u8>, B256), Bytes>);

impl TrieReader for Memory {
    fn node(&self, _: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(self.0.get(&(path.to_vec(), hash)).cloned())
    }
}

impl Memory {
    /// Keeps what the new root needs and nothing else.
    fn apply(&mut self, update: TrieUpdate) {
        for (position, hash) in update.superseded {
            assert!(self.0.remove(&(position.path, hash)).is_some(), "a superseded node was there");
        }
        for write in update.writes {
            self.0.insert((write.position.path, write.hash), write.rlp);
        }
    }
}

/// Rounds of up to 32 changes, three bytes each: key, length of the value, its bytes. A length of zero deletes. After each
/// round the root is that of the content, computed in another way, every key is provable, and no node is kept that the
/// root does not reach.
fn changes(input: &[u8]) {
    let mut content: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let (mut memory, mut root) = (Memory::default(), EMPTY_ROOT_HASH);
    for round in input.chunks(96).take(4) {
        let mut changed = BTreeMap::new();
        for step in round.chunks_exact(3) {
            // Keys that share long prefixes come about by few differing bytes.
            let mut key = vec![0x11; 6];
            key[usize::from(step[0] >> 5) % 6] = step[0] & 0x1f;
            let value = (step[1] > 0).then(|| vec![step[2]; usize::from(step[1])]);
            changed.insert(key, value);
        }
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
        let mut reached = 0;
        walk_trie(&memory, None, root, &mut |item| {
            reached += usize::from(matches!(item, tenon_chain::trie::TrieItem::Node { .. }));
            ControlFlow::Continue(())
        })
        .expect("every node is there");
        assert_eq!(reached, memory.0.len(), "nothing is kept that the root does not reach");
        // Some of those that this round has changed, deleted ones among them, and some older ones.
        for key in changed.keys().step_by(5).chain(content.keys().step_by(15)) {
            let (found, proof) = prove_key(&memory, root, key).expect("every node is there");
            assert_eq!(found.as_ref(), content.get(key));
            convinces(root, key, found.as_ref(), &proof);
        }
        let (found, proof) = prove_key(&memory, root, &[0x77; 6]).expect("every node is there");
        assert_eq!(found, None);
        convinces(root, &[0x77; 6], None, &proof);
    }
}

/// The proof convinces another implementation, which knows no root shorter than its hash.
fn convinces(root: B256, key: &[u8], value: Option<&Vec<u8>>, proof: &[Bytes]) {
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
