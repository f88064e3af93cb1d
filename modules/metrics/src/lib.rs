//! The node's metrics, in the text format of Prometheus, on an HTTP endpoint of their own.
//!
//! Owns the list of all metrics ([`families`]), the page of one scrape ([`Page`]), the endpoint ([`MetricsServer`]),
//! and the counters of the write path ([`CountedWriter`]). All other counters are plain atomics in the crates that
//! count; `core/node` collects them through [`Source`] at each scrape.
//!
//! Invariants:
//!
//! - counting never formats, locks or looks up a name;
//! - a scrape shows only metrics of the list, each with the labels that the list gives;
//! - the endpoint takes few connections and one scrape at a time, and reads nothing of a request but its path.

#![forbid(unsafe_code)]

pub mod families;
mod page;
mod server;
mod writer;

pub use families::{Family, Kind};
pub use page::Page;
pub use server::{MetricsServer, Source};
pub use writer::{CommitCounts, CountedWriter};
