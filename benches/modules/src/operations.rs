//! The life-cycle operations, over the Unix socket like an operator's tool.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    Error,
    connection::Connection,
    modules::{OperationKind, SUBJECTS},
    node::Node,
    tally::Tally,
};

/// Time limit for the restart of a plugin's process.
const RESTART_TIMEOUT: Duration = Duration::from_secs(60);
/// The name of the module actor that makes blocks.
const SEALING: &str = "sealing";

/// State of a module after the operator's last operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Enabled,
    Disabled,
    Unloaded,
}

/// An operation on a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Operation {
    Enable,
    Disable,
    Replace,
    Unload,
    Load,
    #[strum(serialize = "kill -9")]
    Kill,
    Crash,
}

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }
}

/// Parameters that load a module: its name, and `trust` for a build that replaces a built-in one or runs in the node's
/// own process.
fn load_parameters(module: usize) -> Value {
    let subject = &SUBJECTS[module];
    let is_own = subject.library.starts_with("libtenon_plugin_") || subject.name == "counter";
    json!([subject.name, { "trust": is_own }])
}

/// Two libraries with different contents and the same code, like an old and a new build. Both are written before the
/// load begins: the work of a compiler or a package manager is not measured here.
struct TwoBuilds {
    /// Path from which the node loads.
    place: PathBuf,
    /// The two builds, outside the plugin folder.
    builds: [PathBuf; 2],
    /// Temporary path before the rename.
    next: PathBuf,
    is_second: bool,
}

impl TwoBuilds {
    fn prepare(node: &Node, file: &str) -> Result<Self, Error> {
        let place = node.library(file);
        let builds = ["first", "second"].map(|build| node.build(&format!("{file}.{build}")));
        fs::copy(&place, &builds[0])?;
        fs::copy(&place, &builds[1])?;
        fs::OpenOptions::new().append(true).open(&builds[1])?.write_all(b"another build")?;
        Ok(Self { place, builds, next: node.build(&format!("{file}.next")), is_second: false })
    }

    /// Puts the other build in place atomically: the node may be reading the current one.
    fn turn(&mut self) -> Result<(), Error> {
        self.is_second = !self.is_second;
        fs::hard_link(&self.builds[usize::from(self.is_second)], &self.next)?;
        fs::rename(&self.next, &self.place)?;
        Ok(())
    }
}

/// Carries out the operations, and records in the tally which errors callers may see.
pub(crate) struct Operator {
    connection: Connection,
    tally: Arc<Tally>,
    random: StdRng,
    states: [State; SUBJECTS.len()],
    is_sealing: bool,
    /// Two builds of each library, and which of them is in place.
    builds_of: Vec<TwoBuilds>,
    builds: u64,
    counts: BTreeMap<Operation, u32>,
    begun: Instant,
}

impl Operator {
    pub(crate) async fn connect(node: &Node, tally: &Arc<Tally>, seed: u64) -> Result<Self, Error> {
        Ok(Self {
            connection: Connection::socket(&node.socket).await?,
            tally: Arc::clone(tally),
            random: StdRng::seed_from_u64(seed),
            states: [State::Enabled; SUBJECTS.len()],
            is_sealing: true,
            builds_of: SUBJECTS
                .iter()
                .map(|subject| TwoBuilds::prepare(node, subject.file))
                .collect::<Result<_, _>>()?,
            builds: 0,
            counts: BTreeMap::new(),
            begun: Instant::now(),
        })
    }

    pub(crate) fn counts(&self) -> BTreeMap<Operation, u32> {
        self.counts.clone()
    }

    pub(crate) fn replacements(&self) -> u32 {
        self.counts.get(&Operation::Replace).copied().unwrap_or_default()
    }

