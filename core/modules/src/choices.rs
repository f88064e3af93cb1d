//! The operator's run-time choices, stored for the next start.
//!
//! A choice applies as long as the settings for its module are the same as when it was made: a later change of the
//! settings file overrides it.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tenon_api::{Capability, shown_json_problem};
use tenon_host::{Ownership, check_owner};

use crate::{ModuleError, PluginPlan, actor::KnownActor, end_times::EndTimes, plugin_module::KnownPlugins};

/// The file's content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Choices {
    modules: BTreeMap<String, Choice>,
    /// Module actors.
    #[serde(default)]
    actors: BTreeMap<String, ActorChoice>,
    /// Plugins and module actors that are enabled for a limited time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    ends: BTreeMap<String, End>,
}

/// When a module will be disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct End {
    /// Seconds since 1970.
    until: u64,
    /// Whether the settings enabled it at the time of the choice; `None` if they did not mention it.
    wanted: Option<bool>,
}

/// The choice for a module actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ActorChoice {
    is_enabled: bool,
    /// Whether the settings enabled it at the time of the choice.
    is_wanted: bool,
}

/// The choice for one plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Choice {
    state: Chosen,
    path: PathBuf,
    /// JSON text of its own settings.
    settings: String,
    /// The module's settings when the choice was made; `None` if they did not mention it. Stored as `settled`.
    #[serde(rename = "settled")]
    configured: Option<ConfiguredPlugin>,
    /// Capabilities granted at run time; `None` if the settings decide.
    #[serde(default)]
    grants: Option<ChosenGrants>,
    /// SHA-256 of the build that the operator vouched for at run time.
    #[serde(default)]
    vouched: Option<String>,
}

/// Capabilities granted at run time. They apply as long as the settings grant the same capabilities as then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ChosenGrants {
    capabilities: Vec<String>,
    /// Capabilities that the settings granted when the choice was made. Stored as `settled`.
    #[serde(rename = "settled")]
    configured: Option<Vec<String>>,
}

impl ChosenGrants {
    /// The grants that differ from the settings', if any do.
    fn of(plan: &PluginPlan, configured: Option<&PluginPlan>) -> Option<Self> {
        let configured = configured.and_then(|configured| configured.capabilities.as_ref());
        let chosen = plan.capabilities.as_ref().filter(|chosen| Some(*chosen) != configured)?;
        Some(Self { capabilities: names(chosen), configured: configured.map(|granted| names(granted)) })
    }

    /// The plan's grants with this choice applied. Names unknown to this version grant nothing.
    fn apply(&self, plan: &PluginPlan) -> Option<Vec<Capability>> {
        if plan.capabilities.as_deref().map(names) != self.configured {
            return plan.capabilities.clone();
        }
        Some(self.capabilities.iter().filter_map(|name| Capability::from_name(name)).collect())
    }
}

fn names(capabilities: &[Capability]) -> Vec<String> {
    capabilities.iter().map(|capability| capability.name().to_owned()).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Chosen {
    Enabled,
    Disabled,
    Unloaded,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ConfiguredPlugin {
    is_enabled: bool,
    path: PathBuf,
    settings: String,
}

impl ConfiguredPlugin {
    fn of(plan: &PluginPlan) -> Self {
        Self { is_enabled: plan.is_enabled, path: plan.path.clone(), settings: plan.settings.clone() }
    }
}

/// Reads a file that only its owner can write.
fn read_own(path: &Path) -> Result<Vec<u8>, io::Error> {
    // Not blocking: opening a pipe would wait for its writer.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    check_owner(Ownership::of(&facts), "it").map_err(io::Error::other)?;
    let mut text = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::Error::other(format!("it has more than {MAX_FILE} bytes")));
    }
    Ok(text)
}

/// Maximum size of the file, in bytes: enough for thousands of modules with their settings.
const MAX_FILE: u64 = 16 << 20;

impl Choices {
    /// Reads the file. A missing file means no choices.
    ///
    /// # Errors
    /// [`ModuleError::Choices`] if it cannot be read, or if others could have written it. Continuing without it would
    /// enable what the operator had disabled.
    pub(crate) fn read(path: &Path) -> Result<Self, ModuleError> {
        let refused = |reason: String| ModuleError::Choices { path: path.to_owned(), reason };
        match read_own(path) {
            Ok(text) => Self::decode(&text).map_err(|error| refused(shown_json_problem(&error))),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => Ok(Self::default()),
            Err(error) => Err(refused(error.to_string())),
        }
    }

