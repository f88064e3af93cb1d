//! Testing a plugin without a node.
//!
//! | For | There is |
//! |---|---|
//! | a method that asks a thing or two | [`FakeHost`]: answers are closures, events are prepared |
//! | a plugin that reads or follows a chain, or stores something | [`Chain`]: blocks that the test makes, reorganisations, events, storage, services that fail |
//! | a plugin as a whole: started, called, replaced, with its own work running | [`Chain::start`] |
//!
//! Nothing here waits, sleeps or starts a thread: time passes when the test says so, and what does not become ready by
//! itself is an error of the test.

mod blocks;
mod chain;
mod fake_host;
mod started;
mod store;

pub use blocks::TestBlock;
pub use chain::Chain;
pub use fake_host::FakeHost;
pub use started::{Started, TestSubscription};
