//! Applies orders: checks, matching, cancelling (`docs/spec/chain.md` 6.4).

use alloy_primitives::{Address, B256};

use super::{
    BrokenRule, ExchangeError,
    amounts::{CANCEL_FEE, COIN, FEE_BASE, RELAYER_FEE, Wide, word},
    ledger::{Ledger, NATIVE},
    order::{Order, Side, book_of},
    settlement::{Terms, settle},
    state::TradingState,
};

/// The market of one block.
pub(super) struct Market<'a, 'b> {
    pub(super) trading: TradingState<'a>,
    pub(super) ledger: Ledger<'b>,
    /// Whether the cancellation fee depends on the coin's value instead of being a part of the order.
    pub(super) has_cancellation_fee: bool,
}

/// Why an order has no effect other than raising its user's nonce; for tests and logs.
type Rejected = &'static str;

/// Result of a step; the inner error rejects and reverts the whole order.
type Step<T> = Result<Result<T, Rejected>, ExchangeError>;

/// Unwraps a step of an order, or returns its rejection.
macro_rules! step {
    ($step:expr) => {
        match $step? {
            Ok(value) => value,
            Err(reason) => return Ok(Err(reason)),
        }
    };
}

/// Result of matching with one maker.
enum Matched {
    /// The traded quantity, possibly zero; and whether the maker is removed.
    Traded { quantity: Wide, rejects_maker: bool },
    /// The tradable quantity, which is too small a trade.
    TooSmall { quantity: Wide, rejects_maker: bool },
}

impl Market<'_, '_> {
    /// Applies an order; `is_signed` says whether its user signed it. A rejected order raises its user's nonce too.
    ///
    /// # Errors
    /// [`ExchangeError::Rule`] for a wrong nonce, which makes the block invalid.
    pub(super) fn apply(&mut self, mut order: Order, is_signed: bool) -> Result<Result<(), Rejected>, ExchangeError> {
        let user = order.user.into_word();
        let nonce = self.trading.nonce(user)?;
        match Wide::from(nonce).cmp(&order.nonce) {
            std::cmp::Ordering::Less => return Err(BrokenRule::NonceTooHigh.into()),
            std::cmp::Ordering::Greater => return Err(BrokenRule::NonceTooLow.into()),
            std::cmp::Ordering::Equal => {}
        }
        self.trading.set_nonce(user, nonce.wrapping_add(1))?;
        self.trading.mark();
        step!(self.check(&order, is_signed));
        let outcome = if order.is_cancellation() { self.cancel(&order)? } else { self.trade(&mut order)? };
        match outcome {
            Ok(()) => self.ledger.commit()?,
            Err(_) => {
                self.ledger.revert();
                self.trading.revert()?;
            }
        }
        Ok(outcome)
    }

    fn check(&mut self, order: &Order, is_signed: bool) -> Step<()> {
        if order.is_new() {
            let side_and_kind = order.side().is_some() && (order.is_limit() || order.is_market());
            if (order.is_limit() && order.price.is_zero()) || order.quantity.is_zero() || !side_and_kind {
                return Ok(Err("invalid price, quantity, side or type"));
            }
        } else if !order.is_cancellation() {
            return Ok(Err("invalid status"));
        }
        if !is_signed {
            return Ok(Err("invalid signature"));
        }
        if !self.ledger.is_relayer(order.exchange)? {
            return Ok(Err("relayer not allowed"));
        }
        if order.is_cancellation() {
            return Ok(Ok(()));
        }
        if !self.ledger.lists(order.exchange, order.base, order.quote)? {
            return Ok(Err("unlisted pair"));
        }
        let fits = |number| word(number).is_some();
        if !fits(order.quantity) || (!order.is_market() && !fits(order.price)) {
            return Ok(Err("a number of more than 256 bits"));
        }
        Ok(Ok(()))
    }

    /// Matches an order; the rest of a limit order waits in its book.
    fn trade(&mut self, order: &mut Order) -> Step<()> {
        let Some(side) = order.side() else { return Ok(Err("invalid side")) };
        let book = order.book();
        let mut left = order.quantity;
        while !left.is_zero() {
            let Some(price) = self.trading.best_price(book, side.opposite())? else { break };
            let crosses = match side {
                Side::Buy => order.price >= price,
                Side::Sell => order.price <= price,
            };
            if !order.is_market() && !crosses {
                break;
            }
            left = step!(self.trade_at(book, price, left, order, side));
        }
        if !order.is_market() && !left.is_zero() {
            let id = self.trading.nonce(book)?.wrapping_add(1);
            self.trading.set_nonce(book, id)?;
            (order.id, order.quantity) = (id, left);
            self.trading.insert(book, order.clone())?;
        }
        Ok(Ok(()))
    }

