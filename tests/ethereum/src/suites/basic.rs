//! `BasicTests`: single functions. The form of the content determines which.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, hex, keccak256};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tenon_accounts::address_of_secret;
use tenon_chain::{
    decode_block, decode_transaction, encode_transaction,
    trie::{from_hex_prefix, to_hex_prefix},
};

use super::{
    Cases, FileReports, cases_of,
    difficulty::{self, DifficultyCase},
    parse, parse_case,
};
use crate::{
    Difference,
    lenient::HexBytes,
    network::at_fork,
    outcome::{Check, Passed, require_equal},
};

const NO_CIPHERS: &str = "AES-CTR and ECIES as the peer protocol uses them";
const OLD_GENESIS: &str = "genesis blocks in the header form of 2014";

#[derive(Deserialize)]
struct HexPrefixCase {
    seq: Vec<u8>,
    term: bool,
    out: HexBytes,
}

#[derive(Deserialize)]
struct KeyCase {
    seed: String,
    key: B256,
    addr: Address,
}

/// A transaction of 2014 with the key that signed it.
#[derive(Deserialize)]
struct SignedCase {
    key: B256,
    signed: HexBytes,
}

#[derive(Deserialize)]
struct GenesisHashes {
    genesis_rlp_hex: HexBytes,
    genesis_state_root: B256,
    genesis_hash: B256,
}

pub(super) fn run(text: &[u8], cases: &Cases<'_>) -> FileReports {
    if let Ok(keys) = parse::<Vec<KeyCase>>(text) {
        return Ok(keys.into_iter().filter_map(|case| cases.run(&case.seed.clone(), || case.run())).collect());
    }
    if let Ok(hashes) = parse::<GenesisHashes>(text) {
        return Ok(cases.run("genesis", || hashes.run()).into_iter().collect());
    }
    if let Ok(signed) = parse::<Vec<SignedCase>>(text) {
        let numbered = signed.into_iter().enumerate();
        return Ok(numbered.filter_map(|(index, case)| cases.run(&index.to_string(), || case.run())).collect());
    }
    if let Ok(steps) = parse::<BTreeMap<String, DifficultyCase>>(text) {
        return difficulty::run_unnamed(steps, cases);
    }
    if let Ok(old) = parse::<Vec<Value>>(text) {
        return Ok((0..old.len()).filter_map(|index| cases.not_built(&index.to_string(), OLD_GENESIS)).collect());
    }
    let run_one = |(name, raw): (String, &RawValue)| {
        if let Ok(case) = parse_case::<HexPrefixCase>(raw) {
            return cases.run(&name, || case.run());
        }
        cases.not_built(&name, NO_CIPHERS)
    };
    Ok(cases_of(text)?.into_iter().filter_map(run_one).collect())
}

impl HexPrefixCase {
    fn run(&self) -> Check {
        let packed = to_hex_prefix(&self.seq, self.term);
        require_equal("hex prefix", hex::encode(&packed), hex::encode(&self.out.0))?;
        let unpacked = format!("{:?}", from_hex_prefix(&packed));
        require_equal("path", unpacked, format!("{:?}", Some((&self.seq, self.term))))?;
        Ok(Passed::default())
    }
}

impl KeyCase {
    /// The key is the hash of the seed. The signature is not judged: the signed data is in no file, and is not the hash
    /// of the empty string.
    fn run(&self) -> Check {
        let key = keccak256(&self.seed);
        require_equal("key", key, self.key)?;
        let found = address_of_secret(key.0.into()).ok_or_else(|| Difference::new("key", key, "a valid one"))?;
        require_equal("address", found, self.addr)?;
        Ok(Passed::default())
    }
}

impl SignedCase {
    fn run(&self) -> Check {
        let transaction = decode_transaction(&self.signed.0)
            .map_err(|error| Difference::new("signed transaction", error, "a transaction"))?;
        let encoded = hex::encode(encode_transaction(&transaction));
        require_equal("encoding", encoded, hex::encode(&self.signed.0))?;
        let rules = at_fork("Frontier")?.1.signer_rules(0, 0);
        let found = rules.sender(&transaction).map_err(|error| Difference::new("sender", error, "one"))?;
        let wanted = address_of_secret(self.key.0.into());
        require_equal("sender", found, wanted.ok_or_else(|| Difference::new("key", self.key, "a valid one"))?)?;
        Ok(Passed::default())
    }
}

impl GenesisHashes {
    fn run(&self) -> Check {
        let block = decode_block(&mut &self.genesis_rlp_hex.0[..])
            .map_err(|error| Difference::new("genesis block", error, "a block"))?;
        require_equal("state root", block.header.state_root, self.genesis_state_root)?;
        require_equal("hash", block.hash(), self.genesis_hash)?;
        Ok(Passed::default())
    }
}
