//! Starts a plugin's process, up to the moment when it serves. Blocks, with time limits.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStrExt,
            net::UnixStream,
            process::{CommandExt, ExitStatusExt},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use tenon_host::{CheckedLibrary, Manifest};
use tenon_sdk::Failure;

use crate::{
    IsolationOptions,
    manifest_frame::{ManifestError, read_manifest},
    wire::{Frame, FrameBuffer, Kind, WireError, put_bytes, put_frame},
};

/// Time limit for the process to map the library.
const OPEN_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for all load cycles of a library together.
const LOAD_CYCLES_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit for a process that has closed its socket to end by itself.
const END_TIMEOUT: Duration = Duration::from_millis(250);
/// Time limit for the system to end a killed process. The process cannot end while it is inside a system call, for
/// example on a disk that does not respond.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a process did not get ready to serve.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    #[error("cannot start {}: {reason}", program.display())]
    Spawn { program: PathBuf, reason: io::Error },
    #[error("its process: {0}")]
    Socket(io::Error),
    #[error("its process ended before it was ready ({0})")]
    Ended(String),
    #[error("its process was not ready within {0:?}")]
    TimedOut(Duration),
    #[error("its process violated the protocol: {0}")]
    Wire(#[from] WireError),
    #[error("its process violated the protocol: {0}")]
    Manifest(#[from] ManifestError),
    /// The child's reason, which names the file.
    #[error("{0}")]
    Refused(String),
}

/// The process itself. Dropping it kills it.
pub(crate) struct ChildProcess {
    id: u32,
    /// `None` once it has been reaped, or another thread waits for it.
    child: Option<Child>,
}

impl ChildProcess {
    fn new(child: Child) -> Self {
        Self { id: child.id(), child: Some(child) }
    }

    pub(crate) const fn id(&self) -> u32 {
        self.id
    }

    /// Gives it a moment to end by itself, then kills it; returns how it ended. Takes at most `timeout` and
    /// [`KILL_TIMEOUT`] together, because callers and the next process wait for this.
    pub(crate) fn end(&mut self, timeout: Duration) -> String {
        let Some(mut child) = self.child.take() else { return "collected before".to_owned() };
        collected(&mut child, timeout).map_or_else(|| kill(child, KILL_TIMEOUT), describe)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            kill(child, KILL_TIMEOUT);
        }
    }
}

/// Kills a process, and describes the outcome. If it does not end in time, a separate thread waits for it.
fn kill(mut child: Child, timeout: Duration) -> String {
    // Fails only if it has ended already; it is reaped either way.
    let _ = child.kill();
    if collected(&mut child, timeout).is_some() {
        return "killed by the node".to_owned();
    }
    tracing::error!(process = child.id(), "a plugin's process was killed, but the system has not removed it");
    // Without a thread it remains a zombie until the node ends.
    let _ = thread::Builder::new().name("collector".to_owned()).spawn(move || child.wait());
    "killed by the node, but not yet removed by the system".to_owned()
}

/// The exit status of a process, if it ends in time.
fn collected(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + timeout;
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
            Ok(status) => return status,
            Err(_) => return None,
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(libc::SIGSEGV), _) => "signal 11, invalid access to memory".to_owned(),
        (Some(libc::SIGABRT), _) => "signal 6, aborted".to_owned(),
        (Some(libc::SIGBUS), _) => "signal 7, bus error".to_owned(),
        (Some(libc::SIGILL), _) => "signal 4, illegal instruction".to_owned(),
        (Some(libc::SIGFPE), _) => "signal 8, arithmetic error".to_owned(),
        (Some(libc::SIGKILL), _) => "signal 9, killed".to_owned(),
        (Some(signal), _) => format!("signal {signal}"),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "for an unknown reason".to_owned(),
    }
}

/// A process that has not started to serve.
pub(crate) struct Process {
    pub(crate) running: ChildProcess,
    pub(crate) socket: UnixStream,
    /// Its standard output and error.
    pub(crate) output: UnixStream,
    pub(crate) buffer: FrameBuffer,
}

/// Message of a process that has mapped the library.
pub(crate) struct Greeting {
    pub(crate) manifest: Manifest,
    /// Gaps of its sandbox, one per line.
    pub(crate) warnings: String,
}

