//! Tests of the chain store's public interface, as one program so that the engine is linked once.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod blocks;
mod checkpoint;
mod crash;
mod damage;
mod damaged_files;
mod encoded;
mod engine;
mod handlers;
mod history;
mod logs;
mod reorganise;
mod spaces;
mod support;
mod table_list;
mod thinning;
mod unwind;
