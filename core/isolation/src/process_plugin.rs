//! A plugin in its own process, as seen by the router, and the supervisor that restarts the process.

use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use parking_lot::Mutex;
use tenon_api::{EventPosition, messages::ModuleFaults};
use tenon_bus::{ClientId, ClientMemory, PluginId};
use tenon_host::{
    Backend, BusBackend, Caller, CheckedLibrary, LogLimiter, MAX_LINE, Manifest, NOT_JSON, OpenedPlugin, PROCESS_ENDED,
    PluginCall, PluginInstance, PluginItems, PluginStart,
};
use tenon_sdk::Failure;
use tenon_sdk::boundary::{OwnedBytes, StreamItem};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::UnixStream,
    runtime::Handle,
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    BACKGROUND, IsolationError, IsolationOptions,
    link::{Answer, Ending, Limits, Link},
    process::{self, ChildProcess, EarlyFrame, Greeting, Process, ProcessError},
};

/// Time limit for a process to stop in order.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for a process that closed its socket to end, and for its last output to arrive.
const END_TIMEOUT: Duration = Duration::from_millis(250);
/// Time limit for a plugin to export its state.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// A process is killed if it answers nothing for this many times the processor time of a call, plus a second.
const SILENCE_FACTOR: u32 = 4;

/// Maps a library in a child. Blocks for at most `timeout`.
///
/// # Errors
/// The child's refusal of the library, or why the child could not be started.
pub fn open(
    library: &CheckedLibrary,
    options: &IsolationOptions,
    timeout: Duration,
) -> Result<Box<dyn OpenedPlugin>, IsolationError> {
    let (process, greeting) = process::open(library, options, timeout).map_err(|error| match error {
        ProcessError::Refused(text) => IsolationError::Refused(text),
        other => IsolationError::Process { path: library.path.clone(), reason: other.to_string() },
    })?;
    let Greeting { manifest, warnings } = greeting;
    let (library, options) = (library.clone(), options.clone());
    let warnings = warnings.lines().map(|warning| format!("sandbox: {warning}")).collect();
    Ok(Box::new(ProcessPlugin { process, manifest, warnings, library, options }))
}

/// A library that a child has mapped and not yet started.
struct ProcessPlugin {
    process: Process,
    manifest: Manifest,
    /// Gaps of its sandbox.
    warnings: Vec<String>,
    library: CheckedLibrary,
    options: IsolationOptions,
}

impl OpenedPlugin for ProcessPlugin {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn start(mut self: Box<Self>, start: PluginStart<'_>) -> Result<Box<dyn PluginInstance>, Failure> {
        let runtime = Handle::try_current()
            .map_err(|_| Failure::server("a plugin in a process of its own needs the node's runtime"))?;
        let PluginStart { name, timeout, granted, bus, router, space, memory, settings, handover, .. } = start;
        for warning in &self.warnings {
            tracing::warn!(plugin = name, "{warning}");
        }
        let share = memory.limits().client;
        let frames = memory.client(ClientId::of_plugin(PluginId::of_name(name)));
        let backend = BusBackend::new(name.to_owned(), bus, granted, self.manifest.sends_frames, space)
            .drawing_on(memory)
            .calling_through(router);
        let log_lines = self.options.log_lines;
        // Half of its share: the rest is for the answers to requests already sent.
        let pause_at = self.options.pause_at.min(share / 2);
        let spec = Spec {
            name: name.to_owned(),
            manifest: self.manifest,
            library: self.library,
            options: IsolationOptions { pause_at, ..self.options },
            settings: settings.to_owned(),
            backend: Arc::new(backend),
            log_limiter: Arc::new(LogLimiter::new(log_lines)),
            frames,
        };
        let early = spec.start(&mut self.process, handover, timeout)?;
        let link = spec.link();
        let shared = Arc::new(Shared {
            state: ArcSwap::from_pointee(State::Serving(Arc::clone(&link))),
            process: AtomicU32::new(self.process.running.id()),
            failed: OnceLock::new(),
            warnings: self.warnings,
            log_limiter: Arc::clone(&spec.log_limiter),
            restarts: AtomicU64::new(0),
            last_end: Mutex::default(),
            is_stopping: watch::Sender::new(false),
            backend: Arc::clone(&spec.backend),
        });
        let supervisor = Supervisor { shared: Arc::clone(&shared), spec: Arc::new(spec), restarts: VecDeque::new() };
        runtime.spawn(supervisor.run(self.process, early, link));
        Ok(Box::new(ProcessInstance { shared }))
    }
}

/// Everything needed to restart the process.
struct Spec {
    /// The plugin's name in the host.
    name: String,
    manifest: Manifest,
    library: CheckedLibrary,
    options: IsolationOptions,
    settings: String,
    backend: Arc<dyn Backend>,
    log_limiter: Arc<LogLimiter>,
    /// The plugin's share of the memory budget.
    frames: ClientMemory,
}

