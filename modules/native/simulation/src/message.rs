//! Calls on a native chain, under the reference's rules: the sender has an unlimited balance, its nonce and account are
//! ignored, gas is free, and refusals have the reference's texts and order (`docs/spec/rpc-eth.md` 10.1).

use std::marker::PhantomData;

use alloy_primitives::{B256, Bytes, U256};
use revm::{
    context::{
        ContextSetters, ContextTr, JournalTr, TxEnv,
        journaled_state::account::JournaledAccountTr,
        result::{ExecutionResult, HaltReason, InvalidTransaction},
        transaction::AccessList,
    },
    handler::{FrameResult, Handler},
    interpreter::{InitialAndFloorGas, interpreter_action::FrameInit},
    primitives::{TxKind, eip3860::MAX_INITCODE_SIZE, hardfork::SpecId},
};
use tenon_api::{
    Transaction, TransactionPayload, TransactionSignature, TransactionType, WholeBalance,
    messages::{CallContradiction, CallFailure, CallRequest},
};
use tenon_chain::floor_gas;
use tenon_execution_interface::{AnyEvm, EvmFailure, OwnPrices, access_list, could_overflow_u256, saturated, widen};
use tenon_native_execution::{address_text, is_exempt_receiver, run_frames};
use tenon_simulation_interface::{
    CallPlace, CallRules, ListFailure, Payer, RunFailure, UNBOUNDED_GAS, access_list_items, bounded_gas, check_prices,
    invalid_transaction_text,
};

/// Price of a call without one, on a block without base fee: 50 gwei.
const PRICE_WITHOUT_BASE_FEE: U256 = U256::from_limbs([50_000_000_000, 0, 0, 0]);
/// Gas per nonzero data byte, at every height (`docs/spec/chain.md` 2.4).
const GAS_OF_NONZERO_BYTE: u64 = 68;
/// Gas per zero data byte.
const GAS_OF_ZERO_BYTE: u64 = 4;
/// Gas per word of init code (EIP-3860).
const GAS_OF_INITCODE_WORD: u64 = 2;
/// Gas per address in an access list (EIP-2930), which the reference charges at every height.
const GAS_OF_LISTED_ADDRESS: u64 = 2_400;
/// Gas per slot in an access list.
const GAS_OF_LISTED_SLOT: u64 = 1_900;
/// Gas per authorization (EIP-7702).
const GAS_OF_AUTHORIZATION: u64 = 25_000;
/// Gas of any message.
const GAS_OF_MESSAGE: u64 = 21_000;
/// Gas of a creation from Homestead on.
const GAS_OF_CREATION: u64 = 53_000;

/// Parameters of the checks before a message on a native chain runs.
#[derive(Clone, Debug)]
pub(super) struct NativeCallRules {
    /// The gas price, wei.
    price: U256,
    fee_cap: U256,
    tip_cap: U256,
    /// The block's base fee, wei; if present, EIP-1559 and the limit of init code apply.
    base_fee: Option<u64>,
    is_homestead: bool,
    is_prague: bool,
    payer: Payer,
}

impl NativeCallRules {
    /// The rules of a call object on a block with this base fee.
    fn new(request: &CallRequest, place: &CallPlace) -> Self {
        let (base_fee, spec_id) = (place.base_fee, place.spec_id);
        let (price, fee_cap, tip_cap) = prices(request, base_fee);
        let is_homestead = spec_id.is_enabled_in(SpecId::HOMESTEAD);
        let is_prague = spec_id.is_enabled_in(SpecId::PRAGUE);
        Self { price, fee_cap, tip_cap, base_fee, is_homestead, is_prague, payer: Payer::None }
    }

    /// The price for the EVM, which has 128 bits for it.
    fn price(&self) -> u128 {
        self.price.saturating_to()
    }

