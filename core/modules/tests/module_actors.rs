//! Parts of the node that are listed, stopped and started like plugins.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use support::{TestModules, rust_plugin};
use tenon_api::{
    BusError, Request, Topic,
    messages::{
        ActorHealth, GetClientVersion, GetDataFolder, MailboxUse, ModuleChange, ModuleChanged, ModuleDetails,
        ModuleInfo, ModuleKind, ModuleOperation, ModuleState, ModuleTerms,
    },
};
use tenon_bus::{CallContext, Delivery};
use tenon_modules::{ActorControl, ActorModule, ActorReport, ActorStage, ActorSwitch, PluginPlan, SwitchError};
use tenon_sdk::Failure;

/// Why a module actor cannot be stopped.
fn fixed_reason(info: &ModuleInfo) -> Option<String> {
    match &info.details {
        ModuleDetails::Actor(actor) => actor.fixed.clone(),
        ModuleDetails::Plugin(_) => None,
    }
}

/// A part of the node that records the operations on it, and on request fails to start.
#[derive(Clone, Default)]
struct Part {
    steps: Arc<Mutex<Vec<&'static str>>>,
    is_broken: Arc<AtomicBool>,
    is_draining: Arc<AtomicBool>,
}

impl Part {
    fn steps(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.steps.lock().unwrap())
    }
}

#[async_trait]
impl ActorSwitch for Part {
    async fn start(&self) -> Result<(), SwitchError> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(SwitchError::new("no key"));
        }
        self.steps.lock().unwrap().push("start");
        Ok(())
    }

    async fn stop(&self) -> Result<(), SwitchError> {
        self.steps.lock().unwrap().push("stop");
        Ok(())
    }

    fn failure(&self) -> Option<String> {
        self.is_broken.load(Ordering::Relaxed).then(|| "it fell over".to_owned())
    }

    fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }
}

const VERSION: &[Topic] = &[GetClientVersion::TOPIC];

