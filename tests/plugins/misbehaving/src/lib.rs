//! A misbehaving plugin, for the tests of the host: it panics, never answers, floods, requests what it was not granted.
//! `tests/plugins/broken.c` does what its safe code cannot.
//!
//! It owns a counter of dropped calls, so that a test can see the effect of cancellation.

#![deny(unsafe_code)]

use std::{
    future::pending,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenon_sdk::prelude::*;

#[derive(Default)]
struct Misbehaving {
    /// Calls and subscriptions dropped before their end.
    dropped: Arc<AtomicU64>,
    /// A context kept beyond its call.
    kept: Mutex<Option<Context<Misbehaving>>>,
    settings: String,
    /// Memory counted for clients.
    held: Mutex<Vec<HeldMemory>>,
    /// Memory that is never released.
    filled: Mutex<Vec<u8>>,
}

impl Plugin for Misbehaving {
    fn start(host: Host, settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
        if settings.contains("refuse") {
            return Err(Failure::server("told to refuse"));
        }
        assert!(!settings.contains("panic"), "told to panic");
        // `{"linger":300}`: milliseconds.
        let linger = settings.split_once("\"linger\":").map(|(_, rest)| rest.trim_end_matches('}'));
        if let Some(millis) = linger.and_then(|millis| millis.trim().parse().ok()) {
            std::thread::sleep(Duration::from_millis(millis));
        }
        host.log(LogLevel::Info, "misbehaving from now on");
        Ok(Self { settings: settings.to_owned(), ..Self::default() })
    }

    fn stop(&self) {
        assert!(!self.settings.contains("crash at stop"), "told to panic at stop");
    }
}

fn table() -> Table<Misbehaving> {
    Table::new("bad", "0.1")
        .capabilities(&[Capability::ReadNode])
        .read("bad_echo", &["text"], "Returns its argument.", echo)
        .method("bad_panic", &[], "Panics before its first answer.", panic_at_once)
        .method("bad_panicLater", &[], "Panics after it has waited.", panic_later)
        .method("bad_panicInDrop", &[], "Panics when it is cancelled.", panic_in_drop)
        .method("bad_abort", &[], "Aborts its process.", abort)
        .method("bad_loop", &[], "Computes for ever.", endless)
        .method("bad_fill", &["mebibytes"], "Takes memory and keeps it.", fill)
        .method("bad_log", &["lines"], "Writes to the log.", write_log)
        .method("bad_never", &[], "Never answers.", never)
        .slow_method("bad_neverSlow", &[], "Never answers, and is slow.", never)
        .slow_method("bad_slow", &[], "Answers, and is slow.", slow)
        .read("bad_sleep", &["millis"], "Answers after a while.", sleep)
        .read("bad_version", &[], "Requests the node's version.", version)
        .method("bad_greedy", &[], "Sends a request that it was not granted.", greedy)
        .method("bad_keep", &[], "Keeps its context beyond the call.", keep)
        .method("bad_useKept", &[], "Uses the context that was kept.", use_kept)
        .read("bad_namespaces", &[], "Returns the namespaces that its caller may use.", namespaces)
        .read("bad_timeLeft", &[], "Returns whether there is a deadline.", time_left)
        .read("bad_client", &[], "Returns the client's number.", client)
        .method("bad_hold", &["bytes"], "Keeps this many bytes for its caller.", hold)
        .method("bad_release", &[], "Releases what it kept.", release)
        .read("bad_dropped", &[], "Returns how many calls were dropped before their end.", dropped)
        .method("bad_unwritable", &[], "Returns a value that has no JSON form.", unwritable)
        .subscription("count", count)
        .subscription("flood", flood)
        .subscription("progress", progress)
        .subscription("refuse", refuse)
        .subscription("panic", panic_in_stream)
        .subscription("silent", silent)
}

tenon_sdk::export!(Misbehaving, table);

type Result_<T> = Result<T, Failure>;

async fn echo(_context: Context<Misbehaving>, text: String) -> Result_<String> {
    Ok(text)
}

async fn panic_at_once(_context: Context<Misbehaving>) -> Result_<()> {
    panic!("on purpose, at once")
}

async fn panic_later(context: Context<Misbehaving>) -> Result_<()> {
    context.sleep(Duration::from_millis(1)).await;
    panic!("on purpose, later")
}

async fn panic_in_drop(_context: Context<Misbehaving>) -> Result_<()> {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose, while being dropped")
        }
    }
    let _bomb = Bomb;
    pending().await
}