    /// Matches with the orders of one price, oldest first; returns the remaining quantity.
    fn trade_at(&mut self, book: B256, price: Wide, mut left: Wide, taker: &Order, side: Side) -> Step<Wide> {
        while !left.is_zero() {
            let Some((maker, amount)) = self.trading.first_order(book, side.opposite(), price)? else { break };
            let max = left.min(amount);
            match step!(self.match_with(taker, &maker, side, max)) {
                Matched::TooSmall { quantity, rejects_maker } => {
                    // The side that limits the trade is rejected; both if both are exhausted.
                    let is_whole = quantity == max;
                    if (is_whole && left >= amount) || (!is_whole && rejects_maker) {
                        step!(self.trading.cancel(book, &maker));
                    }
                    if (is_whole && left <= amount) || (!is_whole && !rejects_maker) {
                        return Ok(Ok(Wide::ZERO));
                    }
                }
                Matched::Traded { quantity, rejects_maker } => {
                    if quantity.is_zero() && !rejects_maker {
                        return Ok(Ok(Wide::ZERO));
                    }
                    if !quantity.is_zero() {
                        left -= quantity;
                        self.record_trade(book, price, &maker, quantity)?;
                    }
                    if rejects_maker {
                        step!(self.trading.cancel(book, &maker));
                    }
                }
            }
        }
        Ok(Ok(left))
    }

    /// Step 5.
    fn record_trade(&mut self, book: B256, price: Wide, maker: &Order, quantity: Wide) -> Result<(), ExchangeError> {
        self.trading.trade(book, maker, quantity)?;
        self.trading.set_last_price(book, price)?;
        let (average, traded) = self.trading.average(book)?;
        if average.is_zero() || traded.is_zero() {
            return self.trading.set_average(book, price, quantity);
        }
        let all = traded + quantity;
        self.trading.set_average(book, (average * traded + price * quantity) / all, all)
    }

    /// Steps 1 to 4 with one maker.
    fn match_with(&mut self, taker: &Order, maker: &Order, side: Side, max: Wide) -> Step<Matched> {
        let rejected = |rejects_maker| Ok(Ok(Matched::Traded { quantity: Wide::ZERO, rejects_maker }));
        let coins = step!(self.price_in_coins(maker.quote));
        let Some(base_unit) = self.ledger.unit(maker.base)? else {
            return Ok(Err("the base token's decimals are unknown"));
        };
        let Some(quote_unit) = self.ledger.unit(maker.quote)? else {
            return Ok(Err("the quote token's decimals are unknown"));
        };
        if taker.exchange == maker.exchange {
            if !self.ledger.can_pay(taker.exchange, RELAYER_FEE + RELAYER_FEE)? {
                return rejected(false);
            }
        } else if !self.ledger.can_pay(taker.exchange, RELAYER_FEE)? {
            return rejected(false);
        } else if !self.ledger.can_pay(maker.exchange, RELAYER_FEE)? {
            return rejected(true);
        }
        let (taker_rate, maker_rate) = (self.ledger.fee_rate(taker.exchange)?, self.ledger.fee_rate(maker.exchange)?);
        let terms = Terms { side, taker_rate, maker_rate, price: maker.price, base_unit };
        let (taker_pays, maker_pays) = match side {
            Side::Buy => (maker.quote, maker.base),
            Side::Sell => (maker.base, maker.quote),
        };
        let taker_balance = self.ledger.holding(taker_pays, taker.user)?;
        let maker_balance = self.ledger.holding(maker_pays, maker.user)?;
        let tradable = terms.tradable(max, taker_balance, maker_balance);
        let (quantity, rejects_maker) = (tradable.quantity, tradable.rejects_maker);
        if quantity.is_zero() {
            return rejected(rejects_maker);
        }
        let Some(settlement) = terms.settlement(quantity, coins.map(|price| (price, quote_unit))) else {
            return Ok(Ok(Matched::TooSmall { quantity, rejects_maker }));
        };
        step!(settle(&mut self.ledger, taker, maker, side, quantity, &settlement));
        Ok(Ok(Matched::Traded { quantity, rejects_maker }))
    }

