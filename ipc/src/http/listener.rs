//! A TCP port and its connections.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use bytes::BytesMut;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    Port, Step, WebSocketSide,
    conversation::{Conversation, Upgrade},
    stream::{TimedStream, Waits},
};
use crate::{
    duplex::{Connection, Half, reap, sends_no_more},
    service::RpcService,
    websocket::Messages,
};

/// What each part of a handshake may take on a port of WebSocket alone.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// One listening TCP port.
pub(crate) struct HttpServer<S> {
    pub(crate) listener: TcpListener,
    pub(crate) port: Arc<Port<S>>,
}

/// The numbers that a connection needs before its first request.
#[derive(Clone, Copy)]
struct ConnectionLimits {
    connections: usize,
    /// From a request's head to its answer.
    request: Duration,
    waits: Waits,
}

impl<S: RpcService> HttpServer<S> {
    /// Serves until `stopping`, then waits for the connections to end.
    pub(crate) async fn run(self, stopping: CancellationToken) {
        let limits = self.limits();
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
                () = stopping.cancelled() => break,
            };
            match accepted {
                Ok((_, address)) if reap(&mut connections) >= limits.connections => {
                    tracing::warn!(%address, connections = connections.len(), "TCP connection refused: limit reached");
                }
                Ok((stream, _)) => {
                    connections.spawn(serve(Arc::clone(&self.port), stream, limits, stopping.clone()));
                }
                Err(error) => {
                    // Out of descriptors, mostly: give the running connections time to end.
                    tracing::warn!(%error, "accepting a TCP connection failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(self.listener);
        while connections.join_next().await.is_some() {}
    }

    fn limits(&self) -> ConnectionLimits {
        let http = self.port.http.as_ref().map(|side| ConnectionLimits {
            connections: side.limits.connections,
            request: side.limits.request_timeout,
            waits: Waits {
                idle: side.limits.idle_timeout,
                head: side.limits.request_timeout,
                write: side.limits.write_timeout,
            },
        });
        http.unwrap_or_else(|| ConnectionLimits {
            connections: self.port.websocket.as_ref().map_or(0, |side| side.limits.connections),
            // Only the handshake stands under these.
            request: HANDSHAKE,
            waits: Waits { idle: HANDSHAKE, head: HANDSHAKE, write: HANDSHAKE },
        })
    }
}

async fn serve<S: RpcService>(
    port: Arc<Port<S>>,
    stream: TcpStream,
    limits: ConnectionLimits,
    stopping: CancellationToken,
) {
    // Answers are written whole; waiting for more only delays them.
    let _ = stream.set_nodelay(true);
    let conversation = Arc::new(Conversation::new(limits.request));
    let service = {
        let (port, conversation) = (Arc::clone(&port), Arc::clone(&conversation));
        service_fn(move |request| {
            let (port, conversation) = (Arc::clone(&port), Arc::clone(&conversation));
            let step = port.begin(request, &conversation);
            async move {
                let _turn = conversation.turn();
                Ok::<_, Infallible>(match step {
                    Step::Done(answer) => answer,
                    Step::Call(call) => port.finish(call, &conversation).await,
                })
            }
        })
    };
    let stream = TokioIo::new(TimedStream::new(stream, limits.waits, Arc::clone(&conversation)));
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(64 << 10)
        .serve_connection(stream, service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "HTTP connection ended");
        return;
    }
    if let (Some(upgrade), Some(side)) = (conversation.take_upgrade(), &port.websocket) {
        serve_websocket(side, upgrade, stopping).await;
    }
}

async fn serve_websocket<S: RpcService>(side: &WebSocketSide<S>, upgrade: Upgrade, stopping: CancellationToken) {
    let Ok(upgraded) = upgrade.on_upgrade.await else { return };
    // It is the stream that `serve` handed to hyper, so this cannot be another type.
    let Ok(parts) = upgraded.downcast::<TokioIo<TimedStream>>() else { return };
    let stream = parts.io.into_inner().into_inner();
    let connection = Connection {
        dispatcher: side.dispatcher.clone(),
        exposure: upgrade.exposure,
        limits: side.limits.duplex(),
        framing: Messages::new(side.dispatcher.clone(), side.limits.message_bytes),
        buffer: BytesMut::from(&parts.read_buf[..]),
        stopping,
    };
    if let Err(error) = connection.run(Half(&stream), Half(&stream), sends_no_more(&stream)).await {
        tracing::debug!(%error, "WebSocket connection ended");
    }
}
