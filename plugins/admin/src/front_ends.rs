//! Opens and closes HTTP and WebSocket (`docs/spec/rpc-node.md` 3.1, 3.7). They are modules of the node; the node
//! checks requested values like those in its settings.

use super::*;

/// A list in the reference's form: names separated by commas.
fn list(text: Option<String>) -> Option<Vec<String>> {
    text.map(|text| text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect())
}

fn port(port: Option<Number>) -> Result<Option<u16>, Failure> {
    let Some(Number(port)) = port else { return Ok(None) };
    let refusal = |_| Failure::invalid_params(format!("{port} is not a port (0 to 65535)"));
    u16::try_from(port).map(Some).map_err(refusal)
}

/// The second argument of `admin_setExposure`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExposureOptions {
    /// Namespaces to serve.
    namespaces: Option<Vec<String>>,
    /// Methods to refuse, by name or by pattern.
    denied_methods: Option<Vec<String>>,
    /// Namespaces that need a token.
    token_namespaces: Option<Vec<String>>,
    /// Duration of the change, in seconds; unlimited if absent.
    seconds: Option<u64>,
}

/// Members that are absent stay unchanged. Without the options argument, the values of the settings apply again.
pub(crate) async fn set_exposure(
    context: AdminContext,
    front_end: String,
    options: Option<Json<ExposureOptions>>,
) -> Result<ExposureReport, Failure> {
    let front_end = match front_end.as_str() {
        "http" => FrontEnd::Http,
        "ws" | "websocket" => FrontEnd::WebSocket,
        other => {
            let other = shown_name(other);
            return Err(Failure::invalid_params(format!("there is no front-end {other:?}: http or websocket")));
        }
    };
    let is_reset = options.is_none();
    let none = ExposureOptions { namespaces: None, denied_methods: None, token_namespaces: None, seconds: None };
    let ExposureOptions { namespaces, denied_methods, token_namespaces, seconds } =
        options.map_or(none, |Json(options)| options);
    context.call(SetExposure { front_end, namespaces, denied_methods, token_namespaces, seconds, is_reset }).await
}

/// Defaults are restrictive: `localhost`, port 8546, no other origins, `eth,net,web3`. Returns true once it listens.
pub(crate) async fn start_http(
    context: AdminContext,
    host: Option<String>,
    number: Option<Number>,
    cors: Option<String>,
    apis: Option<String>,
    vhosts: Option<String>,
) -> Result<bool, Failure> {
    let request = StartFrontEnd {
        front_end: FrontEnd::Http,
        host,
        port: port(number)?,
        origins: list(cors),
        namespaces: list(apis),
        virtual_hosts: list(vhosts),
    };
    context.call(request).await?;
    Ok(true)
}

/// As [`start_http`]; `origins` are those whose pages may connect.
pub(crate) async fn start_websocket(
    context: AdminContext,
    host: Option<String>,
    number: Option<Number>,
    origins: Option<String>,
    apis: Option<String>,
) -> Result<bool, Failure> {
    let request = StartFrontEnd {
        front_end: FrontEnd::WebSocket,
        host,
        port: port(number)?,
        origins: list(origins),
        namespaces: list(apis),
        virtual_hosts: None,
    };
    context.call(request).await?;
    Ok(true)
}

/// Returns true if it was open.
pub(crate) async fn stop_http(context: AdminContext) -> Result<bool, Failure> {
    stop(&context, "http").await
}

/// Returns true if it was open.
pub(crate) async fn stop_websocket(context: AdminContext) -> Result<bool, Failure> {
    stop(&context, "websocket").await
}

async fn stop(context: &AdminContext, module: &str) -> Result<bool, Failure> {
    let info = context.call(GetModule { name: module.to_owned() }).await?;
    let was_open = info.state == ModuleState::Enabled;
    if info.state != ModuleState::Disabled {
        // This call may use the front-end itself, so the answer does not wait until its running calls have ended.
        let change = ModuleChange::Disable;
        context.call(ChangeModule { name: module.to_owned(), change, waits_for_drain: false }).await?;
    }
    Ok(was_open)
}
