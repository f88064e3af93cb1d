//! Log lines on standard error.

use std::{
    io::IsTerminal,
    sync::{Mutex, OnceLock, PoisonError},
};

use tenon_api::Failure;
use tenon_config::{LogFormat, LogSettings};
use tracing_subscriber::EnvFilter;

use crate::exit::Stop;
use crate::log_output::LogOutput;

/// Libraries that tell more than an operator wants to know, and what they may tell at verbosity 4.
const QUIETER: &str = "hyper=info,h2=info,tokio_tungstenite=info,tungstenite=info,soketto=info,actix=info,mio=info";

/// The one log of this process, once it has been started.
static LOG: OnceLock<Log> = OnceLock::new();

/// State of the running log.
struct Log {
    /// The filter in words. Nothing awaits under this lock.
    directives: Mutex<Directives>,
    /// Puts another filter in place.
    reload: Reload,
}

type Reload = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// A filter in words: what holds in general, and what holds for parts of the program.
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
    // The filter is the outermost layer: it can be exchanged only where nothing is put around it afterwards.
    let reload: Reload = match settings.format {
        LogFormat::Text => {
            let builder = builder.with_env_filter(filter).with_filter_reloading();
            let handle = builder.reload_handle();
            // A second start happens in tests only; the first one stays.
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

/// The filter that the settings ask for, in words and as it is applied.
///
/// # Errors
/// [`Stop::Usage`] when it can't be read.
pub(crate) fn filter_of(settings: &LogSettings) -> Result<(String, EnvFilter), Stop> {
    let general = match &settings.filter {
        Some(filter) => filter.clone(),
        None => general_directives(settings.verbosity),
    };
    let filter = EnvFilter::try_new(&general)
        .map_err(|error| Stop::Usage(format!("log.filter: {error}; write it like `tenon_storage=debug,warn`")))?;
    Ok((general, filter))
}

/// Says how much is logged from now on, 0 to 5; more counts as 5. What holds for parts of the program stays.
///
/// # Errors
/// That this process writes no log.
pub(crate) fn set_level(level: u8) -> Result<(), Failure> {
    change(|directives| directives.general = general_directives(level.min(5)))
}

/// Says which parts of the program log more than the rest from now on; an empty list ends it.
///
/// # Errors
/// A name that no part of a program can have, or that this process writes no log.
pub(crate) fn set_modules(modules: Vec<(String, u8)>) -> Result<(), Failure> {
    change(|directives| directives.modules = modules)
}

fn change(change: impl FnOnce(&mut Directives)) -> Result<(), Failure> {
    let log = LOG.get().ok_or_else(|| Failure::server("this process writes no log"))?;
    let mut directives = log.directives.lock().unwrap_or_else(PoisonError::into_inner);
    let mut changed = directives.clone();
    change(&mut changed);
    let text = changed.text();
    let filter = EnvFilter::try_new(&text).map_err(|error| Failure::server(format!("log filter {text:?}: {error}")))?;
    (log.reload)(filter).map_err(|reason| Failure::server(format!("log filter {text:?}: {reason}")))?;
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
    fn a_filter_in_words_puts_parts_of_the_program_behind_the_rest() {
        let directives = Directives { general: general_directives(2), modules: vec![("tenon_storage".to_owned(), 5)] };

        assert_eq!(directives.text(), "warn,tenon_storage=trace");
        assert!(EnvFilter::try_new(directives.text()).is_ok());
        assert!(EnvFilter::try_new(general_directives(4)).is_ok());
    }
}
