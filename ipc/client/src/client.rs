//! The client: jsonrpsee's, on the socket.

use std::{
    future::Future,
    path::{Path, PathBuf},
};

use jsonrpsee::{
    core::{
        client::{
            Client as AsyncClient, ClientBuilder, Error as CallError, Subscription, SubscriptionCloseReason,
            SubscriptionKind, async_client::RpcService,
        },
        middleware::RpcServiceBuilder,
    },
    types::SubscriptionId,
};
use serde::de::DeserializeOwned;

use crate::{ClientSettings, Error, SecretParams, SocketError, notices::Notices, secret, transport};

/// A connection to a node's Unix socket.
///
/// It dereferences to jsonrpsee's client, so that the methods of every namespace's trait can be called on it. The
/// connection ends when it is dropped.
#[derive(Debug, derive_more::Deref)]
pub struct Client {
    #[deref]
    calls: AsyncClient<RpcService>,
    path: PathBuf,
    settings: ClientSettings,
    notices: Notices,
}

impl Client {
    /// Connects with the default limits.
    ///
    /// # Errors
    /// [`SocketError::Connect`] if no node listens at `path`, [`SocketError::Impostor`] if another user's process may have
    /// taken its place.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect(path: impl AsRef<Path>) -> Result<Self, SocketError> {
        Self::connect_with(path, ClientSettings::default()).await
    }

    /// Connects with other limits.
    ///
    /// # Errors
    /// [`SocketError::Connect`] if no node listens at `path`, [`SocketError::Impostor`] if another user's process may have
    /// taken its place.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect_with(path: impl AsRef<Path>, settings: ClientSettings) -> Result<Self, SocketError> {
        let (path, notices) = (path.as_ref().to_owned(), Notices::default());
        let (sender, receiver) = transport::open(&path, &settings, notices.clone()).await?;
        let calls = ClientBuilder::new()
            .request_timeout(settings.request_timeout)
            .max_concurrent_requests(settings.max_unwritten_requests.max(1))
            .max_buffer_capacity_per_subscription(settings.max_waiting_items.max(1))
            // Without jsonrpsee's logger, which writes parameters and answers into the log.
            .set_rpc_middleware(RpcServiceBuilder::new())
            .build_with_tokio(sender, receiver);
        Ok(Self { calls, path, settings, notices })
    }

    /// Awaits a call, and sorts its error.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn answer<T>(&self, call: impl Future<Output = Result<T, CallError>>) -> Result<T, Error> {
        call.await.map_err(|error| Error::of_call(error, self.settings.request_timeout))
    }

    /// Awaits the next item of a subscription of this client.
    ///
    /// # Errors
    /// When the subscription has ended, with the node's reason if it gave one; [`Error::Unreadable`] for an item of
    /// another form.
    pub async fn next_item<T: DeserializeOwned>(&self, subscription: &mut Subscription<T>) -> Result<T, Error> {
        match subscription.next().await {
            Some(item) => item.map_err(Error::Unreadable),
            None => Err(self.end_of(subscription).await),
        }
    }

    async fn end_of<T>(&self, subscription: &Subscription<T>) -> Error {
        if let SubscriptionKind::Subscription(SubscriptionId::Str(id)) = subscription.kind()
            && let Some(reason) = self.notices.take(id)
        {
            return Error::SubscriptionEnded { reason };
        }
        if matches!(subscription.close_reason(), Some(SubscriptionCloseReason::Lagged)) {
            return Error::Lagged(self.settings.max_waiting_items);
        }
        if self.calls.is_connected() {
            return Error::SubscriptionEnded { reason: "the subscription has ended".to_owned() };
        }
        Error::of_call(self.calls.on_disconnect().await, self.settings.request_timeout)
    }

    /// Calls a method whose parameters contain a secret, on a connection of its own. Every buffer of this process that
    /// held the parameters is wiped, which jsonrpsee does not do.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn call_with_secret<T: DeserializeOwned>(&self, method: &str, params: SecretParams) -> Result<T, Error> {
        secret::call_with_secret(&self.path, &self.settings, method, params).await
    }
}
