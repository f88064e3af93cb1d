//! Signals, and the end of the process: the first signal stops the node in order, the second one immediately.
//!
//! Invariant: from the moment that a command listens, the second signal and the time limit of a stop end the process
//! whatever the rest of it does. That is why signals have a thread with a runtime of its own: the node's runtime may be
//! blocked or gone. That thread must not wait for the lock of the system's loader, which a library that hangs while it is
//! loaded holds. The exit handlers of the C library need the lock, and so does a thread-local that has a destructor, when
//! a thread first uses it. Logging has such thread-locals, so another thread does it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc as blocking;
use std::thread;
use std::time::{Duration, Instant};

use tenon_supervisor::{Signal, Signals};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use crate::exit::{INTERRUPTED, Stop};
use crate::log_file;

/// Time that threads have to end after everything is flushed and closed. Threads that only compute, such as a key
/// derivation, are not waited for any longer.
const MAX_THREADS_END_TIME: Duration = Duration::from_secs(1);

/// Time for the last lines of the log when the process ends at once.
const MAX_LOG_TIME: Duration = Duration::from_millis(250);

/// Whether threads still ran when their time had passed.
static HAS_UNFINISHED_THREADS: AtomicBool = AtomicBool::new(false);

/// The signals that a node has received.
pub(crate) struct StopSignals {
    /// True from the first SIGINT or SIGTERM on.
    stop: watch::Receiver<bool>,
    /// One place, because several SIGHUPs have the same effect as one.
    reloads: mpsc::Receiver<()>,
}

impl StopSignals {
    /// Listens from now on. After the first SIGINT or SIGTERM, a second one ends the process immediately, and so does
    /// a stop that takes longer than `max_stop_time`: the database is at a whole block at every moment, so nothing is
    /// lost. An ephemeral data folder is removed then too.
    ///
    /// # Errors
    /// [`Stop::Failure`] if the operating system refuses.
    pub(crate) fn listen(max_stop_time: Duration, ephemeral: Option<PathBuf>) -> Result<Self, Stop> {
        let (stop_sender, stop) = watch::channel(false);
        let (reload_sender, reloads) = mpsc::channel(1);
        on_signal_thread(async move |mut signals, log| {
            while signals.next().await == Signal::Reload {
                // An error means that a reload waits already.
                let _ = reload_sender.try_send(());
            }
            log.write(|| tracing::info!("stopping; a second signal stops at once"));
            stop_sender.send_replace(true);
            let is_second_signal = tokio::select! {
                () = next_stop_signal(&mut signals, &log) => true,
                () = tokio::time::sleep(max_stop_time) => false,
            };
            if let Some(folder) = ephemeral {
                // The process ends anyway; anything left is in the system's temporary folder.
                let _ = std::fs::remove_dir_all(folder);
            }
            log.end_at_once(move || match is_second_signal {
                true => tracing::warn!("second signal: stopping at once, unfinished work is dropped"),
                false => {
                    tracing::error!(limit = ?max_stop_time, "the stop took too long; ended without finishing");
                }
            });
        })?;
        Ok(Self { stop, reloads })
    }

    /// The outcome of the node's start, or `None`, without finishing the start, at the first SIGINT or SIGTERM.
    pub(crate) async fn unless_stopped<T>(&self, start: impl Future<Output = T>) -> Option<T> {
        let mut stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stopped(&mut stop) => None,
            outcome = start => Some(outcome),
        }
    }

    /// Waits for the first SIGINT or SIGTERM, and calls `reload` after each SIGHUP until then.
    pub(crate) async fn wait_for_the_first(&mut self, mut reload: impl AsyncFnMut()) {
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut self.stop) => return,
                Some(()) = self.reloads.recv() => {}
            }
            reload().await;
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // The sender lives as long as the process.
    let _ = stop.wait_for(|is_stopped| *is_stopped).await;
}

/// A flag that the first SIGINT or SIGTERM sets; the second one ends the process. For commands that work in a loop and
/// check the flag.
///
/// # Errors
/// [`Stop::Failure`] if the operating system refuses.
pub(crate) fn interruption_flag() -> Result<Arc<AtomicBool>, Stop> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    on_signal_thread(async move |mut signals, log| {
        next_stop_signal(&mut signals, &log).await;
        set.store(true, Ordering::Relaxed);
        next_stop_signal(&mut signals, &log).await;
        log.end_at_once(|| {});
    })?;
    Ok(flag)
}

