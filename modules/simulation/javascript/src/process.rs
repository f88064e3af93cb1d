//! The node's side: processes for scripts, their number, and the conversation with one.

use std::{
    io,
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt},
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::WholeBalance;

use crate::{
    child,
    interface::ScriptInterface,
    link::{Link, MAX_MESSAGE},
    protocol::{AccountQuery, Event, Failed, Opening, Reply, Request, RunFacts, ScriptError},
};

/// Memory of a process in addition to its script's heap, bytes: the program, messages, mirrors of EVM memory.
pub(crate) const OVERHEAD: u64 = 64 << 20;
/// Interval at which a waiting node checks whether its caller has disconnected.
const CHECK_PERIOD: Duration = Duration::from_millis(20);
/// Time after the deadline in which the process can report the timeout itself, before it is killed.
const GRACE: Duration = Duration::from_millis(250);
/// Maximum wait for a process to accept a message.
const MAX_WRITE: Duration = Duration::from_secs(5);
/// Maximum wait for a killed process to end. For one that takes longer, another thread waits.
const MAX_END: Duration = Duration::from_millis(200);
/// Stack of the thread that runs scripts if they have no process.
const THREAD_STACK: usize = 8 << 20;

/// Where scripts run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A program that calls [`run_script_child`](crate::run_script_child), with these arguments.
    Child(PathBuf, Vec<String>),
    /// A thread of this process: without a sandbox, for tests and for platforms that have none.
    Thread,
}

/// Settings of scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptOptions {
    /// Where they run.
    pub program: Program,
    /// Heap of a script, bytes.
    pub memory: u64,
    /// Maximum number of concurrent scripts.
    pub max: usize,
    /// Whether to refuse scripts if the kernel does not support the whole sandbox.
    pub needs_sandbox: bool,
}

impl ScriptOptions {
    /// Scripts run in processes of this program with the argument `script-child`, and a mandatory sandbox.
    pub fn in_processes(memory: u64, max: usize) -> Self {
        // Not the path of the program, where a newer build may be by now.
        let program = Program::Child(PathBuf::from("/proc/self/exe"), vec!["script-child".to_owned()]);
        Self { program, memory, max, needs_sandbox: true }
    }

    /// Scripts run in threads of this process.
    pub const fn in_threads(memory: u64, max: usize) -> Self {
        Self { program: Program::Thread, memory, max, needs_sandbox: false }
    }
}

/// Starts scripts, and limits their number. Clones share the limit.
#[derive(Clone, Debug)]
pub struct ScriptHost {
    options: Arc<ScriptOptions>,
    running: Arc<AtomicUsize>,
}

impl ScriptHost {
    /// A host that runs no script yet.
    pub fn new(options: ScriptOptions) -> Self {
        Self { options: Arc::new(options), running: Arc::default() }
    }

    /// Maximum memory of one script with its process, bytes.
    pub fn memory_of_one(&self) -> u64 {
        self.options.memory.saturating_add(OVERHEAD)
    }

    /// Number of processes that are running.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    fn permit(&self) -> Result<Permit, ScriptError> {
        let max = self.options.max;
        if max == 0 {
            return Err(ScriptError::SwitchedOff);
        }
        let more = |running: usize| (running < max).then_some(running + 1);
        let taken = self.running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map(|_| Permit(Arc::clone(&self.running))).map_err(|_| ScriptError::TooMany { max })
    }
}

/// A place among the concurrent processes.
#[derive(Debug)]
struct Permit(Arc<AtomicUsize>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A process that waits for the next script of the same request.
struct Process {
    link: Link,
    child: Option<Child>,
    _permit: Permit,
}

impl Process {
    fn spawn(host: &ScriptHost) -> Result<Self, ScriptError> {
        let permit = host.permit()?;
        let failed = |error: io::Error| ScriptError::Spawn(error.to_string());
        let (socket, theirs) = UnixStream::pair().map_err(failed)?;
        socket.set_write_timeout(Some(MAX_WRITE)).map_err(failed)?;
        let child = match &host.options.program {
            Program::Child(path, arguments) => {
                let mut command = Command::new(path);
                command.arg0("tenon").args(arguments).env_clear().current_dir("/");
                // A process group of its own, so that terminal signals reach only the node.
                command.process_group(0).stdin(Stdio::from(OwnedFd::from(theirs)));
                Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(failed)?)
            }
            Program::Thread => {
                let worker = thread::Builder::new().name("script".to_owned()).stack_size(THREAD_STACK);
                worker.spawn(move || child::serve(theirs, |_| None)).map_err(failed)?;
                None
            }
        };
        let mut link = Link::new(socket);
        link.limit(host.options.memory);
        link.set_check_interval(CHECK_PERIOD).map_err(failed)?;
        Ok(Self { link, child, _permit: permit })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ends the thread that runs scripts.
        let _ = self.link.socket().shutdown(std::net::Shutdown::Both);
        let Some(mut child) = self.child.take() else { return };
        // Fails only if it has ended already; it is collected either way.
        let _ = child.kill();
        let deadline = Instant::now() + MAX_END;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                // If no thread can be started, the process remains a zombie until the node ends.
                let _ = thread::Builder::new().name("collector".to_owned()).spawn(move || child.wait());
                return;
            }
            thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Keeps a process between the traces of one request, all of which run the same script. Clones share it.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("ScriptSlot {{ .. }}")]