fn module(name: &'static str, uses: &'static [&'static str], answers: &'static [Topic], part: &Part) -> ActorModule {
    let control = ActorControl::Switch(Box::new(part.clone()));
    ActorModule {
        name,
        summary: "Serves the test.",
        uses,
        answers,
        stage: ActorStage::BeforePlugins,
        is_wanted: true,
        control,
        probe: None,
    }
}

fn fixed(name: &'static str) -> ActorModule {
    let control = ActorControl::Fixed("it is all there is");
    ActorModule {
        name,
        summary: "Stays.",
        uses: &[],
        answers: &[],
        stage: ActorStage::BeforePlugins,
        is_wanted: true,
        control,
        probe: None,
    }
}

fn states(test: &TestModules) -> Vec<String> {
    let actors = test.modules.list().into_iter().filter(|info| info.kind() == ModuleKind::Actor);
    actors.map(|info| format!("{} {}", info.name, info.state.name())).collect()
}

async fn version(test: &TestModules) -> Result<String, Failure> {
    Ok(test.bus.call(GetClientVersion, &CallContext::new()).await?)
}

#[tokio::test]
async fn stopping_and_starting_a_part_reports_its_dependants() {
    let test = TestModules::new();
    test.answer_version();
    let (base, user) = (Part::default(), Part::default());
    test.modules.add_actor(module("base", &[], VERSION, &base)).unwrap();
    test.modules.add_actor(module("user", &["base"], &[], &user)).unwrap();
    test.modules.start_actors(ActorStage::BeforePlugins).await.unwrap();
    test.modules.start(&[PluginPlan::new("bad", rust_plugin("tenon-test-misbehaving"))]).unwrap();
    let mut changes = test.bus.subscribe::<ModuleChanged>();

    let report = test.modules.change("base", ModuleChange::Disable, true).await.unwrap();
    let stopped = Failure::server("module base is stopped; it can be enabled again");

    assert_eq!((report.operation, report.state), (ModuleOperation::Disable, ModuleState::Disabled));
    assert_eq!(report.dependants, ["user", "bad"], "bad was granted what base answers");
    assert_eq!(version(&test).await, Err(stopped));
    assert_eq!(states(&test), ["base disabled", "user enabled"]);
    let Some(Delivery::Event(ModuleChanged { report: told })) = changes.next().await else { panic!("an event") };
    assert_eq!(told, report);
    let twice = test.modules.change("base", ModuleChange::Disable, true).await.unwrap_err().to_string();
    assert_eq!(twice, "module base is disabled already");
    let unknown = test.modules.info("unknown").unwrap_err().to_string();
    assert_eq!(unknown, "there is no module \"unknown\"; there are: bad, base, user");

    test.modules.change("base", ModuleChange::Enable, true).await.unwrap();
    assert_eq!(version(&test).await, Ok("Tenon/test".to_owned()));
    assert_eq!(test.modules.info("base").unwrap().needed_by, ["user", "bad"]);
    let twice = test.modules.change("base", ModuleChange::Enable, true).await.unwrap_err().to_string();
    assert_eq!(twice, "module base is enabled already");
    assert_eq!(base.steps(), ["start", "stop", "start"]);

    test.modules.shutdown(std::time::Duration::from_secs(1)).await;
    assert_eq!((base.steps(), user.steps()), (vec!["stop"], vec!["start", "stop"]));
}

#[tokio::test]
async fn a_part_that_fell_over_is_seen_and_enabled_again() {
    let test = TestModules::new();
    let part = Part::default();
    test.modules.add_actor(module("part", &[], &[], &part)).unwrap();
    test.modules.start_actors(ActorStage::BeforePlugins).await.unwrap();

    part.is_broken.store(true, Ordering::Relaxed);
    let info = test.modules.info("part").unwrap();
    let again = test.modules.change("part", ModuleChange::Enable, true).await.unwrap_err().to_string();
    let after = test.modules.info("part").unwrap();
    part.is_broken.store(false, Ordering::Relaxed);
    test.modules.change("part", ModuleChange::Enable, true).await.unwrap();

    assert_eq!((info.state, info.reason.as_deref()), (ModuleState::Failed, Some("it fell over")));
    assert_eq!(again, "module part did not start: no key");
    assert_eq!((after.state, after.reason.as_deref()), (ModuleState::Failed, Some("no key")));
    assert_eq!(states(&test), ["part enabled"]);
    assert_eq!(part.steps(), ["start", "stop", "stop", "start"]);
}

#[tokio::test]
async fn impossible_operations_are_refused_and_names_of_actors_are_reserved() {
    let test = TestModules::new();
    let part = Part::default();
    test.modules.add_actor(fixed("rock")).unwrap();
    test.modules.add_actor(module("part", &[], &[], &part)).unwrap();
    test.modules.start_actors(ActorStage::BeforePlugins).await.unwrap();
    let refusal = async |name: &str, change| test.modules.change(name, change, true).await.unwrap_err().to_string();
    let load = ModuleChange::Load { path: None, settings: None, is_enabled: true, terms: ModuleTerms::NONE };
    let replace = ModuleChange::Replace { path: None, settings: None, terms: ModuleTerms::NONE };

    assert_eq!(refusal("rock", ModuleChange::Disable).await, "module rock cannot be stopped: it is all there is");
    assert!(refusal("rock", ModuleChange::Enable).await.ends_with("is enabled already"));
    for change in [replace, ModuleChange::Unload] {
        assert!(
            refusal("part", change)
                .await
                .contains("is a part of the node, which cannot be loaded, replaced or unloaded")
        );
    }
    assert!(refusal("part", load).await.ends_with("is a part of the node; give the library another name"));
    assert!(test.modules.add_actor(fixed("part")).unwrap_err().to_string().ends_with("already exists"));
    let hello = PluginPlan::new("part", rust_plugin("tenon-example-hello"));
    test.modules.start(std::slice::from_ref(&hello)).unwrap();
    let applied = test.modules.apply(vec![PluginPlan { settings: "{\"new\":1}".to_owned(), ..hello }], None).await;
    assert!(applied[0].outcome.as_ref().unwrap_err().to_string().contains("is a part of the node"));
    assert_eq!(states(&test), ["part enabled", "rock enabled"]);
    assert_eq!(fixed_reason(&test.modules.info("rock").unwrap()).as_deref(), Some("it is all there is"));
}

#[tokio::test]
async fn a_choice_outlasts_the_node_until_the_settings_say_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("modules.json");
    let start = async |is_wanted| {
        let test = TestModules::with_options(|options| options.choices_file = Some(file.clone()));
        test.answer_version();
        let part = ActorModule { is_wanted, ..module("part", &[], VERSION, &Part::default()) };
        test.modules.add_actor(part).unwrap();
        test.modules.start_actors(ActorStage::BeforePlugins).await.unwrap();
        test
    };

    let first = start(true).await;
    first.modules.change("part", ModuleChange::Disable, true).await.unwrap();
    let second = start(true).await;
    assert_eq!(states(&second), ["part disabled"]);
    assert!(version(&second).await.unwrap_err().message.starts_with("module part is stopped"));
    assert_eq!(states(&start(false).await), ["part disabled"]);
    second.modules.change("part", ModuleChange::Enable, true).await.unwrap();
    assert_eq!(states(&start(true).await), ["part enabled"]);
    assert_eq!(states(&start(false).await), ["part disabled"], "nothing was chosen against these settings");
}

