//! The `admin` namespace: operations on modules while the node serves, and facts for operators.
//!
//! It owns nothing: every operation is a message to the host, and the command line uses this namespace too. Invariant:
//! it never removes its own namespace, because nothing could restore it.
//!
//! Sources: `docs/spec/rpc-node.md` 3 for the reference's methods; the others are Tenon's own.

#![deny(unsafe_code)]

use tenon_sdk::prelude::*;

/// The namespace that this plugin serves.
const NAMESPACE: &str = "admin";

struct Admin;

impl Plugin for Admin {
    fn start(_host: Host, _settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
        Ok(Self)
    }
}

type AdminContext = Context<Admin>;

fn table() -> Table<Admin> {
    let table = Table::new(NAMESPACE, "1.0")
        .capabilities(&[Capability::Administer, Capability::ReadNode, Capability::ReadChain])
        .lasting_subscriptions();
    with_peers(with_modules(with_node(table)))
        .results(results::RESULTS)
        .parameters(results::PARAMETERS)
        .subscription("modules", modules)
        .subscription("peerEvents", peers::events)
}

/// Methods about the node, its chain and its front-ends.
fn with_node(table: Table<Admin>) -> Table<Admin> {
    table
        .read("admin_datadir", &[], "The data folder.", data_folder)
        .read(
            "admin_nodeInfo",
            &[],
            "The node's name and chain, and its address for peers while the network is on.",
            node_info,
        )
        .read("admin_peers", &[], "The connected peers.", list_peers)
        .slow_method(
            "admin_exportChain",
            &["file", "first", "last"],
            "Writes blocks to a file on the node's machine.",
            export_chain,
        )
        .slow_method("admin_importChain", &["file"], "Imports blocks from a file on the node's machine.", import_chain)
        .slow_method(
            "admin_makeCheckpoint",
            &[],
            "Copies the database into a folder of the data folder, for a backup.",
            make_checkpoint,
        )
        .method("admin_startRPC", &["host", "port", "cors", "apis", "vhosts"], "Opens HTTP.", start_http)
        .method("admin_startWS", &["host", "port", "cors", "apis"], "Opens WebSocket.", start_websocket)
        .method(
            "admin_setExposure",
            &["frontEnd", "options"],
            "Changes what HTTP or WebSocket exposes; without options, restores the settings.",
            set_exposure,
        )
        .method("admin_stopRPC", &[], "Closes HTTP.", stop_http)
        .method("admin_stopWS", &[], "Closes WebSocket.", stop_websocket)
}

/// Methods about the modules, and those that reload the settings.
fn with_modules(table: Table<Admin>) -> Table<Admin> {
    table
        .read("admin_listModules", &[], "All modules and their states.", list_modules)
        .read("admin_moduleInfo", &["name"], "All facts about one module.", module_info)
        .method("admin_loadModule", &["nameOrPath", "options"], "Loads a module and enables it.", load_module)
        .method(
            "admin_enableModule",
            &["name", "options"],
            "Starts a module, for a limited time if the options set one.",
            enable_module,
        )
        .method("admin_disableModule", &["name"], "Stops a module; it can be enabled again.", disable_module)
        .method("admin_replaceModule", &["name", "options"], "Replaces a module with another build.", replace_module)
        .method("admin_unloadModule", &["name"], "Stops a module and removes it from the list.", unload_module)
        .method(
            "admin_reloadSettings",
            &[],
            "Reads the settings again and applies those that need no restart.",
            reload_settings,
        )
        .method(
            "admin_purgeModuleStorage",
            &["name"],
            "Removes a module's stored data; refused while the module is enabled.",
            purge_storage,
        )
}

