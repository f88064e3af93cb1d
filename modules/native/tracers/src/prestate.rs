//! The reference's `prestateTracer`: every touched account, as it was when first touched. The sender's balance and
//! nonce are then restored to before the transaction.

use std::collections::HashMap;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use revm::bytecode::opcode::{
    BALANCE, CALL, CALLCODE, CREATE, CREATE2, DELEGATECALL, EXTCODECOPY, EXTCODESIZE, SLOAD, SSTORE, STATICCALL,
};
use tenon_api::{
    WholeBalance,
    messages::{FrameKind, NoTraceResult, Prestate, SignedBalance, TraceResult, TracedAccount},
};
use tenon_execution_interface::StateError;
use tenon_traces::{Accounts, Run, Step, Tracer, TracerFailure};

/// Keeps accounts in the order in which they were touched.
#[derive(Default)]
pub(super) struct PrestateTracer {
    places: HashMap<Address, usize>,
    accounts: Vec<(Address, Touched)>,
    held: usize,
}

struct Touched {
    /// Wei; negative if the code spent what the transaction gave it.
    balance: SignedBalance,
    nonce: i128,
    code: Bytes,
    slots: Vec<(U256, U256)>,
}

/// Subtracts from a balance.
fn minus(balance: SignedBalance, other: WholeBalance) -> SignedBalance {
    match balance {
        SignedBalance { magnitude, is_negative: true } => {
            SignedBalance { magnitude: magnitude.saturating_add(other), is_negative: true }
        }
        SignedBalance { magnitude, .. } if magnitude < other => {
            SignedBalance { magnitude: other - magnitude, is_negative: true }
        }
        SignedBalance { magnitude, .. } => positive(magnitude - other),
    }
}

/// Adds to a balance.
fn plus(balance: SignedBalance, other: WholeBalance) -> SignedBalance {
    match balance {
        SignedBalance { magnitude, is_negative: true } if magnitude > other => {
            SignedBalance { magnitude: magnitude - other, is_negative: true }
        }
        SignedBalance { magnitude, is_negative: true } => positive(other - magnitude),
        SignedBalance { magnitude, .. } => positive(magnitude.saturating_add(other)),
    }
}

const fn positive(magnitude: WholeBalance) -> SignedBalance {
    SignedBalance { magnitude, is_negative: false }
}

impl PrestateTracer {
    fn touch(&mut self, address: Address, accounts: &mut dyn Accounts) -> Result<&mut Touched, StateError> {
        let place = match self.places.get(&address) {
            Some(place) => *place,
            None => {
                let code = accounts.code(address)?;
                self.held += 200 + 2 * code.len();
                let (balance, nonce) = (positive(accounts.balance(address)?), accounts.nonce(address)?.into());
                self.places.insert(address, self.accounts.len());
                self.accounts.push((address, Touched { balance, nonce, code, slots: Vec::new() }));
                self.accounts.len() - 1
            }
        };
        Ok(&mut self.accounts[place].1)
    }

    fn touch_slot(&mut self, contract: Address, slot: U256, accounts: &mut dyn Accounts) -> Result<(), StateError> {
        let touched = self.touch(contract, accounts)?;
        if touched.slots.iter().all(|(known, _)| *known != slot) {
            let value = accounts.slot(contract, slot)?;
            touched.slots.push((slot, value));
            self.held += 140;
        }
        Ok(())
    }

    /// The account that the reference's script looks up for an instruction.
    fn account_of(step: &Step<'_>, accounts: &mut dyn Accounts) -> Result<Option<Address>, StateError> {
        let at = |depth| Address::from_word(step.peek(depth).into());
        Ok(match step.opcode {
            EXTCODECOPY | EXTCODESIZE | BALANCE => Some(at(0)),
            CALL | CALLCODE | DELEGATECALL | STATICCALL => Some(at(1)),
            CREATE => Some(step.contract.create(accounts.nonce(step.contract)?)),
            CREATE2 => {
                let init_code = step.memory_slice(step.peek(1), step.peek(2));
                Some(step.contract.create2(B256::from(step.peek(3)), keccak256(init_code)))
            }
            _ => None,
        })
    }

