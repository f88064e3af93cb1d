//! The end of an operation: saves its effects and publishes its event.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use tenon_api::messages::{ModuleChanged, ModuleReport};

use crate::{ModuleError, ModuleRegister, choices::Choices, low_priority::run_at_low_priority};

impl ModuleRegister {
    /// Publishes the report, saves the choice and tidies up.
    ///
    /// # Errors
    /// [`ModuleError::ChoicesNotStored`] if the choice could not be written. The operation is done nevertheless.
    pub(crate) async fn finish_operation(self: &Arc<Self>, report: ModuleReport) -> Result<ModuleReport, ModuleError> {
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
        let Some((choices, copies)) = self.choices_to_store() else { return Ok(report) };
        let is_new = choices.is_some() && *self.kept.lock() != choices;
        if is_new || self.libraries.has_unused(&copies) {
            let (host, name) = (Arc::clone(self), report.module.clone());
            run_at_low_priority(move || {
                let kept = if is_new { host.write_choices(&name, choices) } else { Ok(()) };
                host.libraries.remove_unused(&copies);
                kept
            })
            .await?;
        }
        Ok(report)
    }

    /// Writes choices that could not be written before, if there are any.
    ///
    /// # Errors
    /// As [`ModuleRegister::finish_operation`].
    pub(crate) async fn retry_writing_choices(self: &Arc<Self>, name: &str) -> Result<(), ModuleError> {
        if !self.is_unsaved.load(Ordering::Acquire) {
            return Ok(());
        }
        let Some((choices, _)) = self.choices_to_store() else { return Ok(()) };
        let (host, name) = (Arc::clone(self), name.to_owned());
        run_at_low_priority(move || host.write_choices(&name, choices)).await
    }

    /// The current choices, if they are stored, and the library copies in use. `None` while the node stops: all modules
    /// are gone then, but not by an operator's choice, so the last stored choices remain valid.
    fn choices_to_store(&self) -> Option<(Option<Choices>, Vec<PathBuf>)> {
        let modules = self.modules.lock();
        if modules.is_shutting_down {
            return None;
        }
        let copies = modules.copies();
        let has_file = self.options.choices_file.is_some();
        let choices =
            has_file.then(|| Choices::of(&modules, &self.configured.lock(), &self.known_actors(), &self.ends.lock()));
        Some((choices, copies))
    }

    /// Writes the choices. Blocks.
    fn write_choices(&self, name: &str, choices: Option<Choices>) -> Result<(), ModuleError> {
        let (Some(path), Some(now)) = (&self.options.choices_file, &choices) else { return Ok(()) };
        let written = now.write(path);
        self.is_unsaved.store(written.is_err(), Ordering::Release);
        let kept = if written.is_ok() { choices } else { None };
        *self.kept.lock() = kept;
        written.map_err(|error| {
            tracing::warn!(path = %path.display(), %error, "a choice about a module could not be stored; it ends \
                with the node");
            ModuleError::ChoicesNotStored { name: name.to_owned(), path: path.clone(), reason: error.to_string() }
        })
    }
}
