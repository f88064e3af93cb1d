//! Which requests the signing service signs, and what it shows of them.
//!
//! It owns the form of a request ([`Request`]), the operator's rules ([`Policy`]), the decision about a request
//! ([`Policy::decide`]), the interfaces of known contracts ([`Interfaces`]) and what a person reads before an approval
//! ([`Presentation`]).
//!
//! What must always hold: a request that no rule names is denied. A rule that denies wins over all others. A decision
//! depends only on the policy, the request, what was signed before ([`History`]) and the time, and a clock that is set
//! back opens nothing. Nothing is shown with characters that move, reorder or hide others. The crate signs nothing,
//! keeps no state and opens no connection; it reads the files of the policy only.
#![forbid(unsafe_code)]

mod amount;
mod approval;
mod error;
mod file;
mod history;
mod interfaces;
mod layout;
mod matching;
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
pub use policy::{Decision, Explained, Outcome, Policy};
pub use presentation::{Line, Mark, Presentation};
pub use request::{Domain, Kind, Request, Subject, TypedMessage, ValidatorMessage};
pub use text::{MAX_SHOWN_CHARACTERS, ShownText};

#[cfg(test)]
mod tests;
