//! `apply(address)`: a token is tested before it is registered (`docs/spec/chain.md` 3.6).
//!
//! On a temporary state, a number is written to the slot in which a token with the expected layout stores a balance
//! (and its minimum fee), and then requested from the token.

use std::hash::{BuildHasher, RandomState};

use alloy_primitives::{Address, Bytes, U256, address, uint};
use revm::{
    Database,
    context::{TxEnv, result::ExecutionResult},
    handler::MainnetHandler,
    primitives::TxKind,
    state::{Account as EvmAccount, EvmStorageSlot},
};
use tenon_api::Transaction;
use tenon_native_spec::NativeSettings;

use super::{addresses::as_text, sponsorship::balance_slot};
use tenon_execution_interface::{AnyEvm, OwnFailure, StateError, TransactionRejection, run_with};

/// `apply(address)`.
const APPLY_SELECTOR: [u8; 4] = [0xc6, 0xb3, 0x2f, 0x34];
/// Selector and one word.
const APPLY_LENGTH: usize = 36;
/// The caller, and its funds.
const CALLER: Address = address!("0000000000000000000000000000000000000001");
const FUNDS: U256 = uint!(1_000_000_000_000_000_000_U256);
/// The holder whose balance is requested.
const HOLDER: Address = address!("0000000000000000000000000000000000000123");
/// Gas of one call.
const GAS: u64 = 1_000_000;
const MIN_FEE: U256 = uint!(1_U256);
/// Exclusive upper bound of the number.
const NUMBERS: u64 = 1_000_000_000;

const BALANCE_OF: [u8; 4] = [0x70, 0xa0, 0x82, 0x31];
const MIN_FEE_OF: [u8; 4] = [0x24, 0xec, 0x75, 0x90];
const DECIMALS: [u8; 4] = [0x31, 0x3c, 0xe5, 0x67];

/// A token that a transaction would register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    token: Address,
    /// True for sponsoring, which needs a minimum fee; false for trading, which needs decimals.
    is_for_sponsoring: bool,
}

/// The token that a transaction in a block of this height requires to be tested; usually `None`.
pub(super) fn candidate(native: &NativeSettings, number: u64, transaction: &Transaction) -> Option<Candidate> {
    let receiver = transaction.to.filter(|_| native.heights.has_exchange(number))?;
    let is_for_sponsoring = receiver == native.contracts.trc21_issuer;
    if !is_for_sponsoring && receiver != native.contracts.xdcx_listing {
        return None;
    }
    let input = &transaction.input;
    if input.len() != APPLY_LENGTH || !input.starts_with(&APPLY_SELECTOR) {
        return None;
    }
    Some(Candidate { token: Address::from_slice(&input[APPLY_LENGTH - Address::len_bytes()..]), is_for_sponsoring })
}

impl Candidate {
    /// Tests the token on the state before the transaction, and discards all changes.
    ///
    /// # Errors
    /// [`TransactionRejection::Token`] with the reference's text if the token does not answer as required.
    pub(super) fn try_out(self, evm: &mut AnyEvm<'_>) -> Result<(), TransactionRejection> {
        let token = as_text(self.token);
        let refused = |text: String| Err(TransactionRejection::Token(text));
        let balance = unforeseeable_number();
        let call_data = [&BALANCE_OF[..], HOLDER.into_word().as_slice()].concat();
        match self.call_token(evm, call_data, Some((balance_slot(HOLDER), balance)))? {
            Err(problem) => return refused(format!("cannot get balance at slot 0 . Token: {token} . Err: {problem}")),
            Ok(answer) if answer != balance => return refused(format!("invalid balance slot. Token: {token}")),
            Ok(_) => {}
        }
        if self.is_for_sponsoring {
            let fee = unforeseeable_number();
            return match self.call_token(evm, MIN_FEE_OF.to_vec(), Some((MIN_FEE, fee)))? {
                Err(problem) => refused(format!("cannot get minFee at slot 1 . Token: {token}. Err: {problem}")),
                Ok(answer) if answer != fee => refused(format!("invalid minFee slot. Token: {token}")),
                Ok(_) => Ok(()),
            };
        }
        match self.call_token(evm, DECIMALS.to_vec(), None)? {
            Err(problem) => refused(format!("cannot get token decimal. Token: {token} . Err: {problem}")),
            Ok(decimals) if decimals > U256::from(u8::MAX) => {
                refused(format!("cannot get token decimal. Token: {token} . Err: abi: improperly encoded uint8 value"))
            }
            Ok(_) => Ok(()),
        }
    }

