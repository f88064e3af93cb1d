//! The program around a target: libFuzzer's entry point, the counting allocator, and the option to write the seeds.
//!
//! It owns the macro [`fuzz!`], which makes a program of a target, and the allocator that counts for the target's
//! memory bound. The targets and their seeds are in `tenon_fuzz_targets`.
//!
//! Invariants: it contains no rule and no input of a target, so that the replay of the kept inputs, which does without
//! libFuzzer, checks the same; no crate of the node depends on it.

#![deny(unsafe_code)]

use std::{env, path::Path, process};

pub use libfuzzer_sys;
pub use tenon_fuzz_targets::Running;

/// Counts memory, to check the target's bound.
#[global_allocator]
static COUNTED: peak_alloc::PeakAlloc = tenon_fuzz_targets::PEAK;

/// With `TENON_FUZZ_SEEDS=FOLDER` in the environment, writes the seeds to `FOLDER/corpus` and the dictionary to
/// `FOLDER/words.dict`, and ends the program.
pub fn write_seeds(target: &str) {
    let Some(folder) = env::var_os("TENON_FUZZ_SEEDS") else { return };
    let folder = Path::new(&folder);
    let written = tenon_fuzz_targets::write_seeds(target, &folder.join("corpus"), &folder.join("words.dict"));
    if let Err(error) = &written {
        eprintln!("{}: {error}", folder.display());
    }
    process::exit(i32::from(written.is_err()));
}

/// Defines the program of the target that has the program's name.
#[macro_export]
macro_rules! fuzz {
    () => {
        static RUNNING: ::std::sync::OnceLock<$crate::Running> = ::std::sync::OnceLock::new();

        $crate::libfuzzer_sys::fuzz_target!(
            init: {
                $crate::write_seeds(env!("CARGO_BIN_NAME"));
                RUNNING.get_or_init(|| $crate::Running::start(env!("CARGO_BIN_NAME")));
            },
            |input: &[u8]| {
                if let Some(running) = RUNNING.get() {
                    running.run(input);
                }
            }
        );
    };
}