pub struct ScriptSlot(Arc<Mutex<Option<Process>>>);

impl ScriptSlot {
    fn take(&self) -> Option<Process> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep(&self, process: Process) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
    }
}

/// The start parameters of a script.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    /// An expression whose value is the tracer.
    pub source: &'a str,
    /// JSON text for `setup`.
    pub config: &'a str,
    /// What the script sees.
    pub interface: ScriptInterface,
    /// Addresses of the precompiled contracts in force.
    pub precompiles: Vec<Address>,
}

/// Limits of the node's wait for a script.
#[derive(derive_more::Debug)]
#[debug("Waiting({deadline:?})")]
pub struct Waiting {
    /// Deadline of the trace.
    pub deadline: Instant,
    /// Returns whether the caller has disconnected. Called many times a second while the script runs; may block.
    pub should_stop: Box<dyn Fn() -> bool + Send>,
}

impl Waiting {
    /// Returns an error if the script must end now.
    fn check(&self) -> Result<(), ScriptError> {
        // Read before `should_stop`, which may block: a reply can arrive meanwhile.
        let now = Instant::now();
        if (self.should_stop)() {
            return Err(ScriptError::CallerGone);
        }
        if now >= self.deadline + GRACE { Err(ScriptError::TimedOut) } else { Ok(()) }
    }
}

/// Answers questions about accounts; `None` if the database failed.
pub trait State {
    /// The account's balance, wei.
    fn balance(&mut self, address: Address) -> Option<WholeBalance>;
    /// The account's nonce.
    fn nonce(&mut self, address: Address) -> Option<u64>;
    /// The account's code.
    fn code(&mut self, address: Address) -> Option<Bytes>;
    /// A slot of the account.
    fn slot(&mut self, address: Address, slot: B256) -> Option<B256>;
    /// Whether there is such an account.
    fn exists(&mut self, address: Address) -> Option<bool>;
}

/// A script that is running. Dropping it ends its process, unless it has finished.
#[derive(derive_more::Debug)]
#[debug("Script({waiting:?})")]
pub struct Script {
    /// `None` after a failure that the process does not survive.
    process: Option<Process>,
    slot: ScriptSlot,
    waiting: Waiting,
    wants_steps: bool,
    wants_frames: bool,
}

impl Script {
    /// Starts a script in the slot's process, or in a new one.
    ///
    /// # Errors
    /// The script cannot be compiled, or no process can be started.
    pub fn start(
        host: &ScriptHost,
        slot: &ScriptSlot,
        start: Start<'_>,
        waiting: Waiting,
    ) -> Result<Self, ScriptError> {
        let process = match slot.take() {
            Some(process) => process,
            None => Process::spawn(host)?,
        };
        let left = waiting.deadline.saturating_duration_since(Instant::now());
        let opening = Opening {
            source: start.source.to_owned(),
            config: start.config.to_owned(),
            interface: start.interface,
            precompiles: start.precompiles,
            memory: host.options.memory,
            millis: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            needs_sandbox: host.options.needs_sandbox,
        };
        let slot = slot.clone();
        let mut script = Self { process: Some(process), slot, waiting, wants_steps: true, wants_frames: true };
        match script.ask(&Request::Start(Box::new(opening)), &mut NoState)? {
            Reply::Ready { wants_steps, wants_frames } => {
                (script.wants_steps, script.wants_frames) = (wants_steps, wants_frames);
                Ok(script)
            }
            _ => Err(script.broken("it violated the protocol")),
        }
    }

    /// Whether the script has a function for steps.
    pub const fn wants_steps(&self) -> bool {
        self.wants_steps
    }

    /// Whether the script has functions for inner frames.
    pub const fn wants_frames(&self) -> bool {
        self.wants_frames
    }

