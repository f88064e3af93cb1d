//! The trading state: the trie of order books and user nonces, and the tries below each book
//! (`docs/spec/chain.md` 6.3).
//!
//! A block's changes are kept in memory in addition to the stored tries, and written at the end of the block. Two
//! consequences of the reference's caching are visible in roots: an order book that was only read is created, and a
//! price level that was emptied stays invisible to matching until the block ends, even if a new order is added to it.

mod check;
#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing;
mod prices;

use std::collections::{BTreeMap, btree_map::Entry};
use std::ops::ControlFlow;

use alloy_primitives::{B256, U256, keccak256};
use alloy_rlp::{Encodable, Header as Prefix};
use tenon_api::{EMPTY_ROOT_HASH, TrieReader};
use tenon_chain::{
    TrieUpdate,
    trie::{TrieItem, read_key, update_owned_trie, walk_trie, walk_trie_backwards},
};

use super::{
    ExchangeError,
    amounts::{Wide, list_of, low_word, put_number, wide},
    order::{Order, Side},
};

pub use prices::{BookPrices, Prices};

pub use check::{TradingProblem, TradingReport, verify_trading_state};

/// Owner of the nodes of the top trie, and with a suffix, of the tries below.
const OWNER: &[u8] = b"trading state of the historic exchange";

/// The record of an order book, or of a user, of which only the nonce is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Record {
    nonce: u64,
    last_price: Wide,
    price_before_epoch: Wide,
    price: Wide,
    quantity: Wide,
    /// Changed only by lending, as are the liquidation prices.
    loans: Wide,
    sells: B256,
    buys: B256,
    orders: B256,
    liquidation_prices: B256,
}

/// A record and its accessed parts.
#[derive(Debug, Default)]
struct Book {
    record: Record,
    is_changed: bool,
    sells: Levels,
    buys: Levels,
    /// Accessed orders by number, and whether they were changed.
    orders: BTreeMap<u64, (Order, bool)>,
}

/// The price levels of one side.
#[derive(Debug, Default)]
struct Levels {
    /// Levels that became visible or invisible to matching in this block.
    seen: BTreeMap<B256, bool>,
    read: BTreeMap<B256, Level>,
}

/// The orders of one price.
#[derive(Clone, Debug, Default)]
struct Level {
    volume: Wide,
    root: B256,
    /// Changed remaining amounts of orders. An order that has left the level stays here with an amount of zero.
    amounts: BTreeMap<u64, Wide>,
    is_changed: bool,
}

/// A change to revert if an order fails.
#[derive(Debug)]
enum Undo {
    LastPrice(B256, Wide),
    Average(B256, Box<(Wide, Wide)>),
    Trade { book: B256, id: u64, amount: Wide },
    Cancellation { book: B256, order: Box<Order> },
}

/// The trading state while a block changes it.
pub(super) struct TradingState<'a> {
    nodes: &'a dyn TrieReader,
    root: B256,
    books: BTreeMap<B256, Book>,
    undo: Vec<Undo>,
}

impl<'a> TradingState<'a> {
    /// The state with this root.
    pub(super) fn new(nodes: &'a dyn TrieReader, root: B256) -> Self {
        Self { nodes, root, books: BTreeMap::new(), undo: Vec::new() }
    }

    /// Sets the point to which [`Self::revert`] returns.
    pub(super) fn mark(&mut self) {
        self.undo.clear();
    }

    /// Reverts prices, trades and cancellations since the mark. Emptied levels stay invisible.
    pub(super) fn revert(&mut self) -> Result<(), ExchangeError> {
        while let Some(entry) = self.undo.pop() {
            match entry {
                Undo::LastPrice(book, price) => self.changed(book)?.record.last_price = price,
                Undo::Average(book, before) => self.store_average(book, before.0, before.1)?,
                Undo::Trade { book, id, amount } => self.put_back(book, id, amount)?,
                Undo::Cancellation { book, order } => self.put(book, *order)?,
            }
        }
        Ok(())
    }

