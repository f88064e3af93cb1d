//! The results with which a failed block is compared (`tenon import --explain`): from a file, or from another node.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use alloy_primitives::{Address, B256};
use bytes::Bytes;
use clap::ArgMatches;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tenon_api::shown_json_problem;
use tenon_execution_block::{Explanation, ReferenceBlock};
use tenon_ipc_client::jsonrpsee::core::client::ClientT as _;
use tenon_ipc_client::jsonrpsee::core::params::ArrayParams;
use tenon_ipc_client::jsonrpsee::core::traits::ToRpcParams as _;
use tenon_ipc_client::jsonrpsee::rpc_params;
use tenon_ipc_client::{Client, ClientSettings};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::bounded_file;
use crate::exit::Stop;

/// Maximum length of an answer, bytes.
const MAX_ANSWER: usize = 256 << 20;
/// Time for one answer.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// Maximum number of accounts and slots that are asked about, each.
const MAX_ASKED: usize = 10_000;

/// Another node's results for the block that failed.
pub(super) enum Reference {
    /// Read from a file; empty if there is none.
    File(Box<ReferenceBlock>),
    /// The address of a node, which is asked once a block has failed: a URL, or the path of its socket.
    Node(String),
}

impl Reference {
    /// Reads the argument of `--explain`. `None` without it.
    ///
    /// # Errors
    /// [`Stop::Usage`] if it is neither a file nor an address.
    pub(super) fn named(matches: &ArgMatches) -> Result<Option<Self>, Stop> {
        let Some(name) = matches.get_one::<String>("explain") else { return Ok(None) };
        if name.is_empty() {
            return Ok(Some(Self::File(Box::default())));
        }
        let wrong = |error: &dyn std::fmt::Display| Stop::Usage(format!("--explain {name}: {error}"));
        if name.contains("://") {
            http_address(name).map_err(|error| wrong(&error))?;
            return Ok(Some(Self::Node(name.clone())));
        }
        if is_socket(name.as_ref()) {
            return Ok(Some(Self::Node(name.clone())));
        }
        let text = bounded_file::reference(name.as_ref()).map_err(|error| wrong(&error))?;
        serde_json::from_slice(&text)
            .map(|block| Some(Self::File(Box::new(block))))
            .map_err(|error| wrong(&shown_json_problem(&error)))
    }
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// Host with port, and path of a URL.
fn http_address(url: &str) -> Result<(String, String), String> {
    let uri: Uri = url.parse().map_err(|error| format!("not a URL: {error}"))?;
    if uri.scheme_str() != Some("http") {
        return Err("only http:// addresses and sockets are supported; for others, forward a local port".to_owned());
    }
    let host = uri.host().ok_or("the URL has no host")?;
    Ok((format!("{host}:{}", uri.port_u16().unwrap_or(80)), uri.path().to_owned()))
}

/// Another node, and what could not be asked.
pub(super) struct OtherNode {
    connection: Connection,
    /// Why results are missing from the comparison, one sentence each.
    pub(super) gaps: Vec<String>,
}

enum Connection {
    Socket(Client),
    Http { sender: SendRequest<Full<Bytes>>, host: String, path: String },
}

impl OtherNode {
    /// Connects to a node.
    ///
    /// # Errors
    /// Says why the node can't be reached.
    pub(super) fn connect(address: &str) -> Result<Self, String> {
        let connection = if address.contains("://") {
            let (host, path) = http_address(address)?;
            let sender = Handle::current().block_on(connect_http(&host)).map_err(|error| error.to_string())?;
            Connection::Http { sender, host, path }
        } else {
            let settings = ClientSettings {
                max_message_bytes: MAX_ANSWER,
                request_timeout: ANSWER_TIME,
                ..ClientSettings::default()
            };
            let socket = Handle::current().block_on(Client::connect_with(address, settings));
            Connection::Socket(socket.map_err(|error| error.to_string())?)
        };
        Ok(Self { connection, gaps: Vec::new() })
    }

    /// Asks for the receipts of the block, and for the accounts and slots that either node changed in it.
    ///
    /// # Errors
    /// Says why nothing can be compared. What is missing from a result is in [`OtherNode::gaps`].
    pub(super) fn results(&mut self, explanation: &Explanation) -> Result<ReferenceBlock, String> {
        let number = json!(format!("{:#x}", explanation.number.0));
        let block = self.request("eth_getBlockByNumber", rpc_params![&number, false])?;
        match block["hash"].as_str().and_then(|hash| hash.parse::<B256>().ok()) {
            None => return Err("it does not have the block".to_owned()),
            Some(hash) if hash != explanation.hash => {
                return Err(format!("it has another block at this number: {hash}"));
            }
            Some(_) => {}
        }
        let receipts = self.request("eth_getBlockReceipts", rpc_params![&number]).unwrap_or_else(|error| {
            self.gaps.push(format!("receipts: {error}"));
            json!([])
        });
        let accounts = self.accounts(&number, explanation).unwrap_or_else(|error| {
            self.gaps.push(format!("accounts: {error}"));
            Map::new()
        });
        let results = json!({ "receipts": receipts, "accounts": accounts });
        serde_json::from_value(results).map_err(|error| format!("its results can't be read: {error}"))
    }

