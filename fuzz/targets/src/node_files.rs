//! Files supplied by operators, and files that the node keeps next to its database.

use std::io::Cursor;

use serde_json::Value;
use tenon_api::SealedHeader;
use tenon_modules::PluginPlan;

// Included as source, because the program is not a library.
#[path = "../../../core/node/src/commands/verify_headers/header_file.rs"]
mod header_file;
// Included as source, so that RocksDB is not linked.
#[allow(dead_code, reason = "only a part of the file is used here")]
#[path = "../../../modules/storage/src/table_list/record.rs"]
mod table_record;

use header_file::{FileProblem, HeaderFile};
use table_record::{Known, signed};

/// Headers: the same results in one batch and in small ones; an error has a text.
pub(crate) fn headers(input: &[u8]) {
    let (headers, problem) = in_batches(input, usize::MAX);
    let (again, problem_again) = in_batches(input, 2);
    let words = |problem: &Option<FileProblem>| problem.as_ref().map(ToString::to_string);
    assert_eq!(again, headers, "the same in small batches");
    assert_eq!(words(&problem_again), words(&problem));
    assert!(words(&problem).is_none_or(|words| !words.is_empty()));
    for header in headers {
        assert_eq!(tenon_chain::seal(header.header().clone()).hash(), header.hash());
    }
}

fn in_batches(input: &[u8], count: usize) -> (Vec<SealedHeader>, Option<FileProblem>) {
    let mut file = match HeaderFile::new(Box::new(Cursor::new(input.to_vec()))) {
        Ok(file) => file,
        Err(problem) => return (Vec::new(), Some(problem)),
    };
    let mut all = Vec::new();
    loop {
        let (headers, problem) = file.next_batch(count);
        let is_end = headers.is_empty();
        let places: Vec<String> = (0..headers.len()).map(|position| file.place(position)).collect();
        assert!(places.windows(2).all(|pair| pair[0].is_empty() == pair[1].is_empty()), "all have a place or none");
        all.extend(headers);
        if problem.is_some() || is_end {
            return (all, problem);
        }
    }
}

/// Choices about modules: no module twice, and decoded choices round-trip.
pub(crate) fn choices(input: &[u8]) {
    let configured = [PluginPlan::new("eth", "/plugins/eth.so"), PluginPlan::new("net", "/plugins/net.so")];
    let Some((plans, written)) = tenon_modules::fuzzing::choices(input, &configured) else { return };
    let mut names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    let again = tenon_modules::fuzzing::choices(&written, &configured);
    assert_eq!(again, Some((plans, written)), "what was written is understood");
}

/// A manifest as sent by a plugin's process: an accepted one round-trips.
pub(crate) fn manifest(input: &[u8]) {
    match tenon_isolation::fuzzing::manifest(input) {
        Ok(written) => assert_eq!(tenon_isolation::fuzzing::manifest(&written).as_ref(), Ok(&written)),
        Err(words) => assert!(!words.is_empty()),
    }
}

/// The head of a library: a complete file stays complete if bytes are appended, and its tables of segments and sections
/// begin inside it.
pub(crate) fn library(input: &[u8]) {
    match tenon_host::fuzzing::library(input) {
        Ok(()) => {
            let longer = [input, &[0; 64]].concat();
            assert_eq!(tenon_host::fuzzing::library(&longer), Ok(()), "a complete file stays complete if it grows");
            let number =
                |at: usize| input.get(at..at + 8).and_then(|part| part.try_into().ok()).map(u64::from_le_bytes);
            // Offsets of the tables of segments and of sections.
            for start in [number(32), number(40)].into_iter().flatten() {
                assert!(start <= input.len() as u64, "a table begins at {start}, behind the end");
            }
        }
        Err(words) => assert!(!words.is_empty()),
    }
}

/// The record of the list of tables: with a correct checksum it has exactly one encoding.
pub(crate) fn table_record(input: &[u8]) {
    if let Some(known) = Known::decode(input) {
        assert_eq!(known.encode().as_bytes(), input, "a record has one form");
    }
    // A search does not find valid checksums.
    let Ok(facts) = std::str::from_utf8(input) else { return };
    let record = signed(facts);
    if let Some(known) = Known::decode(record.as_bytes()) {
        assert_eq!(known.encode(), record, "a record has one form");
    }
}

/// A record of tables without its checksum, as input of the target above.
pub(crate) fn table_facts() -> Vec<Vec<u8>> {
    let hash = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470";
    let facts = [format!("MANIFEST-000004 77 {hash} 000009.log"), format!("MANIFEST-000012 1048576 {hash} -")];
    let records = facts.iter().map(|facts| signed(facts));
    let spellings = [facts[0].replace(" 77", " +77"), facts[0].replace(hash, &format!("0x{hash}"))];
    facts.iter().cloned().chain(records).chain(spellings).map(String::into_bytes).collect()
}

/// Short header files of both kinds.
pub(crate) fn header_files(headers: &[Vec<u8>], blocks: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let json = |headers: &[Vec<u8>]| {
        let entry = |rlp: &Vec<u8>| serde_json::json!({ "rlp": format!("0x{}", hex::encode(rlp)) });
        Value::Array(headers.iter().map(entry).collect()).to_string().into_bytes()
    };
    let short: Vec<Vec<u8>> = headers.iter().filter(|header| header.len() < 900).cloned().collect();
    let with_hash = headers.first().map(|rlp| {
        let hash = alloy_primitives::keccak256(rlp);
        format!("{{\"rlp\":\"0x{}\",\"hash\":\"{hash}\"}}", hex::encode(rlp)).into_bytes()
    });
    let files = short.chunks(2).take(12).flat_map(|pair| [pair.concat(), json(pair)]);
    files.chain(blocks.iter().filter(|block| block.len() < 1_200).take(8).cloned()).chain(with_hash).collect()
}