    /// The nonce of a user (its address, padded) or of a book.
    pub(super) fn nonce(&mut self, key: B256) -> Result<u64, ExchangeError> {
        Ok(self.known(key)?.map_or(0, |book| book.record.nonce))
    }

    /// Sets a nonce; not revertible.
    pub(super) fn set_nonce(&mut self, key: B256, nonce: u64) -> Result<(), ExchangeError> {
        self.changed(key)?.record.nonce = nonce;
        Ok(())
    }

    /// The price of the last trade; zero if there was none.
    pub(super) fn last_price(&mut self, book: B256) -> Result<Wide, ExchangeError> {
        Ok(self.known(book)?.map_or(Wide::ZERO, |book| book.record.last_price))
    }

    /// Records the price of a trade.
    pub(super) fn set_last_price(&mut self, book: B256, price: Wide) -> Result<(), ExchangeError> {
        let before = std::mem::replace(&mut self.changed(book)?.record.last_price, price);
        self.undo.push(Undo::LastPrice(book, before));
        Ok(())
    }

    /// Average price and quantity of the trades of this epoch.
    pub(super) fn average(&mut self, book: B256) -> Result<(Wide, Wide), ExchangeError> {
        Ok(self.known(book)?.map_or((Wide::ZERO, Wide::ZERO), |book| (book.record.price, book.record.quantity)))
    }

    /// Sets the average price and quantity of the trades of this epoch.
    pub(super) fn set_average(&mut self, book: B256, price: Wide, quantity: Wide) -> Result<(), ExchangeError> {
        let before = self.average(book)?;
        self.store_average(book, price, quantity)?;
        self.undo.push(Undo::Average(book, Box::new(before)));
        Ok(())
    }

    fn store_average(&mut self, book: B256, price: Wide, quantity: Wide) -> Result<(), ExchangeError> {
        let record = &mut self.changed(book)?.record;
        (record.price, record.quantity) = (price, quantity);
        Ok(())
    }

    /// Average price of the previous epoch; zero if unknown.
    pub(super) fn price_before_epoch(&mut self, book: B256) -> Result<Wide, ExchangeError> {
        Ok(self.known(book)?.map_or(Wide::ZERO, |book| book.record.price_before_epoch))
    }

    /// Sets the average price of the previous epoch; not revertible.
    pub(super) fn set_price_before_epoch(&mut self, book: B256, price: Wide) -> Result<(), ExchangeError> {
        self.changed(book)?.record.price_before_epoch = price;
        Ok(())
    }

    /// The best price offered by this side: the lowest of sellers, the highest of buyers.
    pub(super) fn best_price(&mut self, book: B256, side: Side) -> Result<Option<Wide>, ExchangeError> {
        let nodes = self.nodes;
        let Some(known) = self.known(book)? else { return Ok(None) };
        let (levels, root) = known.levels(side);
        let is_seen = |price: &B256| levels.seen.get(price).copied();
        let stored =
            first_key(nodes, level_owner(book, side), root, side == Side::Buy, &|price| is_seen(price) != Some(false))?;
        let mut new = levels.seen.iter().filter(|(_, seen)| **seen).map(|(price, _)| *price);
        let new = if side == Side::Buy { new.next_back() } else { new.next() };
        let best = match (stored, new) {
            (Some(stored), Some(new)) if side == Side::Buy => Some(stored.max(new)),
            (Some(stored), Some(new)) => Some(stored.min(new)),
            (stored, new) => stored.or(new),
        };
        Ok(best.map(|price| wide(price.into())))
    }

