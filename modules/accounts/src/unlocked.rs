//! Unlocked keys and their expiry (`docs/spec/rpc-node.md` 6.3).

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tenon_api::{AccountRefusal, Address};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::{AccountsError, key::Key};

/// Maximum time for which an account may be unlocked, seconds.
const MAX_SECONDS: u64 = 9_223_372_036;

/// How long an account stays unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnlockTime {
    /// Until it is locked, or the process ends.
    Indefinite,
    /// For this time.
    For(Duration),
}

impl UnlockTime {
    /// The duration for a number of seconds; 0 is indefinite.
    ///
    /// # Errors
    /// [`AccountRefusal::DurationTooLong`].
    pub(crate) fn from_seconds(seconds: u64) -> Result<Self, AccountsError> {
        match seconds {
            0 => Ok(Self::Indefinite),
            1..=MAX_SECONDS => Ok(Self::For(Duration::from_secs(seconds))),
            _ => Err(AccountRefusal::DurationTooLong.into()),
        }
    }
}

/// The unlocked keys. A key is wiped once it is locked and no signature with it is in progress.
#[derive(Debug, Default)]
pub(crate) struct UnlockedKeys {
    /// Nothing awaits under the lock.
    table: Mutex<Table>,
    /// Notified when a key must be locked earlier than planned.
    earlier: Notify,
}

#[derive(Debug, Default)]
struct Table {
    keys: HashMap<Address, Unlocked>,
    /// How often each account was locked since its first unlock began. Has only accounts with a key file.
    lock_counts: HashMap<Address, u64>,
}

/// An unlock whose key is not derived yet. Locking the account in the meantime makes it void.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BegunUnlock {
    address: Address,
    lock_count: u64,
}

#[derive(Debug)]
struct Unlocked {
    key: Arc<Key>,
    /// `None` means indefinitely.
    until: Option<Instant>,
}

impl UnlockedKeys {
    /// The key of an account, if unlocked.
    pub(crate) fn get(&self, address: Address) -> Option<Arc<Key>> {
        let now = Instant::now();
        let table = self.table.lock();
        let unlocked = table.keys.get(&address)?;
        unlocked.until.is_none_or(|until| now < until).then(|| Arc::clone(&unlocked.key))
    }

    /// Begins to unlock an account. Call it before its key is derived.
    pub(crate) fn begin(&self, address: Address) -> BegunUnlock {
        let lock_count = *self.table.lock().lock_counts.entry(address).or_default();
        BegunUnlock { address, lock_count }
    }

    /// Unlocks an account. A new time replaces an old one, but an indefinite unlock stays. Returns whether the account
    /// was locked before.
    ///
    /// # Errors
    /// [`AccountsError::LockedMeanwhile`] if the account was locked after `begun`.
    pub(crate) fn unlock(&self, begun: BegunUnlock, key: Key, time: UnlockTime) -> Result<bool, AccountsError> {
        let until = match time {
            UnlockTime::Indefinite => None,
            // A time beyond the clock's range is indefinite.
            UnlockTime::For(time) => Instant::now().checked_add(time),
        };
        let mut table = self.table.lock();
        if table.lock_counts.get(&begun.address) != Some(&begun.lock_count) {
            return Err(AccountsError::LockedMeanwhile);
        }
        let before = table.keys.get(&begun.address).map(|unlocked| unlocked.until);
        if before == Some(None) {
            return Ok(false);
        }
        table.keys.insert(begun.address, Unlocked { key: Arc::new(key), until });
        self.earlier.notify_one();
        Ok(before.is_none())
    }

    /// Removes a key, and voids unlocks that have begun. Returns whether it was present.
    pub(crate) fn lock(&self, address: Address) -> bool {
        let mut table = self.table.lock();
        if let Some(count) = table.lock_counts.get_mut(&address) {
            *count += 1;
        }
        table.keys.remove(&address).is_some()
    }

    /// Removes all keys, and voids all unlocks that have begun.
    pub(crate) fn lock_all(&self) -> Vec<Address> {
        let mut table = self.table.lock();
        table.lock_counts.values_mut().for_each(|count| *count += 1);
        table.keys.drain().map(|(address, _)| address).collect()
    }

