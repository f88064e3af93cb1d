//! Turns of requests that a client sends together on one connection.
//!
//! hyper answers such requests one after the other, up to sixteen in one poll of the connection's task. After a slice of
//! working time, the next one waits for its client's turn, as messages of the other transports do
//! (`envelope/turns.rs`). Otherwise hundreds of connections of one client would delay the others' requests.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::envelope::TaskTurn;

/// Passed to [`TaskTurn::is_over`] as a length, so that it reads the clock before every request: the lengths are unknown.
const UNKNOWN_LENGTH: usize = usize::MAX;

/// The turn of a connection's requests.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    /// Whether a request was answered since the connection last waited.
    is_working: AtomicBool,
    /// The turn of these requests; `None` before the second one. Nothing awaits under the lock.
    turn: Mutex<Option<TaskTurn>>,
}

impl Pipeline {
    /// Records that a request is answered now. Returns whether it follows another one without a wait: then it calls
    /// [`Pipeline::wait_for_turn`] first.
    pub(super) fn follows_another(&self) -> bool {
        let follows = self.is_working.load(Ordering::Relaxed);
        self.is_working.store(true, Ordering::Relaxed);
        follows
    }

    /// Waits for the client's turn if the connection's slice is over. `at_rest` makes the turn of its client.
    pub(super) async fn wait_for_turn(&self, at_rest: impl FnOnce() -> TaskTurn) {
        let kept = self.turn.lock().take();
        let mut turn = kept.unwrap_or_else(at_rest);
        if turn.is_over(UNKNOWN_LENGTH) {
            turn.pass().await;
        }
        self.is_working.store(true, Ordering::Relaxed);
        *self.turn.lock() = Some(turn);
    }

    /// Releases the place before the connection waits: for bytes, for its client to read, or for a call.
    pub(super) fn rest(&self) {
        if self.is_working.load(Ordering::Relaxed) {
            self.is_working.store(false, Ordering::Relaxed);
            *self.turn.lock() = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::Poll,
        time::{Duration, Instant},
    };

    use tenon_bus::ClientId;

    use super::*;
    use crate::envelope::{TaskTurns, poll_once};

    fn work_for(time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[tokio::test]
    async fn requests_after_a_slice_wait_for_the_clients_place_and_a_wait_releases_it() {
        let (turns, client) = (TaskTurns::default(), ClientId::from_number(1));
        let (first, second) = (Pipeline::default(), Pipeline::default());
        for pipeline in [&first, &second] {
            assert!(!pipeline.follows_another(), "the first request needs no turn");
            assert!(pipeline.follows_another());
            pipeline.wait_for_turn(|| turns.at_rest(client)).await;
        }
        work_for(Duration::from_millis(1));

        first.wait_for_turn(|| turns.at_rest(client)).await;
        let mut waiting = pin!(second.wait_for_turn(|| turns.at_rest(client)));
        for _ in 0..3 {
            assert!(
                poll_once(waiting.as_mut()).await.is_pending(),
                "this runtime has one thread, so a client has one place"
            );
            tokio::task::yield_now().await;
        }
        first.rest();

        assert_eq!(poll_once(waiting.as_mut()).await, Poll::Ready(()));
        assert!(!first.follows_another(), "it has waited");
    }
}
