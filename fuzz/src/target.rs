//! The program of every target: the files of `bin` are links to this one, and its name is the target's.
#![no_main]

tenon_fuzz::fuzz!();