    /// The first order at a price and its remaining amount.
    pub(super) fn first_order(
        &mut self,
        book: B256,
        side: Side,
        price: Wide,
    ) -> Result<Option<(Order, Wide)>, ExchangeError> {
        let nodes = self.nodes;
        let key = price_key(price);
        let Some(level) = self.level(book, side, key)? else { return Ok(None) };
        let is_left = |id: &B256| level.amounts.get(&number_of(id)).is_none_or(|amount| !amount.is_zero());
        let stored = first_key(nodes, orders_owner(book, side, key), level.root, false, &is_left)?;
        let new = level.amounts.iter().find(|(_, amount)| !amount.is_zero()).map(|(id, _)| *id);
        let first = match (stored.map(|id| number_of(&id)), new) {
            (Some(stored), Some(new)) => stored.min(new),
            (stored, new) => match stored.or(new) {
                Some(id) => id,
                None => return Ok(None),
            },
        };
        let amount = amount(nodes, level, orders_owner(book, side, key), first)?;
        let order =
            self.order(book, first)?.ok_or_else(|| damaged("a price level names an order that is not stored"))?;
        Ok(Some((order, amount)))
    }

    /// An order by its number. Creates the book.
    pub(super) fn order(&mut self, book: B256, id: u64) -> Result<Option<Order>, ExchangeError> {
        Ok(self.order_mut(book, id)?.map(|(order, _)| order.clone()))
    }

    /// Adds a limit order to its side and price; not revertible.
    pub(super) fn insert(&mut self, book: B256, order: Order) -> Result<(), ExchangeError> {
        self.put(book, order)
    }

    fn put(&mut self, book: B256, order: Order) -> Result<(), ExchangeError> {
        let Some(side) = order.side() else { return Ok(()) };
        let key = price_key(order.price);
        let is_new = self.level(book, side, key)?.is_none();
        let entry = self.changed(book)?;
        let levels = entry.levels_mut(side);
        if is_new {
            levels.seen.insert(key, true);
        }
        let level = levels.read.entry(key).or_default();
        level.amounts.insert(order.id, order.quantity);
        level.volume += order.quantity;
        level.is_changed = true;
        entry.orders.insert(order.id, (order, true));
        Ok(())
    }

    /// Reduces an order by a traded amount, and removes it from its level when nothing is left.
    pub(super) fn trade(&mut self, book: B256, order: &Order, amount: Wide) -> Result<(), ExchangeError> {
        let Some(side) = order.side() else { return Ok(()) };
        self.take(book, side, order, amount)?;
        self.undo.push(Undo::Trade { book, id: order.id, amount });
        Ok(())
    }