    /// Carries out this many operations, each chosen at random among those that the module allows.
    pub(crate) async fn at_random(&mut self, count: u32) -> Result<(), Error> {
        for _ in 0..count {
            if self.random.random_ratio(1, 40) {
                self.switch_sealing(!self.is_sealing).await?;
                continue;
            }
            let subjects: Vec<usize> = (0..SUBJECTS.len())
                .filter(|module| SUBJECTS[*module].operation_kind != OperationKind::Untouched)
                .collect();
            let module = subjects.choose(&mut self.random).copied().unwrap_or_default();
            let choices: &[(Operation, u32)] = match (SUBJECTS[module].operation_kind, self.states[module]) {
                (OperationKind::Untouched | OperationKind::Replaced, _) => &[(Operation::Replace, 1)],
                (_, State::Disabled) => &[(Operation::Enable, 6), (Operation::Unload, 1), (Operation::Replace, 1)],
                (_, State::Unloaded) => &[(Operation::Load, 1)],
                (OperationKind::Switched, State::Enabled) => {
                    &[(Operation::Disable, 2), (Operation::Unload, 1), (Operation::Replace, 2)]
                }
                (OperationKind::Killed, State::Enabled) => &[
                    (Operation::Disable, 2),
                    (Operation::Unload, 1),
                    (Operation::Replace, 2),
                    (Operation::Kill, 2),
                    (Operation::Crash, 2),
                ],
            };
            let operation = choices.choose_weighted(&mut self.random, |(_, weight)| *weight).map(|(chosen, _)| *chosen);
            self.operate(module, operation.unwrap_or(Operation::Replace)).await?;
        }
        Ok(())
    }

    /// Replaces modules in turn, each by its other build.
    pub(crate) async fn replace(&mut self, count: u32) -> Result<(), Error> {
        let subjects: Vec<usize> =
            (0..SUBJECTS.len()).filter(|module| SUBJECTS[*module].operation_kind == OperationKind::Replaced).collect();
        for _ in 0..count {
            let module = subjects.choose(&mut self.random).copied().unwrap_or_default();
            self.operate(module, Operation::Replace).await?;
        }
        Ok(())
    }

    /// Enables everything that is disabled.
    pub(crate) async fn enable_all(&mut self) -> Result<(), Error> {
        self.switch_sealing(true).await?;
        for module in 0..SUBJECTS.len() {
            match self.states[module] {
                State::Enabled => {}
                State::Disabled => self.operate(module, Operation::Enable).await?,
                State::Unloaded => self.operate(module, Operation::Load).await?,
            }
        }
        Ok(())
    }

    /// Checks that at the end every module is enabled and the node reports so.
    pub(crate) async fn check_all_serve(&mut self) -> Result<(), Error> {
        let list = self.ask("admin_listModules", json!([])).await?;
        for subject in SUBJECTS {
            let info = list.as_array().into_iter().flatten().find(|info| info["name"] == subject.name);
            if info.is_none_or(|info| info["state"] != "enabled") {
                return Err(format!("at the end {} is not enabled: {info:?}", subject.name).into());
            }
        }
        Ok(())
    }

    async fn switch_sealing(&mut self, is_wanted: bool) -> Result<(), Error> {
        if self.is_sealing != is_wanted {
            let operation = if is_wanted { Operation::Enable } else { Operation::Disable };
            let method = if is_wanted { "admin_enableModule" } else { "admin_disableModule" };
            let report = self.ask(method, json!([SEALING])).await?;
            self.is_sealing = is_wanted;
            self.note(SEALING, operation, &summary(&report));
        }
        Ok(())
    }

    async fn operate(&mut self, module: usize, operation: Operation) -> Result<(), Error> {
        let name = SUBJECTS[module].name;
        let summary = match operation {
            Operation::Replace => {
                self.builds_of[module].turn()?;
                self.builds += 1;
                let report = self.ask("admin_replaceModule", load_parameters(module)).await?;
                summary(&report)
            }
            Operation::Enable => self.bring_back(module, "admin_enableModule").await?,
            Operation::Load => self.bring_back(module, "admin_loadModule").await?,
            Operation::Disable => {
                self.tally.mark_unavailable(module);
                self.states[module] = State::Disabled;
                summary(&self.ask("admin_disableModule", json!([name])).await?)
            }
            Operation::Unload => {
                self.tally.mark_unavailable(module);
                self.states[module] = State::Unloaded;
                summary(&self.ask("admin_unloadModule", json!([name])).await?)
            }
            Operation::Kill => self.kill(module).await?,
            Operation::Crash => self.crash(module).await?,
        };
        self.note(name, operation, &summary);
        Ok(())
    }