    /// Sends events to the script, and waits until it has handled them.
    ///
    /// # Errors
    /// The script failed; it gets no more events.
    pub fn handle(&mut self, events: Vec<Event>, state: &mut dyn State) -> Result<(), ScriptError> {
        match self.ask(&Request::Events(events), state)? {
            Reply::Done => Ok(()),
            _ => Err(self.broken("it violated the protocol")),
        }
    }

    /// The JSON text of the script's result.
    ///
    /// # Errors
    /// The script failed.
    pub fn finish(&mut self, run: RunFacts, state: &mut dyn State) -> Result<String, ScriptError> {
        match self.ask(&Request::Finish(Box::new(run)), state)? {
            Reply::Result(json) => {
                let text = String::from_utf8(json.into()).map_err(|_| self.broken("its result is not UTF-8"))?;
                self.rest();
                Ok(text)
            }
            _ => Err(self.broken("it violated the protocol")),
        }
    }

    /// Returns the process to the slot, for the next script.
    fn rest(&mut self) {
        if let Some(process) = self.process.take() {
            self.slot.keep(process);
        }
    }

    /// Ends the process.
    fn broken(&mut self, reason: &str) -> ScriptError {
        self.process = None;
        ScriptError::Ended(reason.to_owned())
    }

    /// Sends a request, answers questions about accounts, and returns the final reply.
    fn ask(&mut self, request: &Request, state: &mut dyn State) -> Result<Reply, ScriptError> {
        let outcome = self.converse(request, state);
        match outcome {
            Ok(Reply::Failed(failed)) => {
                self.rest();
                Err(match failed {
                    Failed::Message(text) => ScriptError::Script(text),
                    Failed::TimedOut => ScriptError::TimedOut,
                })
            }
            Ok(reply) => Ok(reply),
            Err(error) => {
                self.process = None;
                Err(error)
            }
        }
    }

    fn converse(&mut self, request: &Request, state: &mut dyn State) -> Result<Reply, ScriptError> {
        let Some(process) = &mut self.process else {
            return Err(ScriptError::Ended("an earlier request failed".to_owned()));
        };
        let link = &mut process.link;
        link.send(request).map_err(broken_socket)?;
        let mut looked = Instant::now();
        loop {
            let reply = match link.receive::<Reply>() {
                Ok(reply) => reply,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    self.waiting.check()?;
                    looked = Instant::now();
                    continue;
                }
                Err(error) => return Err(broken_socket(error)),
            };
            let Reply::Query { query, address, slot } = reply else { return Ok(reply) };
            // `receive` never times out if the script asks without pause, so the caller is checked here too.
            if looked.elapsed() >= CHECK_PERIOD {
                self.waiting.check()?;
                looked = Instant::now();
            }
            let answer = answer(query, address, slot, state);
            let has_failed = answer.is_none();
            link.send(&Request::Answer(answer)).map_err(broken_socket)?;
            if has_failed {
                return Err(ScriptError::State);
            }
        }
    }
}

fn broken_socket(error: io::Error) -> ScriptError {
    ScriptError::Ended(match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            "it exceeded its memory limit or crashed".to_owned()
        }
        _ => error.to_string(),
    })
}

fn answer(query: AccountQuery, address: Address, slot: B256, state: &mut dyn State) -> Option<Bytes> {
    let word = |word: U256| Bytes::from(word.to_be_bytes::<32>());
    match query {
        AccountQuery::Balance => state.balance(address).map(|whole| Bytes::from(whole.to_be_bytes_trimmed_vec())),
        AccountQuery::Nonce => state.nonce(address).map(|nonce| word(U256::from(nonce))),
        AccountQuery::Code => state.code(address),
        AccountQuery::Slot => state.slot(address, slot).map(|value| Bytes::from(value.0)),
        AccountQuery::Exists => state.exists(address).map(|exists| Bytes::from(vec![u8::from(exists)])),
    }
}

/// A state for scripts before anything runs.
struct NoState;

impl State for NoState {
    fn balance(&mut self, _: Address) -> Option<WholeBalance> {
        None
    }

    fn nonce(&mut self, _: Address) -> Option<u64> {
        None
    }

    fn code(&mut self, _: Address) -> Option<Bytes> {
        None
    }

    fn slot(&mut self, _: Address, _: B256) -> Option<B256> {
        None
    }

    fn exists(&mut self, _: Address) -> Option<bool> {
        None
    }
}

/// Size of the events that are sent to a script together, in bytes.
pub const BATCH_BYTES: usize = MAX_MESSAGE / 64;