    /// Removes an order, or returns why the request is invalid.
    pub(super) fn cancel(&mut self, book: B256, asked: &Order) -> Result<Result<(), &'static str>, ExchangeError> {
        let order = match self.order(book, asked.id)? {
            Some(order) if !order.quantity.is_zero() => order,
            _ => return Ok(Err("there is no such order")),
        };
        let Some(side) = order.side() else { return Ok(Err("the order has no side")) };
        let nodes = self.nodes;
        let key = price_key(order.price);
        let left = match self.level(book, side, key)? {
            Some(level) if !level.volume.is_zero() => amount(nodes, level, orders_owner(book, side, key), order.id)?,
            _ => return Ok(Err("its price has no orders")),
        };
        if order.user != asked.user || order.hash != asked.hash || order.exchange != asked.exchange {
            return Ok(Err("the order is of another user, relayer or hash"));
        }
        self.take(book, side, &order, left)?;
        if let Some((kept, _)) = self.order_mut(book, order.id)? {
            kept.quantity = Wide::ZERO;
        }
        self.undo.push(Undo::Cancellation { book, order: Box::new(order) });
        Ok(Ok(()))
    }

    fn take(&mut self, book: B256, side: Side, order: &Order, taken: Wide) -> Result<(), ExchangeError> {
        let nodes = self.nodes;
        let key = price_key(order.price);
        let level = self.level(book, side, key)?.ok_or_else(|| damaged("an order's price level is not stored"))?;
        let before = amount(nodes, level, orders_owner(book, side, key), order.id)?;
        let left = before.checked_sub(taken).ok_or_else(|| damaged("an order smaller than what was traded"))?;
        level.amounts.insert(order.id, left);
        level.volume = level.volume.checked_sub(taken).ok_or_else(|| damaged("a level smaller than its orders"))?;
        level.is_changed = true;
        let is_empty = level.volume.is_zero();
        let entry = self.changed(book)?;
        if is_empty {
            entry.levels_mut(side).seen.insert(key, false);
        }
        if let Some((kept, is_changed)) = self.order_mut(book, order.id)? {
            (kept.quantity, *is_changed) = (left, true);
        }
        Ok(())
    }

    fn put_back(&mut self, book: B256, id: u64, amount: Wide) -> Result<(), ExchangeError> {
        let order = match self.order_mut(book, id)? {
            Some((order, _)) => {
                order.quantity += amount;
                order.clone()
            }
            None => return Ok(()),
        };
        let Some(side) = order.side() else { return Ok(()) };
        if let Some(level) = self.level(book, side, price_key(order.price))? {
            level.amounts.insert(id, order.quantity);
            level.volume += amount;
        }
        Ok(())
    }

    fn known(&mut self, key: B256) -> Result<Option<&mut Book>, ExchangeError> {
        match self.books.entry(key) {
            Entry::Occupied(entry) => Ok(Some(entry.into_mut())),
            Entry::Vacant(entry) => match stored_record(self.nodes, self.root, key)? {
                Some(record) => Ok(Some(entry.insert(Book { record, ..Book::default() }))),
                None => Ok(None),
            },
        }
    }

    /// A record that is written at the end of the block; created if missing.
    fn changed(&mut self, key: B256) -> Result<&mut Book, ExchangeError> {
        if self.known(key)?.is_none() {
            self.books.insert(key, Book::default());
        }
        let book = self.books.entry(key).or_default();
        book.is_changed = true;
        Ok(book)
    }

    fn level(&mut self, book: B256, side: Side, price: B256) -> Result<Option<&mut Level>, ExchangeError> {
        let nodes = self.nodes;
        let Some(known) = self.known(book)? else { return Ok(None) };
        let root = known.levels(side).1;
        match known.levels_mut(side).read.entry(price) {
            Entry::Occupied(entry) => Ok(Some(entry.into_mut())),
            Entry::Vacant(entry) => match read_key(nodes, Some(level_owner(book, side)), root, price.as_slice())? {
                Some(value) => {
                    let (volume, root) =
                        decode_level(&value).ok_or_else(|| damaged("a price level cannot be decoded"))?;
                    Ok(Some(entry.insert(Level { volume, root, ..Level::default() })))
                }
                None => Ok(None),
            },
        }
    }

    fn order_mut(&mut self, book: B256, id: u64) -> Result<Option<&mut (Order, bool)>, ExchangeError> {
        let nodes = self.nodes;
        if self.known(book)?.is_none() {
            self.changed(book)?;
        }
        let Some(known) = self.known(book)? else { return Ok(None) };
        let root = filled(known.record.orders);
        match known.orders.entry(id) {
            Entry::Occupied(entry) => Ok(Some(entry.into_mut())),
            Entry::Vacant(entry) => match read_key(nodes, Some(book_orders_owner(book)), root, &number_key(id))? {
                Some(value) => {
                    let order = Order::decode(&value).map_err(|_| damaged("an order cannot be decoded"))?;
                    Ok(Some(entry.insert((order, false))))
                }
                None => Ok(None),
            },
        }
    }

    /// Writes all changes into the tries; returns the new root and the nodes.
    pub(super) fn finish(self) -> Result<TrieUpdate, ExchangeError> {
        let mut all = TrieUpdate::default();
        let mut records = BTreeMap::new();
        for (key, mut book) in self.books {
            if !book.is_changed {
                continue;
            }
            for side in [Side::Sell, Side::Buy] {
                let root = book.levels(side).1;
                let changes = level_changes(self.nodes, key, side, book.levels_mut(side), &mut all)?;
                let root = write(self.nodes, level_owner(key, side), root, &changes, &mut all)?;
                *book.root_mut(side) = root;
            }
            let changed = book.orders.iter().filter(|(_, (_, is_changed))| *is_changed);
            let orders = changed
                .map(|(id, (order, _))| (number_key(*id).to_vec(), (!order.quantity.is_zero()).then(|| order.encode())))
                .collect();
            book.record.orders =
                write(self.nodes, book_orders_owner(key), filled(book.record.orders), &orders, &mut all)?;
            book.record.liquidation_prices = filled(book.record.liquidation_prices);
            records.insert(key.to_vec(), Some(book.record.encode()));
        }
        all.root = write(self.nodes, owner(&[]), self.root, &records, &mut all)?;
        Ok(all)
    }
}

