//! The signing service, which decides whether a client's request is signed with a key.
//!
//! It owns the settings ([`Settings`]), the life cycle of a request ([`Service`]: asked, decided, approved, signed),
//! the requests that wait for a person ([`Approvals`]), the methods of clients and approvers, HTTP, and the page for
//! approvals. The rules come from `tenon-signing-policy`, the log from `tenon-signing-audit`, and the keys from wallets
//! of `tenon-accounts`.
//!
//! Invariants:
//!
//! - nothing is signed unless the policy in force allows it at that moment, its line is in the log and, where approval
//!   is required, enough people other than the requester have approved exactly these bytes;
//! - a client sees only its own requests;
//! - the number of everything that a client can create is bounded, per client and in total;
//! - the crate opens no connection.
#![forbid(unsafe_code)]

mod approval_queue;
mod approvals;
mod approver;
mod client;
mod clock;
mod connections;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod methods;
mod page;
mod program;
mod rate;
mod raw_data;
mod scheduler;
mod service;
mod settings;
mod shares;
mod tls;

pub use approvals::{Approvals, ApproveError, WaitingRequest};
pub use approver::ApproverService;
pub use client::{ClientSocket, Named};
pub use connections::max_connections;
pub use http::{HttpFrontEnd, HttpStartError};
pub use methods::DISCOVERY;
pub use page::Page;
pub use program::{Program, ProgramHelper, help_with_program};
pub use service::{Service, ServiceError, Signed};
pub use settings::{ApproverEntry, ClientEntry, HttpEntry, PageEntry, ProgramEntry, Settings, SettingsError};

#[cfg(test)]
mod tests;
