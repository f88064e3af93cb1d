//! Decides which requests the signing service signs and how a request is presented to a person.
//!
//! It owns the form of a request ([`Request`]), the operator's rules ([`Policy`]), the decision about a request
//! ([`Policy::decide`]), the interfaces of known contracts ([`Interfaces`]) and the text that a person reads before an
//! approval ([`Presentation`]).
//!
//! Invariants:
//!
//! - A request that no rule matches is denied.
//! - A matching rule that denies takes precedence over all others.
//! - A decision depends only on the policy, the request, earlier signatures ([`History`]) and the time, and setting the
//!   clock back permits nothing more.
//! - Shown text contains no characters that move, reorder or hide others.
//! - The crate signs nothing, keeps no state, opens no connection, and reads only the files of the policy.
#![forbid(unsafe_code)]

mod amount;
mod approval;
mod error;
mod file;
mod history;
mod interfaces;
mod layout;
mod matching;
mod outcome;
mod policy;
mod presentation;
mod request;
mod rule;
mod text;

pub use amount::{AmountError, parse_amount, show_amount};
pub use approval::unlimited_approval;
pub use error::PolicyError;
pub use history::{History, NoHistory, Spent};
pub use interfaces::{DecodedArgument, DecodedCall, Interfaces};
pub use matching::Mismatch;
pub use outcome::Outcome;
pub use policy::{Decision, ExplainedDecision, Policy};
pub use presentation::{Line, Presentation, Warning};
pub use request::{Domain, Kind, Request, Subject, TypedMessage, ValidatorMessage};
pub use text::{DisplayText, MAX_SHOWN_CHARACTERS};

#[cfg(test)]
mod tests;