    /// Waits until the time of a key is over.
    pub(crate) async fn expiry(&self) {
        loop {
            let next = self.table.lock().keys.values().filter_map(|unlocked| unlocked.until).min();
            match next {
                None => self.earlier.notified().await,
                Some(next) if next <= Instant::now() => return,
                Some(next) => tokio::select! {
                    () = sleep_until(next) => {}
                    () = self.earlier.notified() => {}
                },
            }
        }
    }

    /// Removes the keys whose time is over.
    pub(crate) fn take_expired(&self) -> Vec<Address> {
        let now = Instant::now();
        let mut expired = Vec::new();
        self.table.lock().keys.retain(|address, unlocked| {
            let stays = unlocked.until.is_none_or(|until| now < until);
            if !stays {
                expired.push(*address);
            }
            stays
        });
        expired
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    fn key() -> Key {
        Key::from_secret(Zeroizing::new([7; 32])).unwrap()
    }

    const fn seconds(seconds: u64) -> UnlockTime {
        UnlockTime::For(Duration::from_secs(seconds))
    }

    fn unlock(keys: &UnlockedKeys, time: UnlockTime) -> bool {
        keys.unlock(keys.begin(key().address()), key(), time).unwrap()
    }

    async fn is_unlocked_after(keys: &UnlockedKeys, time: u64) -> bool {
        tokio::time::advance(Duration::from_secs(time)).await;
        keys.get(key().address()).is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn an_unlock_time_expires_and_a_new_one_replaces_it() {
        let keys = UnlockedKeys::default();

        assert!(unlock(&keys, seconds(10)));
        assert!(is_unlocked_after(&keys, 9).await);
        assert!(!unlock(&keys, seconds(2)));
        assert!(is_unlocked_after(&keys, 1).await);
        assert!(!is_unlocked_after(&keys, 1).await);
        keys.expiry().await;
        assert_eq!(keys.take_expired(), [key().address()]);
        assert!(unlock(&keys, seconds(1)));
        assert!(!unlock(&keys, UnlockTime::Indefinite));
        assert!(is_unlocked_after(&keys, 1_000_000).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_indefinite_unlock_lasts_until_the_account_is_locked() {
        let keys = UnlockedKeys::default();
        unlock(&keys, UnlockTime::Indefinite);

        assert!(!unlock(&keys, seconds(1)));
        assert!(is_unlocked_after(&keys, 2).await);
        assert!(keys.lock(key().address()) && !keys.lock(key().address()));
        assert!(!is_unlocked_after(&keys, 0).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_key_is_removed_without_being_requested() {
        let keys = Arc::new(UnlockedKeys::default());
        let watch = tokio::spawn({
            let keys = Arc::clone(&keys);
            async move {
                keys.expiry().await;
                keys.take_expired()
            }
        });
        unlock(&keys, seconds(5));

        assert_eq!(watch.await.unwrap(), [key().address()]);
        assert!(keys.table.lock().keys.is_empty());
    }

    #[test]
    fn an_account_that_is_locked_while_its_key_is_derived_stays_locked() {
        let address = key().address();
        for locks_all in [false, true] {
            let keys = UnlockedKeys::default();
            let begun = keys.begin(address);

            match locks_all {
                true => assert!(keys.lock_all().is_empty()),
                false => assert!(!keys.lock(address)),
            }

            let refused = keys.unlock(begun, key(), UnlockTime::Indefinite);
            assert!(matches!(refused, Err(AccountsError::LockedMeanwhile)));
            assert!(keys.get(address).is_none());
            assert!(unlock(&keys, UnlockTime::Indefinite), "a later unlock succeeds");
        }
    }

    #[test]
    fn locking_another_account_does_not_disturb_an_unlock() {
        let keys = UnlockedKeys::default();
        let begun = keys.begin(key().address());

        keys.lock(Address::ZERO);

        assert!(keys.unlock(begun, key(), UnlockTime::Indefinite).unwrap());
        assert_eq!(keys.table.lock().lock_counts.len(), 1, "strangers' addresses are not kept");
    }

    #[test]
    fn times_beyond_the_limit_are_refused() {
        assert_eq!(UnlockTime::from_seconds(0).unwrap(), UnlockTime::Indefinite);
        assert!(UnlockTime::from_seconds(MAX_SECONDS).is_ok());
        let refused = UnlockTime::from_seconds(MAX_SECONDS + 1);
        assert!(matches!(refused, Err(AccountsError::Refused(AccountRefusal::DurationTooLong))), "{refused:?}");
    }
}
