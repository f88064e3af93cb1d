//! See `tenon_fuzz_targets`.
#![no_main]

tenon_fuzz::fuzz!("signing_request");
