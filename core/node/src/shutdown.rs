//! Signals: the first one stops the node in order, the second one immediately.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenon_supervisor::{Signal, Signals};

use crate::exit::{INTERRUPTED, Stop};

/// Listens for signals from now on.
///
/// # Errors
/// [`Stop::Failure`] if the operating system refuses.
pub(crate) fn listen() -> Result<Signals, Stop> {
    Signals::listen().map_err(|error| Stop::failure(format!("can't listen for signals: {error}")))
}

/// Waits for the first SIGINT or SIGTERM, and calls `reload` at every SIGHUP until then. After it, a second one ends
/// the process immediately, and so does a stop that takes longer than `max_stop_time`: the database is at a whole block at
/// every moment, so nothing is lost. An ephemeral data folder is removed then too.
pub(crate) async fn wait_for_the_first(
    mut signals: Signals,
    max_stop_time: Duration,
    ephemeral: Option<PathBuf>,
    mut reload: impl AsyncFnMut(),
) {
    while signals.next().await == Signal::Reload {
        reload().await;
    }
    tracing::info!("stopping; a second signal stops at once");
    tokio::spawn(async move {
        tokio::select! {
            () = next_stop_signal(&mut signals) => tracing::warn!("second signal: stopping at once, unfinished work is \
                dropped"),
            () = tokio::time::sleep(max_stop_time) => tracing::error!(limit = ?max_stop_time, "the stop took too long; \
                ended without finishing"),
        }
        if let Some(folder) = ephemeral {
            // The process ends anyway; anything left is in the system's temporary folder.
            let _ = std::fs::remove_dir_all(folder);
        }
        std::process::exit(i32::from(INTERRUPTED));
    });
}

/// A flag that the first SIGINT or SIGTERM sets; the second one ends the process. For commands that work in a loop and
/// check the flag. Must be called inside a runtime.
///
/// # Errors
/// [`Stop::Failure`] if the operating system refuses.
pub(crate) fn interruption_flag() -> Result<Arc<AtomicBool>, Stop> {
    let mut signals = listen()?;
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    tokio::spawn(async move {
        next_stop_signal(&mut signals).await;
        set.store(true, Ordering::Relaxed);
        next_stop_signal(&mut signals).await;
        std::process::exit(i32::from(INTERRUPTED));
    });
    Ok(flag)
}

async fn next_stop_signal(signals: &mut Signals) {
    while signals.next().await == Signal::Reload {
        tracing::info!("SIGHUP ignored: this command does not reload settings");
    }
}

/// The runtime of all asynchronous work.
///
/// # Errors
/// [`Stop::Failure`] if the operating system provides no threads.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Stop> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("tenon")
        .build()
        .map_err(|error| Stop::failure(format!("can't start the runtime: {error}")))
}
