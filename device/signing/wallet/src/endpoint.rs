//! The address of a signing service, and requests to it.
//!
//! Implemented here, because jsonrpsee's clients have no transport over a Unix socket and `tenon-ipc-client` has none
//! over HTTP. Each request has a connection of its own, which closes, and so cancels the request, when its future is
//! dropped.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
};

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a call to the service failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The text is not the address of a service.
    #[error(
        "{0:?} is not the address of a signing service: give the path of its socket, or http://ADDRESS:PORT of \
        this machine"
    )]
    Url(String),
    /// The token is missing or can't be sent.
    #[error("a signing service over HTTP needs the client's token")]
    Token,
    /// The service can't be reached.
    #[error("the signing service at {endpoint} can't be reached: {reason}")]
    Unreachable {
        /// The service's address.
        endpoint: String,
        /// Why.
        reason: String,
    },
    /// The response is not valid.
    #[error("the signing service at {endpoint} gave an invalid answer: {reason}")]
    Wrong {
        /// The service's address.
        endpoint: String,
        /// What is wrong.
        reason: String,
    },
    /// The service refused, with this text.
    #[error("{0}")]
    Refused(String),
}

/// The answer of a method.
pub(crate) trait Answer: DeserializeOwned {
    /// Maximum length of a response, bytes, for a request of this length. A longer one is refused without reading it to
    /// its end.
    fn max_length(request: usize) -> usize;
}

/// A request of JSON-RPC.
#[derive(Serialize)]
struct Call<'a, P> {
    jsonrpc: &'static str,
    id: u32,
    method: &'a str,
    params: &'a P,
}

/// A response of JSON-RPC. Other members are skipped without being kept.
#[derive(Deserialize)]
struct Response<T> {
    result: Option<T>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    message: String,
}

#[derive(Clone, derive_more::Display)]
enum EndpointAddress {
    #[display("{}", _0.display())]
    Socket(PathBuf),
    #[display("http://{address}")]
    Http { address: SocketAddr, token: Arc<str> },
}

/// The address of a signing service.
#[derive(Clone, derive_more::Display, derive_more::Debug)]
#[debug("Endpoint({self})")]
pub struct Endpoint(EndpointAddress);

impl Endpoint {
    /// Parses a path, `unix:PATH`, or `http://ADDRESS:PORT`, which needs a token. HTTP must lead to this machine,
    /// because it is not encrypted.
    ///
    /// # Errors
    /// [`EndpointError::Url`], [`EndpointError::Token`].
    pub fn new(url: &str, token: Option<&str>) -> Result<Self, EndpointError> {
        if let Some(rest) = url.strip_prefix("http://") {
            let address: Option<SocketAddr> = rest.trim_end_matches('/').parse().ok();
            let address = address.filter(|address| address.ip().is_loopback());
            let address = address.ok_or_else(|| EndpointError::Url(url.to_owned()))?;
            let token = token.map(str::trim).filter(|token| !token.is_empty()).ok_or(EndpointError::Token)?;
            return Ok(Self(EndpointAddress::Http { address, token: token.into() }));
        }
        let path = url.strip_prefix("unix://").or_else(|| url.strip_prefix("unix:")).unwrap_or(url);
        match path.is_empty() || path.contains("://") {
            true => Err(EndpointError::Url(url.to_owned())),
            false => Ok(Self(EndpointAddress::Socket(path.into()))),
        }
    }

    /// Sends a request and returns its result. Dropping the future also cancels the request at the service.
    ///
    /// # Errors
    /// [`EndpointError`].
    pub(crate) async fn request<T: Answer>(&self, method: &str, params: &impl Serialize) -> Result<T, EndpointError> {
        let call = Call { jsonrpc: "2.0", id: 1, method, params };
        let request = serde_json::to_vec(&call).map_err(|error| self.wrong(error))?;
        let max = T::max_length(request.len());
        let text = match &self.0 {
            EndpointAddress::Socket(path) => {
                let connecting = tokio::time::timeout(CONNECT_TIMEOUT, UnixStream::connect(path)).await;
                let stream = connecting.map_err(|_| self.unreachable("no answer in time"))?;
                self.over_socket(stream.map_err(|error| self.unreachable(error))?, request, max).await?
            }
            EndpointAddress::Http { address, token } => self.over_http(*address, token, request, max).await?,
        };
        let response: Response<T> = serde_json::from_slice(&text).map_err(|error| self.wrong(error))?;
        match (response.error, response.result) {
            (Some(refusal), _) => Err(EndpointError::Refused(shown(&refusal.message))),
            (None, Some(result)) => Ok(result),
            (None, None) => Err(self.wrong("it has neither result nor error")),
        }
    }

