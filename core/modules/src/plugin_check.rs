//! Implements `tenon module check`: tests a plugin as its host would, without a node and without risk.
//!
//! The plugin runs in its own process over a bus without handlers. A check therefore covers a plugin's handling of
//! parameters, panics, threads and memory, and the capabilities that it uses; it cannot tell whether answers are right.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use tenon_api::{
    Capability,
    messages::{LibraryDetails, ModuleInfo},
};
use tenon_bus::{Bus, CallContext};
use tenon_host::{Caller, Exposure, LibraryCache, library_name};
use tenon_isolation::{Isolation, IsolationOptions, LoadCycleUsage, LoadCycles, run_load_cycles};
use tenon_sdk::{Failure, FailureCode};

use crate::{ModuleError, ModuleOptions, ModuleRegister, PluginPlan, low_priority::run_at_low_priority};

/// Number of load cycles (map, start, stop, unmap).
const CYCLES: u32 = 100;
/// Growth of the process' own memory over these cycles that counts as a leak, in KiB. The allocator keeps some.
const MAX_CYCLE_GROWTH_KIB: u64 = 2 * 1024;
/// Number of calls of each method in the test for leaks.
const REPETITIONS: u32 = 500;
/// Growth of resident memory over all repetitions that counts as a leak, in KiB.
const MAX_CALL_GROWTH_KIB: u64 = 16 * 1024;
/// Time limit of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Threads of a plugin's process: the plugin's and the watchdog.
const THREADS: usize = 2;

/// Parameters that every method must accept or reject.
const PARAMETERS: [Option<&str>; 7] = [
    None,
    Some("[]"),
    Some("[null]"),
    Some("[{\"no\":\"such\"},-1,\"0xzz\",[[]],true,1e400,\"\"]"),
    Some("[\"0x1\",\"latest\"]"),
    Some("{}"),
    Some("[1"),
];

/// One check and its problems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was checked, as a statement that should hold.
    pub statement: &'static str,
    /// Violations, one per line; empty if the check passed.
    pub problems: Vec<String>,
}

/// Result of [`check_plugin`].
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// The plugin's own description.
    pub library: LibraryDetails,
    /// The checks, in the order in which they ran.
    pub checks: Vec<Check>,
    /// Threads and memory before and after repeated loading and unloading; `None` if that did not finish.
    pub loads: Option<LoadFigures>,
}

/// Figures of a process before and after repeated load cycles of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadFigures {
    /// Number of cycles.
    pub count: u32,
    /// Threads of the process before the first.
    pub threads_before: u64,
    /// Threads of the process after the last.
    pub threads_after: u64,
    /// Memory of its own after the first ten, KiB.
    pub memory_before: u64,
    /// Memory of its own after the last, KiB.
    pub memory_after: u64,
}

impl CheckReport {
    /// Whether all checks passed.
    pub fn is_passed(&self) -> bool {
        self.checks.iter().all(|check| check.problems.is_empty())
    }
}

/// Checks a plugin, in a process of its own as `options` say. `settings` is the JSON text of its settings. Must run inside
/// a multi-threaded runtime; takes some seconds.
///
/// # Errors
/// [`ModuleError`] if the plugin cannot be loaded or started at all.
pub async fn check_plugin(path: &Path, settings: &str, mut options: ModuleOptions) -> Result<CheckReport, ModuleError> {
    // A plugin that ends its process is started again for the next call.
    let restarting =
        |processes| IsolationOptions { restarts: u32::MAX, max_pause: Duration::from_millis(50), ..processes };
    options.processes = options.processes.map(restarting);
    // Use the name that loading it would give.
    let mut plan = PluginPlan::new(library_name(path).unwrap_or("checked"), path);
    (plan.isolation, plan.is_required) = (Some(Isolation::Process), true);
    // A bus without handlers has nothing to protect, and the check examines which capabilities are used.
    plan.capabilities = Some(Capability::ALL.to_vec());
    plan.settings = settings.to_owned();
    let subject = Subject { options, plan };
    let (host, module) = subject.start()?;
    let mut checks = vec![check_threads("it has no thread after its start", &module)];
    let (of_calls, faulty) = check_calls(&host, &module).await;
    checks.extend(of_calls);
    let module_now = host.list().into_iter().next().unwrap_or_else(|| module.clone());
    checks.push(check_threads("it has no thread after its calls", &module_now));
    checks.push(check_memory(&host, &module_now).await);
    checks.push(check_subscriptions(&host, &module).await);
    host.shutdown(CALL_TIMEOUT).await;
    let called = (0..).zip(methods_of(&module)).filter(|(_, method)| !faulty.contains(method));
    let (of_loads, loads) = check_loads(subject, called.map(|(number, _)| number).collect()).await?;
    checks.extend(of_loads);
    let library = library_of(&module).cloned().unwrap_or_default();
    Ok(CheckReport { library, checks, loads })
}

