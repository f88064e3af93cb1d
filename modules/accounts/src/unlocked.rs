//! Unlocked keys and their expiry (`docs/spec/rpc-node.md` 6.3).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tenon_api::Address;
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
    /// [`AccountsError::DurationTooLong`].
    pub(crate) fn from_seconds(seconds: u64) -> Result<Self, AccountsError> {
        match seconds {
            0 => Ok(Self::Indefinite),
            1..=MAX_SECONDS => Ok(Self::For(Duration::from_secs(seconds))),
            _ => Err(AccountsError::DurationTooLong),
        }
    }
}

/// The unlocked keys. A key is wiped once it is locked and no signature with it is in progress.
#[derive(Debug, Default)]
pub(crate) struct UnlockedKeys {
    /// Nothing awaits under the lock.
    keys: Mutex<HashMap<Address, Unlocked>>,
    /// Notified when a key must be locked earlier than planned.
    earlier: Notify,
}

#[derive(Debug)]
struct Unlocked {
    key: Arc<Key>,
    /// `None` means indefinitely.
    until: Option<Instant>,
}

impl UnlockedKeys {
    fn keys(&self) -> MutexGuard<'_, HashMap<Address, Unlocked>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key of an account, if unlocked.
    pub(crate) fn get(&self, address: Address) -> Option<Arc<Key>> {
        let now = Instant::now();
        let keys = self.keys();
        let unlocked = keys.get(&address)?;
        unlocked.until.is_none_or(|until| now < until).then(|| Arc::clone(&unlocked.key))
    }

    /// Unlocks an account. A new time replaces an old one, but an indefinite unlock stays. Returns whether the account
    /// was locked before.
    pub(crate) fn unlock(&self, key: Key, time: UnlockTime) -> bool {
        let until = match time {
            UnlockTime::Indefinite => None,
            // A time beyond the clock's range is indefinite.
            UnlockTime::For(time) => Instant::now().checked_add(time),
        };
        let mut keys = self.keys();
        let before = keys.get(&key.address()).map(|unlocked| unlocked.until);
        if before == Some(None) {
            return false;
        }
        keys.insert(key.address(), Unlocked { key: Arc::new(key), until });
        self.earlier.notify_one();
        before.is_none()
    }

    /// Removes a key. Returns whether it was present.
    pub(crate) fn lock(&self, address: Address) -> bool {
        self.keys().remove(&address).is_some()
    }

    /// Removes all keys.
    pub(crate) fn lock_all(&self) -> Vec<Address> {
        self.keys().drain().map(|(address, _)| address).collect()
    }

    /// Waits until a time is over, and removes those keys.
    pub(crate) async fn lock_expired(&self) -> Vec<Address> {
        loop {
            let next = self.keys().values().filter_map(|unlocked| unlocked.until).min();
            match next {
                None => self.earlier.notified().await,
                Some(next) => tokio::select! {
                    () = sleep_until(next) => {
                        let expired = self.take_expired(Instant::now());
                        if !expired.is_empty() {
                            return expired;
                        }
                    }
                    () = self.earlier.notified() => {}
                },
            }
        }
    }

    fn take_expired(&self, now: Instant) -> Vec<Address> {
        let mut expired = Vec::new();
        self.keys().retain(|address, unlocked| {
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

    async fn is_unlocked_after(keys: &UnlockedKeys, time: u64) -> bool {
        tokio::time::advance(Duration::from_secs(time)).await;
        keys.get(key().address()).is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn an_unlock_time_expires_and_a_new_one_replaces_it() {
        let keys = UnlockedKeys::default();

        assert!(keys.unlock(key(), seconds(10)));
        assert!(is_unlocked_after(&keys, 9).await);
        assert!(!keys.unlock(key(), seconds(2)));
        assert!(is_unlocked_after(&keys, 1).await);
        assert!(!is_unlocked_after(&keys, 1).await);
        assert_eq!(keys.lock_expired().await, [key().address()]);
        assert!(keys.unlock(key(), seconds(1)));
        assert!(!keys.unlock(key(), UnlockTime::Indefinite));
        assert!(is_unlocked_after(&keys, 1_000_000).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_indefinite_unlock_lasts_until_the_account_is_locked() {
        let keys = UnlockedKeys::default();
        keys.unlock(key(), UnlockTime::Indefinite);

        assert!(!keys.unlock(key(), seconds(1)));
        assert!(is_unlocked_after(&keys, 2).await);
        assert!(keys.lock(key().address()) && !keys.lock(key().address()));
        assert!(!is_unlocked_after(&keys, 0).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_key_is_removed_without_being_requested() {
        let keys = Arc::new(UnlockedKeys::default());
        let watch = tokio::spawn({
            let keys = Arc::clone(&keys);
            async move { keys.lock_expired().await }
        });
        keys.unlock(key(), seconds(5));

        assert_eq!(watch.await.unwrap(), [key().address()]);
        assert!(keys.keys().is_empty());
    }

    #[test]
    fn times_beyond_the_limit_are_refused() {
        assert_eq!(UnlockTime::from_seconds(0).unwrap(), UnlockTime::Indefinite);
        assert!(UnlockTime::from_seconds(MAX_SECONDS).is_ok());
        let error = UnlockTime::from_seconds(MAX_SECONDS + 1).unwrap_err();
        assert_eq!(error.to_string(), "unlock duration too large");
    }
}
