//! The exchange's access to the main state: balances, tokens' slots, and the registration of relayers
//! (`docs/spec/chain.md` 6.4, 10.5).

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, U256, address};
use tenon_api::{StoreError, WholeBalance};
use tenon_chain::{address_in, element_slot, mapping_slot, masternode_owner};

use super::{
    BrokenRule, ExchangeError,
    amounts::{Wide, locked_fund, low_word, wide},
    order::book_of,
};

/// Denotes the chain's own coin in pairs.
pub(super) const NATIVE: Address = address!("0000000000000000000000000000000000000001");

/// `balances` of a token.
const BALANCES: U256 = U256::ZERO;
/// `RELAYER_LIST`, the records of relayers by their address.
const RELAYER_LIST: U256 = U256::from_limbs([3, 0, 0, 0]);
/// `RELAYER_COINBASES`, addresses of relayers by number.
pub(super) const RELAYER_COINBASES: U256 = U256::from_limbs([4, 0, 0, 0]);
/// `RESIGN_REQUESTS` by their address.
const RESIGN_REQUESTS: U256 = U256::from_limbs([5, 0, 0, 0]);
/// `RelayerCount`.
pub const RELAYER_COUNT: U256 = U256::from_limbs([7, 0, 0, 0]);
/// Maximum number of pairs, or relayers, that are read: each costs its owner a transaction.
const MAX_ENTRIES: u64 = 1 << 16;

/// Members of a relayer's record.
pub(super) const DEPOSIT: u64 = 0;
pub(super) const FEE_RATE: u64 = 1;
pub(super) const BASE_TOKENS: u64 = 2;
pub(super) const QUOTE_TOKENS: u64 = 3;
pub(super) const OWNER: u64 = 5;

/// Pairs of base and quote tokens; the lengths of the two lists if they differ.
type Pairs = Result<Vec<(Address, Address)>, (u64, u64)>;

/// The exchange's interface to the main state.
pub trait MainState {
    /// A balance, wei.
    fn balance(&mut self, account: Address) -> Result<WholeBalance, StoreError>;
    /// Sets a balance.
    fn set_balance(&mut self, account: Address, balance: WholeBalance) -> Result<(), StoreError>;
    /// A slot.
    fn slot(&mut self, contract: Address, slot: U256) -> Result<U256, StoreError>;
    /// Sets a slot.
    fn set_slot(&mut self, contract: Address, slot: U256, value: U256) -> Result<(), StoreError>;
    /// Returns whether the account exists.
    fn exists(&mut self, account: Address) -> Result<bool, StoreError>;
    /// Result of a token's `decimals()`; `None` if the call fails.
    fn decimals(&mut self, token: Address) -> Result<Option<u8>, DecimalsError>;
}

/// Why this node cannot call a token's `decimals()`.
#[derive(Debug, thiserror::Error)]
pub enum DecimalsError {
    /// The state cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The token calls a precompiled contract that has no defined result for its input (`docs/spec/chain.md` 5.4).
    #[error("the token's decimals have no defined value")]
    NoResult,
}

impl From<DecimalsError> for ExchangeError {
    fn from(error: DecimalsError) -> Self {
        match error {
            DecimalsError::Store(error) => error.into(),
            DecimalsError::NoResult => Self::Unsupported("a token whose decimals have no defined value"),
        }
    }
}