struct Subject {
    options: ModuleOptions,
    plan: PluginPlan,
}

impl Subject {
    fn start(&self) -> Result<(Arc<ModuleRegister>, ModuleInfo), ModuleError> {
        let host = ModuleRegister::new(Bus::new(), self.options.clone());
        let mut modules = host.start(std::slice::from_ref(&self.plan))?;
        let module = modules.pop().ok_or(ModuleError::Crashed)?;
        Ok((host, module))
    }
}

fn caller() -> Caller {
    Caller::new(Exposure::all(), CallContext::with_timeout(CALL_TIMEOUT))
}

/// Index in the list of faults for calls that panicked.
const PANICKED: usize = 0;
/// Index in the list of faults for calls that ended the process.
const ENDED: usize = 1;

/// The fault that a failure reports, if it is the plugin's: the index of the fault, and the text.
fn fault(failure: &Failure) -> Option<(usize, String)> {
    let Failure { message, .. } = failure;
    if failure.code == FailureCode::CRASHED {
        return Some((PANICKED, message.clone()));
    }
    let faults: [(usize, &[&str]); 3] = [
        (ENDED, &["its process has ended"]),
        (
            2,
            &[
                "request timed out",
                "is not JSON",
                "gave no result",
                "without a poll function",
                "unknown code",
                "without an answer",
            ],
        ),
        (3, &["was not granted"]),
    ];
    let found = faults.into_iter().find(|(_, texts)| texts.iter().any(|text| message.contains(text)));
    found.map(|(which, _)| (which, message.clone()))
}

/// Runs the checks, and returns the methods that failed them.
async fn check_calls(host: &ModuleRegister, module: &ModuleInfo) -> (Vec<Check>, Vec<String>) {
    let mut problems: [Vec<String>; 4] = Default::default();
    let mut faulty = Vec::new();
    for method in methods_of(module) {
        for params in PARAMETERS {
            let Err(failure) = call_served(host, method, params).await else { continue };
            let Some((which, text)) = fault(&failure) else { continue };
            faulty.push(method.clone());
            if let Some(of_kind) = problems.get_mut(which) {
                of_kind.push(format!("{method} with {}: {text}", params.unwrap_or("no parameters")));
            }
            if which == ENDED {
                break;
            }
        }
    }
    let statements = [
        "no method panics, whatever its parameters",
        "no method ends its process",
        "every method answers in time, with JSON",
        "it uses only what it declares under capabilities",
    ];
    let checks = statements.into_iter().zip(problems).map(|(statement, problems)| Check { statement, problems });
    (checks.collect(), faulty)
}

/// Calls a method. If an earlier call ended the process, waits for its restart first.
async fn call_served(host: &ModuleRegister, method: &str, params: Option<&str>) -> Result<(), Failure> {
    let deadline = Instant::now() + CALL_TIMEOUT;
    while host.list().iter().any(|module| process_of(module).is_none()) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    host.router().call_method(method, params, &caller()).await.map(drop)
}

/// Details of the module's library.
fn library_of(module: &ModuleInfo) -> Option<&LibraryDetails> {
    module.plugin()?.library.as_ref()
}

fn methods_of(module: &ModuleInfo) -> &[String] {
    library_of(module).map_or(&[], |library| &library.methods)
}

fn process_of(module: &ModuleInfo) -> Option<u32> {
    module.plugin()?.process
}

