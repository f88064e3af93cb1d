//! The pool's rules that depend on the chain family.

use std::fmt;

use tenon_api::{Address, ChainReader, Head, StoreError, Transaction, U256, messages::PoolRefusal};
use tenon_chain::BlobSidecar;

use crate::{PoolError, Senders, Source};

/// A transaction that may enter the pool.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    /// The transaction.
    pub transaction: &'a Transaction,
    /// Size of its canonical encoding without sidecar, bytes.
    pub size: u64,
    /// `None` if the proofs need no check, because the transaction was in a block already; otherwise the sidecar, if it
    /// came with one.
    pub sidecar: Option<Option<&'a BlobSidecar>>,
    /// Where it came from.
    pub source: Source,
    /// The pool's minimum tip, wei per gas.
    pub min_tip: U256,
}

/// The data that a policy may read.
pub struct PoolView<'a> {
    /// The chain.
    pub chain: &'a dyn ChainReader,
    /// Recovers senders.
    pub senders: &'a Senders,
    /// The next nonce of a sender that has transactions in the pool.
    pub next_nonce: &'a dyn Fn(Address) -> Option<u64>,
}

/// The cost of a transaction to its sender, and its priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostAndPriority {
    /// Maximum cost to its sender, wei.
    pub cost: U256,
    /// The contract that pays its gas; `None` if the sender does.
    pub sponsor: Option<Address>,
    /// Whether it is part of block production: it is never replaced, and need not pay the base fee.
    pub is_special: bool,
    /// Whether it is special and its sender may send special transactions: it is free, and precedes any other with its
    /// nonce.
    pub is_privileged: bool,
}

/// Computes the maximum cost of a transaction to its sender, wei.
pub type CostOf = Box<dyn Fn(&Transaction, &CostAndPriority) -> U256>;

/// The pool's rules of a chain family. Implemented by `EthereumPolicy` of `tenon-txpool` and in
/// `modules/native/pool`.
pub trait PoolPolicy: fmt::Debug + Send + Sync {
    /// Checks a transaction from this node's interfaces, before all others.
    ///
    /// # Errors
    /// Why it is refused.
    fn check_submission(&self, _transaction: &Transaction) -> Result<(), PoolError> {
        Ok(())
    }

    /// All checks except those of replacements and of the sender's other transactions. Returns the sender, and the
    /// transaction's cost and priority.
    ///
    /// # Errors
    /// Why it is refused.
    fn check(&self, candidate: &Candidate<'_>, view: &PoolView<'_>) -> Result<(Address, CostAndPriority), PoolError>;

    /// The costs, after this head, of transactions that contracts pay for.
    ///
    /// # Errors
    /// If the state of the head cannot be read.
    fn sponsored_costs(&self, _head: &Head, _chain: &dyn ChainReader) -> Result<CostOf, StoreError> {
        Ok(Box::new(|_, cost_and_priority| cost_and_priority.cost))
    }

    /// Converts a refusal of the pool itself to the one that clients of this family expect.
    fn refusal(&self, refusal: PoolRefusal) -> PoolRefusal {
        refusal
    }
}
