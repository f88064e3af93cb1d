//! Profiles of the node's process, written into the first folder for requests (`messages/debug.rs`, 0x090f;
//! `docs/spec/rpc-node.md` 4.5).
//!
//! A signal samples processor use, the allocator reports memory, and waits and spans are counted where they happen
//! (`tenon_bus::waits`, `tenon_bus::spans`). One recording of a kind runs at a time; all end with their caller or after
//! a maximum time, and their memory is limited.

mod cpu;
mod error;
mod limits;
mod pprof_file;
mod trace_events;
mod wait_profile;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::NamedTempFile;
use tenon_api::messages::{ProfileStep, RecordProfile};
use tenon_api::{BusError, RecordingKind, RecordingRefusal};
use tenon_bus::waits::{self, WaitKind};
use tenon_bus::{Bus, CallContext, RegisterError, spans};

use crate::chain_files::RequestFolders;
use cpu::CpuRecording;
use error::ProfileError;
use limits::{MAX_PROFILE, MAX_SECONDS};

/// The recordings of this process.
struct Profiles {
    folders: RequestFolders,
    /// Locked to start or end a recording; nothing awaits under it.
    running: Mutex<Running>,
    /// Number of timed steps that sample waits of mailboxes and queues, and of locks.
    timed_blocking: AtomicUsize,
    timed_locks: AtomicUsize,
}

#[derive(Default)]
struct Running {
    cpu: Option<Recording<CpuRecording>>,
    /// The bus keeps the spans.
    spans: Option<Recording<()>>,
    /// Number of the newest recording.
    newest: u64,
}

/// A running recording.
struct Recording<T> {
    number: u64,
    file: String,
    value: T,
}

/// Takes the recording with this number, or any, and the path of its file.
///
/// # Errors
/// If there is none, or its file's path is no longer allowed; the recording continues then.
fn take_placed<T>(
    running: &mut Option<Recording<T>>,
    number: Option<u64>,
    folders: &RequestFolders,
    kind: RecordingKind,
) -> Result<(Recording<T>, PathBuf), ProfileError> {
    let is_it = |recording: &&Recording<T>| number.is_none_or(|number| number == recording.number);
    let found = running.as_ref().filter(is_it).ok_or(RecordingRefusal::NotRunning(kind))?;
    let path = folders.for_profile(&found.file)?;
    let recording = running.take().ok_or(RecordingRefusal::NotRunning(kind))?;
    Ok((recording, path))
}

/// Answers [`RecordProfile`].
///
/// # Errors
/// [`RegisterError`] if another module already answers it.
pub(crate) fn register(bus: &Bus, folders: RequestFolders) -> Result<(), RegisterError> {
    let profiles = Arc::new(Profiles {
        folders,
        running: Mutex::default(),
        timed_blocking: AtomicUsize::new(0),
        timed_locks: AtomicUsize::new(0),
    });
    bus.handle(move |request: RecordProfile, _: CallContext| {
        let profiles = Arc::clone(&profiles);
        async move { profiles.run(request.step).await.map_err(BusError::from) }
    })
}

impl Profiles {
    async fn run(self: Arc<Self>, step: ProfileStep) -> Result<(), ProfileError> {
        match step {
            ProfileStep::StartCpu { file } => {
                let number = self.start_cpu(file)?;
                self.stop_later(number);
                Ok(())
            }
            ProfileStep::StopCpu => self.stop_cpu(None).await,
            ProfileStep::Cpu { file, seconds } => {
                let seconds = pause(seconds)?;
                let number = self.start_cpu(file)?;
                let _ended = EndsWithCaller { profiles: &self, number };
                tokio::time::sleep(seconds).await;
                self.stop_cpu(Some(number)).await
            }
            ProfileStep::WriteHeap { file } => self.write_heap(&file).await,
            ProfileStep::StartSpans { file } => {
                let number = self.start_spans(file)?;
                self.stop_later(number);
                Ok(())
            }
            ProfileStep::StopSpans => self.stop_spans(None).await,
            ProfileStep::Spans { file, seconds } => {
                let seconds = pause(seconds)?;
                let number = self.start_spans(file)?;
                let _ended = EndsWithCaller { profiles: &self, number };
                tokio::time::sleep(seconds).await;
                self.stop_spans(Some(number)).await
            }
            step => self.run_waits(step).await,
        }
    }

