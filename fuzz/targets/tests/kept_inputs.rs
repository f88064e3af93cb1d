//! Replays every kept input through its target: the seeds, inputs kept from searches, and those that once broke a rule
//! (`fuzz/kept`).

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tenon_fuzz_targets::{PEAK, Running, TARGETS, seeds};

/// Counts memory, to check the targets' bounds.
#[global_allocator]
static COUNTED: peak_alloc::PeakAlloc = PEAK;

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Inputs that once broke a rule, by file name.
fn kept(target: &str) -> BTreeMap<String, Vec<u8>> {
    let Ok(files) = fs::read_dir(fuzz_folder().join("kept").join(target)) else { return BTreeMap::new() };
    let files = files.map(|file| file.unwrap());
    files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect()
}

// A single test, because memory is counted for the whole process.
#[test]
fn no_kept_input_breaks_a_rule() {
    for target in TARGETS {
        let running = Running::start(target.name);
        let (seeds, kept) = (seeds(target.name), kept(target.name));
        assert!(seeds.len() >= 3, "{} has no seeds", target.name);
        for seed in &seeds {
            running.run(seed);
        }
        for (name, input) in &kept {
            println!("{}: {name}", target.name);
            running.run(input);
        }
        println!("{}: {} seeds and {} kept findings", target.name, seeds.len(), kept.len());
    }
}

#[test]
fn every_folder_and_program_belongs_to_a_target() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    let stems = |folder: &str| -> BTreeSet<String> {
        let Ok(files) = fs::read_dir(fuzz_folder().join(folder)) else { return BTreeSet::new() };
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.map(|name| name.split('.').next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(stems("src/bin"), targets);
    assert!(stems("kept").is_subset(&targets) && stems("corpus").is_subset(&targets));
    assert!(stems("words").difference(&targets).eq(["json"]), "{:?} have words", stems("words"));
}

/// Name and version of every package of a lock file.
fn locked(path: &Path) -> BTreeSet<(String, String)> {
    let lock: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    let text = |package: &toml::Value, key: &str| package[key].as_str().unwrap().to_owned();
    let packages = lock["package"].as_array().unwrap();
    packages.iter().map(|package| (text(package, "name"), text(package, "version"))).collect()
}

#[test]
fn the_fuzzer_links_the_nodes_versions() {
    let (node, fuzzer) = (locked(&fuzz_folder().join("../Cargo.lock")), locked(&fuzz_folder().join("Cargo.lock")));
    let names: BTreeSet<&String> = node.iter().map(|(name, _)| name).collect();

    let other: Vec<_> =
        fuzzer.iter().filter(|package| names.contains(&package.0) && !node.contains(*package)).collect();

    assert!(other.is_empty(), "versions differ, run scripts/fuzz.sh lock: {other:?}");
}
