//! The accept loop of all listeners: the front-ends, the metrics, the signing service, the network.
//!
//! It owns the pause after a connection that could not be accepted. Most likely the process has run out of file
//! descriptors then, and running connections need time to end; without a pause the loop would keep a processor busy.
//!
//! Invariants: it knows no socket, only a function that accepts a connection (the network's tests accept on simulated
//! sockets); it never counts, keeps or refuses a connection. Each user limits its own: the front-ends by client, the
//! signing service by what a client has proved, the network by unfinished handshakes, the metrics by a fixed maximum.

#![forbid(unsafe_code)]

use std::{io, time::Duration};

use tokio::time::{Instant, sleep_until};

/// Pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections one after another.
#[derive(Debug)]
pub struct Acceptor<F> {
    accept: F,
    /// The end of the pause after a failure.
    paused_until: Option<Instant>,
}

impl<T, A, F> Acceptor<F>
where
    A: Future<Output = io::Result<T>>,
    F: FnMut() -> A,
{
    /// An acceptor whose connections `accept` returns. Its future must lose no connection when it is dropped.
    pub const fn new(accept: F) -> Self {
        Self { accept, paused_until: None }
    }

    /// The next connection. After an error, the next call waits for the end of a pause first. Cancel-safe.
    ///
    /// # Errors
    /// Those of accepting.
    pub async fn next(&mut self) -> io::Result<T> {
        if let Some(until) = self.paused_until {
            sleep_until(until).await;
            self.paused_until = None;
        }
        let accepted = (self.accept)().await;
        if accepted.is_err() {
            self.paused_until = Some(Instant::now() + PAUSE);
        }
        accepted
    }

    /// Passes each connection to `take`, and each error to `failed`, until `stop` is ready.
    pub async fn run_until(
        mut self,
        stop: impl Future<Output = ()>,
        failed: impl Fn(io::Error),
        mut take: impl FnMut(T),
    ) {
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = self.next() => accepted,
                () = &mut stop => return,
            };
            match accepted {
                Ok(connection) => take(connection),
                Err(error) => failed(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, RefCell},
        future::{pending, ready},
    };

    use tokio::time::{sleep, timeout};

    use super::*;

    /// A listener that fails this many times before each connection.
    fn failing(times: u32) -> (Cell<u32>, impl Fn(&Cell<u32>) -> io::Result<u32>) {
        let accept = move |asked: &Cell<u32>| {
            asked.set(asked.get() + 1);
            if asked.get().is_multiple_of(times + 1) {
                Ok(asked.get())
            } else {
                Err(io::Error::other("no descriptors"))
            }
        };
        (Cell::new(0), accept)
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_after_each_failure_and_only_then() {
        let (asked, accept) = failing(2);
        let mut acceptor = Acceptor::new(|| ready(accept(&asked)));
        let started = Instant::now();

        for _ in 0..2 {
            assert!(acceptor.next().await.is_err());
        }
        assert_eq!(started.elapsed(), PAUSE, "the second attempt waited");
        assert_eq!(acceptor.next().await.unwrap(), 3);
        assert_eq!(started.elapsed(), 2 * PAUSE);
        assert!(acceptor.next().await.is_err());
        assert_eq!(started.elapsed(), 2 * PAUSE, "no pause after a connection");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_wait_does_not_shorten_the_pause() {
        let (asked, accept) = failing(1);
        let mut acceptor = Acceptor::new(|| ready(accept(&asked)));
        assert!(acceptor.next().await.is_err());
        let failed = Instant::now();

        assert!(timeout(PAUSE / 2, acceptor.next()).await.is_err());
        assert_eq!(asked.get(), 1, "it is not asked during the pause");

        assert_eq!(acceptor.next().await.unwrap(), 2);
        assert_eq!(failed.elapsed(), PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn the_loop_passes_on_connections_and_errors_until_it_is_stopped() {
        let (asked, accept) = failing(1);
        let (errors, taken) = (Cell::new(0), RefCell::new(Vec::new()));

        let acceptor = Acceptor::new(|| {
            let accepted = accept(&asked);
            let is_over = asked.get() > 4;
            async move { if is_over { pending().await } else { accepted } }
        });
        let failed = |_| errors.set(errors.get() + 1);
        acceptor.run_until(sleep(Duration::from_secs(1)), failed, |number| taken.borrow_mut().push(number)).await;

        assert_eq!((errors.get(), taken.take()), (2, vec![2, 4]));
    }

    #[tokio::test(start_paused = true)]
    async fn stops_during_a_pause() {
        let acceptor = Acceptor::new(|| ready(Err::<(), _>(io::Error::other("no descriptors"))));
        let started = Instant::now();

        acceptor.run_until(sleep(PAUSE / 2), |_| {}, |()| {}).await;

        assert_eq!(started.elapsed(), PAUSE / 2);
    }
}