    /// The steps that concern waits.
    async fn run_waits(&self, step: ProfileStep) -> Result<(), ProfileError> {
        match step {
            ProfileStep::SetBlockingRate { nanoseconds } => waits::set_blocking_rate(nanoseconds),
            ProfileStep::SetLockFraction { fraction } => waits::set_lock_fraction(fraction),
            ProfileStep::WriteBlocking { file } => self.write_waits(WaitKind::Blocking, &file).await?,
            ProfileStep::WriteLocks { file } => self.write_waits(WaitKind::Lock, &file).await?,
            ProfileStep::Blocking { file, seconds } => {
                let seconds = pause(seconds)?;
                self.folders.for_profile(&file)?;
                let sampled = SampledWaits::start(&self.timed_blocking, waits::set_blocking_rate);
                tokio::time::sleep(seconds).await;
                drop(sampled);
                self.write_waits(WaitKind::Blocking, &file).await?;
            }
            ProfileStep::Locks { file, seconds } => {
                let seconds = pause(seconds)?;
                self.folders.for_profile(&file)?;
                let sampled = SampledWaits::start(&self.timed_locks, waits::set_lock_fraction);
                tokio::time::sleep(seconds).await;
                drop(sampled);
                self.write_waits(WaitKind::Lock, &file).await?;
            }
            _ => {}
        }
        Ok(())
    }

    fn start_cpu(&self, file: String) -> Result<u64, ProfileError> {
        let mut running = self.running.lock();
        if running.cpu.is_some() {
            return Err(RecordingRefusal::Running(RecordingKind::Cpu).into());
        }
        self.folders.for_profile(&file)?;
        let value = CpuRecording::start()?;
        running.newest += 1;
        let number = running.newest;
        running.cpu = Some(Recording { number, file, value });
        Ok(number)
    }

    /// Ends a recording and writes its file: the one with this number, or any.
    async fn stop_cpu(&self, number: Option<u64>) -> Result<(), ProfileError> {
        let (recording, path) = take_placed(&mut self.running.lock().cpu, number, &self.folders, RecordingKind::Cpu)?;
        in_background(move || write(&path, &recording.value.finish()?)).await
    }

    fn start_spans(&self, file: String) -> Result<u64, ProfileError> {
        let mut running = self.running.lock();
        if running.spans.is_some() {
            return Err(RecordingRefusal::Running(RecordingKind::Spans).into());
        }
        self.folders.for_profile(&file)?;
        if !spans::start_recording() {
            return Err(RecordingRefusal::Running(RecordingKind::Spans).into());
        }
        running.newest += 1;
        let number = running.newest;
        running.spans = Some(Recording { number, file, value: () });
        Ok(number)
    }

    /// As [`Profiles::stop_cpu`].
    async fn stop_spans(&self, number: Option<u64>) -> Result<(), ProfileError> {
        let kind = RecordingKind::Spans;
        let (_, path) = take_placed(&mut self.running.lock().spans, number, &self.folders, kind)?;
        let spans = spans::stop_recording().ok_or(RecordingRefusal::NotRunning(kind))?;
        in_background(move || write(&path, &trace_events::encode(&spans).map_err(ProfileError::Trace)?)).await
    }

