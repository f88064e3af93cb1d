//! Genesis files of private networks that the reference client's `init` accepted or refused.

use serde_json::Value;
use tenon_native_spec::read_genesis;

/// Files that the reference's `init` accepts and this node refuses on purpose, with this node's error. With the first
/// one, the reference exits at its start; the second has rules that no known chain has; the others are most likely
/// mistakes.
const REFUSED_HERE: [(&str, &str); 5] = [
    ("a switch block within an epoch", "v2 switch number is not epoch switch block 100, epoch 900"),
    ("forks out of order", "fork London at 8 comes before Berlin at 9"),
    ("no chain id", "missing required field 'config.chainId'"),
    ("names in other case", "missing required field 'config.chainId'"),
    ("trailing text", "trailing characters"),
];
/// Files that this node accepts and the reference does not: it refuses a spelling that occurs in other files, or
/// crashes on values that its engine needs later.
const ACCEPTED_HERE: [&str; 7] = [
    "a coinbase without prefix",
    "extra data of odd length",
    "a slot of odd length",
    "without extraData",
    "extra data without signers",
    "extra data that is cut",
    "a number and gas used",
];

fn cases() -> Vec<Value> {
    let text = tenon_test_data::text("native/genesis-files.jsonl.gz");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The hash of a file's block, or the error.
fn hash_of(file: &str) -> Result<String, String> {
    let genesis = read_genesis(file.as_bytes()).map_err(|error| error.to_string())?;
    let commit = genesis.commit().map_err(|error| error.to_string())?;
    Ok(commit.block.hash().to_string())
}

#[test]
fn a_genesis_file_gives_the_same_block_as_the_reference() {
    let mut problems = Vec::new();
    for case in cases() {
        let (name, file) = (case["name"].as_str().unwrap(), case["file"].as_str().unwrap());
        let found = hash_of(file);
        let wanted = case["hash"].as_str();
        let is_as_wanted = match (&found, wanted) {
            (Ok(found), Some(wanted)) => found == wanted,
            (Err(error), Some(_)) => REFUSED_HERE.iter().any(|(refused, why)| *refused == name && error.contains(why)),
            (Ok(_), None) => ACCEPTED_HERE.contains(&name),
            (Err(_), None) => !ACCEPTED_HERE.contains(&name),
        };
        if !is_as_wanted {
            problems.push(format!(
                "{name}: {found:?}, in the reference {}",
                case["hash"].as_str().or(case["error"].as_str()).unwrap()
            ));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