impl Spec {
    fn start(&self, process: &mut Process, handover: &[u8], timeout: Duration) -> Result<Vec<EarlyFrame>, Failure> {
        let log = |level, line: &str| self.log_limiter.write(&*self.backend, level, line);
        process
            .start(&self.settings, handover, self.options.start_time.min(timeout), log)
            .map_err(|error| Failure::server(error.to_string()))?
    }

    fn start_again(&self) -> Result<(Process, Vec<EarlyFrame>), Failure> {
        let opened = process::open(&self.library, &self.options, Duration::MAX);
        let (mut process, greeting) = opened.map_err(|error| Failure::server(error.to_string()))?;
        if greeting.manifest != self.manifest {
            return Err(Failure::server("the manifest of the library has changed"));
        }
        let early = self.start(&mut process, &[], Duration::MAX)?;
        Ok((process, early))
    }

    fn link(&self) -> Arc<Link> {
        let IsolationOptions { max_call_time, processor_time, pause_at, end_at, .. } = self.options;
        let max_silence = processor_time.saturating_mul(SILENCE_FACTOR).saturating_add(Duration::from_secs(1));
        Link::new(
            Arc::clone(&self.backend),
            Arc::clone(&self.log_limiter),
            Limits { max_call_time, max_silence, pause_at, end_at },
            self.frames.clone(),
        )
    }

    /// Names the call or subscription that blocked a process.
    fn asked(&self, link: &Link, id: u64) -> String {
        let name = match link.asked(id) {
            Some((false, method)) => self.manifest.methods.get(method as usize).map(|method| method.name.clone()),
            Some((true, BACKGROUND)) => Some("its background work".to_owned()),
            Some((true, kind)) => {
                self.manifest.subscriptions.get(kind as usize).map(|kind| format!("subscription {kind}"))
            }
            None => None,
        };
        name.unwrap_or_else(|| "a call that has ended".to_owned())
    }
}

enum State {
    Serving(Arc<Link>),
    /// Not serving, with the error for callers.
    Down(Failure),
}

/// State shared by the instance and its supervisor.
struct Shared {
    /// Changed by the supervisor only.
    state: ArcSwap<State>,
    /// 0 while there is none.
    process: AtomicU32,
    /// Set once the supervisor has given up.
    failed: OnceLock<String>,
    /// Gaps of its sandbox.
    warnings: Vec<String>,
    log_limiter: Arc<LogLimiter>,
    restarts: AtomicU64,
    /// The reason of its last unexpected end. Nothing awaits under the lock.
    last_end: Mutex<Option<String>>,
    is_stopping: watch::Sender<bool>,
    backend: Arc<dyn Backend>,
}

/// The plugin as seen by the router. Dropping it stops the process.
struct ProcessInstance {
    shared: Arc<Shared>,
}

impl ProcessInstance {
    fn link(&self) -> Result<Arc<Link>, Failure> {
        match &**self.shared.state.load() {
            State::Serving(link) => Ok(Arc::clone(link)),
            State::Down(failure) => Err(failure.clone()),
        }
    }
}

impl PluginInstance for ProcessInstance {
    fn call_plugin<'a>(&'a self, method: u32, params: Option<&str>, caller: &'a Caller) -> PluginCall<'a> {
        let asked = self.link().and_then(|link| link.call_plugin(method, params, caller));
        PluginCall::Remote(async move { checked(asked?.await) }.boxed())
    }

    fn subscribe(&self, kind: u32, params: Option<&str>, caller: &Caller) -> PluginItems {
        let items = match self.link().and_then(|link| link.subscribe(kind, params, caller)) {
            Ok(items) => items,
            Err(failure) => return PluginItems::Remote(stream::iter([Err(failure)]).boxed()),
        };
        // The first item, the acceptance, is empty.
        let items = stream::unfold((items, true), |(mut items, is_first)| async move {
            let item = items.next().await?;
            let (answer, position) = match item {
                Ok((body, position)) => (Ok(body), position),
                Err(failure) => (Err(failure), None),
            };
            let body = if is_first { answer.map(OwnedBytes::from) } else { checked(answer) };
            Some((body.map(|body| StreamItem { body, position }), (items, false)))
        });
        PluginItems::Remote(items.boxed())
    }

    fn export_state(&self) -> Result<Vec<u8>, Failure> {
        self.link()?.export_state(EXPORT_TIMEOUT)
    }

    fn end_events(&self) -> EventPosition {
        self.shared.backend.end_events()
    }