    /// Intrinsic and floor gas of the message.
    ///
    /// # Errors
    /// Why it may not run, with the reference's text.
    fn admit(&self, message: &TxEnv) -> Result<InitialAndFloorGas, RunFailure> {
        self.check_caps(message)?;
        self.check_funds(message)?;
        let gas = self.intrinsic_gas(message);
        if message.gas_limit < gas {
            let lacking =
                InvalidTransaction::CallGasCostMoreThanGasLimit { initial_gas: gas, gas_limit: message.gas_limit };
            return Err(RunFailure::Message(lacking));
        }
        // EIP-7623 (`docs/spec/upgrades.md` 7.4).
        let gas_floor = if self.is_prague { floor_gas(&message.data) } else { 0 };
        if message.gas_limit < gas_floor {
            let lacking = InvalidTransaction::GasFloorMoreThanGasLimit { gas_floor, gas_limit: message.gas_limit };
            return Err(RunFailure::Message(lacking));
        }
        if self.base_fee.is_some() && message.kind.is_create() && message.data.len() > MAX_INITCODE_SIZE {
            let size = message.data.len();
            return refused(format!("max initcode size exceeded: code size {size} limit {MAX_INITCODE_SIZE}"));
        }
        if widen(message.value) > self.balance_while_running(message.gas_limit) {
            let sender = address_text(message.caller);
            return refused(format!("insufficient funds for transfer: address {sender}"));
        }
        Ok(InitialAndFloorGas::new(gas, gas_floor))
    }

    /// Checks the fee caps by EIP-1559, from which a message without a price is exempt.
    fn check_caps(&self, message: &TxEnv) -> Result<(), RunFailure> {
        let Some(base_fee) = self.base_fee else { return Ok(()) };
        if self.fee_cap.is_zero() && self.tip_cap.is_zero() {
            return Ok(());
        }
        let (sender, fee_cap, tip_cap) = (address_text(message.caller), self.fee_cap, self.tip_cap);
        if fee_cap < tip_cap {
            return refused(format!(
                "max priority fee per gas higher than max fee per gas: address {sender}, \
                 maxPriorityFeePerGas: {tip_cap}, maxFeePerGas: {fee_cap}"
            ));
        }
        if !is_exempt_receiver(message.kind.to().copied()) && fee_cap < U256::from(base_fee) {
            return refused(format!(
                "max fee per gas less than block base fee: address {sender}, maxFeePerGas: {fee_cap} baseFee: {base_fee}"
            ));
        }
        Ok(())
    }

    fn check_funds(&self, message: &TxEnv) -> Result<(), RunFailure> {
        // Gas has 64 bits: neither the products nor the sum have more than 320.
        let gas = widen(U256::from(message.gas_limit));
        match self.payer {
            Payer::None => Ok(()),
            Payer::Token(capacity) if widen(capacity) < gas * widen(self.price) => {
                refused("insufficient funds for gas * price + value".to_owned())
            }
            Payer::Token(_) => Ok(()),
            Payer::Sender | Payer::Account(_) => {
                let have = if let Payer::Account(balance) = self.payer { balance } else { widen(U256::MAX) };
                let want = gas * widen(self.fee_cap) + widen(message.value);
                if have >= want {
                    return Ok(());
                }
                let sender = address_text(message.caller);
                refused(format!("insufficient funds for gas * price + value: address {sender} have {have} want {want}"))
            }
        }
    }

    fn intrinsic_gas(&self, message: &TxEnv) -> u64 {
        let is_creation = message.kind.is_create();
        let base = if is_creation && self.is_homestead { GAS_OF_CREATION } else { GAS_OF_MESSAGE };
        let length = message.data.len() as u64;
        let zeroes = message.data.iter().filter(|byte| **byte == 0).count() as u64;
        let words = if is_creation && self.base_fee.is_some() { length.div_ceil(32) } else { 0 };
        let addresses = message.access_list.0.len() as u64;
        let slots: u64 = message.access_list.0.iter().map(|item| item.storage_keys.len() as u64).sum();
        base + zeroes * GAS_OF_ZERO_BYTE
            + (length - zeroes) * GAS_OF_NONZERO_BYTE
            + words * GAS_OF_INITCODE_WORD
            + addresses * GAS_OF_LISTED_ADDRESS
            + slots * GAS_OF_LISTED_SLOT
            + message.authorization_list.len() as u64 * GAS_OF_AUTHORIZATION
    }