    fn listed(&mut self, left_out: Option<Address>) -> Vec<TracedAccount> {
        let accounts = std::mem::take(&mut self.accounts).into_iter();
        let listed = accounts.filter(|(address, _)| Some(*address) != left_out);
        listed.map(|(address, account)| account.listed(address)).collect()
    }
}

impl Touched {
    fn listed(self, address: Address) -> TracedAccount {
        let slots = self.slots.into_iter().map(|(slot, value)| (B256::from(slot), B256::from(value))).collect();
        TracedAccount { address, balance: Some(self.balance), nonce: Some(self.nonce), code: Some(self.code), slots }
    }
}

impl Tracer for PrestateTracer {
    fn step(&mut self, step: &Step<'_>, accounts: &mut dyn Accounts) -> Result<(), StateError> {
        if self.accounts.is_empty() {
            self.touch(step.contract, accounts)?;
        }
        match step.opcode {
            SLOAD | SSTORE => self.touch_slot(step.contract, step.peek(0), accounts),
            _ => {
                if let Some(address) = Self::account_of(step, accounts)? {
                    self.touch(address, accounts)?;
                }
                Ok(())
            }
        }
    }

    fn held_bytes(&self) -> usize {
        self.held
    }

    fn result(&mut self, run: &Run<'_>, accounts: &mut dyn Accounts) -> Result<TraceResult, TracerFailure> {
        let Some((start, end)) = run.frame else {
            return Err(TracerFailure::NoResult(NoTraceResult::NoFrame));
        };
        if self.accounts.is_empty() {
            // The reference's script has no database if no instruction ran.
            return Err(TracerFailure::NoResult(NoTraceResult::NoInstruction { sender: start.from }));
        }
        let value = start.value.unwrap_or_default();
        let paid = cost_in_floating_point(end.gas_used.saturating_add(run.intrinsic_gas), run.gas_price);
        // Both balances are read before either is set, and the sender's is set last.
        let sender = self.touch(start.from, accounts)?.balance;
        let receiver = self.touch(start.to, accounts)?;
        receiver.balance = minus(receiver.balance, value);
        let sender_account = self.touch(start.from, accounts)?;
        sender_account.balance = plus(plus(sender, value), paid);
        sender_account.nonce -= 1;
        let is_creation = start.kind == FrameKind::Create;
        Ok(TraceResult::Prestate(Prestate::Before(self.listed(is_creation.then_some(start.to)))))
    }
}

/// Gas times price in `f64`, as in the reference's script. Only the digits that identify the `f64` are kept; the others
/// are zero.
fn cost_in_floating_point(gas: u64, price: U256) -> WholeBalance {
    #[allow(clippy::cast_precision_loss, reason = "the loss is what the reference shows")]
    let product = gas as f64 * f64::from(price);
    // Formatted with the shortest exact digits followed by zeros, like the script.
    format!("{product}").parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fees_beyond_exact_numbers_are_rounded_as_in_the_script() {
        assert_eq!(
            cost_in_floating_point(21_000, U256::from(12_500_000_000u64)),
            WholeBalance::from(262_500_000_000_000u64)
        );
        let rounded = cost_in_floating_point(1_234_567, U256::from(12_500_000_001u64));
        assert_eq!(rounded, WholeBalance::from(15_432_087_501_234_568u64));
    }

    #[test]
    fn balances_may_become_negative_and_recover() {
        let balance = minus(positive(WholeBalance::from(5)), WholeBalance::from(7));
        assert_eq!(balance, SignedBalance { magnitude: WholeBalance::from(2), is_negative: true });
        assert_eq!(plus(balance, WholeBalance::from(1)), SignedBalance { magnitude: WholeBalance::ONE, ..balance });
        assert_eq!(plus(balance, WholeBalance::from(3)), positive(WholeBalance::ONE));
    }
}