/// The main state, with the changes of one order on top.
pub(super) struct Ledger<'a> {
    state: &'a mut dyn MainState,
    registration: Address,
    author: Address,
    balances: BTreeMap<Address, WholeBalance>,
    slots: BTreeMap<(Address, U256), U256>,
    /// 10 to the power of a token's decimals; `None` if the token does not return them. The reference caches successful
    /// results forever.
    units: BTreeMap<Address, Option<Wide>>,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(state: &'a mut dyn MainState, registration: Address, author: Address) -> Self {
        let (balances, slots, units) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { state, registration, author, balances, slots, units }
    }

    /// Discards the order's changes.
    pub(super) fn revert(&mut self) {
        self.balances.clear();
        self.slots.clear();
    }

    /// Writes the order's changes.
    pub(super) fn commit(&mut self) -> Result<(), StoreError> {
        for (account, balance) in std::mem::take(&mut self.balances) {
            self.state.set_balance(account, balance)?;
        }
        for ((contract, slot), value) in std::mem::take(&mut self.slots) {
            self.state.set_slot(contract, slot, value)?;
        }
        Ok(())
    }

    fn native(&mut self, account: Address) -> Result<WholeBalance, StoreError> {
        match self.balances.get(&account) {
            Some(balance) => Ok(*balance),
            None => self.state.balance(account),
        }
    }

    fn slot(&mut self, contract: Address, slot: U256) -> Result<U256, StoreError> {
        match self.slots.get(&(contract, slot)) {
            Some(value) => Ok(*value),
            None => self.state.slot(contract, slot),
        }
    }

    /// Returns whether the token's contract exists.
    pub(super) fn has_token(&mut self, token: Address) -> Result<bool, StoreError> {
        if token == NATIVE { Ok(true) } else { self.state.exists(token) }
    }

    /// An account's balance of a token; zero if the token does not exist.
    pub(super) fn holding(&mut self, token: Address, account: Address) -> Result<Wide, StoreError> {
        if token == NATIVE {
            return self.native(account).map(Wide::from);
        }
        if !self.has_token(token)? {
            return Ok(Wide::ZERO);
        }
        self.slot(token, holding_slot(account)).map(wide)
    }

    /// Sets an account's balance of a token; does nothing if the token does not exist.
    pub(super) fn set_holding(&mut self, token: Address, account: Address, amount: Wide) -> Result<(), ExchangeError> {
        if token == NATIVE {
            let balance = WholeBalance::checked_from_limbs_slice(amount.as_limbs())
                .ok_or(ExchangeError::Unsupported("a balance of more than 320 bits"))?;
            self.balances.insert(account, balance);
        } else if self.has_token(token)? {
            self.slots.insert((token, holding_slot(account)), low_word(amount));
        }
        Ok(())
    }

    /// One whole token in its smallest units; `None` if the token does not return its decimals.
    pub(super) fn unit(&mut self, token: Address) -> Result<Option<Wide>, DecimalsError> {
        if token == NATIVE {
            return Ok(Some(super::amounts::COIN));
        }
        if let Some(unit) = self.units.get(&token) {
            return Ok(*unit);
        }
        let unit = self.state.decimals(token)?.map(|decimals| Wide::from(10_u8).pow(Wide::from(decimals)));
        self.units.insert(token, unit);
        Ok(unit)
    }

    /// Adds to the balance of the owner of the block's author.
    pub(super) fn pay_masternode(&mut self, amount: Wide) -> Result<(), ExchangeError> {
        let owner = masternode_owner(self.author, |contract, slot| self.slot(contract, slot.into()))?;
        let balance = Wide::from(self.native(owner)?);
        self.set_holding(NATIVE, owner, balance + amount)
    }

    fn member(&mut self, relayer: Address, member: u64) -> Result<U256, StoreError> {
        self.slot(self.registration, record_slot(relayer, member))
    }

    /// The remaining deposit of a relayer.
    pub(super) fn deposit(&mut self, relayer: Address) -> Result<Wide, StoreError> {
        self.member(relayer, DEPOSIT).map(wide)
    }

    /// Sets the deposit, and deducts the fee from the registration contract's balance.
    pub(super) fn set_deposit(&mut self, relayer: Address, deposit: Wide, fee: Wide) -> Result<(), ExchangeError> {
        self.slots.insert((self.registration, record_slot(relayer, DEPOSIT)), low_word(deposit));
        let balance = Wide::from(self.native(self.registration)?);
        let unpaid = ExchangeError::Unsupported("a fee of a relayer that the registration contract does not hold");
        self.set_holding(NATIVE, self.registration, balance.checked_sub(fee).ok_or(unpaid)?)
    }

    /// Returns whether a relayer keeps the locked fund after this fee.
    pub(super) fn can_pay(&mut self, relayer: Address, fee: Wide) -> Result<bool, StoreError> {
        Ok(self.deposit(relayer)? >= locked_fund() + fee)
    }

    /// A relayer's fee rate, in parts of 10,000.
    pub(super) fn fee_rate(&mut self, relayer: Address) -> Result<Wide, StoreError> {
        self.member(relayer, FEE_RATE).map(wide)
    }

    /// Receiver of a relayer's fees; zero if there is none.
    pub(super) fn relayer_owner(&mut self, relayer: Address) -> Result<Address, StoreError> {
        self.member(relayer, OWNER).map(address_in)
    }

    /// Returns whether a relayer may accept orders: it has more than the locked fund and does not resign.
    pub(super) fn is_relayer(&mut self, relayer: Address) -> Result<bool, StoreError> {
        let resigns = mapping_slot(relayer.into_word(), RESIGN_REQUESTS);
        Ok(self.deposit(relayer)? > locked_fund() && self.slot(self.registration, resigns.into())?.is_zero())
    }

    /// Returns whether a relayer lists a pair. Lists of different lengths contain none.
    pub(super) fn lists(&mut self, relayer: Address, base: Address, quote: Address) -> Result<bool, ExchangeError> {
        Ok(self.pairs(relayer)?.is_ok_and(|pairs| pairs.contains(&(base, quote))))
    }

    /// The pairs of a relayer.
    fn pairs(&mut self, relayer: Address) -> Result<Pairs, ExchangeError> {
        let bases = self.member(relayer, BASE_TOKENS)?.as_limbs()[0];
        let quotes = self.member(relayer, QUOTE_TOKENS)?.as_limbs()[0];
        if bases != quotes {
            return Ok(Err((bases, quotes)));
        }
        if bases > MAX_ENTRIES {
            return Err(ExchangeError::Unsupported("a relayer with more than 65,536 pairs"));
        }
        let mut pairs = Vec::new();
        for index in 0..bases {
            let base = self.element(relayer, BASE_TOKENS, index)?;
            pairs.push((base, self.element(relayer, QUOTE_TOKENS, index)?));
        }
        Ok(Ok(pairs))
    }

    fn element(&mut self, relayer: Address, list: u64, index: u64) -> Result<Address, StoreError> {
        let list = B256::from(record_slot(relayer, list));
        self.slot(self.registration, element_slot(list, index).into()).map(address_in)
    }

    /// The order books of every pair listed by any relayer, ascending.
    pub(super) fn books(&mut self) -> Result<Vec<B256>, ExchangeError> {
        let count = self.slot(self.registration, RELAYER_COUNT)?.as_limbs()[0];
        if count > MAX_ENTRIES {
            return Err(ExchangeError::Unsupported("more than 65,536 relayers"));
        }
        let mut books = Vec::new();
        for index in 0..count {
            let slot = mapping_slot(U256::from(index).into(), RELAYER_COINBASES);
            let relayer = address_in(self.slot(self.registration, slot.into())?);
            let pairs = self.pairs(relayer)?.map_err(|(from, to)| BrokenRule::UnequalTokens { from, to })?;
            books.extend(pairs.into_iter().map(|(base, quote)| book_of(base, quote)));
        }
        books.sort_unstable();
        books.dedup();
        Ok(books)
    }
}

/// Slot of an account's balance in a token.
pub(super) fn holding_slot(holder: Address) -> U256 {
    mapping_slot(holder.into_word(), BALANCES).into()
}

/// Slot of a member of a relayer's record in the registration.
pub(super) fn record_slot(relayer: Address, member: u64) -> U256 {
    U256::from_be_bytes(mapping_slot(relayer.into_word(), RELAYER_LIST).0).wrapping_add(U256::from(member))
}