    /// The number returned by the token, or the problem of its answer. The outer error is a failure of this node.
    fn call_token(
        &self,
        evm: &mut AnyEvm<'_>,
        call_data: Vec<u8>,
        shown: Option<(U256, U256)>,
    ) -> Result<Result<U256, String>, OwnFailure> {
        let nonce = self.show(evm, shown).map_err(|StateError(error)| OwnFailure::Store(error))?;
        let message = TxEnv {
            caller: CALLER,
            kind: TxKind::Call(self.token),
            data: call_data.into(),
            gas_limit: GAS,
            nonce,
            chain_id: None,
            ..TxEnv::default()
        };
        // The call's gas does not count for the block.
        let configured = std::mem::replace(&mut evm.context().cfg.disable_block_gas_limit, true);
        // It gets no prices of the exchange: the reference's EVM for such calls has no trading state.
        let prices = evm.precompiled().set_records(None);
        let outcome = run_with(MainnetHandler::default(), evm, message);
        evm.precompiled().set_records(prices);
        evm.context().cfg.disable_block_gas_limit = configured;
        // The changes are discarded.
        match outcome.map(|outcome| outcome.result) {
            Ok(ExecutionResult::Success { output, .. }) => Ok(number_in(output.data())),
            // In the reference, a failed call returns nothing, which then cannot be decoded.
            Ok(_) => Ok(number_in(&Bytes::new())),
            Err(failure) => match OwnFailure::of(failure, &evm.context().chain) {
                Ok(own) => Err(own),
                Err(failure) => Ok(Err(failure.to_string())),
            },
        }
    }

    /// Makes the next call see the caller's funds and the number; returns the caller's nonce.
    fn show(&self, evm: &mut AnyEvm<'_>, shown: Option<(U256, U256)>) -> Result<u64, StateError> {
        let journaled = &mut evm.context().journaled_state;
        let mut caller = journaled.database.basic(CALLER)?.unwrap_or_default();
        caller.balance = FUNDS;
        let nonce = caller.nonce;
        let token = journaled.database.basic(self.token)?.unwrap_or_default();
        let original = match shown {
            Some((slot, _)) => journaled.database.storage(self.token, slot)?,
            None => U256::ZERO,
        };
        let journal = &mut journaled.inner;
        let transaction_id = journal.transaction_id;
        let cold = |info| {
            let mut account = EvmAccount::from(info);
            account.transaction_id = transaction_id;
            account.mark_cold();
            account
        };
        let account = journal.state.entry(self.token).or_insert_with(|| cold(token));
        if let Some((slot, number)) = shown {
            let mut slot_value = EvmStorageSlot::new_changed(original, number, transaction_id);
            slot_value.mark_cold();
            account.storage.insert(slot, slot_value);
        }
        journal.state.entry(CALLER).or_insert_with(|| cold(caller)).info.balance = FUNDS;
        Ok(nonce)
    }
}

/// The decimals of a token on the current state; `None` if it does not answer as required.
pub(super) fn decimals_of(evm: &mut AnyEvm<'_>, token: Address) -> Result<Option<u8>, OwnFailure> {
    let candidate = Candidate { token, is_for_sponsoring: false };
    let answer = candidate.call_token(evm, DECIMALS.to_vec(), None)?;
    Ok(answer.ok().and_then(|decimals| u8::try_from(decimals).ok()))
}

/// One word of an answer; longer answers must be whole words.
fn number_in(answer: &Bytes) -> Result<U256, String> {
    if !answer.len().is_multiple_of(32) {
        return Err("abi: improperly formatted output".to_owned());
    }
    match answer.get(..32) {
        Some(word) => Ok(U256::from_be_slice(word)),
        None => Err("abi: attempting to unmarshal an empty string while arguments are expected".to_owned()),
    }
}

/// Different in each process and call, as in the reference: a contract that could predict it would pass without the
/// layout that the number proves.
fn unforeseeable_number() -> U256 {
    U256::from(RandomState::new().hash_one(0_u8) % NUMBERS)
}

#[cfg(test)]
mod tests;
