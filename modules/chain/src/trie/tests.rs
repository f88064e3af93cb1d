//! Tests of the trie against a model and against alloy's roots.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;

use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
use alloy_trie::{HashBuilder, Nibbles};
use proptest::prelude::*;
use tenon_api::{Account, AccountChange, BusError, EMPTY_ROOT_HASH, RequestError, SlotChange, StoreError, TrieReader};

use super::change::Change;
use super::nibbles::{from_hex_prefix, to_hex_prefix, unpack};
use super::source::Source;
use super::state::encode_account;
use super::write::update_trie;
use super::{
    TrieError, TrieItem, TrieUpdate, prove, read_key, update_owned_trie, update_state_trie, walk_trie,
    walk_trie_backwards,
};

type StoredKey = (Option<B256>, Vec<u8>, B256);

/// A store that keeps only live nodes and checks every added and removed node.
#[derive(Default)]
struct LiveNodes {
    nodes: HashMap<StoredKey, Bytes>,
}

impl TrieReader for LiveNodes {
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(self.nodes.get(&(owner, path.to_vec(), hash)).cloned())
    }
}

impl LiveNodes {
    fn apply(&mut self, update: &TrieUpdate) {
        for (position, hash) in &update.superseded {
            let key = (position.owner, position.path.clone(), *hash);
            assert!(self.nodes.remove(&key).is_some(), "superseded a node that was not live: {position:?}");
        }
        for write in &update.writes {
            assert_eq!(write.hash, keccak256(&write.rlp));
            assert!(write.rlp.len() >= 32 || write.position.path.is_empty());
            let key = (write.position.owner, write.position.path.clone(), write.hash);
            assert!(self.nodes.insert(key, write.rlp.clone()).is_none(), "wrote a live node: {:?}", write.position);
        }
    }