#[tokio::test]
async fn parts_start_in_their_stage_before_or_after_the_plugins() {
    let test = TestModules::new();
    let steps = Part::default();
    let front = ActorModule { stage: ActorStage::AfterPlugins, ..module("front", &[], &[], &steps) };
    let behind = Part::default();
    test.modules.add_actor(module("behind", &[], &[], &behind)).unwrap();
    test.modules.add_actor(front).unwrap();

    test.modules.start_actors(ActorStage::BeforePlugins).await.unwrap();
    assert_eq!((behind.steps(), steps.steps()), (vec!["start"], vec![]));
    assert_eq!(states(&test), ["behind enabled", "front disabled"]);
    test.modules.start_actors(ActorStage::AfterPlugins).await.unwrap();
    assert_eq!((behind.steps(), steps.steps()), (vec![], vec!["start"]));
}

#[tokio::test]
async fn a_report_says_whether_running_calls_still_finish() {
    let test = TestModules::new();
    let part = Part::default();
    test.modules.add_actor(module("part", &[], &[], &part)).unwrap();
    test.modules.start_actors(ActorStage::BeforePlugins).await.unwrap();
    part.is_draining.store(true, Ordering::Relaxed);

    let stopped = test.modules.change("part", ModuleChange::Disable, true).await.unwrap();
    part.is_draining.store(false, Ordering::Relaxed);
    let started = test.modules.change("part", ModuleChange::Enable, true).await.unwrap();

    assert!(stopped.is_draining && !started.is_draining);
}

#[tokio::test]
async fn panics_of_handlers_are_counted_for_their_part() {
    let test = TestModules::new();
    let fixed = ActorModule { answers: &[GetDataFolder::TOPIC], ..fixed("facts") };
    test.modules.add_actor(fixed).unwrap();
    let panics = |_: GetDataFolder, _: &CallContext| -> Result<String, BusError> { panic!("on purpose") };
    test.bus.handle_read(panics).unwrap();

    for _ in 0..2 {
        test.bus.call(GetDataFolder, &CallContext::new()).await.unwrap_err();
    }

    assert_eq!(test.modules.info("facts").unwrap().faults.panics, 2);
}

#[tokio::test]
async fn the_users_of_a_part_that_cannot_be_stopped_are_listed() {
    let test = TestModules::new();
    test.answer_version();
    test.modules.add_actor(ActorModule { answers: VERSION, ..fixed("base") }).unwrap();
    test.modules.add_actor(module("user", &["base"], &[], &Part::default())).unwrap();
    test.modules.add_actor(module("stopped", &["base"], &[], &Part::default())).unwrap();
    test.modules.start_actors(ActorStage::BeforePlugins).await.unwrap();
    test.modules.change("stopped", ModuleChange::Disable, true).await.unwrap();
    test.modules.start(&[PluginPlan::new("bad", rust_plugin("tenon-test-misbehaving"))]).unwrap();

    assert_eq!(test.modules.info("base").unwrap().needed_by, ["user", "bad"]);
}

/// The health of a part, as listed.
fn health(test: &TestModules, name: &str) -> Option<ActorHealth> {
    match test.modules.info(name).unwrap().details {
        ModuleDetails::Actor(actor) => actor.health,
        ModuleDetails::Plugin(_) => None,
    }
}

#[tokio::test]
async fn a_part_shows_its_report_also_if_it_cannot_be_stopped() {
    let test = TestModules::new();
    let report = ActorReport {
        health: Some(ActorHealth::Restarting),
        restarts: 2,
        last_fault: Some("on purpose".to_owned()),
        mailbox: Some(MailboxUse { waiting: 3, capacity: 64 }),
        ..ActorReport::default()
    };
    test.modules.add_actor(ActorModule { probe: Some(Box::new(move || report.clone())), ..fixed("chain") }).unwrap();

    let info = test.modules.info("chain").unwrap();

    assert_eq!((info.faults.restarts, info.faults.last_end.as_deref()), (2, Some("on purpose")));
    let ModuleDetails::Actor(actor) = info.details else { panic!("an actor has details of a plugin") };
    assert_eq!(actor.health, Some(ActorHealth::Restarting));
    assert_eq!(actor.mailbox, Some(MailboxUse { waiting: 3, capacity: 64 }));
    assert_eq!((actor.address, actor.connections), (None, None));
}

#[tokio::test]
async fn the_health_of_a_part_without_a_report_follows_from_its_state() {
    let test = TestModules::new();
    let part = Part::default();
    test.modules.add_actor(module("part", &[], &[], &part)).unwrap();
    let before = health(&test, "part");
    test.modules.start_actors(ActorStage::BeforePlugins).await.unwrap();
    let started = health(&test, "part");
    part.is_broken.store(true, Ordering::Relaxed);

    let broken = health(&test, "part");

    let expected = [ActorHealth::Stopped, ActorHealth::Running, ActorHealth::Failed].map(Some);
    assert_eq!([before, started, broken], expected);
}