    /// The value of one whole quote token in coins, by the last trades; `None` if there were none.
    fn price_in_coins(&mut self, quote: Address) -> Step<Option<Wide>> {
        if quote == NATIVE {
            return Ok(Ok(Some(COIN)));
        }
        let price = self.trading.last_price(book_of(quote, NATIVE))?;
        if !price.is_zero() {
            return Ok(Ok(Some(price)));
        }
        let inverse = self.trading.last_price(book_of(NATIVE, quote))?;
        let Some(unit) = self.ledger.unit(quote)? else { return Ok(Err("the quote token's decimals are unknown")) };
        // A value that rounds to zero counts as unknown.
        Ok(Ok((!inverse.is_zero()).then(|| COIN * unit / inverse).filter(|price| !price.is_zero())))
    }

    /// Removes an order from its book. Nothing is changed before all checks have passed.
    fn cancel(&mut self, asked: &Order) -> Step<()> {
        if !self.ledger.can_pay(asked.exchange, CANCEL_FEE)? {
            return Ok(Err("the relayer cannot pay"));
        }
        let Some(base_unit) = self.ledger.unit(asked.base)? else {
            return Ok(Err("the base token's decimals are unknown"));
        };
        let book = asked.book();
        let Some(order) = self.trading.order(book, asked.id)? else { return Ok(Err("there is no such order")) };
        let Some(side) = order.side() else { return Ok(Ok(())) };
        let token = match side {
            Side::Sell => order.base,
            Side::Buy => order.quote,
        };
        let fee = self.cancellation_fee(&order, side, token, base_unit)?;
        if self.ledger.holding(token, order.user)? < fee {
            return Ok(Err("the user cannot pay"));
        }
        step!(self.trading.cancel(book, asked));
        if let Some(deposit) = self.ledger.deposit(order.exchange)?.checked_sub(CANCEL_FEE) {
            self.ledger.set_deposit(order.exchange, deposit, CANCEL_FEE)?;
        }
        self.ledger.pay_masternode(CANCEL_FEE)?;
        let owner = self.ledger.relayer_owner(order.exchange)?;
        let balance = self.ledger.holding(token, order.user)?;
        if let Some(rest) = balance.checked_sub(fee) {
            self.ledger.set_holding(token, order.user, rest)?;
        }
        let balance = self.ledger.holding(token, owner)?;
        self.ledger.set_holding(token, owner, balance + fee)?;
        Ok(Ok(()))
    }

    fn cancellation_fee(
        &mut self,
        order: &Order,
        side: Side,
        token: Address,
        base_unit: Wide,
    ) -> Result<Wide, ExchangeError> {
        let rate = self.ledger.fee_rate(order.exchange)?;
        if !self.has_cancellation_fee {
            let amount = match side {
                Side::Sell => order.quantity,
                Side::Buy => order.quantity * order.price / base_unit,
            };
            return Ok(amount * rate / (FEE_BASE * Wide::from(10_u8)));
        }
        if rate.is_zero() {
            return Ok(Wide::ZERO);
        }
        if token == NATIVE {
            return Ok(CANCEL_FEE);
        }
        let (Some(price), Some(unit)) = (self.price_of_last_epoch(token)?, self.ledger.unit(token)?) else {
            return Ok(Wide::ZERO);
        };
        Ok(CANCEL_FEE * unit / price)
    }

    /// The value of one whole token in coins in the previous epoch; `None` if unknown.
    fn price_of_last_epoch(&mut self, token: Address) -> Result<Option<Wide>, ExchangeError> {
        let price = self.trading.price_before_epoch(book_of(token, NATIVE))?;
        if !price.is_zero() {
            return Ok(Some(price));
        }
        let inverse = self.trading.price_before_epoch(book_of(NATIVE, token))?;
        let Some(unit) = self.ledger.unit(token)? else { return Ok(None) };
        Ok((!inverse.is_zero()).then(|| COIN * unit / inverse).filter(|price| !price.is_zero()))
    }

    /// At an epoch switch the epoch's average prices become those of the previous epoch (`docs/spec/chain.md` 6.1).
    pub(super) fn switch_epoch(&mut self) -> Result<(), ExchangeError> {
        for book in self.ledger.books()? {
            let (price, _) = self.trading.average(book)?;
            if !price.is_zero() && price != self.trading.price_before_epoch(book)? {
                self.trading.set_price_before_epoch(book, price)?;
            }
            self.trading.set_average(book, Wide::ZERO, Wide::ZERO)?;
        }
        Ok(())
    }
}
