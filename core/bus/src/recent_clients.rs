//! Whether several clients send requests at present. Long jobs yield their thread only then: a yield lets requests of
//! other clients be served immediately, but would make the traces of a lone client an eighth slower.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::ClientId;

/// How long two clients count as present after a message of one was followed by a message of the other.
const PRESENT: Duration = Duration::from_secs(1);

/// The clients of this process.
static CLIENTS: LazyLock<RecentClients> = LazyLock::new(RecentClients::new);

/// Notes a message of a client.
pub(crate) fn note(client: ClientId) {
    if client != ClientId::INSIDE {
        CLIENTS.note(client, Instant::now);
    }
}

/// Returns whether several clients have sent messages lately.
pub(crate) fn has_several(now: Instant) -> bool {
    CLIENTS.has_several(now)
}

struct RecentClients {
    epoch: Instant,
    /// The client of the latest message; 0 before the first.
    last: AtomicU64,
    /// Nanoseconds from `epoch` to the latest message whose client differed from that of the previous message; 0 before
    /// the first.
    changed: AtomicU64,
}

impl RecentClients {
    fn new() -> Self {
        Self { epoch: Instant::now(), last: AtomicU64::new(0), changed: AtomicU64::new(0) }
    }

    /// Calls `now` only if the client differs from that of the previous message.
    fn note(&self, client: ClientId, now: impl FnOnce() -> Instant) {
        let number = client.as_number();
        if self.last.load(Ordering::Relaxed) == number || self.last.swap(number, Ordering::Relaxed) == 0 {
            return;
        }
        self.changed.store(self.nanos_until(now()).max(1), Ordering::Relaxed);
    }

    fn has_several(&self, now: Instant) -> bool {
        let changed = self.changed.load(Ordering::Relaxed);
        changed != 0 && self.nanos_until(now).saturating_sub(changed) < PRESENT.as_nanos() as u64
    }

    fn nanos_until(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_is_never_several_and_two_are_for_a_second() {
        let (clients, begin) = (RecentClients::new(), Instant::now());
        let (one, other) = (ClientId::of_process(1), ClientId::of_process(2));
        let after = |millis| begin + Duration::from_millis(millis);

        for millis in 0..10 {
            clients.note(one, || after(millis));
            assert!(!clients.has_several(after(millis)));
        }
        clients.note(other, || after(10));
        assert!(clients.has_several(after(10)) && clients.has_several(after(1_000)));
        clients.note(other, || after(1_000));
        assert!(!clients.has_several(after(1_011)));
        clients.note(one, || after(2_000));
        assert!(clients.has_several(after(2_500)));
    }
}
