//! HTTP for clients: JSON-RPC at `/`, signatures of bytes at `/api/v1/eth1`, `/upcheck` and `/reload`.

use std::{
    collections::{BTreeSet, HashMap},
    convert::Infallible,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use alloy_primitives::{Address, B256, Bytes, hex, keccak256};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tenon_bus::CallContext;
use tenon_file_access::check_secret;
use tenon_ipc::{Caller, Dispatcher, Exposure};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;
use zeroize::Zeroizing;

use crate::{
    Named, Service, ServiceError, Settings,
    client::{MAX_MESSAGE, envelope_limits},
    connections::{ConnectionGuard, Connections},
    methods, tls,
};

/// Time limit for each of the TLS handshake, a request's head and its body.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Shortest token, bytes.
const MIN_TOKEN: usize = 32;
/// Longest token, bytes.
const MAX_TOKEN: u64 = 4_096;

/// Why the HTTP front-end could not start.
#[derive(Debug, thiserror::Error)]
pub enum HttpStartError {
    /// The port can't be opened.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        reason: io::Error,
    },
    /// A token, certificate or key can't be used.
    #[error("{}: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// The clients, by their credentials.
#[derive(Default)]
struct Clients {
    /// By SHA-256 of their token, so that the time of a lookup reveals nothing about the tokens.
    by_token: HashMap<[u8; 32], Arc<str>>,
    /// By SHA-256 of their certificate.
    by_certificate: HashMap<[u8; 32], Arc<str>>,
    /// Names of the clients that may reload the policy.
    reloading: BTreeSet<String>,
}

/// The HTTP front-end, with an open port.
pub struct HttpFrontEnd {
    listener: TcpListener,
    state: Arc<State>,
}

struct State {
    service: Service,
    clients: Clients,
    /// If set, HTTPS is served instead of HTTP.
    tls: Option<TlsAcceptor>,
    approval_time: Duration,
    connections: Arc<Connections>,
}

type Answer = Response<Full<bytes::Bytes>>;

impl HttpFrontEnd {
    /// Opens the port of the settings; `None` if they have none.
    ///
    /// # Errors
    /// [`HttpStartError`].
    pub async fn open(settings: &Settings, service: Service) -> Result<Option<Self>, HttpStartError> {
        let Some(http) = &settings.http else { return Ok(None) };
        let mut clients = Clients::default();
        for (name, client) in &settings.clients {
            if client.reload {
                clients.reloading.insert(name.clone());
            }
            if let Some(path) = &client.token {
                let hash = token_hash(path)?;
                if clients.by_token.insert(hash, name.as_str().into()).is_some() {
                    return Err(file_error(path, "another client has the same token"));
                }
            }
            if let Some(path) = &client.certificate {
                let hash = tls::certificate_hash(path)?;
                if clients.by_certificate.insert(hash, name.as_str().into()).is_some() {
                    return Err(file_error(path, "another client has the same certificate"));
                }
            }
        }
        let tls = tls::acceptor(http)?;
        let address = http.address;
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|reason| HttpStartError::Listen { address, reason })?;
        let (approval_time, connections) = (settings.approval_time(), Arc::default());
        let state = State { service, clients, tls, approval_time, connections };
        Ok(Some(Self { listener, state: Arc::new(state) }))
    }

    /// The scheme: `https` with a certificate, else `http`.
    pub fn scheme(&self) -> &'static str {
        if self.state.tls.is_some() { "https" } else { "http" }
    }

    /// The address it listens on, with the actual port.
    ///
    /// # Errors
    /// The system's error.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves connections. Stops when the future is dropped.
    pub async fn run(self) {
        let Self { listener, state } = self;
        let serve = |stream, guard| {
            let state = Arc::clone(&state);
            async move {
                match &state.tls {
                    None => serve(&state, stream, None, guard).await,
                    Some(tls) => serve_encrypted(&state, tls, stream, guard).await,
                }
            }
        };
        state.connections.accept_all(listener, "accepting an HTTP connection failed", serve).await;
    }
}