    /// Sent to the process as a subscription ([`BACKGROUND`]) without items, because it runs as long as one and has the
    /// same limits.
    fn background(&self) -> BoxFuture<'_, Result<(), Failure>> {
        let opened = self.link().and_then(|link| link.subscribe(BACKGROUND, None, &Caller::local()));
        async move { opened?.next().await.map_or(Ok(()), |item| item.map(drop)) }.boxed()
    }

    fn process(&self) -> Option<u32> {
        Some(self.shared.process.load(Ordering::Relaxed)).filter(|process| *process != 0)
    }

    fn failure(&self) -> Option<String> {
        self.shared.failed.get().cloned()
    }

    fn warnings(&self) -> Vec<String> {
        self.shared.warnings.clone()
    }

    fn faults(&self) -> ModuleFaults {
        ModuleFaults {
            restarts: self.shared.restarts.load(Ordering::Relaxed),
            last_end: self.shared.last_end.lock().clone(),
            omitted_lines: self.shared.log_limiter.omitted(),
            ..ModuleFaults::default()
        }
    }

    fn held_bytes(&self) -> usize {
        match &**self.shared.state.load() {
            State::Serving(link) => link.held_bytes(),
            State::Down(_) => 0,
        }
    }
}

impl Drop for ProcessInstance {
    fn drop(&mut self) {
        self.shared.backend.stop();
        self.shared.is_stopping.send_replace(true);
    }
}

/// Maximum nesting of arrays and objects in an answer. A trace of calls has two levels for each of a thousand calls.
const MAX_DEPTH: usize = 4096;