    async fn over_socket(
        &self,
        mut stream: UnixStream,
        mut request: Vec<u8>,
        max: usize,
    ) -> Result<Vec<u8>, EndpointError> {
        let broken = |error: std::io::Error| self.unreachable(error);
        request.push(b'\n');
        stream.write_all(&request).await.map_err(broken)?;
        let mut text = Vec::new();
        loop {
            let count = stream.read_buf(&mut text).await.map_err(broken)?;
            if text.len() > max {
                return Err(self.too_long(max));
            }
            if text.last() == Some(&b'\n') {
                return Ok(text);
            }
            if count == 0 {
                return Err(self.unreachable("it closed the connection"));
            }
        }
    }

    async fn over_http(
        &self,
        address: SocketAddr,
        token: &str,
        request: Vec<u8>,
        max: usize,
    ) -> Result<Vec<u8>, EndpointError> {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
        let stream = connecting.map_err(|_| self.unreachable("no answer in time"))?;
        let stream = TokioIo::new(stream.map_err(|error| self.unreachable(error))?);
        let handshake = hyper::client::conn::http1::handshake(stream).await;
        let (mut sender, connection) = handshake.map_err(|error| self.unreachable(error))?;
        let request = Request::post("/")
            .header(header::HOST, address.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .body(Full::new(Bytes::from(request)))
            .map_err(|_| EndpointError::Token)?;
        let answering = async {
            let answer = sender.send_request(request).await.map_err(|error| self.unreachable(error))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), max).collect().await;
            let body = body.map_err(|error| match error.is::<LengthLimitError>() {
                true => self.too_long(max),
                false => self.unreachable(error),
            })?;
            let body = body.to_bytes();
            match status.is_success() {
                true => Ok(body.to_vec()),
                false => Err(EndpointError::Refused(shown(&format!("{status}: {}", String::from_utf8_lossy(&body))))),
            }
        };
        // The connection is polled here, not in a task, so that it closes when the future is dropped.
        let mut connection = std::pin::pin!(connection);
        let mut answering = std::pin::pin!(answering);
        tokio::select! {
            biased;
            answer = &mut answering => answer,
            _ = &mut connection => answering.await,
        }
    }

    fn unreachable(&self, reason: impl fmt::Display) -> EndpointError {
        EndpointError::Unreachable { endpoint: self.to_string(), reason: reason.to_string() }
    }

    fn too_long(&self, max: usize) -> EndpointError {
        self.wrong(format!("it has more than {max} bytes"))
    }

    fn wrong(&self, reason: impl fmt::Display) -> EndpointError {
        EndpointError::Wrong { endpoint: self.to_string(), reason: shown(&reason.to_string()) }
    }
}

/// Makes text from the service safe to show: bounded, on one line, without terminal control characters.
fn shown(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(500).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_socket_or_a_port_of_this_machine() {
        let shown = |url: &str| Endpoint::new(url, Some("token")).map(|endpoint| endpoint.to_string());
        assert_eq!(shown("/run/signer.sock").as_deref(), Ok("/run/signer.sock"));
        assert_eq!(shown("unix:///run/signer.sock").as_deref(), Ok("/run/signer.sock"));
        assert_eq!(shown("http://127.0.0.1:8550/").as_deref(), Ok("http://127.0.0.1:8550"));
        for url in ["", "https://127.0.0.1:1", "http://10.0.0.1:1", "http://localhost", "ws://127.0.0.1:1"] {
            assert!(matches!(shown(url), Err(EndpointError::Url(_))), "{url}");
        }
        assert_eq!(Endpoint::new("http://127.0.0.1:1", None).unwrap_err(), EndpointError::Token);
    }
}
