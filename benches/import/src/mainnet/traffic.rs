//! The transactions of a block: the masternodes' signing transactions, and ordinary ones.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use tenon_api::{BlockSigner, RecoveredTransaction, SealedHeader, StateReader};
use tenon_native_consensus::{MERGE_SIGN_RANGE, SigningTransactionBuilder, v2::MasternodeKey};

use super::{Plan, network::CHAIN_ID};
use crate::{
    Outcome,
    heavy::{Numbers, Sender, WRITER_ADDRESS, resident, senders},
};

/// Of ten ordinary transactions, the cumulative numbers of transfers to existing accounts and of transfers to new
/// accounts, on average. The rest write to a contract.
const MIX: [u64; 2] = [5, 6];

/// Accounts that send ordinary transactions, and masternodes that sign blocks.
pub(crate) struct Traffic {
    senders: Vec<Sender>,
    builders: Vec<(SigningTransactionBuilder, Address, u64)>,
    accounts: u64,
    /// Ordinary transactions of five blocks.
    transactions: u64,
}

/// The addresses of the senders.
pub(crate) fn addresses() -> Outcome<Vec<Address>> {
    Ok(senders(CHAIN_ID)?.iter().map(|sender| sender.address).collect())
}

impl Traffic {
    /// Continues from the accounts' nonces in a state.
    pub(crate) fn after(plan: &Plan, keys: &[MasternodeKey], state: &dyn StateReader) -> Outcome<Self> {
        let nonce = |address| Ok::<_, tenon_api::StoreError>(state.account(address)?.unwrap_or_default().nonce);
        let mut senders = senders(CHAIN_ID)?;
        for sender in &mut senders {
            sender.nonce = nonce(sender.address)?;
        }
        let mut builders = Vec::new();
        for key in keys {
            let signer: Arc<dyn BlockSigner> = Arc::new(key.clone());
            builders.push((SigningTransactionBuilder::new(signer, CHAIN_ID), key.address(), nonce(key.address())?));
        }
        Ok(Self { senders, builders, accounts: plan.accounts, transactions: plan.transactions })
    }

    /// The transactions of the block on `parent`. Half of the masternodes sign a block in the next one, the others in
    /// the one after it; `signed` gives the header of a height.
    pub(crate) fn of_block(
        &mut self,
        parent: &SealedHeader,
        signed: impl FnOnce(u64) -> Outcome<Arc<SealedHeader>>,
    ) -> Outcome<Vec<RecoveredTransaction>> {
        let number = parent.number + 1;
        let mut transactions = Vec::new();
        let latest = parent.number - parent.number % MERGE_SIGN_RANGE;
        let half = self.builders.len() / 2;
        let signing = match parent.number - latest {
            _ if latest == 0 => 0..0,
            0 => 0..half,
            1 => half..self.builders.len(),
            _ => 0..0,
        };
        if !signing.is_empty() {
            let header = signed(latest)?;
            for (builder, _, nonce) in &mut self.builders[signing] {
                transactions.push(builder.sign(&header, *nonce)?);
                *nonce += 1;
            }
        }
        let mut numbers = Numbers(number);
        let (before, after) = (self.transactions * (number - 1) / 5, self.transactions * number / 5);
        for place in before..after {
            transactions.push(self.ordinary(place, &mut numbers)?);
        }
        Ok(transactions)
    }

    fn ordinary(&mut self, place: u64, numbers: &mut Numbers) -> Outcome<RecoveredTransaction> {
        let count = self.senders.len() as u64;
        let sender = &mut self.senders[usize::try_from(place % count)?];
        let kind = numbers.next() % 10;
        if kind < MIX[0] {
            return sender.sign(Some(resident(numbers.next() % self.accounts.max(1))), 1, Vec::new(), 21_000);
        }
        if kind < MIX[1] {
            // Residents have lower positions.
            return sender.sign(Some(resident(numbers.next() | 1 << 63)), 1, Vec::new(), 21_000);
        }
        let word = |number: u64| U256::from(number).to_be_bytes::<32>();
        let input = [word(numbers.next()), word(numbers.next() | 1)].concat();
        sender.sign(Some(WRITER_ADDRESS), 0, input, 200_000)
    }
}