    fn reachable(&self, owner: Option<B256>, root: B256, into: &mut HashSet<StoredKey>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut leaves = Vec::new();
        walk_trie(self, owner, root, &mut |item| {
            match item {
                TrieItem::Node { path, hash, .. } => assert!(into.insert((owner, path.to_vec(), hash))),
                TrieItem::Leaf { path, value } => leaves.push((path.to_vec(), value.to_vec())),
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        leaves
    }
}

/// One trie of arbitrary keys, with the model it is compared with.
#[derive(Default)]
struct PlainTrie {
    live: LiveNodes,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    root: Option<B256>,
}

impl PlainTrie {
    fn root(&self) -> B256 {
        self.root.unwrap_or(EMPTY_ROOT_HASH)
    }

    fn update(&mut self, batch: BTreeMap<Vec<u8>, Option<Vec<u8>>>) {
        let changes: Vec<Change> =
            batch.iter().map(|(key, value)| Change { key: unpack(key), value: value.clone() }).collect();
        let update = update_trie(&self.live, None, self.root(), &changes, false).unwrap();
        self.live.apply(&update);
        self.root = Some(update.root);
        for (key, value) in batch {
            match value {
                Some(value) => self.model.insert(key, value),
                None => self.model.remove(&key),
            };
        }
    }

    fn assert_exact(&self) {
        let mut reachable = HashSet::new();
        let leaves = self.live.reachable(None, self.root(), &mut reachable);
        let wanted: Vec<_> = self.model.iter().map(|(key, value)| (unpack(key), value.clone())).collect();
        assert_eq!(leaves, wanted);
        assert_eq!(reachable, self.live.nodes.keys().cloned().collect::<HashSet<_>>());
    }
}

/// The root that alloy computes; keys must have one length.
fn reference_root(model: &BTreeMap<Vec<u8>, Vec<u8>>) -> B256 {
    let mut builder = HashBuilder::default();
    for (key, value) in model {
        builder.add_leaf(Nibbles::unpack(key), value);
    }
    builder.root()
}

/// The model in the form of a secure trie.
fn hashed<K: AsRef<[u8]>, V>(model: &BTreeMap<K, V>, encode: impl Fn(&V) -> Vec<u8>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    model.iter().map(|(key, value)| (keccak256(key).to_vec(), encode(value))).collect()
}

#[test]
fn a_path_has_exactly_one_packed_form() {
    for path in [&[][..], &[1], &[1, 2], &[0, 15, 7]] {
        for leaf in [false, true] {
            assert_eq!(from_hex_prefix(&to_hex_prefix(path, leaf)), Some((path.to_vec(), leaf)));
        }
    }
    for malformed in [&[][..], &[0x40], &[0x05], &[0x21]] {
        assert_eq!(from_hex_prefix(malformed), None, "{malformed:?}");
    }
}

#[test]
fn a_missing_node_is_reported_with_its_hash_and_path() {
    let root = B256::repeat_byte(0xab);

    let error = prove(&LiveNodes::default(), root, Address::ZERO, &[]).unwrap_err();

    assert!(matches!(error, TrieError::Missing { .. }));
    assert_eq!(error.to_string(), format!("the database does not have the trie node 0x{} at path 0x", "ab".repeat(32)));
}

#[test]
fn an_error_of_the_database_keeps_its_kind() {
    let full = StoreError::OutOfMemory { reason: "full".to_owned() };
    let lost = TrieError::Missing { owner: None, path: Vec::new(), hash: B256::ZERO };

    assert_eq!(BusError::from(TrieError::Store(StoreError::Stopped)), BusError::TimedOut);
    assert_eq!(BusError::from(TrieError::Store(full)), BusError::limit_reached("full"));
    assert_eq!(BusError::from(lost), RequestError::MissingTrieNode { hash: B256::ZERO, path: Vec::new() }.into());
}

#[test]
fn writing_an_existing_value_changes_nothing() {
    let mut trie = PlainTrie::default();
    trie.update((0u8..50).map(|byte| (keccak256([byte]).to_vec(), Some(vec![byte; 40]))).collect());

    let changes = [Change { key: unpack(keccak256([7]).as_slice()), value: Some(vec![7; 40]) }];
    let update = update_trie(&trie.live, None, trie.root(), &changes, false).unwrap();

    assert_eq!(update, TrieUpdate { root: trie.root(), ..TrieUpdate::default() });
}

#[test]
fn equal_tries_of_two_owners_share_no_nodes_and_are_walked_both_ways() {
    let mut live = LiveNodes::default();
    let owners = [Some(B256::repeat_byte(1)), Some(B256::repeat_byte(2))];
    let keys: Vec<B256> = (0u8..40).map(|byte| B256::with_last_byte(byte.wrapping_mul(37))).collect();
    let all = |value: Option<Vec<u8>>| keys.iter().map(|key| (key.to_vec(), value.clone())).collect();
    let roots = owners.map(|owner| {
        let update = update_owned_trie(&live, owner, EMPTY_ROOT_HASH, &all(Some(vec![7; 40]))).unwrap();
        live.apply(&update);
        update.root
    });
    assert_eq!(roots[0], roots[1]);
    let emptied = update_owned_trie(&live, owners[0], roots[0], &all(None)).unwrap();
    assert_eq!(emptied.root, EMPTY_ROOT_HASH);
    live.apply(&emptied);

    let mut forwards = live.reachable(owners[1], roots[1], &mut HashSet::new());
    let mut backwards = Vec::new();
    let mut visit = |item: TrieItem<'_>| {
        if let TrieItem::Leaf { path, value } = item {
            backwards.push((path.to_vec(), value.to_vec()));
        }
        ControlFlow::Continue(())
    };
    walk_trie_backwards(&live, owners[1], roots[1], &mut visit).unwrap();
    forwards.reverse();
    assert_eq!((backwards.len(), &backwards), (40, &forwards));
    for key in keys {
        assert_eq!(read_key(&live, owners[1], roots[1], key.as_slice()).unwrap(), Some(vec![7; 40]));
    }
    assert_eq!(read_key(&live, owners[1], roots[1], &[0xff; 32]).unwrap(), None);
}

#[test]
fn reads_only_the_nodes_on_the_way_to_a_key() {
    struct Counting<'a>(&'a LiveNodes, std::sync::atomic::AtomicUsize);
    impl TrieReader for Counting<'_> {
        fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.0.node(owner, path, hash)
        }
    }
    let mut trie = PlainTrie::default();
    trie.update((0u32..20_000).map(|n| (keccak256(n.to_be_bytes()).to_vec(), Some(vec![1; 40]))).collect());
    let counting = Counting(&trie.live, 0.into());

    let changes = [Change { key: unpack(keccak256(5u32.to_be_bytes()).as_slice()), value: Some(vec![2; 40]) }];
    let update = update_trie(&counting, None, trie.root(), &changes, false).unwrap();

    let reads = counting.1.into_inner();
    assert!(reads <= 8, "{reads} reads");
    assert_eq!(update.writes.len(), reads);
    assert_eq!(update.superseded.len(), reads);
}

