//! Spans of the work of the node's threads: reads, jobs of the pool, messages of actors, steps of the write path.
//!
//! Off by default: a span then costs one relaxed load. During a recording (`debug_startGoTrace`) it costs two clock
//! reads and a short lock. One recording runs at a time, and ends by itself at its maximum length, which bounds its
//! memory.

use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Maximum number of spans of a recording: about 40 MB. Later ones are counted, not kept.
pub const MAX_SPANS: usize = 500_000;

/// Maximum number of threads whose names are kept.
const MAX_THREADS: usize = 10_000;

/// Something that a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Kind of work: `read`, `job`, `actor`, `block`.
    pub category: &'static str,
    /// Name of the work, such as that of a request.
    pub name: &'static str,
    /// Number of the thread, from 1.
    pub thread: u64,
    /// Begin, counted from that of the recording.
    pub began: Duration,
    /// Duration.
    pub lasted: Duration,
}

/// Everything that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanRecording {
    /// The spans, in the order of their ends.
    pub spans: Vec<Span>,
    /// Names of the threads by their numbers.
    pub threads: BTreeMap<u64, String>,
    /// Spans beyond [`MAX_SPANS`].
    pub left_out: u64,
    /// Duration of the recording.
    pub lasted: Duration,
}

struct Running {
    since: Instant,
    recording: SpanRecording,
}

static IS_RECORDING: AtomicBool = AtomicBool::new(false);
/// Nothing awaits under this lock.
static RUNNING: Mutex<Option<Running>> = Mutex::new(None);
static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Number of this thread; 0 before its first span.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// Begins a recording; false if one is running already.
pub fn start_recording() -> bool {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    if running.is_some() {
        return false;
    }
    *running = Some(Running { since: Instant::now(), recording: SpanRecording::default() });
    IS_RECORDING.store(true, Ordering::Relaxed);
    true
}

/// Ends the recording and returns it; `None` if none is running.
pub fn stop_recording() -> Option<SpanRecording> {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).take();
    IS_RECORDING.store(false, Ordering::Relaxed);
    running.map(|running| SpanRecording { lasted: running.since.elapsed(), ..running.recording })
}

/// Begins a span of this thread, which ends when the guard is dropped. The guard must not be held across an `await`.
pub fn span(category: &'static str, name: &'static str) -> SpanGuard {
    let began = IS_RECORDING.load(Ordering::Relaxed).then(Instant::now);
    SpanGuard { began, category, name }
}

/// A running span.
#[must_use = "the span ends when the guard is dropped"]
#[derive(Debug)]
pub struct SpanGuard {
    /// `None` if nothing was recorded when it began.
    began: Option<Instant>,
    category: &'static str,
    name: &'static str,
}

impl Drop for SpanGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some(began) = self.began {
            self.record(began);
        }
    }
}

impl SpanGuard {
    #[cold]
    fn record(&self, began: Instant) {
        let lasted = began.elapsed();
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        // A span that began before this recording belongs to an earlier one.
        let Some(Running { since, recording }) = running.as_mut().filter(|running| running.since <= began) else {
            return;
        };
        if recording.spans.len() == MAX_SPANS {
            recording.left_out += 1;
            return;
        }
        let thread = thread_number();
        if recording.threads.len() < MAX_THREADS && !recording.threads.contains_key(&thread) {
            let name = thread::current().name().unwrap_or("unnamed").to_owned();
            recording.threads.insert(thread, name);
        }
        let (category, name) = (self.category, self.name);
        recording.spans.push(Span { category, name, thread, began: began.duration_since(*since), lasted });
    }
}

fn thread_number() -> u64 {
    THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(THREADS.fetch_add(1, Ordering::Relaxed) + 1);
        }
        thread.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_recorded_between_start_and_stop_only() {
        drop(span("test", "before"));
        assert!(start_recording());
        assert!(!start_recording(), "one at a time");
        let outer = span("test", "outer");
        drop(span("test", "inner"));
        drop(outer);
        std::thread::Builder::new()
            .name("another".to_owned())
            .spawn(|| drop(span("test", "elsewhere")))
            .unwrap()
            .join()
            .unwrap();
        let across = span("test", "across");
        let recording = stop_recording().unwrap();
        assert_eq!(stop_recording(), None);
        drop(across);

        let own: Vec<_> = recording.spans.iter().filter(|span| span.category == "test").collect();
        assert_eq!(own.iter().map(|span| span.name).collect::<Vec<_>>(), ["inner", "outer", "elsewhere"]);
        assert!(own[1].began <= own[0].began && own[0].began + own[0].lasted <= own[1].began + own[1].lasted);
        assert!(own[2].thread != own[0].thread && own[0].thread == own[1].thread);
        assert!(recording.threads.get(&own[2].thread).is_some_and(|name| name == "another"), "{:?}", recording.threads);
    }
}
