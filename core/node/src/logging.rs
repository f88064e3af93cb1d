//! Log lines on standard error.

use std::io::IsTerminal;

use tenon_config::{LogFormat, LogSettings};
use tracing_subscriber::EnvFilter;

use crate::exit::Stop;

/// Libraries that tell more than an operator wants to know, and what they may tell at verbosity 4.
const QUIETER: &str = "hyper=info,h2=info,tokio_tungstenite=info,tungstenite=info,soketto=info,actix=info,mio=info";

/// Starts logging.
///
/// # Errors
/// [`Stop::Usage`] when the filter can't be read.
pub(crate) fn start(settings: &LogSettings) -> Result<(), Stop> {
    let directives = match (&settings.filter, settings.verbosity) {
        (Some(filter), _) => filter.clone(),
        (None, 0) => "off".to_owned(),
        (None, 1) => "error".to_owned(),
        (None, 2) => "warn".to_owned(),
        (None, 3) => "info".to_owned(),
        (None, 4) => format!("debug,{QUIETER}"),
        (None, _) => "trace".to_owned(),
    };
    let filter = EnvFilter::try_new(&directives)
        .map_err(|error| Stop::Usage(format!("log.filter: {error}; write it like `tenon_storage=debug,warn`")))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(settings.verbosity > 3);
    // A second start happens in tests only; the first one stays.
    let _ = match settings.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    Ok(())
}