impl Book {
    /// The levels of a side, and the root of the stored ones.
    fn levels(&self, side: Side) -> (&Levels, B256) {
        match side {
            Side::Sell => (&self.sells, filled(self.record.sells)),
            Side::Buy => (&self.buys, filled(self.record.buys)),
        }
    }

    const fn levels_mut(&mut self, side: Side) -> &mut Levels {
        match side {
            Side::Sell => &mut self.sells,
            Side::Buy => &mut self.buys,
        }
    }

    const fn root_mut(&mut self, side: Side) -> &mut B256 {
        match side {
            Side::Sell => &mut self.record.sells,
            Side::Buy => &mut self.record.buys,
        }
    }
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        let mut items = Vec::with_capacity(256);
        self.nonce.encode(&mut items);
        for number in [self.last_price, self.price_before_epoch, self.price, self.quantity, self.loans] {
            put_number(number, &mut items);
        }
        for root in [self.sells, self.buys, self.orders, self.liquidation_prices] {
            root.encode(&mut items);
        }
        list_of(&items)
    }

    fn decode(mut value: &[u8]) -> Option<Self> {
        let mut items = Prefix::decode_bytes(&mut value, true).ok()?;
        let items = &mut items;
        let record = Self {
            nonce: u64::try_from(number(items)?).ok()?,
            last_price: number(items)?,
            price_before_epoch: number(items)?,
            price: number(items)?,
            quantity: number(items)?,
            loans: number(items)?,
            sells: root(items)?,
            buys: root(items)?,
            orders: root(items)?,
            liquidation_prices: root(items)?,
        };
        items.is_empty().then_some(record)
    }
}

/// The changed levels of a side; writes the tries of their orders.
fn level_changes(
    nodes: &dyn TrieReader,
    book: B256,
    side: Side,
    levels: &mut Levels,
    all: &mut TrieUpdate,
) -> Result<BTreeMap<Vec<u8>, Option<Vec<u8>>>, ExchangeError> {
    let mut changes = BTreeMap::new();
    for (price, level) in levels.read.iter().filter(|(_, level)| level.is_changed) {
        let amounts = level.amounts.iter().map(|(id, amount)| {
            let left = (!amount.is_zero()).then(|| {
                let mut value = Vec::new();
                // Fits a word: orders with more bits were refused.
                put_number(wide(low_word(*amount)), &mut value);
                value
            });
            (number_key(*id).to_vec(), left)
        });
        let root = write(nodes, orders_owner(book, side, *price), filled(level.root), &amounts.collect(), all)?;
        let value = (!level.volume.is_zero()).then(|| {
            let mut items = Vec::new();
            put_number(level.volume, &mut items);
            root.encode(&mut items);
            list_of(&items)
        });
        changes.insert(price.to_vec(), value);
    }
    Ok(changes)
}

