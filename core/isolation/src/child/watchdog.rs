//! Ends the process if the plugin keeps its thread too long, or if the node has gone.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tenon_sandbox::{leave, processor_time};

use super::upstream::Upstream;
use crate::wire::Kind;

/// Interval of the watchdog's checks.
const CHECK_PERIOD: Duration = Duration::from_millis(25);
/// Plugin code may keep its thread for this many times the limit, even if it uses no processor time (a blocking wait).
const WAITING_FACTOR: u32 = 3;

/// Activity of the plugin's thread.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Incremented at each entry into the plugin's code and at each return from it: odd while inside.
    sequence: AtomicU64,
    /// The call or subscription.
    id: AtomicU64,
}

impl Watch {
    /// Runs a piece of the plugin's code.
    pub(crate) fn over<T>(&self, id: u64, code: impl FnOnce() -> T) -> T {
        self.id.store(id, Ordering::Relaxed);
        self.sequence.fetch_add(1, Ordering::Release);
        let outcome = code();
        self.sequence.fetch_add(1, Ordering::Release);
        outcome
    }

    /// The call or subscription whose code the plugin's thread runs, 0 for none. Call from that thread only.
    pub(crate) fn current(&self) -> u64 {
        if self.sequence.load(Ordering::Relaxed).is_multiple_of(2) { 0 } else { self.id.load(Ordering::Relaxed) }
    }
}

/// Starts the watchdog, and returns when it watches: a thread that begins needs a lock of the system's loader, which the
/// main thread holds while it loads the library. `limit` is the processor time that the plugin's code may use before it
/// returns.
pub(crate) fn start(watch: Arc<Watch>, upstream: Arc<Upstream>, limit: Duration) -> std::io::Result<()> {
    let parent = std::os::unix::process::parent_id();
    let begun = Arc::new(Barrier::new(2));
    let watches = Arc::clone(&begun);
    let check = move || {
        watches.wait();
        let mut stretch = (0, Duration::ZERO, Instant::now());
        loop {
            thread::sleep(CHECK_PERIOD);
            if std::os::unix::process::parent_id() != parent {
                leave(0);
            }
            let sequence = watch.sequence.load(Ordering::Acquire);
            if sequence.is_multiple_of(2) {
                continue;
            }
            let (seen, used_before, since) = stretch;
            if seen != sequence {
                stretch = (sequence, processor_time(), Instant::now());
                continue;
            }
            let used = processor_time().saturating_sub(used_before);
            if used > limit || since.elapsed() > limit.saturating_mul(WAITING_FACTOR) {
                upstream.send_last(Kind::Overrun, watch.id.load(Ordering::Relaxed));
                leave(1);
            }
        }
    };
    thread::Builder::new().name("watchdog".to_owned()).spawn(check)?;
    begun.wait();
    Ok(())
}