/// Counts its drops.
struct CountDrop(Arc<AtomicU64>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

async fn abort(_context: Context<Misbehaving>) -> Result_<()> {
    std::process::abort()
}

async fn endless(context: Context<Misbehaving>) -> Result_<u64> {
    let mut turns = 0_u64;
    // Another thread could change it, as far as the compiler knows.
    while context.dropped.load(Ordering::Relaxed) < u64::MAX {
        turns = turns.wrapping_add(1);
    }
    Ok(turns)
}

async fn fill(context: Context<Misbehaving>, mebibytes: Number) -> Result_<usize> {
    let size = usize::try_from(mebibytes.0).unwrap_or_default() << 20;
    let mut filled = context.filled.lock().unwrap_or_else(PoisonError::into_inner);
    filled.extend(std::iter::repeat_n(1, size));
    Ok(filled.len())
}

async fn write_log(context: Context<Misbehaving>, lines: Number) -> Result_<u64> {
    for line in 0..lines.0 {
        context.host().log(LogLevel::Info, &format!("line {line}"));
    }
    Ok(lines.0)
}

async fn never(context: Context<Misbehaving>) -> Result_<()> {
    let _count = CountDrop(context.dropped.clone());
    pending().await
}

async fn slow(_context: Context<Misbehaving>) -> Result_<bool> {
    Ok(true)
}

async fn sleep(context: Context<Misbehaving>, millis: Number) -> Result_<u64> {
    context.sleep(Duration::from_millis(millis.0)).await;
    Ok(millis.0)
}

async fn version(context: Context<Misbehaving>) -> Result_<String> {
    context.call(GetClientVersion).await
}

async fn greedy(context: Context<Misbehaving>) -> Result_<()> {
    context.call(SetHead { number: BlockNumber(0) }).await
}

async fn keep(context: Context<Misbehaving>) -> Result_<bool> {
    *context.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.clone());
    Ok(true)
}

async fn use_kept(context: Context<Misbehaving>) -> Result_<String> {
    let kept = context.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
    kept.ok_or_else(|| Failure::server("nothing was kept"))?.call(GetClientVersion).await
}

async fn namespaces(context: Context<Misbehaving>) -> Result_<Option<Vec<String>>> {
    Ok(context.namespaces().map(|names| names.map(str::to_owned).collect()))
}

async fn time_left(context: Context<Misbehaving>) -> Result_<bool> {
    Ok(context.time_left().is_some())
}

async fn client(context: Context<Misbehaving>) -> Result_<u64> {
    Ok(context.client())
}

async fn hold(context: Context<Misbehaving>, bytes: Number) -> Result_<bool> {
    let held = context.hold(usize::try_from(bytes.0).unwrap_or(usize::MAX))?;
    context.held.lock().unwrap_or_else(PoisonError::into_inner).push(held);
    Ok(true)
}

async fn release(context: Context<Misbehaving>) -> Result_<bool> {
    context.held.lock().unwrap_or_else(PoisonError::into_inner).clear();
    Ok(true)
}

async fn dropped(context: Context<Misbehaving>) -> Result_<u64> {
    Ok(context.dropped.load(Ordering::Relaxed))
}

async fn unwritable(_context: Context<Misbehaving>) -> Result_<RawJson> {
    Ok(RawJson("{\"unfinished\":".to_owned()))
}

async fn count(_context: Context<Misbehaving>, sink: Sink, to: Number) -> Result_<()> {
    sink.accept().await;
    for number in 0..to.0 {
        sink.send(&number).await?;
    }
    Ok(())
}

async fn flood(context: Context<Misbehaving>, sink: Sink) -> Result_<()> {
    let _count = CountDrop(context.dropped.clone());
    loop {
        sink.send("water").await?;
    }
}

async fn progress(context: Context<Misbehaving>, sink: Sink) -> Result_<()> {
    let mut events = context.events::<SyncChanged>();
    sink.accept().await;
    while let Some(delivery) = events.next().await? {
        match delivery {
            Delivery::Event(event) => sink.send(&event.status.map(|status| status.current.0)).await?,
            Delivery::Missed(missed) => sink.send(&format!("missed {missed}")).await?,
        }
    }
    Ok(())
}

async fn refuse(_context: Context<Misbehaving>, _sink: Sink) -> Result_<()> {
    Err(Failure::invalid_params("not today"))
}

async fn panic_in_stream(_context: Context<Misbehaving>, sink: Sink) -> Result_<()> {
    sink.accept().await;
    panic!("on purpose, in a stream")
}

async fn silent(context: Context<Misbehaving>, sink: Sink) -> Result_<()> {
    let _count = CountDrop(context.dropped.clone());
    sink.accept().await;
    pending().await
}