    /// The sender's balance while its message runs with this gas limit, wei.
    fn balance_while_running(&self, gas_limit: u64) -> WholeBalance {
        let cost = widen(self.price) * widen(U256::from(gas_limit));
        match self.payer {
            Payer::Sender => widen(U256::MAX).saturating_sub(cost),
            Payer::Account(balance) => balance.saturating_sub(cost),
            Payer::None | Payer::Token(_) => widen(U256::MAX),
        }
    }
}

impl CallRules for NativeCallRules {
    fn pay_by(&mut self, payer: Payer) {
        self.payer = payer;
    }

    fn own_prices(&self) -> Option<OwnPrices> {
        // The price is never above the cap.
        (self.fee_cap > U256::from(u128::MAX)).then_some(OwnPrices { cap: self.fee_cap, effective: self.price })
    }

    fn check(&self, message: &TxEnv) -> Result<(), RunFailure> {
        self.admit(message).map(drop)
    }

    fn run(&self, evm: &mut AnyEvm<'_>, message: TxEnv) -> Result<ExecutionResult, RunFailure> {
        let gas = self.admit(&message)?;
        evm.context().set_tx(message);
        let result = MessageHandler { call_rules: self, gas, evm: PhantomData }.run(evm);
        // Clears the message's changes from the journal before the next one.
        drop(evm.take_changes());
        result.map_err(|failure| RunFailure::from_evm(failure, &evm.context().chain))
    }

    /// Without output the error has the general code and no data.
    fn revert_failure(&self, output: Bytes) -> CallFailure {
        if output.is_empty() { CallFailure::RevertedWithoutData } else { CallFailure::Reverted { output } }
    }

    /// The list with which a native call begins. Sender and receiver are always warm, so they are kept only for their
    /// slots.
    fn first_access_list(&self, message: &TxEnv) -> AccessList {
        let is_warm = |address| address == message.caller || message.kind.to() == Some(&address);
        let items = message.access_list.0.iter();
        AccessList(items.filter(|item| !is_warm(item.address) || !item.storage_keys.is_empty()).cloned().collect())
    }

    /// Restores slots that were given for addresses that are always warm.
    fn complete_access_list(&self, given: &AccessList, found: &mut AccessList) {
        for item in given.0.iter().filter(|item| !item.storage_keys.is_empty()) {
            match found.0.iter_mut().find(|other| other.address == item.address) {
                None => found.0.push(item.clone()),
                Some(other) => {
                    let missing = item.storage_keys.iter().filter(|key| !other.storage_keys.contains(key));
                    let missing: Vec<B256> = missing.copied().collect();
                    other.storage_keys.extend(missing);
                }
            }
        }
    }

    fn set_access_list(&self, message: &mut TxEnv, list: AccessList) {
        message.access_list = list;
        // A message without a list was of type 0, for which the EVM would ignore it.
        message.tx_type = TransactionType::AccessList as u8;
    }

    /// The reference's text contains the hash of the corresponding unsigned transaction.
    fn access_list_failure(&self, failure: RunFailure, place: &ListFailure<'_>) -> Result<CallFailure, RunFailure> {
        let reason = match failure {
            RunFailure::Refused(text) => text,
            RunFailure::Message(invalid) => invalid_transaction_text(&invalid, place.message, place.block),
            failure => return Err(failure),
        };
        Ok(CallFailure::InvalidListMessage { hash: unsigned_hash(place), reason })
    }
}

