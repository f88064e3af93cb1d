//! Transfers of a match (`docs/spec/chain.md` 6.4, steps 2 to 4).

use std::collections::BTreeMap;

use alloy_primitives::Address;

use super::{
    ExchangeError,
    amounts::{FEE_BASE, RELAYER_FEE, Wide, word},
    ledger::{Ledger, NATIVE},
    order::{Order, Side},
};

/// The rate used to decide whether a trade is too small, in parts of 10,000.
const DEFAULT_RATE: u64 = 10;

/// Fee rates, price and unit of a match of one taker and one maker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// The taker's side.
    pub(super) side: Side,
    pub(super) taker_rate: Wide,
    pub(super) maker_rate: Wide,
    /// The maker's price.
    pub(super) price: Wide,
    /// One whole base token.
    pub(super) base_unit: Wide,
}

/// The tradable quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tradable {
    pub(super) quantity: Wide,
    /// Whether the maker is removed after the trade.
    pub(super) rejects_maker: bool,
}

/// The quote amount of a trade and each relayer's fee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settlement {
    pub(super) quote: Wide,
    pub(super) taker_fee: Wide,
    pub(super) maker_fee: Wide,
}

impl Terms {
    fn quote(&self, quantity: Wide) -> Wide {
        quantity * self.price / self.base_unit
    }

    /// The quantity that a balance of the quote token could buy, including the fee.
    fn affordable(&self, balance: Wide, rate: Wide) -> Wide {
        balance * self.base_unit * FEE_BASE / (FEE_BASE + rate) / self.price
    }

    /// Step 2: the part of `wanted` that both balances allow.
    pub(super) fn tradable(&self, wanted: Wide, taker_balance: Wide, maker_balance: Wide) -> Tradable {
        let of = |quantity, rejects_maker| Tradable { quantity, rejects_maker };
        let quote = self.quote(wanted);
        match self.side {
            Side::Buy => {
                let taker_is_short = taker_balance < quote + quote * self.taker_rate / FEE_BASE;
                let maker_is_short = maker_balance < wanted;
                let affordable = || self.affordable(taker_balance, self.taker_rate);
                match (taker_is_short, maker_is_short) {
                    (false, false) => of(wanted, false),
                    (true, false) => of(affordable(), false),
                    (false, true) => of(maker_balance, true),
                    (true, true) if affordable() <= maker_balance => of(affordable(), false),
                    (true, true) => of(maker_balance, true),
                }
            }
            Side::Sell => {
                let taker_is_short = taker_balance < wanted;
                let maker_is_short = maker_balance < quote + quote * self.maker_rate / FEE_BASE;
                let affordable = || self.affordable(maker_balance, self.maker_rate);
                match (taker_is_short, maker_is_short) {
                    (false, false) => of(wanted, false),
                    (true, false) => of(taker_balance, false),
                    (false, true) => of(affordable(), true),
                    (true, true) if affordable() <= taker_balance => of(affordable(), true),
                    (true, true) => of(taker_balance, false),
                }
            }
        }
    }

    /// Step 3: the amounts of a trade; `None` if it is too small. `coins` is the value of one whole quote token and its
    /// number of smallest units; `None` if the value is unknown.
    pub(super) fn settlement(&self, quantity: Wide, coins: Option<(Wide, Wide)>) -> Option<Settlement> {
        let quote = self.quote(quantity);
        let fee = |rate: Wide| quote * rate / FEE_BASE;
        let (taker_fee, maker_fee, default_fee) =
            (fee(self.taker_rate), fee(self.maker_rate), fee(Wide::from(DEFAULT_RATE)));
        let receiver_fee = match self.side {
            Side::Buy => maker_fee,
            Side::Sell => taker_fee,
        };
        if quote <= receiver_fee || quote <= default_fee {
            return None;
        }
        if let Some((price, unit)) = coins {
            let in_coins = |fee: Wide| fee * price / unit;
            let is_small = |fee: Wide| !fee.is_zero() && fee <= RELAYER_FEE;
            let is_too_small = is_small(in_coins(maker_fee)) || is_small(in_coins(taker_fee));
            if is_too_small || in_coins(default_fee) <= RELAYER_FEE {
                return None;
            }
        }
        Some(Settlement { quote, taker_fee, maker_fee })
    }
}

