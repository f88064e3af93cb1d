//! The part of the suites that `docs/spec/conformance.md` 5 names for a quick run. `make conformance` runs all.

#![allow(clippy::unwrap_used, reason = "test helpers may panic")]

use tenon_ethereum_tests::{Selection, Skips, Source, Suite, run};

/// Folders of state tests, in the form without blocks.
const STATE_FOLDERS: [&str; 10] = [
    "GeneralStateTests/stSStoreTest/",
    "GeneralStateTests/stCreate2/",
    "GeneralStateTests/stRevertTest/",
    "GeneralStateTests/stEIP2930/",
    "GeneralStateTests/stEIP1559/",
    "GeneralStateTests/stPreCompiledContracts2/",
    "GeneralStateTests/stReturnDataTest/",
    "GeneralStateTests/VMTests/vmArithmeticTest/",
    "GeneralStateTests/Cancun/",
    "GeneralStateTests/Shanghai/",
];

/// Folders of block tests, for every suite that has them.
const BLOCK_FOLDERS: [&str; 6] = [
    "/bcEIP1559/",
    "/bcStateTests/",
    "/bcUncleTest/",
    "/bcInvalidHeaderTest/",
    "/bc4895-withdrawals/",
    "TransitionTests/",
];

/// Runs a part of the suites, prints the results, and fails with the first differing field of each failure.
fn assert_all_pass(suites: &[Suite], files: &[&str], at_least: u64) {
    let selection = Selection {
        suites: suites.to_vec(),
        files: files.iter().map(|part| (*part).to_owned()).collect(),
        skips: Skips::of_project().unwrap(),
        ..Selection::default()
    };
    let pool = rayon::ThreadPoolBuilder::new().stack_size(64 << 20).build().unwrap();

    let report = pool.install(|| run(&Source::packed().unwrap(), &selection));

    println!("{report}");
    let failures: Vec<String> = report.failures().map(|case| format!("{}: {:?}", case.name, case.outcome)).collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(report.total().passed >= at_least, "{:?}", report.total());
}

#[test]
fn codecs_tries_and_single_rules_match_the_suites() {
    let small = [
        Suite::Transactions,
        Suite::Tries,
        Suite::Rlp,
        Suite::Difficulty,
        Suite::Genesis,
        Suite::Basic,
        Suite::Abi,
        Suite::KeyStore,
        Suite::ProofOfWork,
    ];

    assert_all_pass(&small, &[], 14_600);
}

#[test]
fn transactions_change_the_state_by_every_forks_rules() {
    assert_all_pass(&[Suite::GeneralState], &STATE_FOLDERS, 1_500);
}

#[test]
fn chains_are_imported_and_their_bad_blocks_refused_for_the_named_reason() {
    let suites = [Suite::ValidBlocks, Suite::InvalidBlocks, Suite::Transitions];

    assert_all_pass(&suites, &BLOCK_FOLDERS, 400);
}

#[test]
fn every_skipped_case_is_in_the_packed_files() {
    let packed = Source::packed().unwrap();
    let skips = Skips::of_project().unwrap();

    for skip in skips.iter() {
        let file = skip.case.split_once(": ").map_or(skip.case.as_str(), |(file, _)| file);
        assert!(packed.files.iter().any(|each| each.path == file), "{file}");
    }
}