/// Converts a native chain's call for the EVM: only the members that the reference knows, with one price.
///
/// # Errors
/// [`CallContradiction::BothPrices`].
pub(super) fn message(
    request: &CallRequest,
    chain_id: u64,
    place: &CallPlace,
) -> Result<(TxEnv, NativeCallRules), CallContradiction> {
    check_prices(request)?;
    let call_rules = NativeCallRules::new(request, place);
    let access_list = access_list(request.access_list.as_deref().unwrap_or_default());
    let tx_type = if access_list.0.is_empty() { TransactionType::Legacy } else { TransactionType::AccessList };
    let message = TxEnv {
        tx_type: tx_type as u8,
        caller: request.from.unwrap_or_default(),
        gas_limit: bounded_gas(request.gas.map(|gas| if gas == 0 { UNBOUNDED_GAS } else { gas }), place.gas_cap),
        gas_price: call_rules.price(),
        kind: request.to.map_or(TxKind::Create, TxKind::Call),
        value: request.value.unwrap_or_default(),
        data: request.input.clone(),
        chain_id: Some(chain_id),
        access_list,
        ..TxEnv::default()
    };
    Ok((message, call_rules))
}

/// The hash of the unsigned transaction that corresponds to a message with an access list.
fn unsigned_hash(place: &ListFailure<'_>) -> B256 {
    let ListFailure { request, message, chain_id, .. } = *place;
    let access_list = access_list_items(&message.access_list);
    let payload = match request.max_fee_per_gas {
        Some(max_fee_per_gas) => TransactionPayload::DynamicFee {
            max_fee_per_gas,
            max_priority_fee_per_gas: request.max_priority_fee_per_gas.unwrap_or_default(),
            access_list,
        },
        None => TransactionPayload::AccessList { gas_price: request.gas_price.unwrap_or_default(), access_list },
    };
    tenon_chain::transaction_hash(&Transaction {
        hash: B256::ZERO,
        chain_id: Some(request.chain_id.unwrap_or(chain_id)),
        nonce: request.nonce.unwrap_or_default(),
        gas_limit: request.gas.unwrap_or(message.gas_limit),
        to: request.to,
        value: message.value,
        input: message.data.clone(),
        payload,
        signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
    })
}

fn refused<T>(text: String) -> Result<T, RunFailure> {
    Err(RunFailure::Refused(text))
}

/// Price, fee cap and tip cap of a call object (`docs/spec/rpc-eth.md` 10.1).
fn prices(request: &CallRequest, base_fee: Option<u64>) -> (U256, U256, U256) {
    let Some(base_fee) = base_fee else {
        let price = request.gas_price.filter(|price| !price.is_zero()).unwrap_or(PRICE_WITHOUT_BASE_FEE);
        return (price, price, price);
    };
    if let Some(price) = request.gas_price {
        return (price, price, price);
    }
    let fee_cap = request.max_fee_per_gas.unwrap_or_default();
    let tip_cap = request.max_priority_fee_per_gas.unwrap_or_default();
    let is_free = fee_cap.is_zero() && tip_cap.is_zero();
    let price = if is_free { U256::ZERO } else { tip_cap.saturating_add(U256::from(base_fee)).min(fee_cap) };
    (price, fee_cap, tip_cap)
}

struct MessageHandler<'a, 'e> {
    call_rules: &'a NativeCallRules,
    gas: InitialAndFloorGas,
    evm: PhantomData<AnyEvm<'e>>,
}