/// Starts a process that maps a library, within [`OPEN_TIMEOUT`] and `timeout`.
pub(crate) fn open(
    library: &CheckedLibrary,
    options: &IsolationOptions,
    timeout: Duration,
) -> Result<(Process, Greeting), ProcessError> {
    let mut process = Process::spawn(&library.path, options).map_err(|reason| {
        let program = options.program.clone();
        ProcessError::Spawn { program, reason }
    })?;
    process.open(library, options, LoadCycles::default())?;
    let greeting = process.wait_for(OPEN_TIMEOUT.min(timeout), |frame| {
        let mut fields = frame.fields();
        match frame.kind {
            Kind::Manifest => {
                let warnings = fields.text()?.to_owned();
                Ok(Some(Greeting { manifest: read_manifest(&mut fields)?, warnings }))
            }
            Kind::Refused => Err(ProcessError::Refused(fields.rest_text()?.to_owned())),
            _ => Err(frame.unexpected().into()),
        }
    })?;
    Ok((process, greeting))
}

/// Number of load cycles for a process that runs them instead of serving, and the methods to call in each.
#[derive(Clone, Copy, Default)]
pub struct LoadCycles<'a> {
    /// Their number.
    pub count: u32,
    /// Numbers of the methods.
    pub methods: &'a [u32],
}

/// Threads and memory of a process before and after it loaded a library many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadCycleUsage {
    /// Threads of the process before the first cycle.
    pub threads_before: u64,
    /// Threads of the process after the last.
    pub threads_after: u64,
    /// Private memory in KiB, after all one-time allocations.
    pub memory_before: u64,
    /// Private memory in KiB after the last cycle.
    pub memory_after: u64,
    /// Whether it was still mapped after it had been unmapped.
    pub is_still_mapped: bool,
}

