//! The HTTP endpoint for Prometheus.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tenon_accept::Acceptor;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Mutex, Semaphore},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    families,
    page::{MEDIA_TYPE, Page},
};

/// Paths of the page; the second is the reference client's.
const PATHS: [&str; 2] = ["/metrics", "/debug/metrics/prometheus"];
/// Maximum number of connections. A scraper needs one.
const CONNECTIONS: usize = 16;
/// Time limit for a request's head.
const HEAD: Duration = Duration::from_secs(10);
/// Maximum lifetime of a connection. Longer than any scrape interval that keeps a connection open.
const LIFETIME: Duration = Duration::from_secs(600);

/// Collects all counters.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// Returns all current values.
    async fn collect(&self) -> Page;
}

/// The running endpoint. Dropping it closes it immediately.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    /// One permit for each connection that may still be opened.
    places: Arc<Semaphore>,
    closing: CancellationToken,
    task: JoinSet<()>,
}

/// State shared by connections.
struct Scraped {
    source: Arc<dyn Source>,
    /// Number of scrapes. Locked during a scrape, so that only one runs at a time: each reads the database and the
    /// system.
    scrapes: Mutex<u64>,
}

impl MetricsServer {
    /// Listens and serves, on the current tokio runtime.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn start(address: SocketAddr, source: Arc<dyn Source>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "metrics are served to other machines");
        }
        tracing::info!(%address, "metrics are served");
        let closing = CancellationToken::new();
        let mut task = JoinSet::new();
        let scraped = Arc::new(Scraped { source, scrapes: Mutex::new(0) });
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        task.spawn(listen(listener, scraped, Arc::clone(&places), closing.clone()));
        Ok(Self { address, places, closing, task })
    }

    /// The address on which it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of open connections.
    pub fn open_connections(&self) -> u64 {
        (CONNECTIONS - self.places.available_permits()) as u64
    }

    /// Returns whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.task.try_join_next().is_some() || self.task.is_empty()
    }

    /// Closes the port, lets the current scrape finish within `grace`, and ends.
    pub async fn stop(mut self, grace: Duration) {
        self.closing.cancel();
        let ended = async { while self.task.join_next().await.is_some() {} };
        // After the grace period the scrape is dropped with its task.
        let _ = tokio::time::timeout(grace, ended).await;
    }
}

/// Serves at most [`CONNECTIONS`] at a time until `closing`, then waits for them to end.
async fn listen(listener: TcpListener, scraped: Arc<Scraped>, places: Arc<Semaphore>, closing: CancellationToken) {
    let mut connections = JoinSet::new();
    let take = |(stream, address): (TcpStream, SocketAddr)| {
        // Removes the connections that have ended.
        while connections.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!(%address, "connection for metrics refused: limit reached");
            return;
        };
        let serving = serve(stream, Arc::clone(&scraped), closing.clone());
        connections.spawn(async move {
            let _ = tokio::time::timeout(LIFETIME, serving).await;
            drop(place);
        });
    };
    let failed = |error| tracing::warn!(%error, "a connection for metrics could not be accepted");
    Acceptor::new(|| listener.accept()).run_until(closing.cancelled(), failed, take).await;
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn serve(stream: TcpStream, scraped: Arc<Scraped>, closing: CancellationToken) {
    let service = service_fn(move |request| {
        let scraped = Arc::clone(&scraped);
        async move { Ok::<_, Infallible>(scraped.answer(&request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(8 << 10)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection for metrics ended");
    }
}

impl Scraped {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !PATHS.contains(&request.uri().path()) {
            return refusal(StatusCode::NOT_FOUND, "metrics are at /metrics\n");
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return refusal(StatusCode::METHOD_NOT_ALLOWED, "metrics are read with GET\n");
        }
        let mut scrapes = self.scrapes.lock().await;
        let mut page = self.source.collect().await;
        *scrapes += 1;
        page.add(&families::SCRAPES, &[], *scrapes);
        drop(scrapes);
        let mut answer = Response::new(Full::from(page.text()));
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        answer
    }
}

fn refusal(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    struct Head;

    #[async_trait]
    impl Source for Head {
        async fn collect(&self) -> Page {
            let mut page = Page::default();
            page.add(&families::HEAD, &[], 12);
            page
        }
    }

    async fn start() -> MetricsServer {
        MetricsServer::start(SocketAddr::from(([127, 0, 0, 1], 0)), Arc::new(Head)).await.unwrap()
    }

    async fn ask(address: SocketAddr, head: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn shows_the_page_and_nothing_else() {
        let server = start().await;

        let page = ask(server.address(), "GET /metrics").await;
        let again = ask(server.address(), "GET /debug/metrics/prometheus").await;
        let elsewhere = ask(server.address(), "GET /").await;
        let wrong = ask(server.address(), "POST /metrics").await;

        assert!(
            page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("content-type: application/openmetrics-text"),
            "{page}"
        );
        assert!(page.contains("tenon_head_number 12\n") && page.contains("tenon_scrapes_total 1\n"), "{page}");
        assert!(again.contains("tenon_scrapes_total 2\n"), "{again}");
        assert!(elsewhere.starts_with("HTTP/1.1 404") && wrong.starts_with("HTTP/1.1 405"));
    }

    #[tokio::test]
    async fn a_stopped_endpoint_frees_its_port() {
        let server = start().await;
        let address = server.address();
        let idle = TcpStream::connect(address).await.unwrap();

        server.stop(Duration::from_secs(10)).await;

        assert!(TcpStream::connect(address).await.is_err());
        drop(idle);
        let again = MetricsServer::start(address, Arc::new(Head)).await.unwrap();
        assert_eq!(again.address(), address);
    }

    #[tokio::test]
    async fn the_number_of_connections_is_bounded() {
        let server = start().await;
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS {
            held.push(TcpStream::connect(server.address()).await.unwrap());
        }

        let mut refused = TcpStream::connect(server.address()).await.unwrap();
        let mut byte = [0];
        let end = refused.read(&mut byte).await;

        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
        assert_eq!(server.open_connections(), CONNECTIONS as u64);
        held.clear();
        while server.open_connections() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
