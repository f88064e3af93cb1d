//! The approving program. A helper process runs it, because the service itself is not permitted to start processes. The
//! helper learns the program only at its own start, so that the service cannot make it run another one.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::{
    ProgramEntry, WaitingRequest,
    approval_queue::{ApprovalQueue, ApprovalRequest},
};

/// Exit code of a program that approves.
const APPROVES: i32 = 0;
/// Exit code of a program that refuses. Any other code is no answer.
const REFUSES: i32 = 1;
/// Maximum length of a line between the processes, bytes.
const MAX_LINE: usize = 8 << 20;
/// Interval at which the helper checks whether the program has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A task for the helper.
#[derive(Serialize, Deserialize)]
struct Task {
    /// Standard input of the program.
    input: String,
}

/// Result of a run: the exit code, or `None` if the program did not exit in time.
#[derive(Serialize, Deserialize)]
struct Ended {
    code: Option<i32>,
}

/// The helper process. It is started before the service loses the permission to start processes, and ends with the
/// service.
#[derive(Debug)]
pub struct ProgramHelper {
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl ProgramHelper {
    /// Starts the helper for a program. `command` must call [`help_with_program`] with the arguments added to it.
    ///
    /// # Errors
    /// The system's error.
    pub fn start(mut command: Command, program: &ProgramEntry) -> io::Result<Self> {
        command.arg(program.seconds.to_string()).args(&program.command);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else { return Err(io::ErrorKind::BrokenPipe.into()) };
        Ok(Self { _child: child, input, output: BufReader::new(output) })
    }

    fn run(&mut self, task: &Task) -> io::Result<Ended> {
        let mut line = serde_json::to_vec(task)?;
        line.push(b'\n');
        self.input.write_all(&line)?;
        self.input.flush()?;
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    }
}

/// The approving program. A dedicated thread passes it one request at a time, so that nothing else waits for it,
/// however slow it is and however many requests there are.
#[derive(Clone, Debug)]
pub struct Program {
    asked: Arc<Asked>,
}

#[derive(Debug)]
struct Asked {
    queue: Arc<ApprovalQueue>,
    helper: Arc<Mutex<ProgramHelper>>,
    /// Whether the thread runs. It starts with the first request, because the process is confined before it accepts
    /// one.
    is_started: Mutex<bool>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Asked {
    fn start(&self) -> io::Result<()> {
        let mut is_started = self.is_started.lock();
        if *is_started {
            return Ok(());
        }
        let (queue, helper) = (Arc::clone(&self.queue), Arc::clone(&self.helper));
        std::thread::Builder::new().name("program".to_owned()).spawn(move || answer_all(&queue, &helper))?;
        *is_started = true;
        Ok(())
    }
}

impl Program {
    /// Creates the program that this helper runs.
    pub fn new(helper: ProgramHelper) -> Self {
        let helper = Arc::new(Mutex::new(helper));
        Self { asked: Arc::new(Asked { queue: Arc::default(), helper, is_started: Mutex::default() }) }
    }

    /// Asks the program about a request: approved, refused, or `None` without an answer. Dropping the future withdraws
    /// the request.
    pub(crate) async fn ask(&self, waiting: &WaitingRequest) -> Option<bool> {
        let input = serde_json::to_string(waiting).ok()?;
        let (answer, answered) = oneshot::channel();
        if let Err(error) = self.asked.start() {
            tracing::warn!(%error, "could not start a task for the approving program");
            return None;
        }
        if !self.asked.queue.add(ApprovalRequest { client: waiting.client.clone(), input, answer }) {
            tracing::warn!(
                number = waiting.number,
                "the maximum number of requests is waiting for the approving \
                program"
            );
            return None;
        }
        answered.await.ok().flatten()
    }
}

/// Passes the requests to the program one after the other.
fn answer_all(queue: &ApprovalQueue, helper: &Mutex<ProgramHelper>) {
    while let Some(ApprovalRequest { input, answer, .. }) = queue.next() {
        let ended = helper.lock().run(&Task { input });
        // The receiver is gone if the request has just ended.
        let _ = answer.send(meaning_of(ended));
    }
}

fn meaning_of(ended: io::Result<Ended>) -> Option<bool> {
    match ended {
        Ok(Ended { code: Some(APPROVES) }) => Some(true),
        Ok(Ended { code: Some(REFUSES) }) => Some(false),
        Ok(Ended { code }) => {
            tracing::warn!(?code, "the approving program gave no answer: it must exit with 0 or 1 in time");
            None
        }
        Err(error) => {
            tracing::warn!(%error, "the approving program can't be run");
            None
        }
    }
}

/// Runs a program with its arguments for each request that arrives on standard input, until end of input. Each run may
/// take `seconds`.
///
/// # Errors
/// The system's error.
pub fn help_with_program(command: &[String], seconds: u64) -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    loop {
        let mut line = String::new();
        let read = io::Read::take(&mut input, MAX_LINE as u64).read_line(&mut line)?;
        if read == 0 {
            return Ok(());
        }
        let task: Task = serde_json::from_str(&line)?;
        let code = run(command, seconds, &task.input).unwrap_or_else(|error| {
            tracing::warn!(%error, program = command.first(), "the approving program can't be run");
            None
        });
        serde_json::to_writer(&mut output, &Ended { code })?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
}

fn run(command: &[String], seconds: u64, input: &str) -> io::Result<Option<i32>> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::inherit());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        let text = input.to_owned();
        // A program may exit without reading its input.
        std::thread::spawn(move || drop(stdin.write_all(text.as_bytes())));
    }
    let until = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