fn short_batches(key_length: usize) -> impl Strategy<Value = Vec<BTreeMap<Vec<u8>, Option<Vec<u8>>>>> {
    // Few different nibbles and short keys: shared paths, embedded nodes and collapses are frequent.
    let nibble = prop_oneof![Just(0x00u8), Just(0x01), Just(0x10), Just(0x11), Just(0xf0)];
    let key = prop::collection::vec(nibble, key_length);
    let value = prop::option::weighted(0.6, prop::collection::vec(1u8.., 1..40));
    prop::collection::vec(prop::collection::btree_map(key, value, 0..24), 1..8)
}

fn any_length_batches() -> impl Strategy<Value = Vec<BTreeMap<Vec<u8>, Option<Vec<u8>>>>> {
    let key = prop::collection::vec(prop_oneof![Just(0x00u8), Just(0x01), Just(0x10)], 0..5);
    let value = prop::option::weighted(0.6, prop::collection::vec(1u8.., 1..36));
    prop::collection::vec(prop::collection::btree_map(key, value, 0..16), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(192) })]

    #[test]
    fn any_rounds_of_changes_give_the_root_of_the_whole(batches in (1usize..5).prop_flat_map(short_batches)) {
        let mut trie = PlainTrie::default();
        for batch in batches {
            trie.update(batch);
            prop_assert_eq!(trie.root(), reference_root(&trie.model));
            trie.assert_exact();
        }
    }

    #[test]
    fn keys_of_any_length_give_the_root_of_the_whole(batches in any_length_batches()) {
        let mut trie = PlainTrie::default();
        for batch in batches {
            trie.update(batch);
            trie.assert_exact();
            let mut fresh = PlainTrie::default();
            fresh.update(trie.model.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect());
            prop_assert_eq!(trie.root(), fresh.root());
        }
    }

    #[test]
    fn damaged_nodes_are_refused_without_panic(rlp in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = super::node::Node::decode(&rlp);
    }
}

/// A state with the model it is compared with.
#[derive(Default)]
struct State {
    live: LiveNodes,
    model: BTreeMap<Address, (Account, BTreeMap<B256, U256>)>,
    root: Option<B256>,
}

#[derive(Clone, Debug)]
enum Step {
    Set { address: u16, nonce: u64, wipe: bool, slots: Vec<(u8, u64)> },
    Delete { address: u16 },
}

fn address_of(number: u16) -> Address {
    Address::left_padding_from(&number.to_be_bytes())
}

impl State {
    fn root(&self) -> B256 {
        self.root.unwrap_or(EMPTY_ROOT_HASH)
    }

    fn apply(&mut self, steps: &[Step]) {
        let mut changes = BTreeMap::new();
        for step in steps {
            let change = match step {
                Step::Delete { address } => {
                    AccountChange { address: address_of(*address), account: None, storage_wiped: true, slots: vec![] }
                }
                Step::Set { address, nonce, wipe, slots } => AccountChange {
                    address: address_of(*address),
                    account: Some(Account { nonce: *nonce, ..Account::default() }),
                    storage_wiped: *wipe,
                    slots: slots
                        .iter()
                        .map(|(slot, value)| SlotChange {
                            slot: B256::with_last_byte(*slot),
                            value: U256::from(*value),
                        })
                        .collect(),
                },
            };
            changes.insert(change.address, change);
        }
        let mut changes: Vec<_> = changes.into_values().collect();
        let model = &self.model;
        let previous = |address| Ok(model.get(&address).map(|(account, _)| *account));
        let update = update_state_trie(&self.live, self.root(), &mut changes, &previous).unwrap();
        self.live.apply(&update);
        self.root = Some(update.root);
        changes.into_iter().for_each(|change| self.apply_to_model(change));
    }

    fn apply_to_model(&mut self, change: AccountChange) {
        let Some(account) = change.account else {
            self.model.remove(&change.address);
            return;
        };
        let entry = self.model.entry(change.address).or_default();
        entry.0 = account;
        if change.storage_wiped {
            entry.1.clear();
        }
        for slot in change.slots {
            if slot.value.is_zero() {
                entry.1.remove(&slot.slot)
            } else {
                entry.1.insert(slot.slot, slot.value)
            };
        }
        assert_eq!(entry.0.storage_root, reference_root(&hashed(&entry.1, |value| alloy_rlp::encode(*value))));
    }

    fn assert_exact(&self) {
        assert_eq!(self.root(), reference_root(&hashed(&self.model, |(account, _)| encode_account(account))));
        let mut reachable = HashSet::new();
        self.live.reachable(None, self.root(), &mut reachable);
        for (address, (account, _)) in &self.model {
            self.live.reachable(Some(keccak256(address)), account.storage_root, &mut reachable);
        }
        assert_eq!(reachable, self.live.nodes.keys().cloned().collect::<HashSet<_>>());
    }
}

