//! The limit of open files: raises it for a node and for the signing service, and fits a node's tables and clients to
//! it.
//!
//! If connections use the last descriptor, the database can't start its next log, and refuses every later write until a
//! restart. So the limit is raised as far as the system allows, and the settings' maximum numbers of clients and tables
//! are reduced to fit it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tenon_config::Settings;

use crate::exit::Stop;

/// A node's open files besides tables and connections: the database's folders and logs, threads' pollers, listeners,
/// the journal, plugins' processes. 50 when idle; a compaction writes several tables at once.
const OWN: u64 = 112;
/// Minimum limit for a start: fewer would leave too few files for tables and connections besides [`OWN`].
const MIN_FILES: u64 = 256;
/// If the limit is too low, tables get at most `1 / TABLES` of the files that [`OWN`] and peers leave.
const TABLES: u64 = 4;

/// Raises the process's own limit of open files to the system's maximum; `None` if there is no limit.
fn raised() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, current, maximum, "the limit of open files can't be raised");
            current
        }
    }
}

/// Raises the limit of open files for a process that needs `wanted`.
///
/// # Errors
/// [`Stop::Failure`] if the system allows fewer.
pub(crate) fn require(wanted: u64) -> Result<(), Stop> {
    match raised() {
        Some(max) if max < wanted => Err(Stop::Failure(format!(
            "this process may have {max} files open, but needs {wanted} with these settings; raise the limit \
             (`ulimit -n {wanted}`, LimitNOFILE= of systemd)"
        ))),
        _ => Ok(()),
    }
}

/// Raises the limit of open files, and reduces the settings' maximum numbers of tables and clients if it is too low for
/// them.
///
/// # Errors
/// [`Stop::Failure`] if it is too low for a node.
pub(crate) fn raise_limit_and_fit_settings(settings: &mut Settings) -> Result<(), Stop> {
    raised().map_or(Ok(()), |max| fit_settings_to(max, settings))
}

/// Open files of the network, if the settings enable it: two for each peer, and one for each handshake.
fn peers(settings: &Settings) -> u64 {
    let peers = &settings.peers;
    if peers.enabled { 2 * u64::from(peers.maxpeers) + u64::from(peers.maxpendpeers.max(50)) } else { 0 }
}

fn fit_settings_to(max: u64, settings: &mut Settings) -> Result<(), Stop> {
    let http = u64::from(settings.http.connections) * u64::from(settings.http.enabled);
    let websocket = u64::from(settings.ws.connections) * u64::from(settings.ws.enabled);
    let socket = u64::from(settings.ipc.connections) * u64::from(!settings.ipc.disabled);
    let (tables, connections) = (u64::from(settings.database.open_files), http + websocket + socket);
    let own = OWN + peers(settings);
    let wanted = own + tables + connections;
    if wanted <= max {
        return Ok(());
    }
    let min = MIN_FILES + peers(settings);
    if max < min {
        return Err(Stop::Failure(format!(
            "this process may have {max} files open, but a node needs at least {min}, and {wanted} with these \
             settings; raise the limit (`ulimit -n {wanted}`, LimitNOFILE= of systemd)"
        )));
    }
    let tables = tables.min(max.saturating_sub(own) / TABLES);
    let left = max.saturating_sub(own + tables);
    // Rounded down, so that the shares together never exceed `left`.
    let share = |count: u32| u32::try_from(u64::from(count) * left / connections.max(1)).unwrap_or(count).min(count);
    settings.database.open_files = u32::try_from(tables).unwrap_or(settings.database.open_files);
    settings.http.connections = share(settings.http.connections);
    settings.ws.connections = share(settings.ws.connections);
    settings.ipc.connections = share(settings.ipc.connections);
    tracing::warn!(
        files = max,
        wanted,
        tables,
        http = settings.http.connections,
        ws = settings.ws.connections,
        ipc = settings.ipc.connections,
        "the limit of open files is too low for the settings, so fewer clients are served; raise the limit (ulimit \
         -n)"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(settings: &Settings) -> u64 {
        let Settings { http, ws, ipc, database, .. } = settings;
        OWN + [http.connections, ws.connections, ipc.connections, database.open_files]
            .map(u64::from)
            .iter()
            .sum::<u64>()
    }

    #[test]
    fn settings_that_fit_are_unchanged() {
        let mut settings = Settings::default();

        fit_settings_to(total(&settings), &mut settings).unwrap();

        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn a_low_limit_is_shared_out_and_never_exceeded() {
        for max in [MIN_FILES, 300, 1_024, 2_000] {
            let mut settings = Settings::default();
            assert!(total(&settings) > max);

            fit_settings_to(max, &mut settings).unwrap();

            assert!(total(&settings) <= max, "{max}: {settings:?}");
            let shares = [settings.http.connections, settings.ws.connections, settings.ipc.connections];
            assert!(shares.iter().all(|share| *share >= 20), "{max}: {shares:?}");
            assert!(settings.database.open_files >= 36, "{max}");
        }
    }

    #[test]
    fn disabled_parts_get_no_share() {
        let mut settings = Settings::default();
        (settings.http.enabled, settings.ws.enabled) = (false, false);

        fit_settings_to(1_024, &mut settings).unwrap();

        assert!(settings.ipc.connections >= 400, "{}", settings.ipc.connections);
    }

    #[test]
    fn a_limit_too_low_for_a_node_is_refused_with_a_remedy() {
        let mut settings = Settings::default();

        let refused = fit_settings_to(MIN_FILES - 1, &mut settings).unwrap_err().to_string();

        assert!(refused.contains("255 files") && refused.contains("ulimit -n"), "{refused}");
    }
}
