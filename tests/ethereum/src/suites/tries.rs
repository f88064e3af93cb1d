//! `TrieTests`: roots in given and in any order, plain and secure, neighbours of keys, and proofs of everything.

use std::{collections::BTreeMap, ops::ControlFlow};

use alloy_primitives::{B256, hex, keccak256};
use alloy_trie::{Nibbles, proof::verify_proof};
use serde::Deserialize;
use serde_json::value::RawValue;
use tenon_api::EMPTY_ROOT_HASH;
use tenon_chain::trie::{TrieItem, prove_key, update_plain_trie, walk_trie};

use super::{Cases, FileReports, cases_of, parse_case};
use crate::{
    Difference,
    memory::Nodes,
    outcome::{Check, Passed, require_equal},
};

/// A key and its new value; `None` deletes it.
type Step = (Vec<u8>, Option<Vec<u8>>);

#[derive(Deserialize)]
#[serde(untagged)]
enum TrieCase {
    Neighbours { r#in: Vec<String>, tests: Vec<[String; 3]> },
    Root { r#in: Steps, root: B256 },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Steps {
    InOrder(Vec<(String, Option<String>)>),
    AnyOrder(BTreeMap<String, Option<String>>),
}

pub(super) fn run(text: &[u8], cases: &Cases<'_>) -> FileReports {
    // The file's name determines the kind of trie; the cases do not.
    let is_secure = cases.path.to_ascii_lowercase().contains("secure");
    let run_one = |(name, raw): (String, &RawValue)| {
        cases.run(&name, || match parse_case::<TrieCase>(raw)? {
            TrieCase::Root { r#in: Steps::InOrder(steps), root } => in_order(&read_steps(steps)?, is_secure, root),
            TrieCase::Root { r#in: Steps::AnyOrder(steps), root } => any_order(&read_steps(steps)?, is_secure, root),
            TrieCase::Neighbours { r#in: keys, tests } => neighbours(&keys, &tests),
        })
    };
    Ok(cases_of(text)?.into_iter().filter_map(run_one).collect())
}

fn read_steps(steps: impl IntoIterator<Item = (String, Option<String>)>) -> Result<Vec<Step>, Difference> {
    let read = |(key, value): (String, Option<String>)| Ok((bytes(&key)?, value.as_deref().map(bytes).transpose()?));
    steps.into_iter().map(read).collect()
}

/// Hexadecimal after `0x`, text otherwise.
fn bytes(text: &str) -> Result<Vec<u8>, Difference> {
    match text.strip_prefix("0x") {
        Some(digits) => hex::decode(digits).map_err(|error| Difference::new("input", error, "hexadecimal")),
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// A trie, its stored nodes, and its expected contents.
struct Trie {
    nodes: Nodes,
    root: B256,
    content: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Trie {
    fn new() -> Self {
        Self { nodes: Nodes::default(), root: EMPTY_ROOT_HASH, content: BTreeMap::new() }
    }

    fn apply(&mut self, batch: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> Result<(), Difference> {
        let update = update_plain_trie(&self.nodes, self.root, batch).map_err(unreadable)?;
        self.nodes.extend(&update.writes);
        self.root = update.root;
        for (key, value) in batch {
            match value {
                Some(value) => self.content.insert(key.clone(), value.clone()),
                None => self.content.remove(key),
            };
        }
        Ok(())
    }

    /// Checks a key's proof with another implementation.
    fn check_proof(&self, key: &[u8]) -> Result<(), Difference> {
        let wanted = self.content.get(key);
        let (value, proof) = prove_key(&self.nodes, self.root, key).map_err(unreadable)?;
        let show = |value: Option<&Vec<u8>>| value.map_or_else(|| "none".to_owned(), hex::encode);
        let field = format!("value of {}", hex::encode(key));
        require_equal(field, show(value.as_ref()), show(wanted))?;
        // The verifier does not support values in branches, which only keys of different lengths cause.
        let has_one_length = self.content.keys().all(|other| other.len() == key.len());
        if !has_one_length {
            return Ok(());
        }
        verify_proof(self.root, Nibbles::unpack(key), value, &proof)
            .map_err(|error| Difference::new(format!("proof of {}", hex::encode(key)), error, "a valid one"))
    }
}

fn unreadable(error: tenon_chain::TrieError) -> Difference {
    Difference::new("trie", error, "a readable one")
}

fn secured(steps: &[Step], is_secure: bool) -> Vec<Step> {
    let key = |key: &Vec<u8>| if is_secure { keccak256(key).to_vec() } else { key.clone() };
    steps.iter().map(|(each, value)| (key(each), value.clone())).collect()
}

/// Applies the steps as given, and in one step with the last value of each key: both must give the root.
fn in_order(steps: &[Step], is_secure: bool, root: B256) -> Check {
    let steps = secured(steps, is_secure);
    let mut trie = Trie::new();
    for (key, value) in &steps {
        trie.apply(&[(key.clone(), value.clone())].into())?;
    }
    require_equal("root", trie.root, root)?;
    steps.iter().try_for_each(|(key, _)| trie.check_proof(key))?;

    let mut at_once = Trie::new();
    at_once.apply(&steps.into_iter().collect())?;
    require_equal("root of one batch", at_once.root, root)?;
    Ok(Passed::default())
}

/// Ascending, descending, and every rotation of it.
fn any_order(steps: &[Step], is_secure: bool, root: B256) -> Check {
    in_order(steps, is_secure, root)?;
    let mut reversed: Vec<Step> = steps.iter().rev().cloned().collect();
    for _ in 0..steps.len() {
        in_order(&reversed, is_secure, root)?;
        reversed.rotate_left(1);
    }
    Ok(Passed::default())
}

/// The keys just before and just after a probe, in the order of a walk of the trie.
fn neighbours(keys: &[String], tests: &[[String; 3]]) -> Check {
    let mut trie = Trie::new();
    trie.apply(&keys.iter().map(|key| (key.clone().into_bytes(), Some(vec![1]))).collect())?;
    let mut found = Vec::new();
    walk_trie(&trie.nodes, None, trie.root, &mut |item| {
        if let TrieItem::Leaf { path, .. } = item {
            found.push(path.chunks_exact(2).map(|pair| (pair[0] << 4) | pair[1]).collect::<Vec<u8>>());
        }
        ControlFlow::Continue(())
    })
    .map_err(unreadable)?;
    let show = |key: Option<&Vec<u8>>| key.map(|key| String::from_utf8_lossy(key).into_owned()).unwrap_or_default();
    for [probe, previous, next] in tests {
        let before = found.iter().rev().find(|key| key.as_slice() < probe.as_bytes());
        let after = found.iter().find(|key| key.as_slice() > probe.as_bytes());
        require_equal(format!("key before {probe}"), show(before), previous.clone())?;
        require_equal(format!("key after {probe}"), show(after), next.clone())?;
    }
    Ok(Passed::default())
}