fn check_threads(statement: &'static str, module: &ModuleInfo) -> Check {
    let count = process_of(module).and_then(|process| fs::read_dir(format!("/proc/{process}/task")).ok());
    let problems = match count.map(Iterator::count) {
        Some(count) if count > THREADS => vec![format!("it has {} of its own", count - THREADS)],
        Some(_) | None => Vec::new(),
    };
    Check { statement, problems }
}

/// Resident memory of the module's process, in KiB. Not read with procfs-core, which refuses the file of gVisor (no
/// `SigQ`).
fn resident(module: &ModuleInfo) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", process_of(module)?)).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

async fn check_memory(host: &ModuleRegister, module: &ModuleInfo) -> Check {
    let before = resident(module);
    for method in methods_of(module) {
        for _ in 0..REPETITIONS {
            let begun = Instant::now();
            let answer = call_served(host, method, Some("[]")).await;
            // Checked above already; repeating it would only take time.
            if answer.is_err_and(|failure| fault(&failure).is_some()) || begun.elapsed() > CALL_TIMEOUT / 100 {
                break;
            }
        }
    }
    let growth = resident(module).zip(before).map_or(0, |(after, before)| after.saturating_sub(before));
    let problems = match growth {
        growth if growth > MAX_CALL_GROWTH_KIB => {
            vec![format!(
                "it grew by {growth} KiB over {REPETITIONS} calls of each of {} methods",
                methods_of(module).len()
            )]
        }
        _ => Vec::new(),
    };
    Check { statement: "its memory does not grow with its calls", problems }
}

async fn check_subscriptions(host: &ModuleRegister, module: &ModuleInfo) -> Check {
    let mut problems = Vec::new();
    let Some(library) = library_of(module) else {
        return Check { statement: "every subscription opens or refuses in time", problems };
    };
    for kind in &library.subscriptions {
        for params in PARAMETERS {
            let opened = host.router().subscribe(&library.namespace, kind, params, &caller()).await;
            if let Err(failure) = opened
                && let Some((_, text)) = fault(&failure)
            {
                problems.push(format!("{kind} with {}: {text}", params.unwrap_or("no parameters")));
            }
        }
    }
    Check { statement: "every subscription opens or refuses in time", problems }
}

/// Loads and unloads the library in its own process, so that any effect of it becomes a finding.
async fn check_loads(subject: Subject, methods: Vec<u32>) -> Result<(Vec<Check>, Option<LoadFigures>), ModuleError> {
    let run = move || {
        let Subject { options, plan } = subject;
        let processes = options.processes.ok_or(ModuleError::Crashed)?;
        let library = LibraryCache::new(options.cache_folder).check_and_copy(&plan.path, None)?;
        let cycles = LoadCycles { count: CYCLES, methods: &methods };
        Ok(run_load_cycles(&library, &processes, &plan.settings, cycles))
    };
    let outcome = run_at_low_priority(run).await?;
    let loads = "it can be loaded, started, stopped and unloaded 100 times";
    let LoadCycleUsage { threads_before, threads_after, memory_before, memory_after, is_still_mapped } = match outcome {
        Ok(leftovers) => leftovers,
        Err(problem) => return Ok((vec![Check { statement: loads, problems: vec![problem] }], None)),
    };
    let problem_if = |is_wrong: bool, problem: String| if is_wrong { vec![problem] } else { Vec::new() };
    let threads = threads_after.saturating_sub(threads_before);
    let growth = memory_after.saturating_sub(memory_before);
    let checks = vec![
        Check { statement: loads, problems: Vec::new() },
        Check {
            statement: "it is unmapped when it is unloaded",
            problems: problem_if(
                is_still_mapped,
                "it stays mapped forever, because it has a thread, or a thread-local with a destructor".to_owned(),
            ),
        },
        Check {
            statement: "it leaves no thread behind",
            problems: problem_if(threads > 0, format!("{threads} threads were left after {CYCLES} stops")),
        },
        Check {
            statement: "its memory does not grow with its loads",
            problems: problem_if(growth > MAX_CYCLE_GROWTH_KIB, format!("it grew by {growth} KiB over {CYCLES} loads")),
        },
    ];
    let figures = LoadFigures { count: CYCLES, threads_before, threads_after, memory_before, memory_after };
    Ok((checks, Some(figures)))
}
