//! Samples of the waits of threads and tasks: for places of the pool, in mailboxes, and for locks.
//!
//! Off by default: a wait then costs one relaxed load. While sampling is on (`debug_setBlockProfileRate`,
//! `debug_setMutexProfileFraction`) it costs a clock read and a short lock. Rates and scaling are those of Go's runtime
//! (`docs/spec/rpc-node.md` 4.5). Places are static, so the number of records is bounded by the program's text.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Kinds of waits that are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitKind {
    /// Anything that waits: for a place of a pool, in a mailbox, for a lock.
    Blocking,
    /// Locks that another thread held.
    Lock,
}

/// Where something waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitPlace {
    /// Path of the function that waits.
    pub function: &'static str,
    /// The awaited part, such as an actor's name; empty if the function determines it.
    pub subject: &'static str,
    /// Source file.
    pub file: &'static str,
    /// Line in it.
    pub line: u32,
}

/// Sum of the waits at a place, scaled to all waits when only some were sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WaitTotal {
    /// Number of waits.
    pub count: f64,
    /// Time waited, nanoseconds.
    pub nanoseconds: f64,
}

/// One sample is taken per this many nanoseconds of waiting, on average; 0 or less takes none.
static BLOCKING_RATE: AtomicI64 = AtomicI64::new(0);
/// One contended lock in this many is sampled; 0 samples none.
static LOCK_FRACTION: AtomicI64 = AtomicI64::new(0);
/// Chooses samples.
static SAMPLE_COUNTER: AtomicU64 = AtomicU64::new(0);
/// Nothing awaits under this lock.
static TOTALS: Mutex<BTreeMap<(WaitKind, WaitPlace), WaitTotal>> = Mutex::new(BTreeMap::new());

/// From now on, takes one sample per `nanoseconds` of waiting on average; 1 samples all waits, 0 or less none.
pub fn set_blocking_rate(nanoseconds: i64) {
    BLOCKING_RATE.store(nanoseconds.max(0), Ordering::Relaxed);
}

/// Samples one contended lock in `fraction` from now on; 0 takes none, and a negative number changes nothing.
pub fn set_lock_fraction(fraction: i64) {
    if fraction >= 0 {
        LOCK_FRACTION.store(fraction, Ordering::Relaxed);
    }
}

/// What has been sampled since the process began.
pub fn totals(kind: WaitKind) -> Vec<(WaitPlace, WaitTotal)> {
    let totals = TOTALS.lock().unwrap_or_else(PoisonError::into_inner);
    totals.iter().filter(|((of, _), _)| *of == kind).map(|((_, place), total)| (*place, *total)).collect()
}

/// The current time if waits are sampled. Pass it to [`record_wait`] when the wait is over.
pub fn wait_began() -> Option<Instant> {
    (BLOCKING_RATE.load(Ordering::Relaxed) > 0).then(Instant::now)
}

/// Records a wait that is over.
pub fn record_wait(began: Option<Instant>, place: WaitPlace) {
    if let Some(began) = began {
        record_blocking(began.elapsed(), place);
    }
}

/// Takes a lock. If another thread holds it, records how long this thread waited. `attempt` tries to take it without
/// waiting.
pub fn lock<G>(place: WaitPlace, attempt: impl FnOnce() -> Option<G>, wait: impl FnOnce() -> G) -> G {
    let fraction = LOCK_FRACTION.load(Ordering::Relaxed);
    if fraction == 0 && BLOCKING_RATE.load(Ordering::Relaxed) == 0 {
        return wait();
    }
    if let Some(guard) = attempt() {
        return guard;
    }
    let began = Instant::now();
    let guard = wait();
    let waited = began.elapsed();
    record_blocking(waited, place);
    #[allow(clippy::cast_sign_loss, reason = "fractions are not negative")]
    if fraction > 0 && next_random().is_multiple_of(fraction as u64) {
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        add(WaitKind::Lock, place, fraction as f64, waited);
    }
    guard
}

#[allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "a positive rate; a figure for people")]
fn record_blocking(waited: Duration, place: WaitPlace) {
    let rate = BLOCKING_RATE.load(Ordering::Relaxed);
    if rate <= 0 {
        return;
    }
    let nanoseconds = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
    let rate = rate as u64;
    if nanoseconds >= rate {
        return add(WaitKind::Blocking, place, 1.0, waited);
    }
    // A wait shorter than the rate is sampled with the probability `nanoseconds / rate`; its weight then accounts for
    // those left out.
    if nanoseconds > 0 && next_random() % rate < nanoseconds {
        add(WaitKind::Blocking, place, rate as f64 / nanoseconds as f64, waited);
    }
}

/// A pseudo-random number (SplitMix64), so that the choice of samples does not follow the order of waits.
fn next_random() -> u64 {
    let mut mixed = SAMPLE_COUNTER.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn add(kind: WaitKind, place: WaitPlace, weight: f64, waited: Duration) {
    let mut totals = TOTALS.lock().unwrap_or_else(PoisonError::into_inner);
    let total = totals.entry((kind, place)).or_default();
    total.count += weight;
    total.nanoseconds += weight * waited.as_nanos() as f64;
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// The rates are of the whole process: tests that set them take turns.
    static ALONE: Mutex<()> = Mutex::new(());

    const fn place(subject: &'static str) -> WaitPlace {
        WaitPlace { function: "test", subject, file: "waits.rs", line: 1 }
    }

    fn total(kind: WaitKind, subject: &str) -> WaitTotal {
        let found = totals(kind).into_iter().find(|(place, _)| place.subject == subject);
        found.map(|(_, total)| total).unwrap_or_default()
    }

    #[test]
    fn without_a_rate_nothing_is_sampled() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(wait_began(), None);

        record_wait(Some(Instant::now()), place("off"));

        assert_eq!(total(WaitKind::Blocking, "off"), WaitTotal::default());
    }

    #[test]
    fn sampled_waits_are_scaled_to_all_waits() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        set_blocking_rate(1_000);
        for _ in 0..20_000 {
            record_blocking(Duration::from_nanos(100), place("short"));
        }
        record_blocking(Duration::from_micros(7), place("long"));
        set_blocking_rate(0);

        let WaitTotal { count, nanoseconds } = total(WaitKind::Blocking, "short");
        assert!((15_000.0..25_000.0).contains(&count), "{count}");
        assert!((nanoseconds - count * 100.0).abs() < 1.0, "{nanoseconds} {count}");
        assert_eq!(total(WaitKind::Blocking, "long"), WaitTotal { count: 1.0, nanoseconds: 7_000.0 });
    }

    #[test]
    fn only_locks_that_are_held_count() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        set_lock_fraction(1);
        set_lock_fraction(-1);
        let shared = Mutex::new(());
        let take = |subject| drop(lock(place(subject), || shared.try_lock().ok(), || shared.lock().unwrap()));
        take("free");
        let (holds, is_held) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let held = shared.lock().unwrap();
                holds.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(20));
                drop(held);
            });
            is_held.recv().unwrap();
            take("held");
        });
        set_lock_fraction(0);

        assert_eq!(total(WaitKind::Lock, "free"), WaitTotal::default());
        assert_eq!(total(WaitKind::Lock, "held").count, 1.0);
        assert!(total(WaitKind::Lock, "held").nanoseconds > 0.0);
    }
}
