//! The interface of the service that answers requests.

use std::marker::PhantomData;

use tenon_sdk::Failure;

pub use tenon_bus::{ClientId, Origin, Transport};
pub use tenon_host::{Caller, Exposure, RawCall};

/// Answers calls and opens subscriptions. The node uses `tenon_host::Router`; tests use their own.
///
/// Dropping a future that one of these methods returned cancels the work behind it.
pub trait RpcService: Clone + Send + Sync + 'static {
    /// A finished JSON text.
    type Json: AsRef<[u8]> + Send + 'static;
    /// What a subscription sends.
    type Notifications: Notifications<Json = Self::Json>;

    /// Runs a method. The call's text is freed as soon as the parameters are decoded, not when they are answered.
    ///
    /// A method that is unknown or not exposed fails with `-32601 the method X does not exist/is not available`. After
    /// this check, `params` that is neither a list nor `null` fails with `-32602 non-array args`.
    fn serve_call(
        &self,
        call: &mut RawCall<'_>,
        caller: &Caller,
    ) -> impl Future<Output = Result<Self::Json, Failure>> + Send;

    /// Whether `method` changes no state visible to other calls: in a batch such calls run concurrently, all others
    /// keep their order.
    fn only_reads(&self, method: &str) -> bool;

    /// Whether [`RpcService::call_ahead`] does anything for a method.
    fn is_called_ahead(&self, _method: &str) -> bool {
        false
    }

    /// Whether the caller may open a subscription named like a method, such as `admin_peerEvents`.
    fn names_subscription(&self, _method: &str, _caller: &Caller) -> bool {
        false
    }

    /// Whether a method takes passwords or keys: the text of its call is wiped. Called for every message, with the
    /// bytes of the name, before the text is known to be UTF-8.
    fn takes_secrets(&self, _method: &[u8]) -> bool {
        false
    }

    /// Prepares successive calls of one method in a batch. `params` has the raw JSON of each.
    fn call_ahead(&self, _method: &str, _params: &[&str], _caller: &Caller) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Opens the subscription `kind` of `namespace`. `params` is the JSON list of the arguments after the kind, `None`
    /// if there are none. An unknown kind or namespace fails with `-32601`, for which the envelope writes the error
    /// text.
    fn subscribe(
        &self,
        namespace: &str,
        kind: &str,
        params: Option<&str>,
        caller: &Caller,
    ) -> impl Future<Output = Result<Self::Notifications, Failure>> + Send;
}

/// The notifications of one subscription. Dropping it ends the subscription.
pub trait Notifications: Send + 'static {
    /// A finished JSON text.
    type Json: AsRef<[u8]> + Send + 'static;

    /// The next payload; a failure is sent to the subscriber; `None` ends the subscription.
    fn next(&mut self) -> impl Future<Output = Option<Result<Self::Json, Failure>>> + Send;
}

/// The notifications of a service without any: a subscription that ends immediately.
#[derive(Debug)]
pub struct NoNotifications<Json>(PhantomData<fn() -> Json>);

impl<Json> Default for NoNotifications<Json> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Json: AsRef<[u8]> + Send + 'static> Notifications for NoNotifications<Json> {
    type Json = Json;

    async fn next(&mut self) -> Option<Result<Json, Failure>> {
        None
    }
}

/// Codes that mark whose code panicked are replaced here by those that clients receive.
impl RpcService for tenon_host::Router {
    type Json = tenon_host::JsonBytes;
    type Notifications = tenon_host::PluginStream;

    async fn serve_call(&self, call: &mut RawCall<'_>, caller: &Caller) -> Result<Self::Json, Failure> {
        self.call_raw(call, caller).await.map_err(Failure::for_client)
    }

    fn only_reads(&self, method: &str) -> bool {
        self.only_reads(method)
    }

    fn is_called_ahead(&self, method: &str) -> bool {
        self.is_called_ahead(method)
    }

    fn takes_secrets(&self, method: &[u8]) -> bool {
        self.takes_secrets(method)
    }

    fn names_subscription(&self, method: &str, caller: &Caller) -> bool {
        self.names_subscription(method, caller)
    }

    fn call_ahead(&self, method: &str, params: &[&str], caller: &Caller) -> impl Future<Output = ()> + Send {
        self.call_ahead(method, params, caller)
    }

    async fn subscribe(
        &self,
        namespace: &str,
        kind: &str,
        params: Option<&str>,
        caller: &Caller,
    ) -> Result<Self::Notifications, Failure> {
        Self::subscribe(self, namespace, kind, params, caller).await.map_err(Failure::for_client)
    }
}

impl Notifications for tenon_host::PluginStream {
    type Json = tenon_host::JsonBytes;

    async fn next(&mut self) -> Option<Result<Self::Json, Failure>> {
        Some(Self::next(self).await?.map_err(Failure::for_client))
    }
}