async fn next_stop_signal(signals: &mut Signals, log: &SignalLog) {
    while signals.next().await == Signal::Reload {
        log.write(|| tracing::info!("SIGHUP ignored: this command does not reload settings, or stops already"));
    }
}

/// Writes the log of the thread that handles signals, on another thread.
struct SignalLog(blocking::Sender<Box<dyn FnOnce() + Send>>);

impl SignalLog {
    /// # Errors
    /// If the operating system provides no thread.
    fn start() -> std::io::Result<Self> {
        let (sender, lines) = blocking::channel::<Box<dyn FnOnce() + Send>>();
        let run = move || lines.iter().for_each(|write| write());
        thread::Builder::new().name("signal log".to_owned()).spawn(run)?;
        Ok(Self(sender))
    }

    /// Logs with this function. Does not wait.
    fn write(&self, line: impl FnOnce() + Send + 'static) {
        // The other thread lives as long as the process.
        let _ = self.0.send(Box::new(line));
    }

    /// Ends the process after the last lines of the log, but without exit handlers: they may wait for other threads.
    fn end_at_once(&self, last: impl FnOnce() + Send + 'static) -> ! {
        let is_written = Arc::new(AtomicBool::new(false));
        let written = Arc::clone(&is_written);
        self.write(move || {
            last();
            log_file::finish();
            written.store(true, Ordering::Relaxed);
        });
        let begun = Instant::now();
        while !is_written.load(Ordering::Relaxed) && begun.elapsed() < MAX_LOG_TIME {
            thread::sleep(Duration::from_millis(2));
        }
        tenon_sandbox::leave(i32::from(INTERRUPTED))
    }
}

/// Listens for signals from now on, and handles them on a thread that lives as long as the process.
fn on_signal_thread(handle: impl AsyncFnOnce(Signals, SignalLog) + Send + 'static) -> Result<(), Stop> {
    let refused = |error: std::io::Error| Stop::failure(format!("can't listen for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
    let signals = {
        let _inside = runtime.enter();
        Signals::listen().map_err(refused)?
    };
    let log = SignalLog::start().map_err(refused)?;
    let run = move || runtime.block_on(handle(signals, log));
    thread::Builder::new().name("signals".to_owned()).spawn(run).map_err(refused)?;
    Ok(())
}

/// The runtime of all asynchronous work.
///
/// # Errors
/// [`Stop::Failure`] if the operating system provides no threads.
pub(crate) fn runtime() -> Result<Runtime, Stop> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("tenon")
        .build()
        .map_err(|error| Stop::failure(format!("can't start the runtime: {error}")))
}

/// Ends a node's runtime. Dropping it would wait for its threads without a limit.
pub(crate) fn end_runtime(runtime: Runtime) {
    let begun = Instant::now();
    runtime.shutdown_timeout(MAX_THREADS_END_TIME);
    if begun.elapsed() >= MAX_THREADS_END_TIME {
        tracing::info!("ended without waiting for unfinished work, such as a key derivation");
        HAS_UNFINISHED_THREADS.store(true, Ordering::Relaxed);
    }
}

/// Ends the process without exit handlers if threads of a node's runtime still run: the handlers would wait for a
/// thread that is loading a library, and would destroy what the other threads use.
pub(crate) fn leave_unfinished_threads(exit_code: u8) {
    if HAS_UNFINISHED_THREADS.load(Ordering::Relaxed) {
        tenon_sandbox::leave(i32::from(exit_code));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_computes_does_not_delay_the_end_of_the_runtime() {
        let runtime = runtime().unwrap();
        let (started, is_started) = std::sync::mpsc::channel();
        runtime.spawn_blocking(move || {
            started.send(()).unwrap();
            thread::sleep(MAX_THREADS_END_TIME * 20);
        });
        is_started.recv().unwrap();

        let begun = Instant::now();
        end_runtime(runtime);

        assert!(begun.elapsed() < MAX_THREADS_END_TIME * 10);
        assert!(HAS_UNFINISHED_THREADS.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn a_stop_ends_the_wait_for_a_start_that_hangs() {
        let (sender, stop) = watch::channel(false);
        let signals = StopSignals { stop, reloads: mpsc::channel(1).1 };

        assert_eq!(signals.unless_stopped(async { 7 }).await, Some(7));
        sender.send_replace(true);
        assert_eq!(signals.unless_stopped(std::future::pending::<()>()).await, None);
    }
}