/// Follows a proof using only hashes, like a light client; returns the value that it proves.
fn verify_proof(root: B256, key: B256, proof: &[Bytes]) -> Option<Vec<u8>> {
    struct Known(HashMap<B256, Bytes>);
    impl TrieReader for Known {
        fn node(&self, _: Option<B256>, _: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
            Ok(self.0.get(&hash).cloned())
        }
    }
    let known = Known(proof.iter().map(|node| (keccak256(node), node.clone())).collect());
    let (value, nodes) = Source { nodes: &known, owner: None }.prove(root, &unpack(key.as_slice())).unwrap();
    assert_eq!(nodes, proof, "a proof contains exactly the nodes on the path, in order");
    value
}

fn steps() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let address = 0u16..40;
    let slots = prop::collection::vec((0u8..24, prop_oneof![Just(0u64), 1u64..400, Just(u64::MAX)]), 0..12);
    let set = (address.clone(), 0u64..5, prop::bool::weighted(0.15), slots)
        .prop_map(|(address, nonce, wipe, slots)| Step::Set { address, nonce, wipe, slots });
    let step = prop_oneof![5 => set, 1 => address.prop_map(|address| Step::Delete { address })];
    prop::collection::vec(prop::collection::vec(step, 0..30), 1..7)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn any_rounds_of_account_changes_give_the_state_root_and_exact_live_nodes(rounds in steps()) {
        let mut state = State::default();
        for round in rounds {
            state.apply(&round);
            state.assert_exact();
        }
    }

    #[test]
    fn proofs_verify_for_present_and_absent_keys(rounds in steps(), address in 0u16..60, slot in 0u8..40) {
        let mut state = State::default();
        rounds.iter().for_each(|round| state.apply(round));
        let (address, slot) = (address_of(address), B256::with_last_byte(slot));

        let proof = prove(&state.live, state.root(), address, &[slot]).unwrap();

        let wanted = state.model.get(&address);
        prop_assert_eq!(proof.account, wanted.map(|(account, _)| *account).unwrap_or_default());
        let value = wanted.and_then(|(_, slots)| slots.get(&slot)).copied().unwrap_or_default();
        prop_assert_eq!(proof.storage[0].value, value);
        let leaf = verify_proof(state.root(), keccak256(address), &proof.proof);
        prop_assert_eq!(leaf.is_some(), wanted.is_some());
        let leaf = verify_proof(proof.account.storage_root, keccak256(slot), &proof.storage[0].proof);
        prop_assert_eq!(leaf, (!value.is_zero()).then(|| alloy_rlp::encode(value)));
    }
}

#[test]
fn large_batches_on_many_threads_give_the_same_state() {
    let mut state = State::default();
    let slots = |seed: u16| (0..40u8).map(|slot| (slot, u64::from(seed % 7) * u64::from(slot % 5))).collect();
    let set = |address: u16| Step::Set { address, nonce: u64::from(address), wipe: false, slots: slots(address) };

    state.apply(&(0..2000).map(set).collect::<Vec<_>>());
    state.assert_exact();

    let mixed = |address: u16| match address % 3 {
        0 => Step::Delete { address },
        1 => Step::Set { address, nonce: 1, wipe: true, slots: slots(address + 1) },
        _ => Step::Set { address, nonce: 2, wipe: false, slots: slots(address + 2) },
    };
    state.apply(&(500..2500).map(mixed).collect::<Vec<_>>());
    state.assert_exact();
}

/// The balance of testnet's first reward (`docs/spec/chain.md` 8.1).
#[test]
fn a_leaf_holds_a_balance_at_its_full_width() {
    let low = "f3f20b8dfa530303ed";
    let balance = U256::from_str_radix(low, 16).unwrap();
    let account = Account { nonce: 1, balance, balance_high: 1, ..Account::default() };
    let leaf = encode_account(&account);
    assert_eq!(hex::encode(&leaf[..3]), "f86501");
    assert_eq!(hex::encode(&leaf[3..37]), format!("a101{low:0>64}"));
    assert_eq!(super::decode_account(&leaf).unwrap(), account);
    // A number has one form, and 320 bits are enough for any.
    let mut padded = leaf.clone();
    padded[4] = 0;
    assert!(super::decode_account(&padded).is_err());
    let too_wide = [&[0xf8, 0x6d, 1, 0xa9][..], &[1; 41], &leaf[37..]].concat();
    assert!(super::decode_account(&too_wide).is_err());
}
