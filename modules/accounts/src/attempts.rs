//! Delays attempts after wrong passwords, per account and client. Another client's attempts are not delayed, and a
//! correct password ends the delay.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tenon_api::Address;
use tenon_bus::ClientId;
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    time::{Instant, sleep_until},
};

/// The delay after the first wrong password; each further one doubles it.
const FIRST_DELAY: Duration = Duration::from_millis(250);
const MAX_DELAY: Duration = Duration::from_secs(8);
/// How long wrong passwords count.
const WRONG_PASSWORD_LIFETIME: Duration = Duration::from_secs(600);
/// Maximum number of recorded pairs of account and client. The oldest are dropped.
const MAX_RECORDED_PAIRS: usize = 1024;

/// Wrong passwords by account and client.
type Known = HashMap<(Address, ClientId), Arc<AsyncMutex<WrongPasswords>>>;

/// Records wrong passwords and delays further attempts.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// Nothing awaits under the lock.
    known: Mutex<Known>,
}

/// The wrong passwords of one client for one account. Locked during an attempt; the client's other attempts wait.
#[derive(Debug)]
pub(crate) struct WrongPasswords {
    count: u32,
    not_before: Instant,
}

/// Permission to try one password.
pub(crate) struct Attempt(OwnedMutexGuard<WrongPasswords>);

impl Attempts {
    /// Waits until the client may try a password for the account.
    pub(crate) async fn begin(&self, account: Address, client: ClientId) -> Attempt {
        let entry = self.entry(account, client);
        let wrong = entry.lock_owned().await;
        sleep_until(wrong.not_before).await;
        Attempt(wrong)
    }

    fn entry(&self, account: Address, client: ClientId) -> Arc<AsyncMutex<WrongPasswords>> {
        let mut known = self.known.lock();
        let now = Instant::now();
        if known.len() >= MAX_RECORDED_PAIRS {
            known.retain(|_, entry| entry.try_lock().map_or(true, |wrong| !wrong.is_forgotten(now)));
        }
        if known.len() >= MAX_RECORDED_PAIRS
            && let Some(oldest) = oldest(&known)
        {
            known.remove(&oldest);
        }
        let new = || Arc::new(AsyncMutex::new(WrongPasswords { count: 0, not_before: now }));
        Arc::clone(known.entry((account, client)).or_insert_with(new))
    }
}

fn oldest(known: &Known) -> Option<(Address, ClientId)> {
    let ages = known.iter().filter_map(|(pair, entry)| Some((entry.try_lock().ok()?.not_before, *pair)));
    ages.min_by_key(|(not_before, _)| *not_before).map(|(_, pair)| pair)
}

impl WrongPasswords {
    fn is_forgotten(&self, now: Instant) -> bool {
        self.count == 0 || now.saturating_duration_since(self.not_before) > WRONG_PASSWORD_LIFETIME
    }
}

impl Attempt {
    /// Records a correct password.
    pub(crate) fn end_delay(mut self) {
        self.0.count = 0;
    }

    /// Records a wrong password: the next attempt is delayed.
    pub(crate) fn fail(mut self) {
        let now = Instant::now();
        if self.0.is_forgotten(now) {
            self.0.count = 0;
        }
        let doubled = FIRST_DELAY.saturating_mul(1_u32.checked_shl(self.0.count.min(16)).unwrap_or(u32::MAX));
        self.0.count = self.0.count.saturating_add(1);
        self.0.not_before = now + doubled.min(MAX_DELAY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: Address = Address::repeat_byte(1);

    async fn waited(attempts: &Attempts, account: Address, client: u32) -> (Duration, Attempt) {
        let began = Instant::now();
        let attempt = attempts.begin(account, ClientId::of_process(client)).await;
        (began.elapsed(), attempt)
    }

    #[tokio::test(start_paused = true)]
    async fn each_wrong_password_doubles_the_delay_up_to_a_limit() {
        let attempts = Attempts::default();
        let mut delays = Vec::new();

        for _ in 0..9 {
            let (delay, attempt) = waited(&attempts, ACCOUNT, 1).await;
            delays.push(delay.as_millis());
            attempt.fail();
        }

        assert_eq!(delays, [0, 250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_correct_password_ends_the_delay_and_other_clients_are_not_delayed() {
        let attempts = Attempts::default();
        for _ in 0..5 {
            waited(&attempts, ACCOUNT, 1).await.1.fail();
        }

        let (other_client, _) = waited(&attempts, ACCOUNT, 2).await;
        let (other_account, _) = waited(&attempts, Address::repeat_byte(2), 1).await;
        let (same, attempt) = waited(&attempts, ACCOUNT, 1).await;
        attempt.end_delay();
        let (after, _) = waited(&attempts, ACCOUNT, 1).await;

        assert_eq!((other_client, other_account), (Duration::ZERO, Duration::ZERO));
        assert_eq!((same, after), (Duration::from_secs(4), Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_of_one_client_take_turns() {
        let attempts = Arc::new(Attempts::default());
        let (_, first) = waited(&attempts, ACCOUNT, 1).await;
        let second = tokio::spawn({
            let attempts = Arc::clone(&attempts);
            async move { waited(&attempts, ACCOUNT, 1).await.0 }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;

        first.fail();

        assert_eq!(second.await.unwrap(), Duration::from_millis(1250));
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_recorded_pairs_is_bounded() {
        let attempts = Attempts::default();
        for client in 0..2 * MAX_RECORDED_PAIRS as u32 {
            waited(&attempts, ACCOUNT, client).await.1.fail();
        }

        assert_eq!(attempts.known.lock().len(), MAX_RECORDED_PAIRS);
    }
}
