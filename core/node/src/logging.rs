//! Log lines on standard error.

use std::{io::IsTerminal, sync::OnceLock};

use parking_lot::Mutex;
use tenon_config::{LogFormat, LogSettings};
use tracing_subscriber::EnvFilter;

use crate::exit::Stop;
use crate::log_output::LogOutput;

/// Libraries that log more than an operator needs, and their maximum levels at verbosity 4.
const QUIETER: &str = "hyper=info,h2=info,actix=info,mio=info";

/// This process's log, once it has been started.
static LOG: OnceLock<Log> = OnceLock::new();

/// State of the running log.
struct Log {
    /// The filter as text. Nothing awaits under this lock.
    directives: Mutex<Directives>,
    /// Replaces the filter.
    reload: Reload,
}

type Reload = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// A filter as text: the general part, and the part for modules of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Directives {
    general: String,
    modules: Vec<(String, u8)>,
}

impl Directives {
    fn text(&self) -> String {
        let mut text = self.general.clone();
        for (module, level) in &self.modules {
            text.push_str(&format!(",{module}={}", level_name(*level)));
        }
        text
    }
}

/// Starts logging.
///
/// # Errors
/// [`Stop::Usage`] when the filter can't be read.
pub(crate) fn start(settings: &LogSettings) -> Result<(), Stop> {
    let (general, filter) = filter_of(settings)?;
    let builder = tracing_subscriber::fmt()
        .with_writer(|| LogOutput)
        .log_internal_errors(false)
        // The lines of a file are those of the terminal.
        .with_ansi(std::io::stderr().is_terminal() && settings.file.is_none())
        .with_target(settings.verbosity > 3);
    let directives = Mutex::new(Directives { general, modules: Vec::new() });
    // The filter must be the outermost layer: it can be replaced only if no other layer wraps it.
    let reload: Reload = match settings.format {
        LogFormat::Text => {
            let builder = builder.with_env_filter(filter).with_filter_reloading();
            let handle = builder.reload_handle();
            // A second start happens in tests only; the first one remains.
            let Ok(()) = builder.try_init() else { return Ok(()) };
            Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string()))
        }
        LogFormat::Json => {
            let builder = builder.json().with_env_filter(filter).with_filter_reloading();
            let handle = builder.reload_handle();
            let Ok(()) = builder.try_init() else { return Ok(()) };
            Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string()))
        }
    };
    let _ = LOG.set(Log { directives, reload });
    Ok(())
}

/// The filter in the settings, as text and as applied.
///
/// # Errors
/// [`Stop::Usage`] if it can't be parsed.
pub(crate) fn filter_of(settings: &LogSettings) -> Result<(String, EnvFilter), Stop> {
    let general = match &settings.filter {
        Some(filter) => filter.clone(),
        None => general_directives(settings.verbosity),
    };
    let filter = EnvFilter::try_new(&general)
        .map_err(|error| Stop::Usage(format!("log.filter: {error}; write it like `tenon_storage=debug,warn`")))?;
    Ok((general, filter))
}

/// Why the log filter was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LogError {
    /// This process has no log.
    #[error("this process has no log")]
    NoLog,
    /// The new filter was refused.
    #[error("log filter {text:?}: {reason}")]
    Filter {
        /// The new filter.
        text: String,
        /// Why it was refused.
        reason: String,
    },
}

/// Sets the general log level from now on, 0 to 5; higher values count as 5. Levels of modules do not change.
///
/// # Errors
/// [`LogError::NoLog`].
pub(crate) fn set_level(level: u8) -> Result<(), LogError> {
    change(|directives| directives.general = general_directives(level.min(5)))
}

/// Sets the log levels of modules of the program from now on; an empty list removes them.
///
/// # Errors
/// [`LogError::Filter`] for a name that no module can have, or [`LogError::NoLog`].
pub(crate) fn set_modules(modules: Vec<(String, u8)>) -> Result<(), LogError> {
    change(|directives| directives.modules = modules)
}

fn change(change: impl FnOnce(&mut Directives)) -> Result<(), LogError> {
    let log = LOG.get().ok_or(LogError::NoLog)?;
    let mut directives = log.directives.lock();
    let mut changed = directives.clone();
    change(&mut changed);
    let text = changed.text();
    let refused = |reason| LogError::Filter { text: text.clone(), reason };
    let filter = EnvFilter::try_new(&text).map_err(|error| refused(error.to_string()))?;
    (log.reload)(filter).map_err(refused)?;
    *directives = changed;
    tracing::info!(filter = text, "log filter changed");
    Ok(())
}

fn general_directives(level: u8) -> String {
    if level == 4 { format!("debug,{QUIETER}") } else { level_name(level).to_owned() }
}

const fn level_name(level: u8) -> &'static str {
    match level {
        0 => "off",
        1 => "error",
        2 => "warn",
        3 => "info",
        4 => "debug",
        _ => "trace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filters_text_has_the_general_part_before_the_modules() {
        let directives = Directives { general: general_directives(2), modules: vec![("tenon_storage".to_owned(), 5)] };

        assert_eq!(directives.text(), "warn,tenon_storage=trace");
        assert!(EnvFilter::try_new(directives.text()).is_ok());
        assert!(EnvFilter::try_new(general_directives(4)).is_ok());
    }
}