impl<'e> Handler for MessageHandler<'_, 'e> {
    type Evm = AnyEvm<'e>;
    type Error = EvmFailure;
    type HaltReason = HaltReason;

    // `NativeCallRules::admit` has made all checks.
    fn validate_env(&self, _evm: &mut Self::Evm) -> Result<(), EvmFailure> {
        Ok(())
    }

    fn validate_initial_tx_gas(&self, _evm: &mut Self::Evm) -> Result<InitialAndFloorGas, EvmFailure> {
        Ok(self.gas)
    }

    fn validate_against_state_and_deduct_caller(
        &self,
        evm: &mut Self::Evm,
        _gas: &mut InitialAndFloorGas,
    ) -> Result<(), EvmFailure> {
        let context = evm.context();
        let (_, message, _, journal, ..) = context.all_mut();
        // At most 256 bits: an account with a larger balance is charged by the handler of the chain's transactions.
        let balance = saturated(self.call_rules.balance_while_running(message.gas_limit));
        let mut sender = journal.load_account_with_code_mut(message.caller)?.data;
        sender.set_balance(balance);
        if message.kind.is_call() {
            sender.bump_nonce();
        }
        let (value, sender) = (message.value, message.caller);
        if could_overflow_u256(value, 0) || context.db_mut().whole_balances_mut().is_some() {
            context.db_mut().track_whole_balances().set_whole(sender, widen(balance));
        }
        let price = Some(self.call_rules.price).filter(|price| *price > U256::from(u128::MAX));
        if price.is_some() || context.db_mut().whole_balances_mut().is_some() {
            context.db_mut().track_whole_balances().set_price(price);
        }
        Ok(())
    }

    fn run_exec_loop(&mut self, evm: &mut Self::Evm, first: FrameInit) -> Result<FrameResult, EvmFailure> {
        run_frames(evm, first)
    }

    fn reimburse_caller(&self, _evm: &mut Self::Evm, _result: &mut FrameResult) -> Result<(), EvmFailure> {
        Ok(())
    }

    fn reward_beneficiary(&self, _evm: &mut Self::Evm, _result: &mut FrameResult) -> Result<(), EvmFailure> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // `docs/spec/upgrades.md` 7.4.
    #[test]
    fn a_call_has_a_floor_from_prague_on() {
        let call_rules = |is_prague| NativeCallRules {
            price: U256::ZERO,
            fee_cap: U256::ZERO,
            tip_cap: U256::ZERO,
            base_fee: Some(12_500_000_000),
            is_homestead: true,
            is_prague,
            payer: Payer::None,
        };
        let message = |gas_limit| TxEnv { gas_limit, data: Bytes::from_static(&[0; 100]), ..TxEnv::default() };

        let before = call_rules(false).admit(&message(21_999)).unwrap();
        assert_eq!((before.initial_regular_gas, before.floor_gas), (21_400, 0));
        let refused = call_rules(true).admit(&message(21_999));
        let lacking = InvalidTransaction::GasFloorMoreThanGasLimit { gas_floor: 22_000, gas_limit: 21_999 };
        assert!(matches!(refused, Err(RunFailure::Message(reason)) if reason == lacking));
        let after = call_rules(true).admit(&message(22_000)).unwrap();
        assert_eq!((after.initial_regular_gas, after.floor_gas), (21_400, 22_000));
    }

    /// The payer of a traced call has its own balance, at full width, which it must not exceed (`docs/spec/chain.md` 8.1).
    #[test]
    fn the_payer_of_a_traced_call_has_its_whole_balance() {
        let price = U256::ONE << 244;
        let message = TxEnv { gas_limit: 100_000, value: U256::from(7), ..TxEnv::default() };
        let cost = widen(price) * widen(U256::from(100_000)) + widen(U256::from(7));
        assert!(cost > widen(U256::MAX));
        let outcome = |balance| {
            let payer = Payer::Account(balance);
            let call_rules = NativeCallRules {
                price,
                fee_cap: price,
                tip_cap: price,
                base_fee: None,
                is_homestead: true,
                is_prague: false,
                payer,
            };
            assert_eq!(call_rules.own_prices(), Some(OwnPrices { cap: price, effective: price }));
            call_rules.admit(&message).map(drop)
        };

        assert!(outcome(cost).is_ok());
        let Err(RunFailure::Refused(text)) = outcome(cost - WholeBalance::ONE) else { panic!("not refused") };
        assert!(text.ends_with(&format!("have {} want {cost}", cost - WholeBalance::ONE)), "{text}");
    }
}