/// Amounts computed before any is written.
struct Computed<'a, 'b> {
    ledger: &'a mut Ledger<'b>,
    amounts: BTreeMap<(Address, Address), Wide>,
}

impl Computed<'_, '_> {
    fn now(&mut self, token: Address, account: Address) -> Result<Result<Wide, &'static str>, ExchangeError> {
        if !self.ledger.has_token(token)? {
            return Ok(Err("a token does not exist"));
        }
        Ok(Ok(match self.amounts.get(&(token, account)) {
            Some(amount) => *amount,
            None => self.ledger.holding(token, account)?,
        }))
    }

    fn change(
        &mut self,
        token: Address,
        account: Address,
        change: impl FnOnce(Wide) -> Result<Wide, &'static str>,
    ) -> Result<Result<(Address, Address, Wide), &'static str>, ExchangeError> {
        Ok(self.now(token, account)?.and_then(change).map(|amount| {
            self.amounts.insert((token, account), amount);
            (token, account, amount)
        }))
    }

    fn add(&mut self, token: Address, account: Address, amount: Wide) -> Writes {
        self.change(token, account, |now| match now + amount {
            sum if token != NATIVE && word(sum).is_none() => Err("a token balance overflows"),
            sum => Ok(sum),
        })
    }

    fn subtract(&mut self, token: Address, account: Address, amount: Wide) -> Writes {
        self.change(token, account, |now| now.checked_sub(amount).ok_or("a balance is too small"))
    }
}

/// A value to be written (token, account, amount), or why the order fails.
type Writes = Result<Result<(Address, Address, Wide), &'static str>, ExchangeError>;

/// Step 4: makes all transfers. The inner error fails the order.
pub(super) fn settle(
    ledger: &mut Ledger<'_>,
    taker: &Order,
    maker: &Order,
    side: Side,
    quantity: Wide,
    settlement: &Settlement,
) -> Result<Result<(), &'static str>, ExchangeError> {
    let taker_owner = ledger.relayer_owner(taker.exchange)?;
    let maker_owner = ledger.relayer_owner(maker.exchange)?;
    if taker_owner.is_zero() || maker_owner.is_zero() {
        return Ok(Err("a relayer has no owner"));
    }
    let (base, quote) = (maker.base, maker.quote);
    let Settlement { quote: amount, taker_fee, maker_fee } = *settlement;
    let mut computed = Computed { ledger, amounts: BTreeMap::new() };
    let mut writes = Vec::with_capacity(6);
    macro_rules! then {
        ($change:expr) => {
            match $change? {
                Ok(write) => writes.push(write),
                Err(reason) => return Ok(Err(reason)),
            }
        };
    }
    match side {
        Side::Buy => {
            then!(computed.add(base, taker.user, quantity));
            then!(computed.subtract(quote, taker.user, amount + taker_fee));
            then!(computed.add(quote, maker.user, amount - maker_fee));
            then!(computed.subtract(base, maker.user, quantity));
        }
        Side::Sell => {
            then!(computed.add(quote, taker.user, amount - taker_fee));
            then!(computed.subtract(base, taker.user, quantity));
            then!(computed.add(base, maker.user, quantity));
            then!(computed.subtract(quote, maker.user, amount + maker_fee));
        }
    }
    then!(computed.add(quote, taker_owner, taker_fee));
    then!(computed.add(quote, maker_owner, maker_fee));
    for relayer in [taker.exchange, maker.exchange] {
        match ledger.deposit(relayer)?.checked_sub(RELAYER_FEE) {
            Some(deposit) => ledger.set_deposit(relayer, deposit, RELAYER_FEE)?,
            None => return Ok(Err("a relayer cannot pay")),
        }
    }
    ledger.pay_masternode(RELAYER_FEE + RELAYER_FEE)?;
    // These balances were computed before the masternode was paid. If its owner is a party of the trade, this
    // overwrites the payment.
    for (token, account, amount) in writes {
        ledger.set_holding(token, account, amount)?;
    }
    Ok(Ok(()))
}
