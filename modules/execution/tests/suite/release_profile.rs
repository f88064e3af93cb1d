//! Guarantees of the release build that no other build can test.

/// Every other profile has these checks anyway.
#[test]
fn the_crates_of_consensus_and_execution_are_released_with_overflow_checks() {
    let workspace = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml")).unwrap();

    let packages = [
        "tenon-chain",
        "tenon-consensus",
        "tenon-execution",
        "tenon-execution-interface",
        "tenon-simulation",
        "tenon-simulation-interface",
        "tenon-native-execution",
        "tenon-native-simulation",
        "tenon-native-tracers",
        "tenon-traces",
    ];
    for package in packages {
        let section = format!("[profile.release.package.{package}]\noverflow-checks = true\n");
        assert!(workspace.contains(&section), "{package}");
    }
}