/// Completes the TLS handshake, then serves the connection.
async fn serve_encrypted(state: &Arc<State>, tls: &TlsAcceptor, stream: TcpStream, guard: Arc<ConnectionGuard>) {
    // An error means that the client has no valid certificate or did not send TLS.
    let Ok(Ok(stream)) = tokio::time::timeout(READ_TIMEOUT, tls.accept(stream)).await else { return };
    let proved = stream.get_ref().1.peer_certificates().and_then(|certificates| certificates.first());
    let client = proved.and_then(|proved| state.clients.by_certificate.get(&sha256(proved)).cloned());
    serve(state, stream, client, guard).await;
}

/// Serves a connection. `certificate` is the client that the certificate authenticated, if any.
async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    state: &Arc<State>,
    stream: S,
    certificate: Option<Arc<str>>,
    guard: Arc<ConnectionGuard>,
) {
    let answering = service_fn(|request: Request<Incoming>| {
        let (state, certificate, guard) = (Arc::clone(state), certificate.clone(), Arc::clone(&guard));
        async move { Ok::<_, Infallible>(answer(&state, certificate, &guard, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_TIMEOUT)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), answering);
    // An error means that the client left or did not send HTTP.
    let _ = connection.await;
}

async fn answer(
    state: &State,
    certificate: Option<Arc<str>>,
    guard: &ConnectionGuard,
    request: Request<Incoming>,
) -> Answer {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    if request.headers().contains_key(header::ORIGIN) {
        return text(StatusCode::FORBIDDEN, "web pages cannot be clients of the signing service");
    }
    if method == Method::GET && path == "/upcheck" {
        return text(StatusCode::OK, "OK");
    }
    let Some(client) = certificate.or_else(|| state.clients.of_token(&request)) else {
        return text(StatusCode::UNAUTHORIZED, "a client's bearer token or certificate is needed");
    };
    if !guard.prove(&client) {
        return text(
            StatusCode::TOO_MANY_REQUESTS,
            "too many connections of this client, or a connection of two \
            clients",
        );
    }
    match (method, path.as_str()) {
        (Method::POST, "/") => json_rpc(state, &client, request).await,
        (Method::POST, "/reload") => reload(state, &client).await,
        (Method::GET, "/api/v1/eth1/publicKeys") => json(&public_keys(&state.service).await),
        (Method::POST, path) => match path.strip_prefix("/api/v1/eth1/sign/").map(account_of) {
            Some(Some(account)) => sign(state, &client, account, request).await,
            Some(None) => text(StatusCode::BAD_REQUEST, "the key is neither an address nor a public key"),
            None => text(StatusCode::NOT_FOUND, "no such path"),
        },
        _ => text(StatusCode::NOT_FOUND, "no such path"),
    }
}

impl Clients {
    fn of_token(&self, request: &Request<Incoming>) -> Option<Arc<str>> {
        let given = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = given.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        self.by_token.get(&sha256(token.trim().as_bytes())).cloned()
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

pub(crate) fn file_error(path: &Path, reason: impl Into<String>) -> HttpStartError {
    HttpStartError::File { path: path.to_owned(), reason: reason.into() }
}

/// SHA-256 of the token in a file, without surrounding white space.
fn token_hash(path: &Path) -> Result<[u8; 32], HttpStartError> {
    use std::io::Read as _;
    let read = || {
        let file = std::fs::File::open(path)?;
        let access = check_secret(&file.metadata()?);
        let mut token = Zeroizing::new(Vec::new());
        file.take(MAX_TOKEN + 1).read_to_end(&mut token)?;
        Ok((access, token))
    };
    let (access, token) = read().map_err(|error: io::Error| file_error(path, error.to_string()))?;
    let token = token.trim_ascii();
    access.map_err(|exposed| file_error(path, exposed.to_string()))?;
    let is_plain = token.iter().all(u8::is_ascii_graphic);
    match token.len() >= MIN_TOKEN && token.len() as u64 <= MAX_TOKEN && is_plain {
        true => Ok(sha256(token)),
        false => Err(file_error(path, format!("a token has {MIN_TOKEN} to {MAX_TOKEN} printable characters"))),
    }
}

/// Reads the body of a request. The error is the response if the body is too long or too slow.
async fn body_of(request: Request<Incoming>) -> Result<bytes::Bytes, Answer> {
    let reading = Limited::new(request.into_body(), MAX_MESSAGE).collect();
    match tokio::time::timeout(READ_TIMEOUT, reading).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(text(StatusCode::PAYLOAD_TOO_LARGE, &format!("at most {MAX_MESSAGE} bytes")))
        }
        Ok(Err(_)) => Err(text(StatusCode::BAD_REQUEST, "the body is incomplete")),
        Err(_) => Err(text(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
    }
}

async fn json_rpc(state: &State, client: &str, request: Request<Incoming>) -> Answer {
    let body = match body_of(request).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    let limits = envelope_limits(state.approval_time);
    let context = limits.call_timeout.map_or_else(CallContext::new, CallContext::with_timeout);
    let dispatcher = Dispatcher::new(Named::new(state.service.clone(), client), limits);
    let answer = dispatcher.answer_text(&body, &Caller::new(Exposure::all(), context)).await;
    of_type("application/json", StatusCode::OK, answer.unwrap_or_default())
}

/// Reloads the policy if the client is permitted to. Other clients are not, because a half-edited policy could permit
/// more.
async fn reload(state: &State, client: &str) -> Answer {
    if !state.clients.reloading.contains(client) {
        let words = "this client may not reload the policy: only approvers may, and clients with `reload = true`";
        return text(StatusCode::FORBIDDEN, words);
    }
    match state.service.reload_for(client).await {
        Ok(hash) => text(StatusCode::OK, &hash.to_string()),
        Err(error @ ServiceError::TooMany(_)) => text(StatusCode::TOO_MANY_REQUESTS, &error.to_string()),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// The body of a request to sign bytes.
#[derive(Deserialize)]
struct SignBody {
    data: Bytes,
}

async fn sign(state: &State, client: &str, account: Address, request: Request<Incoming>) -> Answer {
    let body = match body_of(request).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    let Ok(SignBody { data }) = serde_json::from_slice(&body) else {
        return text(StatusCode::BAD_REQUEST, "the body is not {\"data\": \"0x…\"}");
    };
    let limits = envelope_limits(state.approval_time);
    let context = limits.call_timeout.map_or_else(CallContext::new, CallContext::with_timeout);
    match methods::sign_raw(&state.service, client, account, data.to_vec(), &context).await {
        Ok(signature) => text(StatusCode::OK, &hex::encode_prefixed(signature)),
        Err(error @ ServiceError::Denied(_)) => text(StatusCode::FORBIDDEN, &error.to_string()),
        Err(error @ ServiceError::TooMany(_)) => text(StatusCode::TOO_MANY_REQUESTS, &error.to_string()),
        Err(error @ ServiceError::Invalid(_)) => text(StatusCode::BAD_REQUEST, &error.to_string()),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// The known public keys: those of unlocked key files. Devices are not asked for theirs, so they are missing.
async fn public_keys(service: &Service) -> Vec<String> {
    let mut keys = Vec::new();
    for account in service.accounts() {
        let authority = tenon_accounts::Authority { password: None, context: &CallContext::new() };
        let signer = service.wallets().signer(account, authority).await;
        keys.extend(signer.ok().and_then(|signer| signer.public_key()).map(hex::encode_prefixed));
    }
    keys
}

/// The account for an address or a public key (64 bytes, or 65 bytes with the prefix 4).
fn account_of(text: &str) -> Option<Address> {
    let bytes = hex::decode(text).ok()?;
    let of_key = |key: &[u8]| Address::from_word(B256::from(keccak256(key)));
    match bytes.as_slice() {
        address if address.len() == 20 => Some(Address::from_slice(address)),
        key if key.len() == 64 => Some(of_key(key)),
        [4, key @ ..] if key.len() == 64 => Some(of_key(key)),
        _ => None,
    }
}

fn text(status: StatusCode, text: &str) -> Answer {
    of_type("text/plain; charset=utf-8", status, text.as_bytes().to_vec())
}

fn json(value: &impl serde::Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(body) => of_type("application/json", StatusCode::OK, body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn of_type(kind: &'static str, status: StatusCode, body: Vec<u8>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    answer
}
