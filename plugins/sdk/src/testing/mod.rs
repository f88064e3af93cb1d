//! Tests a plugin without a node.
//!
//! | For | Use |
//! |---|---|
//! | a method with one or two requests | [`FakeHost`]: answers are closures, events are prepared |
//! | a plugin that reads or follows a chain, or stores something | [`Chain`]: blocks that the test makes, reorganisations, events, storage, failures |
//! | a whole plugin: started, called, replaced, with its background work | [`Chain::start`] |
//!
//! Nothing here waits, sleeps or starts a thread: the test advances time, and a future that does not become ready by
//! itself fails the test.

mod blocks;
mod chain;
mod fake_host;
mod started;
mod store;

pub use blocks::TestBlock;
pub use chain::Chain;
pub use fake_host::FakeHost;
pub use started::{Started, TestSubscription};
