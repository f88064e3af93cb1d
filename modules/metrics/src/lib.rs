//! What the node counts, in the text that Prometheus reads, over an HTTP endpoint of its own.
//!
//! Owns the list of all metrics ([`families`]), the page that one scrape makes ([`Page`]), the endpoint
//! ([`MetricsServer`]), and the counters of the write path ([`CountedWriter`]). Everything else is counted by the room in
//! which it happens, in plain atomics that are read when somebody scrapes: `core/node` collects them through [`Source`].
//!
//! What must always hold: nothing is formatted, locked or looked up by name where something is counted; a scrape shows
//! metrics of the list only, each with the labels that the list names; the endpoint takes few connections, one scrape
//! at a time, and nothing that a client sends reaches further than its path.

#![forbid(unsafe_code)]

pub mod families;
mod page;
mod server;
mod writer;

pub use families::{Family, Kind};
pub use page::Page;
pub use server::{MetricsServer, Source};
pub use writer::{CommitCounts, CountedWriter};