    async fn bring_back(&mut self, module: usize, method: &str) -> Result<String, Error> {
        let params = match method {
            "admin_loadModule" => load_parameters(module),
            _ => json!([SUBJECTS[module].name]),
        };
        let report = self.ask(method, params).await?;
        self.states[module] = State::Enabled;
        self.tally.mark_available(module);
        Ok(summary(&report))
    }

    /// Kills the process of a plugin, and waits until another one serves.
    async fn kill(&mut self, module: usize) -> Result<String, Error> {
        let Some(process) = self.process(module).await? else { return Ok("its process is not there just now".into()) };
        self.tally.mark_unavailable(module);
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or("no process")?;
        kill_process(pid, Signal::KILL)?;
        self.wait_for_another(module, process).await
    }

    /// Makes a plugin crash by calling it: a panic causes one error, an abort ends its process.
    async fn crash(&mut self, module: usize) -> Result<String, Error> {
        if SUBJECTS[module].name != "bad" {
            return self.kill(module).await;
        }
        let Some(process) = self.process(module).await? else { return Ok("its process is not there just now".into()) };
        let panicked = self.connection.ask("bad_panic", &json!([])).await?;
        if panicked["error"]["message"] != "method handler crashed" {
            self.tally.wrong(module, format!("bad_panic gave {panicked}"));
        }
        self.tally.mark_unavailable(module);
        let aborted = self.connection.ask("bad_abort", &json!([])).await?;
        let message = aborted["error"]["message"].as_str().unwrap_or_default();
        if !message.contains("its process has ended: signal 6, aborted") {
            self.tally.wrong(module, format!("bad_abort gave {aborted}"));
        }
        self.wait_for_another(module, process).await
    }

    async fn process(&mut self, module: usize) -> Result<Option<u64>, Error> {
        let info = self.ask("admin_moduleInfo", json!([SUBJECTS[module].name])).await?;
        Ok(info["process"].as_u64())
    }

    /// Waits for the process that replaces one that ended; a plugin whose process ended too often is enabled by hand,
    /// as an operator would.
    async fn wait_for_another(&mut self, module: usize, before: u64) -> Result<String, Error> {
        let name = SUBJECTS[module].name;
        let begun = Instant::now();
        loop {
            let info = self.ask("admin_moduleInfo", json!([name])).await?;
            if info["state"] == "failed" {
                self.ask("admin_enableModule", json!([name])).await?;
                self.tally.mark_available(module);
                return Ok(format!("it had failed for good; enabled again after {:?}", rounded(begun.elapsed())));
            }
            if info["process"].as_u64().is_some_and(|process| process != before) {
                self.tally.mark_available(module);
                return Ok(format!("another process serves after {:?}", rounded(begun.elapsed())));
            }
            if begun.elapsed() > RESTART_TIMEOUT {
                return Err(format!("{name} did not come back within {RESTART_TIMEOUT:?}: {info}").into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn ask(&mut self, method: &str, params: Value) -> Result<Value, Error> {
        let mut answer = self.connection.ask(method, &params).await?;
        if answer["error"].is_object() {
            return Err(format!("{method} {params}: {}", answer["error"]["message"]).into());
        }
        Ok(answer["result"].take())
    }

    fn note(&mut self, name: &str, operation: Operation, summary: &str) {
        *self.counts.entry(operation).or_default() += 1;
        let count: u32 = self.counts.values().sum();
        let seconds = self.begun.elapsed().as_secs_f64();
        println!("{seconds:>7.2} s  #{count:<5} {:<8} {name:<8} {summary}", operation.name());
    }
}

fn rounded(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// A report in one line.
fn summary(report: &Value) -> String {
    let number = |key: &str| report[key].as_u64().unwrap_or_default();
    let mut text =
        format!("{} in {:.1} ms", report["state"].as_str().unwrap_or("done"), number("totalMicros") as f64 / 1e3);
    let parts = [
        ("runningCalls", "calls were running"),
        ("cancelledCalls", "of them cancelled"),
        ("keptSubscriptions", "subscriptions went on"),
        ("closedSubscriptions", "subscriptions closed"),
    ];
    for (key, words) in parts.iter().filter(|(key, _)| number(key) > 0) {
        text.push_str(&format!(", {} {words}", number(key)));
    }
    text
}
