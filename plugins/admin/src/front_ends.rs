//! HTTP and WebSocket, opened and closed (`spec/rpc-node.md` 3.1, 3.7). They are modules of the node; what is asked for
//! beyond the settings is checked by the node as if it stood there.

use super::*;

/// A list as the reference takes it: names between commas.
fn list(text: Option<String>) -> Option<Vec<String>> {
    text.map(|text| text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect())
}

fn port(port: Option<Number>) -> Result<Option<u16>, Failure> {
    let Some(Number(port)) = port else { return Ok(None) };
    let refusal = |_| Failure::invalid_params(format!("{port} is no port: 0 to 65535"));
    u16::try_from(port).map(Some).map_err(refusal)
}

/// Without an argument the settings decide. True when it listens.
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

/// True, also when it was closed already.
pub(crate) async fn stop_http(context: AdminContext) -> Result<bool, Failure> {
    stop(&context, "http").await
}

/// True, also when it was closed already.
pub(crate) async fn stop_websocket(context: AdminContext) -> Result<bool, Failure> {
    stop(&context, "websocket").await
}

async fn stop(context: &AdminContext, module: &str) -> Result<bool, Failure> {
    let info = context.call(GetModule { name: module.to_owned() }).await?;
    if info.state != ModuleState::Disabled {
        // This very call may have come that way: what runs is finished after the answer.
        let change = ModuleChange::Disable;
        context.call(ChangeModule { name: module.to_owned(), change, waits_for_drain: false }).await?;
    }
    Ok(true)
}