    /// Reads the file's text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn decode(text: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(text)
    }

    /// The file's text.
    ///
    /// # Errors
    /// For a path that is not Unicode.
    pub(crate) fn encode(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec_pretty(self)
    }

    /// Writes the file atomically.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        if self.modules.is_empty() && self.actors.is_empty() && self.ends.is_empty() && !path.exists() {
            return Ok(());
        }
        let unfinished = path.with_extension("new");
        let _ = fs::remove_file(&unfinished);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        file.write_all(&self.encode()?)?;
        file.sync_all()?;
        fs::rename(unfinished, path)?;
        // Where a folder can't be synced, only a power loss can lose the file.
        let _ = path.parent().map(fs::File::open).transpose().map(|folder| folder.map(|folder| folder.sync_all()));
        Ok(())
    }

    /// Applies the choices to the settings' plans. The second list has the plugins that only the choices name.
    pub(crate) fn apply(&self, plans: &[PluginPlan]) -> (Vec<PluginPlan>, Vec<PluginPlan>) {
        let valid = |name: &str, plan: Option<&PluginPlan>| {
            self.modules.get(name).filter(|choice| choice.configured == plan.map(ConfiguredPlugin::of))
        };
        let chosen = |choice: &Choice, plan: PluginPlan| PluginPlan {
            is_enabled: choice.state == Chosen::Enabled,
            path: choice.path.clone(),
            settings: choice.settings.clone(),
            capabilities: match &choice.grants {
                Some(grants) => grants.apply(&plan),
                None => plan.capabilities.clone(),
            },
            vouched: choice.vouched.clone(),
            ..plan
        };
        let configured = plans.iter().filter_map(|plan| match valid(&plan.name, Some(plan)) {
            None => Some(plan.clone()),
            Some(choice) if choice.state == Chosen::Unloaded => None,
            Some(choice) => Some(chosen(choice, plan.clone())),
        });
        let names = self.modules.keys().filter(|name| plans.iter().all(|plan| plan.name != **name));
        let added = names.filter_map(|name| {
            let choice = valid(name, None).filter(|choice| choice.state != Chosen::Unloaded)?;
            Some(chosen(choice, PluginPlan::new(name, &choice.path)))
        });
        (configured.collect(), added.collect())
    }

    /// When to disable a module whose current setting is `wanted`, if it has an end.
    pub(crate) fn end_of(&self, name: &str, wanted: Option<bool>) -> Option<u64> {
        self.ends.get(name).filter(|end| end.wanted == wanted).map(|end| end.until)
    }

    /// Whether to run a module actor whose current setting is `is_wanted`.
    pub(crate) fn wants(&self, actor: &str, is_wanted: bool) -> bool {
        let choice = self.actors.get(actor).filter(|choice| choice.is_wanted == is_wanted);
        choice.map_or(is_wanted, |choice| choice.is_enabled)
    }

    /// The differences between the modules and the settings' plans.
    pub(crate) fn of(
        modules: &KnownPlugins,
        plans: &BTreeMap<String, PluginPlan>,
        actors: &[Arc<KnownActor>],
        ends: &EndTimes,
    ) -> Self {
        let mut choices = Self::default();
        for (name, until) in ends {
            let actor = actors.iter().find(|actor| actor.name() == name).map(|actor| actor.choice().1);
            let wanted = actor.or_else(|| plans.get(name).map(|plan| plan.is_enabled));
            choices.ends.insert(name.clone(), End { until: *until, wanted });
        }
        for actor in actors {
            let (is_enabled, is_wanted) = actor.choice();
            if is_enabled != is_wanted {
                choices.actors.insert(actor.name().to_owned(), ActorChoice { is_enabled, is_wanted });
            }
        }
        for (name, module) in &modules.by_name {
            let plan = plans.get(name);
            let grants = ChosenGrants::of(&module.plan, plan);
            let vouched = module.plan.vouched.clone();
            let is_as_configured = plan.map(ConfiguredPlugin::of) == Some(ConfiguredPlugin::of(&module.plan));
            if is_as_configured && grants.is_none() && vouched.is_none() {
                continue;
            }
            let choice = Choice {
                state: if module.plan.is_enabled { Chosen::Enabled } else { Chosen::Disabled },
                path: module.plan.path.clone(),
                settings: module.plan.settings.clone(),
                configured: plan.map(ConfiguredPlugin::of),
                grants,
                vouched,
            };
            choices.modules.insert(name.clone(), choice);
        }
        for (name, plan) in plans.iter().filter(|(name, _)| !modules.by_name.contains_key(*name)) {
            let choice = Choice {
                state: Chosen::Unloaded,
                path: plan.path.clone(),
                settings: plan.settings.clone(),
                configured: Some(ConfiguredPlugin::of(plan)),
                grants: None,
                vouched: None,
            };
            choices.modules.insert(name.clone(), choice);
        }
        choices
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use crate::plugin_module::{KnownPlugin, State};

    fn module(plan: PluginPlan) -> KnownPlugin {
        KnownPlugin { plan, is_path_configured: true, build: None, granted: Vec::new(), state: State::Disabled }
    }

    #[test]
    fn a_choice_holds_until_the_settings_change() {
        let plan = PluginPlan::new("eth", "/eth.so");
        let plans =
            BTreeMap::from([("eth".to_owned(), plan.clone()), ("net".into(), PluginPlan::new("net", "/net.so"))]);
        let mut modules = KnownPlugins::default();
        let disabled = PluginPlan { is_enabled: false, ..plan.clone() };
        modules.by_name.insert("eth".into(), module(disabled.clone()));
        modules.by_name.insert("mine".into(), module(PluginPlan::new("mine", "/mine.so")));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("modules.json");

        Choices::of(&modules, &plans, &[], &EndTimes::new()).write(&file).unwrap();
        let choices = Choices::read(&file).unwrap();

        let all: Vec<_> = plans.values().cloned().collect();
        assert_eq!(choices.apply(&all), (vec![disabled], vec![PluginPlan::new("mine", "/mine.so")]));
        let changed = PluginPlan { settings: "{\"depth\":3}".to_owned(), ..plan };
        assert_eq!(choices.apply(std::slice::from_ref(&changed)).0, [changed]);
    }

    #[test]
    fn an_end_outlasts_the_node_until_the_settings_say_something_else() {
        let plan = PluginPlan::new("debug", "/debug.so");
        let plans = BTreeMap::from([("debug".to_owned(), plan.clone())]);
        let mut modules = KnownPlugins::default();
        modules.by_name.insert("debug".into(), module(plan));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("modules.json");

        Choices::of(&modules, &plans, &[], &EndTimes::from([("debug".to_owned(), 7)])).write(&file).unwrap();
        let choices = Choices::read(&file).unwrap();

        assert_eq!(choices.end_of("debug", Some(true)), Some(7));
        assert_eq!(choices.end_of("debug", Some(false)), None);
        assert_eq!(choices.end_of("eth", Some(true)), None);
    }

    #[test]
    fn run_time_grants_and_trust_are_kept_until_the_settings_change_them() {
        let configured =
            PluginPlan { capabilities: Some(vec![Capability::ReadNode]), ..PluginPlan::new("mine", "/mine.so") };
        let chosen = PluginPlan {
            capabilities: Some(vec![Capability::ReadChain, Capability::Sign]),
            vouched: Some("ab".repeat(32)),
            ..configured.clone()
        };
        let plans = BTreeMap::from([("mine".to_owned(), configured.clone())]);
        let mut modules = KnownPlugins::default();
        modules.by_name.insert("mine".into(), module(chosen.clone()));
        let added =
            PluginPlan { capabilities: Some(vec![Capability::Storage]), ..PluginPlan::new("other", "/other.so") };
        modules.by_name.insert("other".into(), module(added.clone()));

        let choices =
            Choices::decode(&Choices::of(&modules, &plans, &[], &EndTimes::default()).encode().unwrap()).unwrap();

        assert_eq!(choices.apply(std::slice::from_ref(&configured)), (vec![chosen.clone()], vec![added]));
        let fewer = PluginPlan { capabilities: Some(Vec::new()), ..configured };
        let kept = choices.apply(std::slice::from_ref(&fewer)).0.remove(0);
        assert_eq!(kept.capabilities, Some(Vec::new()), "the settings changed: they take precedence");
    }

    #[test]
    fn choices_of_the_version_before_are_read_and_those_that_others_could_write_are_not() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("modules.json");
        let old = r#"{"modules":{"mine":{"state":"enabled","path":"/mine.so","settings":"{}","settled":null}}}"#;
        fs::write(&file, old).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();

        assert_eq!(Choices::read(&file).unwrap().apply(&[]).1, [PluginPlan::new("mine", "/mine.so")]);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();

        let refused = Choices::read(&file).unwrap_err().to_string();
        assert!(refused.contains("it is writable by everyone (mode 666)"), "{refused}");
    }

    #[test]
    fn without_choices_there_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("modules.json");

        Choices::default().write(&file).unwrap();

        assert!(!file.exists());
        assert_eq!(Choices::read(&file).unwrap(), Choices::default());
    }

    #[test]
    fn unreadable_choices_are_refused_and_never_treated_as_empty() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("modules.json");
        let refusal = || Choices::read(&file).unwrap_err().to_string();

        for text in ["", "{", "[]", "{\"modules\":{\"eth\":{}}}", "\0\0\0"] {
            fs::write(&file, text).unwrap();
            let refused = refusal();
            assert!(refused.starts_with(&format!("stored choices about modules, {}: ", file.display())), "{refused}");
            assert!(refused.contains("correct the file, or remove it"), "{refused}");
            assert!(!refused.contains("struct"), "{refused}");
        }
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(folder.path().join("nowhere"), &file).unwrap();
        refusal();
        fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        assert!(refusal().contains("it is not a regular file"));
    }
}
