//! The end of an operation: what it leaves on the disk, and who is told.

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError},
};

use tenon_api::messages::{ModuleChanged, ModuleReport};

use crate::{HostError, PluginHost, choices::Choices, patient::patiently};

impl PluginHost {
    /// Tells, keeps the choice and tidies up.
    pub(crate) async fn conclude(self: &Arc<Self>, report: ModuleReport) -> Result<ModuleReport, HostError> {
        tracing::info!(
            module = report.module,
            operation = report.operation.name(),
            state = report.state.name(),
            version = report.new.as_ref().map(|build| build.version.as_str()),
            drain_micros = report.drain_micros,
            cancelled = report.cancelled_calls,
            "module changed"
        );
        self.bus.publish(ModuleChanged { report: report.clone() });
        let Some((choices, copies)) = self.to_be_kept() else { return Ok(report) };
        let is_new = choices.is_some() && *self.kept.lock().unwrap_or_else(PoisonError::into_inner) != choices;
        if is_new || self.libraries.has_unused(&copies) {
            let host = Arc::clone(self);
            // The operation is done, whatever becomes of this.
            let _ = patiently(move || {
                if is_new {
                    host.keep(choices);
                }
                host.libraries.remove_unused(&copies);
                Ok(())
            })
            .await;
        }
        Ok(report)
    }

    /// The choices as they are now, if they are kept, and the copies of libraries that are used. None at the end of the node:
    /// no module is known any more then, which is no operator's choice, and what was kept last holds.
    fn to_be_kept(&self) -> Option<(Option<Choices>, Vec<PathBuf>)> {
        let modules = self.modules();
        if modules.is_shutting_down {
            return None;
        }
        let copies = modules.copies();
        let has_file = self.options.choices_file.is_some();
        let choices = has_file.then(|| Choices::of(&modules, &self.settled(), &self.known_actors(), &self.ends()));
        Some((choices, copies))
    }

    /// Writes the choices. Blocks.
    fn keep(&self, choices: Option<Choices>) {
        let (Some(path), Some(now)) = (&self.options.choices_file, &choices) else { return };
        let written = now.write(path);
        let kept = match written {
            Ok(()) => choices,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the choice will not outlast the node");
                None
            }
        };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }
}