/// Updates one trie, adds its changes to `all`, returns its new root.
fn write(
    nodes: &dyn TrieReader,
    owner: B256,
    root: B256,
    changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    all: &mut TrieUpdate,
) -> Result<B256, ExchangeError> {
    let mut update = update_owned_trie(nodes, Some(owner), root, changes)?;
    all.writes.append(&mut update.writes);
    all.superseded.append(&mut update.superseded);
    Ok(update.root)
}

/// The record stored under this key.
fn stored_record(nodes: &dyn TrieReader, root: B256, key: B256) -> Result<Option<Record>, ExchangeError> {
    let value = read_key(nodes, Some(owner(&[])), root, key.as_slice())?;
    value
        .map(|value| Record::decode(&value).ok_or_else(|| damaged("an order book's record cannot be decoded")))
        .transpose()
}

/// The first or last key that satisfies `is_wanted`.
fn first_key(
    nodes: &dyn TrieReader,
    owner: B256,
    root: B256,
    backwards: bool,
    is_wanted: &dyn Fn(&B256) -> bool,
) -> Result<Option<B256>, ExchangeError> {
    let mut found = None;
    let mut visit = |item: TrieItem<'_>| {
        let TrieItem::Leaf { path, .. } = item else { return ControlFlow::Continue(()) };
        let key: Vec<u8> = path.chunks_exact(2).map(|pair| (pair[0] << 4) | pair[1]).collect();
        match B256::try_from(key.as_slice()) {
            Ok(key) if is_wanted(&key) => {
                found = Some(key);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    };
    let walk = if backwards { walk_trie_backwards } else { walk_trie };
    walk(nodes, Some(owner), filled(root), &mut visit)?;
    Ok(found)
}

/// The remaining amount of an order on its level.
fn amount(nodes: &dyn TrieReader, level: &Level, owner: B256, id: u64) -> Result<Wide, ExchangeError> {
    if let Some(amount) = level.amounts.get(&id) {
        return Ok(*amount);
    }
    match read_key(nodes, Some(owner), filled(level.root), &number_key(id))? {
        Some(value) => number(&mut value.as_slice()).ok_or_else(|| damaged("an order's amount cannot be decoded")),
        None => Ok(Wide::ZERO),
    }
}

fn owner(suffix: &[&[u8]]) -> B256 {
    keccak256([&[OWNER], suffix].concat().concat())
}

fn level_owner(book: B256, side: Side) -> B256 {
    owner(&[book.as_slice(), side_name(side)])
}

fn orders_owner(book: B256, side: Side, price: B256) -> B256 {
    owner(&[book.as_slice(), side_name(side), price.as_slice()])
}

fn book_orders_owner(book: B256) -> B256 {
    owner(&[book.as_slice(), b"orders"])
}

const fn side_name(side: Side) -> &'static [u8] {
    match side {
        Side::Buy => b"buys",
        Side::Sell => b"sells",
    }
}

fn price_key(price: Wide) -> B256 {
    low_word(price).into()
}

fn number_key(id: u64) -> [u8; 32] {
    U256::from(id).to_be_bytes()
}

fn number_of(key: &B256) -> u64 {
    U256::from_be_bytes(key.0).as_limbs()[0]
}

/// Replaces a zero root, which means that the trie was never written, by the root of an empty trie.
fn filled(root: B256) -> B256 {
    if root.is_zero() { EMPTY_ROOT_HASH } else { root }
}

fn damaged(what: &'static str) -> ExchangeError {
    ExchangeError::Damaged(what)
}

fn number(items: &mut &[u8]) -> Option<Wide> {
    Wide::try_from_be_slice(Prefix::decode_bytes(items, false).ok()?)
}

fn root(items: &mut &[u8]) -> Option<B256> {
    B256::try_from(Prefix::decode_bytes(items, false).ok()?).ok()
}

fn decode_level(mut value: &[u8]) -> Option<(Wide, B256)> {
    let mut items = Prefix::decode_bytes(&mut value, true).ok()?;
    Some((number(&mut items)?, root(&mut items)?))
}
