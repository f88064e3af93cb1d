//! The accept loop of the socket and of the TCP ports. It also watches their connections and refusals.

use std::{future::Future, io, pin::pin};

use tenon_accept::Acceptor;
use tokio::time::MissedTickBehavior;

use crate::{
    connections::{CHECK_PERIOD, Connections, FEW_CONNECTIONS},
    refusals::{Refusals, log_when_due},
};

/// Accepts connections until `stopping`, and passes each to `take`. Returns the connections that are still open.
///
/// `endpoint` is the endpoint's name in the log.
pub(crate) async fn accept_until<T, A: Future<Output = io::Result<T>>>(
    endpoint: &'static str,
    accept: impl Fn() -> A,
    stopping: impl Future<Output = ()>,
    mut take: impl FnMut(T, &mut Connections, &mut Refusals),
) -> Connections {
    let mut acceptor = Acceptor::new(accept);
    let (mut connections, mut refusals) = (Connections::new(), Refusals::default());
    let mut stopping = pin!(stopping);
    let mut checks = tokio::time::interval(CHECK_PERIOD);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let open = connections.len();
        let accepted = tokio::select! {
            accepted = acceptor.next() => accepted,
            Some(()) = connections.ended() => continue,
            () = log_when_due(&mut refusals, endpoint, open) => continue,
            _ = checks.tick(), if open >= FEW_CONNECTIONS => {
                connections.check();
                continue;
            }
            () = &mut stopping => return connections,
        };
        match accepted {
            Ok(stream) => take(stream, &mut connections, &mut refusals),
            Err(error) => tracing::warn!(%error, endpoint, "a connection could not be accepted"),
        }
    }
}