/// Runs load cycles of a library in a process. Blocks.
///
/// # Errors
/// In which cycle it ended, and how.
pub fn run_load_cycles(
    library: &CheckedLibrary,
    options: &IsolationOptions,
    settings: &str,
    cycles: LoadCycles<'_>,
) -> Result<LoadCycleUsage, String> {
    let mut cycle = 0;
    let outcome = Process::spawn(&library.path, options)
        .map_err(|reason| ProcessError::Spawn { program: options.program.clone(), reason })
        .and_then(|mut process| {
            process.open(library, options, cycles)?;
            process.send_start(settings, &[])?;
            process.wait_for(LOAD_CYCLES_TIMEOUT, |frame| {
                let mut fields = frame.fields();
                match frame.kind {
                    Kind::LoadCycle if frame.id == 0 => Ok(Some(LoadCycleUsage {
                        threads_before: fields.u64()?,
                        threads_after: fields.u64()?,
                        memory_before: fields.u64()?,
                        memory_after: fields.u64()?,
                        is_still_mapped: fields.u64()? != 0,
                    })),
                    Kind::LoadCycle => {
                        cycle = frame.id;
                        Ok(None)
                    }
                    Kind::Refused => Err(ProcessError::Refused(fields.rest_text()?.to_owned())),
                    Kind::Overrun => {
                        let words = format!("it used more than {:?} of processor time", options.processor_time);
                        Err(ProcessError::Refused(words))
                    }
                    _ => Err(frame.unexpected().into()),
                }
            })
        });
    outcome.map_err(|error| format!("at load number {cycle}: {error}"))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Messages of a process during its start, to be handled once it serves.
pub(crate) struct EarlyFrame {
    pub(crate) kind: Kind,
    pub(crate) id: u64,
    pub(crate) body: Vec<u8>,
}

/// Maximum bus requests of a plugin during its start: their number, and their bytes.
const MAX_EARLY: usize = 256;
const MAX_EARLY_BYTES: usize = 4 * 1024 * 1024;

impl Process {
    fn spawn(library: &Path, options: &IsolationOptions) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let (output, their_output) = UnixStream::pair()?;
        let their_output = OwnedFd::from(their_output);
        let child = Command::new(&options.program)
            .arg0("tenon")
            .args(&options.arguments)
            .arg(library)
            .env_clear()
            .current_dir("/")
            // Terminal signals go to the node, which then stops its plugins in order.
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(their_output.try_clone()?))
            .stderr(Stdio::from(their_output))
            .spawn()?;
        Ok(Self { running: ChildProcess::new(child), socket, output, buffer: FrameBuffer::new() })
    }

    /// Starts the plugin in it. The outer error is the process's, the inner one the plugin's.
    pub(crate) fn start(
        &mut self,
        settings: &str,
        handover: &[u8],
        limit: Duration,
        mut log: impl FnMut(u32, &str),
    ) -> Result<Result<Vec<EarlyFrame>, Failure>, ProcessError> {
        self.send_start(settings, handover)?;
        let (mut early, mut early_bytes) = (Vec::new(), 0_usize);
        let started = self.wait_for(limit, |frame| match frame.kind {
            Kind::Started => Ok(Some(frame.fields().reply()?)),
            Kind::Log => {
                log(level(frame.id), &String::from_utf8_lossy(frame.body));
                Ok(None)
            }
            Kind::BusCall | Kind::JsonCall | Kind::BusSubscribe | Kind::BusCancel | Kind::BusCredit => {
                early_bytes += frame.body.len();
                if early.len() >= MAX_EARLY || early_bytes > MAX_EARLY_BYTES {
                    return Err(WireError::TooMuchEarly.into());
                }
                early.push(EarlyFrame { kind: frame.kind, id: frame.id, body: frame.body.to_vec() });
                Ok(None)
            }
            _ => Err(frame.unexpected().into()),
        })?;
        Ok(started.map(|_| early))
    }

    fn open(
        &mut self,
        library: &CheckedLibrary,
        options: &IsolationOptions,
        cycles: LoadCycles<'_>,
    ) -> Result<(), ProcessError> {
        let mut opening = Vec::new();
        put_frame(&mut opening, Kind::Open, 0, |out| {
            out.extend_from_slice(&options.memory.to_le_bytes());
            out.extend_from_slice(&nanos(options.processor_time).to_le_bytes());
            put_bytes(out, library.path.as_os_str().as_bytes());
            put_bytes(out, library.copy.as_os_str().as_bytes());
            put_bytes(out, library.hash.as_bytes());
            out.push(u8::from(options.needs_sandbox));
            out.extend_from_slice(&cycles.count.to_le_bytes());
            cycles.methods.iter().for_each(|method| out.extend_from_slice(&method.to_le_bytes()));
        });
        self.send(&opening)
    }

    fn send_start(&mut self, settings: &str, handover: &[u8]) -> Result<(), ProcessError> {
        let mut start = Vec::new();
        put_frame(&mut start, Kind::Start, 0, |out| {
            put_bytes(out, settings.as_bytes());
            out.extend_from_slice(handover);
        });
        self.send(&start)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), ProcessError> {
        self.socket.set_write_timeout(Some(OPEN_TIMEOUT)).map_err(ProcessError::Socket)?;
        match self.socket.write_all(bytes) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Waits until `take` returns a value.
    fn wait_for<T>(
        &mut self,
        limit: Duration,
        mut take: impl FnMut(Frame<'_>) -> Result<Option<T>, ProcessError>,
    ) -> Result<T, ProcessError> {
        let deadline = Instant::now() + limit;
        loop {
            while let Some(frame) = self.buffer.next()? {
                if let Some(taken) = take(frame)? {
                    return Ok(taken);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ProcessError::TimedOut(limit));
            }
            self.socket.set_read_timeout(Some(left)).map_err(ProcessError::Socket)?;
            match self.socket.read(self.buffer.room()) {
                Ok(0) => return Err(self.broken(ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.buffer.arrived(count),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    /// Prefers the process's exit status and output to the error of a broken socket.
    fn broken(&mut self, error: io::Error) -> ProcessError {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                let how = self.running.end(END_TIMEOUT);
                let mut said = vec![0; 1024];
                let _ = self.output.set_nonblocking(true);
                let count = self.output.read(&mut said).unwrap_or_default();
                said.truncate(count);
                let said = String::from_utf8_lossy(&said);
                let said = said.trim();
                ProcessError::Ended(if said.is_empty() { how } else { format!("{how}; its last output: {said}") })
            }
            _ => ProcessError::Socket(error),
        }
    }
}

/// The level of a line of the log.
pub(crate) fn level(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(5)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    fn sleeping() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    fn is_there(process: u32) -> bool {
        Path::new(&format!("/proc/{process}")).exists()
    }

    #[test]
    fn a_process_that_does_not_end_is_killed_and_its_end_is_reported() {
        let mut running = ChildProcess::new(sleeping());

        assert_eq!(running.end(Duration::ZERO), "killed by the node");
        assert_eq!(running.end(Duration::ZERO), "collected before");

        assert!(!is_there(running.id()));
    }

    #[test]
    fn a_process_that_the_system_holds_is_collected_when_it_ends_without_a_waiter() {
        let child = sleeping();
        let process = child.id();
        // With a timeout of zero it is mostly still running at the only check, like one that the system holds.
        let told = kill(child, Duration::ZERO);

        assert!(told.starts_with("killed by the node"), "{told}");
        while is_there(process) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