/// Returns whether a JSON text nests no deeper than [`MAX_DEPTH`], because clients may parse the answer recursively.
fn is_shallow(json: &[u8]) -> bool {
    let (mut depth, mut deepest, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => depth += 1,
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest <= MAX_DEPTH
}

/// Checks that an answer is JSON, because it goes into a response unchanged.
fn checked(answer: Answer) -> Result<OwnedBytes, Failure> {
    let is_json = |bytes: &[u8]| {
        is_shallow(bytes)
            && std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
    };
    match answer {
        Ok(bytes) if bytes.is_empty() || is_json(&bytes) => Ok(OwnedBytes::from(bytes)),
        Ok(_) => Err(Failure::server(NOT_JSON)),
        Err(mut failure) => {
            failure.data = failure.data.filter(|data| is_json(data.as_bytes()));
            Err(failure)
        }
    }
}

/// Supervises the process, and restarts it when it ends unexpectedly.
struct Supervisor {
    shared: Arc<Shared>,
    spec: Arc<Spec>,
    /// Times of its restarts, within the window.
    restarts: VecDeque<Instant>,
}

impl Supervisor {
    async fn run(mut self, mut process: Process, mut early: Vec<EarlyFrame>, mut link: Arc<Link>) {
        loop {
            let Some(reason) = self.serve(process, early, &link).await else { return };
            self.note_end(&reason);
            match self.start_again(reason).await {
                Some(again) => (process, early) = again,
                None => return,
            }
            link = self.spec.link();
            self.shared.process.store(process.running.id(), Ordering::Relaxed);
            self.shared.state.store(Arc::new(State::Serving(Arc::clone(&link))));
            tracing::info!(plugin = self.name(), process = process.running.id(), "plugin's process is serving again");
        }
    }

    fn name(&self) -> &str {
        &self.spec.name
    }

    fn note_end(&self, reason: &str) {
        *self.shared.last_end.lock() = Some(reason.to_owned());
    }

    /// Waits until the instance is dropped.
    async fn stopped(&self) {
        // An error would mean that the sender is gone, but it is owned here.
        let _ = self.shared.is_stopping.subscribe().wait_for(|is_stopping| *is_stopping).await;
    }

    /// Serves until the process ends, and returns the reason; `None` if it was stopped.
    async fn serve(&self, process: Process, early: Vec<EarlyFrame>, link: &Arc<Link>) -> Option<String> {
        let Process { running, socket, output, buffer } = process;
        let output = tokio::spawn(read_output(output, Arc::clone(&self.spec)));
        let run = async {
            match socket.set_nonblocking(true).and_then(|()| UnixStream::from_std(socket)) {
                Ok(socket) => link.run(socket, buffer, early).await,
                Err(_) => Ending::Closed,
            }
        };
        tokio::pin!(run);
        let (reason, is_stopping) = tokio::select! {
            biased;
            ending = &mut run => (self.explain(ending, running, link, output).await, false),
            () = self.stopped() => {
                link.stop();
                let _ = timeout(STOP_TIMEOUT, run).await;
                let how = end_process(running, END_TIMEOUT).await;
                tracing::debug!(plugin = self.name(), how, "plugin's process has ended");
                ("it was stopped".to_owned(), true)
            }
        };
        self.shared.process.store(0, Ordering::Relaxed);
        let failure = Failure::server(format!("plugin {}{PROCESS_ENDED}: {reason}", self.name()));
        self.shared.state.store(Arc::new(State::Down(failure.clone())));
        link.end(&failure);
        (!is_stopping).then_some(reason)
    }

    /// Reaps the process, and describes its end.
    async fn explain(&self, ending: Ending, running: ChildProcess, link: &Link, output: JoinHandle<()>) -> String {
        let end_time = if ending == Ending::Closed { END_TIMEOUT } else { Duration::ZERO };
        let what = match &ending {
            Ending::Overrun(id) => Some(format!(
                "{} used more than {:?} of processor time",
                self.spec.asked(link, *id),
                self.spec.options.processor_time
            )),
            Ending::Broke(error) => Some(error.to_string()),
            Ending::Unread(bytes) => {
                Some(format!("it did not read the answers to its requests: more than {} MiB were waiting", bytes >> 20))
            }
            Ending::Silent(time) => Some(format!("it did not respond for {time:?}")),
            Ending::Closed => None,
        };
        let how = end_process(running, end_time).await;
        // Log its last output before the line that says how it ended.
        let _ = timeout(END_TIMEOUT, output).await;
        what.unwrap_or(how)
    }

    /// Restarts the process after a pause, within the limit; `None` if it has been stopped or has failed for good.
    async fn start_again(&mut self, mut reason: String) -> Option<(Process, Vec<EarlyFrame>)> {
        let IsolationOptions { restarts, restart_window, first_pause, max_pause, .. } = self.spec.options;
        loop {
            let now = Instant::now();
            self.restarts.retain(|restart| now.saturating_duration_since(*restart) < restart_window);
            let count = u32::try_from(self.restarts.len()).unwrap_or(u32::MAX);
            if count >= restarts {
                self.mark_failed(&reason, count);
                return None;
            }
            let pause = first_pause.saturating_mul(1 << count.min(20)).min(max_pause);
            tracing::error!(plugin = self.name(), reason, ?pause, "plugin's process ended; it is started again");
            let words = format!("plugin {}{PROCESS_ENDED} and is started again: {reason}", self.name());
            self.shared.state.store(Arc::new(State::Down(Failure::server(words))));
            tokio::select! {
                () = sleep(pause) => {}
                () = self.stopped() => return None,
            }
            self.restarts.push_back(Instant::now());
            self.shared.restarts.fetch_add(1, Ordering::Relaxed);
            let spec = Arc::clone(&self.spec);
            match tokio::task::spawn_blocking(move || spec.start_again()).await {
                Ok(Ok(again)) => return Some(again),
                Ok(Err(failure)) => {
                    reason = failure.message;
                    self.note_end(&reason);
                }
                // The runtime is shutting down.
                Err(_) => return None,
            }
        }
    }

    fn mark_failed(&self, reason: &str, restarts: u32) {
        tracing::error!(plugin = self.name(), reason, restarts, "plugin's process keeps ending; the plugin has failed");
        let words = format!("its process ended again after {restarts} restarts: {reason}");
        let failure = Failure::server(format!("plugin {} has failed: {words}", self.name()));
        self.shared.state.store(Arc::new(State::Down(failure)));
        let _ = self.shared.failed.set(words);
    }
}

/// Reaps a process on a thread that may block.
async fn end_process(mut running: ChildProcess, end_time: Duration) -> String {
    let ended = tokio::task::spawn_blocking(move || running.end(end_time)).await;
    ended.unwrap_or_else(|_| "the node is shutting down".to_owned())
}

/// Logs the process' output line by line.
async fn read_output(output: std::os::unix::net::UnixStream, spec: Arc<Spec>) {
    let Ok(output) = output.set_nonblocking(true).and_then(|()| UnixStream::from_std(output)) else { return };
    let mut reader = BufReader::new(output);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line that is too long is cut, not stored.
        let mut part = (&mut reader).take(MAX_LINE as u64);
        match part.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => spec.log_limiter.write(&*spec.backend, 2, &format!("printed: {}", String::from_utf8_lossy(&line))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_json_and_not_deeper_than_a_reader_can_follow() {
        let nested = |depth: usize| Ok([vec![b'['; depth], vec![b']'; depth]].concat());

        assert!(checked(nested(MAX_DEPTH)).is_ok());
        assert_eq!(checked(nested(MAX_DEPTH + 1)).unwrap_err(), Failure::server(NOT_JSON));
        assert_eq!(checked(Ok(b"[1".to_vec())).unwrap_err(), Failure::server(NOT_JSON));
        let brackets = format!("\"\\\"{}\"", "[".repeat(2 * MAX_DEPTH));
        assert!(checked(Ok(brackets.into_bytes())).is_ok(), "brackets in a text nest nothing");
    }
}