/// Methods about peers. `admin_peers` is with those about the node.
fn with_peers(table: Table<Admin>) -> Table<Admin> {
    table
        .method("admin_addPeer", &["url"], "Keeps a connection to a peer.", peers::add)
        .method("admin_removePeer", &["url"], "Ends the connection to a peer.", peers::remove)
        .method("admin_addTrustedPeer", &["url"], "Exempts a peer from the limits.", peers::trust)
        .method("admin_removeTrustedPeer", &["url"], "Ends a peer's exemption from the limits.", peers::distrust)
        .method(
            "admin_peerEvents",
            &[],
            "Subscribes to peers that connect and disconnect; WebSocket and Unix socket only.",
            peers::events_once,
        )
}

tenon_sdk::export!(Admin, table);

mod front_ends;
mod module_shape;
mod node_info;
mod peers;
mod results;

use front_ends::{set_exposure, start_http, start_websocket, stop_http, stop_websocket};
use module_shape::ModuleShape;
use node_info::{list_peers, node_info};

/// Imports every block as if a peer had sent it; blocks before a refused one are kept.
async fn import_chain(context: AdminContext, file: String) -> Result<bool, Failure> {
    context.call(ImportChain { path: file }).await?;
    Ok(true)
}

/// Exports canonical blocks in the format that `admin_importChain` reads; the file is written atomically.
async fn export_chain(
    context: AdminContext,
    file: String,
    first: Option<Number>,
    last: Option<Number>,
) -> Result<bool, Failure> {
    let number = |Number(number): Number| BlockNumber(number);
    let (first, last) = (first.map(number), last.map(number));
    context.call(ExportChain { path: file, first, last }).await?;
    Ok(true)
}

/// Returns the folder of the copy, which replaces the previous one.
async fn make_checkpoint(context: AdminContext) -> Result<String, Failure> {
    context.call(MakeCheckpoint).await
}

/// The second argument of `admin_loadModule`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LoadOptions {
    /// Its name; if absent, the library's.
    name: Option<String>,
    /// Whether it is enabled at once.
    enabled: Option<bool>,
    /// Its own settings.
    settings: Option<Settings>,
    /// Granted capabilities; if absent, those of the node's settings.
    grant: Option<Vec<String>>,
    /// Whether the operator vouches for this build.
    #[serde(default)]
    trust: bool,
}

/// The second argument of `admin_replaceModule`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReplaceOptions {
    /// The library; if absent, the module's own path, read again.
    path: Option<String>,
    /// Its own settings; unchanged if absent.
    settings: Option<Settings>,
    /// Granted capabilities; unchanged if absent.
    grant: Option<Vec<String>>,
    /// Whether the operator vouches for this build.
    #[serde(default)]
    trust: bool,
}

/// Converts the options `grant` and `trust` to the host's terms; an unknown capability is an error.
fn terms(grant: Option<Vec<String>>, trust: bool) -> Result<ModuleTerms, Failure> {
    let named = |names: Vec<String>| Capability::from_names(names.iter().map(String::as_str));
    let grant =
        grant.map(named).transpose().map_err(|error| Failure::invalid_params(format!("options.grant: {error}")))?;
    Ok(ModuleTerms { grant, is_vouched_for: trust })
}

/// The second argument of `admin_enableModule`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EnableOptions {
    /// Seconds after which it is disabled again; it stays enabled if absent.
    seconds: Option<u64>,
}

/// A plugin's own settings: any JSON object.
type Settings = serde_json::Map<String, serde_json::Value>;

fn as_text(settings: Option<Settings>) -> Option<String> {
    settings.map(|settings| serde_json::Value::Object(settings).to_string())
}

async fn data_folder(context: AdminContext) -> Result<String, Failure> {
    context.call(GetDataFolder).await
}

async fn list_modules(context: AdminContext) -> Result<Vec<ModuleShape>, Failure> {
    Ok(context.call(ListModules).await?.into_iter().map(ModuleShape::from).collect())
}

async fn module_info(context: AdminContext, name: String) -> Result<ModuleShape, Failure> {
    context.call(GetModule { name }).await.map(ModuleShape::from)
}

