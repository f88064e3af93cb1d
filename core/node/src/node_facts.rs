//! The node's facts about itself on the bus: its name, its folder, its sync status.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use tenon_api::messages::{GetChainConfig, GetClientVersion, GetDataFolder, GetSyncStatus};
use tenon_bus::{Bus, CallContext};

use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::front_ends;
use crate::health::Health;
use crate::version::client_version;

/// The part of a genesis file with the rules of its chain.
#[derive(Deserialize)]
struct WithConfig {
    config: Box<RawValue>,
}

/// Answers [`GetClientVersion`], [`GetDataFolder`], [`GetChainConfig`] and [`GetSyncStatus`]. Until the network takes
/// blocks from peers, the node counts as behind if its head is too old.
///
/// # Errors
/// [`Stop`] if another module already answers one of them, or the folder's genesis can't be read.
pub(crate) fn register(bus: &Bus, identity: &str, folder: &DataFolder, health: &Arc<Health>) -> Result<(), Stop> {
    let name = client_version(identity);
    bus.handle_read(move |_: GetClientVersion, _: &CallContext| Ok(name.clone()))?;
    let config = chain_config(folder)?;
    bus.handle_read(move |_: GetChainConfig, _: &CallContext| Ok(config.clone()))?;
    let folder = front_ends::absolute(folder.path()).display().to_string();
    bus.handle_read(move |_: GetDataFolder, _: &CallContext| Ok(folder.clone()))?;
    let health = Arc::clone(health);
    bus.handle_read(move |_: GetSyncStatus, _: &CallContext| Ok(health.sync_status()))?;
    Ok(())
}

/// The object `config` of the folder's genesis, as written, in one line.
fn chain_config(folder: &DataFolder) -> Result<String, Stop> {
    let genesis = folder.genesis()?.unwrap_or_default();
    let WithConfig { config } = serde_json::from_slice(&genesis)
        .map_err(|error| Stop::DataFolder(format!("{}: its genesis file: {error}", folder.path().display())))?;
    Ok(compact(config.get()))
}

/// A JSON text without white space between its tokens: answers are single lines.
fn compact(json: &str) -> String {
    let (mut is_in_text, mut is_escaped) = (false, false);
    let is_kept = |character: &char| {
        let is_kept = is_in_text || !character.is_ascii_whitespace();
        match character {
            '"' if !is_escaped => is_in_text = !is_in_text,
            _ => {}
        }
        is_escaped = *character == '\\' && !is_escaped;
        is_kept
    };
    json.chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_genesis_of_many_lines_gives_one_line_with_the_same_meaning() {
        let cases = [
            ("{ \"a\" : 1,\n\t\"b c\" : [ 2, \"d  e\" ] }", r#"{"a":1,"b c":[2,"d  e"]}"#),
            (r#"{ "quote": "\" ", "slash": "\\" , "x": " y" }"#, r#"{"quote":"\" ","slash":"\\","x":" y"}"#),
        ];
        for (text, wanted) in cases {
            assert_eq!(compact(text), wanted);
        }
    }
}
