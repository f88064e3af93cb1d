//! Walks a whole trading state: every node must exist and match its hash, and every record must decode.

use std::ops::ControlFlow;

use alloy_primitives::{B256, hex, keccak256};
use tenon_api::{StoreError, TrieReader};
use tenon_chain::{
    TrieError,
    trie::{TrieItem, walk_trie},
};

use super::{
    Order, Record, Side, book_orders_owner, decode_level, filled, level_owner, number, orders_owner, owner, side_name,
};

/// Size of a trading state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TradingReport {
    /// Nodes of all its tries.
    pub nodes: u64,
    /// Order books, and users with a nonce.
    pub records: u64,
    /// Orders in the books.
    pub orders: u64,
}

/// Why the walk ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TradingProblem {
    /// A part is missing or corrupt.
    #[error("{what}: {problem}")]
    Damage {
        /// The trie.
        what: String,
        /// The problem.
        problem: String,
    },
    /// The database cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The caller stopped it.
    #[error("stopped")]
    Stopped,
}

/// Walks the trading state with this root (`docs/spec/chain.md` 6.3). `step` receives the number of nodes visited, and
/// returns whether to continue.
///
/// # Errors
/// [`TradingProblem`].
pub fn verify_trading_state(
    nodes: &dyn TrieReader,
    root: B256,
    step: &mut dyn FnMut(u64) -> bool,
) -> Result<TradingReport, TradingProblem> {
    let mut check = Check { nodes, step, report: TradingReport::default() };
    let books = check.trie("the trading state", owner(&[]), root, &|value| Record::decode(value))?;
    check.report.records = books.len() as u64;
    for (book, record) in books {
        let orders_name = format!("the orders of book {book}");
        check.trie(&orders_name, book_orders_owner(book), record.orders, &|value| Order::decode(value).ok())?;
        for (side, root) in [(Side::Sell, record.sells), (Side::Buy, record.buys)] {
            let side_name = String::from_utf8_lossy(side_name(side)).into_owned();
            let name = format!("the {side_name} of book {book}");
            for (price, (_, root)) in check.trie(&name, level_owner(book, side), root, &decode_level)? {
                let name = format!("{name} at price {price}");
                let amount = |mut value: &[u8]| number(&mut value);
                let amounts = check.trie(&name, orders_owner(book, side, price), root, &amount)?;
                check.report.orders += amounts.len() as u64;
            }
        }
    }
    Ok(check.report)
}

struct Check<'a> {
    nodes: &'a dyn TrieReader,
    step: &'a mut dyn FnMut(u64) -> bool,
    report: TradingReport,
}

impl Check<'_> {
    /// Walks one trie and returns its entries.
    fn trie<T>(
        &mut self,
        what: &str,
        owner: B256,
        root: B256,
        decode: &dyn Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<(B256, T)>, TradingProblem> {
        let damage = |problem: String| TradingProblem::Damage { what: what.to_owned(), problem };
        let mut found = Vec::new();
        let mut outcome = Ok(());
        let walked = walk_trie(self.nodes, Some(owner), filled(root), &mut |item| {
            let seen = match item {
                TrieItem::Node { path, hash, rlp } if keccak256(rlp) != hash => {
                    Err(damage(format!("has a node at {} that does not hash to {hash}", hex::encode(path))))
                }
                TrieItem::Node { .. } => {
                    self.report.nodes += 1;
                    if (self.step)(self.report.nodes) { Ok(()) } else { Err(TradingProblem::Stopped) }
                }
                TrieItem::Leaf { path, value } => match (key_of(path), decode(value)) {
                    (Some(key), Some(value)) => {
                        found.push((key, value));
                        Ok(())
                    }
                    _ => Err(damage(format!("has a record at {} that does not decode", hex::encode(path)))),
                },
            };
            outcome = seen;
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        outcome?;
        match walked {
            Ok(()) => Ok(found),
            Err(TrieError::Store(error)) => Err(error.into()),
            Err(error) => Err(damage(error.to_string())),
        }
    }
}

/// The key spelt by nibbles.
fn key_of(nibbles: &[u8]) -> Option<B256> {
    let (pairs, odd) = nibbles.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    if odd.is_empty() { B256::try_from(bytes.as_slice()).ok() } else { None }
}
