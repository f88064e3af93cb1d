//! Recovery of senders: in batches ahead of submission if several are expected, and never twice.

use std::{borrow::Borrow, collections::HashSet, num::NonZeroUsize};

use lru::LruCache;
use parking_lot::Mutex;
use tenon_api::{Address, Transaction};
use tenon_chain::{HighS, RecoverError, SignedHash, SignerRules, signed_hash_of};
use tenon_recovery::RecoveryError;

/// Number of cached signers, some 200 kB: as many as one batch of requests or one peer message may bring.
const CACHE_SIZE: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// Recovers signers and caches the latest: some policies need the same one twice.
#[derive(derive_more::Debug)]
#[debug("Senders {{ .. }}")]
pub struct Senders {
    /// By hash and signature. Locked for look-ups and insertions only, never during a recovery.
    cache: Mutex<LruCache<SignedHash, Result<Address, RecoveryError>>>,
}

impl Default for Senders {
    fn default() -> Self {
        Self { cache: Mutex::new(LruCache::new(CACHE_SIZE)) }
    }
}

impl Senders {
    /// The sender of a transaction under the rules of a height.
    ///
    /// # Errors
    /// [`RecoverError`].
    pub fn sender(&self, rules: &SignerRules, transaction: &Transaction) -> Result<Address, RecoverError> {
        let signed = rules.signed_hash(transaction)?;
        if let Some(sender) = self.cache.lock().get(&signed) {
            return Ok((*sender)?);
        }
        let sender = tenon_recovery::recover(&signed.0, &signed.1);
        self.cache.lock().put(signed, sender);
        Ok(sender?)
    }

    /// Maximum number of senders recovered ahead: the size of the cache.
    pub const MAX_AHEAD: usize = CACHE_SIZE.get();

    /// Caches the sender of a transaction that was in a block.
    pub fn remember(&self, transaction: &Transaction, sender: Address) {
        if let Ok(signed) = signed_hash_of(transaction, HighS::Refused) {
            self.cache.lock().put(signed, Ok(sender));
        }
    }

    /// Recovers the senders of one batch of expected transactions, [`Senders::MAX_AHEAD`] at most.
    pub fn recover_ahead(&self, transactions: impl Iterator<Item = impl Borrow<Transaction>>) {
        // A signature that breaks the rules is refused when its transaction arrives.
        let transactions = transactions.take(Self::MAX_AHEAD);
        let signed = transactions.filter_map(|transaction| signed_hash_of(transaction.borrow(), HighS::Refused).ok());
        let mut signed: HashSet<SignedHash> = signed.collect();
        {
            let cache = self.cache.lock();
            signed.retain(|signed| !cache.contains(signed));
        }
        let signed: Vec<SignedHash> = signed.into_iter().collect();
        let senders = tenon_recovery::recover_batch(&signed);
        let mut cache = self.cache.lock();
        for (signed, sender) in signed.into_iter().zip(senders) {
            cache.put(signed, sender);
        }
    }
}

#[cfg(test)]
mod tests {
    use tenon_memory_chain::transactions::{CHAIN_ID, address, sign, transfer};

    use super::*;

    #[test]
    fn senders_recovered_ahead_equal_those_recovered_singly() {
        let rules = SignerRules {
            chain_id: CHAIN_ID,
            high_s: HighS::Refused,
            replay_protection: true,
            highest_type: tenon_api::TransactionType::DynamicFee,
            allows_blobs: true,
        };
        let mut transactions: Vec<Transaction> = (0..20_u8).map(|account| sign(account, transfer(0, 9, 9))).collect();
        transactions[3].signature.r = tenon_api::U256::MAX;
        transactions[4].signature.s = tenon_api::U256::MAX;
        let (ahead, in_turn) = (Senders::default(), Senders::default());

        ahead.recover_ahead(transactions.iter());

        // The fourth is refused for its form. All others are cached, including a signature without a signer.
        assert_eq!(ahead.cache.lock().len(), 19);
        for (account, transaction) in (0..).zip(&transactions) {
            let sender = ahead.sender(&rules, transaction);
            assert_eq!(sender, in_turn.sender(&rules, transaction));
            assert_eq!(sender.is_ok(), ![3, 4].contains(&account));
            assert!(sender.is_err() || sender == Ok(address(account)));
        }
        assert_eq!(ahead.cache.lock().len(), 19);
    }

    #[test]
    fn recovery_ahead_is_bounded_by_the_cache() {
        let transaction = sign(0, transfer(0, 9, 9));
        let many = std::iter::repeat_n(&transaction, CACHE_SIZE.get() * 2);
        let mut looked_at = 0;
        let senders = Senders::default();
        senders.recover_ahead(many.inspect(|_| looked_at += 1));
        assert_eq!(looked_at, CACHE_SIZE.get());
    }
}