    fn accounts(&mut self, number: &Value, explanation: &Explanation) -> Result<Map<String, Value>, String> {
        let own = explanation.accounts.iter().map(|change| change.address);
        // Nodes without the debug namespace can only be asked about accounts that this node changed.
        let theirs = self.request("debug_getModifiedAccountsByNumber", rpc_params![number]).unwrap_or_default();
        let theirs: Vec<Address> = serde_json::from_value(theirs).unwrap_or_default();
        let addresses: BTreeSet<Address> = own.chain(theirs).collect();
        let slots: usize = explanation.accounts.iter().map(|change| change.slots.len()).sum();
        if addresses.len() > MAX_ASKED || slots > MAX_ASKED {
            self.gaps.push(format!("only the first {MAX_ASKED} accounts and slots are compared"));
        }
        let mut slots_left = MAX_ASKED;
        let mut accounts = Map::new();
        for address in addresses.into_iter().take(MAX_ASKED) {
            let changed = explanation.accounts.iter().find(|change| change.address == address);
            let mut storage = Map::new();
            for change in changed.into_iter().flat_map(|change| &change.slots).take(slots_left) {
                let value = self.request("eth_getStorageAt", rpc_params![address, change.slot, number])?;
                storage.insert(change.slot.to_string(), value);
            }
            slots_left -= storage.len();
            let balance = self.request("eth_getBalance", rpc_params![address, number])?;
            let nonce = self.request("eth_getTransactionCount", rpc_params![address, number])?;
            accounts.insert(address.to_string(), json!({ "balance": balance, "nonce": nonce, "storage": storage }));
        }
        Ok(accounts)
    }

    fn request(&mut self, method: &str, params: ArrayParams) -> Result<Value, String> {
        let answered = match &mut self.connection {
            Connection::Socket(socket) => Handle::current()
                .block_on(socket.answer(socket.request(method, params)))
                .map_err(|error| error.to_string()),
            Connection::Http { sender, host, path } => {
                let calling = call_over_http(sender, (host, path), method, params);
                Handle::current()
                    .block_on(async { timeout(ANSWER_TIME, calling).await })
                    .unwrap_or_else(|_| Err(format!("no answer within {} s", ANSWER_TIME.as_secs())))
            }
        };
        answered.map_err(|error| format!("{method}: {error}"))
    }
}

async fn connect_http(host: &str) -> io::Result<SendRequest<Full<Bytes>>> {
    let stream = timeout(ANSWER_TIME, TcpStream::connect(host)).await??;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // The task ends once the sender is dropped. An error of the connection is also an error of the call.
    tokio::spawn(connection);
    Ok(sender)
}

async fn call_over_http(
    sender: &mut SendRequest<Full<Bytes>>,
    (host, path): (&str, &str),
    method: &str,
    params: ArrayParams,
) -> Result<Value, String> {
    let params = params.to_rpc_params().map_err(|error| error.to_string())?;
    let text = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let request = Request::post(path).header(HOST, host).header(CONTENT_TYPE, "application/json");
    let request = request.body(Full::new(Bytes::from(text))).map_err(|error| error.to_string())?;
    sender.ready().await.map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = answer.status();
    if !status.is_success() {
        return Err(format!("HTTP status {status}"));
    }
    let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await.map_err(|error| error.to_string())?;
    let mut answer: Value = serde_json::from_slice(&body.to_bytes()).map_err(|error| error.to_string())?;
    match answer["error"]["message"].as_str() {
        Some(message) => Err(message.chars().filter(|character| !character.is_control()).take(500).collect()),
        None => Ok(answer["result"].take()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_host_port_and_path() {
        let address = |url| http_address(url);
        assert_eq!(address("http://localhost:8545"), Ok(("localhost:8545".to_owned(), "/".to_owned())));
        assert_eq!(address("http://[::1]/rpc"), Ok(("[::1]:80".to_owned(), "/rpc".to_owned())));
        for wrong in ["https://node.example", "ws://localhost:1", "http://", "http:// x"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