async fn load_module(
    context: AdminContext,
    name_or_path: String,
    options: Option<Json<LoadOptions>>,
) -> Result<ModuleReport, Failure> {
    let LoadOptions { name, enabled, settings, grant, trust } =
        options.map(|Json(options)| options).unwrap_or_default();
    let (name, path) = match name_or_path.contains('/') {
        // Without a name the host uses the library's.
        true => (name.unwrap_or_default(), Some(name_or_path)),
        false if name.is_none() => (name_or_path, None),
        false => return Err(Failure::invalid_params("options.name is only allowed with a path")),
    };
    let (settings, terms) = (as_text(settings), terms(grant, trust)?);
    let change = ModuleChange::Load { path, settings, is_enabled: enabled.unwrap_or(true), terms };
    context.call(ChangeModule { name, change, waits_for_drain: true }).await
}

async fn enable_module(
    context: AdminContext,
    name: String,
    options: Option<Json<EnableOptions>>,
) -> Result<ModuleReport, Failure> {
    let EnableOptions { seconds } = options.map(|Json(options)| options).unwrap_or_default();
    let change = seconds.map_or(ModuleChange::Enable, |seconds| ModuleChange::EnableFor { seconds });
    context.call(ChangeModule { name, change, waits_for_drain: true }).await
}

async fn disable_module(context: AdminContext, name: String) -> Result<ModuleReport, Failure> {
    refuse_own(&context, &name).await?;
    context.call(ChangeModule { name, change: ModuleChange::Disable, waits_for_drain: true }).await
}

async fn unload_module(context: AdminContext, name: String) -> Result<ModuleReport, Failure> {
    refuse_own(&context, &name).await?;
    context.call(ChangeModule { name, change: ModuleChange::Unload, waits_for_drain: true }).await
}

async fn reload_settings(context: AdminContext) -> Result<SettingsReport, Failure> {
    context.call(ReloadSettings { asked_by: Some(NAMESPACE.to_owned()) }).await
}

async fn purge_storage(context: AdminContext, name: String) -> Result<SpaceUsage, Failure> {
    context.call(PurgeSpace { module: name }).await
}

async fn replace_module(
    context: AdminContext,
    name: String,
    options: Option<Json<ReplaceOptions>>,
) -> Result<ModuleReport, Failure> {
    let ReplaceOptions { path, settings, grant, trust } = options.map(|Json(options)| options).unwrap_or_default();
    // This call runs in the old instance: waiting for the instance's end would never finish.
    let waits_for_drain = !is_own(&context, &name).await?;
    let change = ModuleChange::Replace { path, settings: as_text(settings), terms: terms(grant, trust)? };
    context.call(ChangeModule { name, change, waits_for_drain }).await
}

async fn is_own(context: &AdminContext, name: &str) -> Result<bool, Failure> {
    let info = context.call(GetModule { name: name.to_owned() }).await?;
    let library = info.plugin().and_then(|plugin| plugin.library.as_ref());
    Ok(info.state == ModuleState::Enabled && library.is_some_and(|library| library.namespace == NAMESPACE))
}

async fn refuse_own(context: &AdminContext, name: &str) -> Result<(), Failure> {
    if is_own(context, name).await? {
        return Err(Failure::server(format!(
            "module {name} serves this request, and could not be started again; set plugins.{name}.enabled = false and \
             reload the settings instead"
        )));
    }
    Ok(())
}

/// Sends a report at every change of a module's state.
async fn modules(context: AdminContext, sink: Sink) -> Result<(), Failure> {
    let mut changes = context.events::<ModuleChanged>();
    sink.accept().await;
    while let Some(delivery) = changes.next().await? {
        // After missed changes, the list of modules has the current state; a report describes only its own moment.
        if let Delivery::Event(ModuleChanged { report }) = delivery {
            sink.send(&report).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
