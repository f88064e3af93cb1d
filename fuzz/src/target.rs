//! The program of every target. The files in `bin` are symbolic links to this one; a program's name is its target's.
#![no_main]

tenon_fuzz::fuzz!();