    /// Ends a recording at its maximum time.
    fn stop_later(self: &Arc<Self>, number: u64) {
        let profiles = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(MAX_SECONDS)).await;
            let Some(profiles) = profiles.upgrade() else { return };
            let (is_cpu, is_spans) = {
                let running = profiles.running.lock();
                let is_it = |found: Option<u64>| found == Some(number);
                (is_it(running.cpu.as_ref().map(|it| it.number)), is_it(running.spans.as_ref().map(|it| it.number)))
            };
            let written = match (is_cpu, is_spans) {
                (true, _) => profiles.stop_cpu(Some(number)).await,
                (_, true) => profiles.stop_spans(Some(number)).await,
                _ => return,
            };
            match written {
                Ok(()) => tracing::warn!(seconds = MAX_SECONDS, "profile reached its maximum duration and was written"),
                Err(error) => tracing::warn!(%error, "profile reached its maximum duration and was lost"),
            }
        });
    }

    async fn write_waits(&self, kind: WaitKind, file: &str) -> Result<(), ProfileError> {
        let path = self.folders.for_profile(file)?;
        in_background(move || {
            let profile = wait_profile::encode(&waits::totals(kind)).map_err(ProfileError::Packing)?;
            write(&path, &profile)
        })
        .await
    }

    async fn write_heap(&self, file: &str) -> Result<(), ProfileError> {
        let path = self.folders.for_profile(file)?;
        let Some(profiler) = jemalloc_pprof::PROF_CTL.as_ref() else {
            return Err(ProfileError::HeapProfilingOff);
        };
        let mut profiler = Arc::clone(profiler).lock_owned().await;
        in_background(move || {
            let profile = profiler.dump_pprof();
            write(&path, &profile.map_err(|error| ProfileError::Allocator { reason: error.to_string() })?)
        })
        .await
    }
}

/// Ends a recording without a file if its caller leaves during a timed step. Does nothing if the recording has already
/// been stopped.
struct EndsWithCaller<'a> {
    profiles: &'a Profiles,
    number: u64,
}

impl Drop for EndsWithCaller<'_> {
    fn drop(&mut self) {
        let mut running = self.profiles.running.lock();
        running.cpu.take_if(|recording| recording.number == self.number);
        if running.spans.take_if(|recording| recording.number == self.number).is_some() {
            spans::stop_recording();
        }
    }
}

/// Samples all waits of a kind during a timed step. The last of several steps ends the sampling, even if its caller has
/// left.
struct SampledWaits<'a> {
    steps: &'a AtomicUsize,
    set: fn(i64),
}

impl<'a> SampledWaits<'a> {
    fn start(steps: &'a AtomicUsize, set: fn(i64)) -> Self {
        steps.fetch_add(1, Ordering::SeqCst);
        set(1);
        Self { steps, set }
    }
}

impl Drop for SampledWaits<'_> {
    fn drop(&mut self) {
        if self.steps.fetch_sub(1, Ordering::SeqCst) == 1 {
            (self.set)(0);
        }
    }
}

fn pause(seconds: u64) -> Result<Duration, ProfileError> {
    if seconds > MAX_SECONDS {
        return Err(ProfileError::PauseTooLong { seconds });
    }
    Ok(Duration::from_secs(seconds))
}

/// Runs slow work on a blocking thread.
async fn in_background(work: impl FnOnce() -> Result<(), ProfileError> + Send + 'static) -> Result<(), ProfileError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or(Err(ProfileError::Crashed))
}

/// Replaces a file atomically. A link at its path is replaced, not followed.
fn write(path: &Path, content: &[u8]) -> Result<(), ProfileError> {
    if content.len() > MAX_PROFILE {
        return Err(ProfileError::TooLarge);
    }
    let named = |error| ProfileError::Write { path: path.to_owned(), error };
    let folder: PathBuf = path.parent().map(Path::to_path_buf).unwrap_or_default();
    fs::create_dir_all(&folder).map_err(named)?;
    let mut file = NamedTempFile::new_in(&folder).map_err(named)?;
    file.write_all(content).map_err(named)?;
    file.persist(path).map_err(|error| named(error.error))?;
    tracing::info!(path = %path.display(), bytes = content.len(), "profile written");
    Ok(())
}

#[cfg(test)]
mod tests;
