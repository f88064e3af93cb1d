//! Opens subscriptions in running plugins, and continues them in the next instance.

use std::sync::Arc;

use tenon_sdk::Failure;
use tokio::time::Instant;

use crate::{
    PluginStream,
    gate::Kind,
    running::{RunningPlugin, Ticket},
    stream::{HandOver, KeptPlugin, Slot, SubscriptionRequest},
};

impl KeptPlugin for Ticket {
    fn note_failure(&self, failure: &Failure) {
        self.plugin.faults.note(failure);
    }
}

/// Opens a subscription of the kind with this number in an entered plugin.
pub(crate) fn open(ticket: Ticket, kind: u32, request: SubscriptionRequest) -> PluginStream {
    let items = ticket.plugin.instance.subscribe(kind, request.params.as_deref(), &request.caller);
    let plugin = Arc::clone(&ticket.plugin);
    let stream = PluginStream::new(items, Box::new(ticket), request);
    plugin.add_slot(stream.slot());
    stream
}

impl RunningPlugin {
    /// Opens a subscription of the replaced instance here too. It takes over when that one has ended.
    ///
    /// # Errors
    /// Why this plugin refuses it; nothing has changed then.
    pub async fn continue_subscription(
        self: &Arc<Self>,
        slot: &Slot,
        hand_over: &Arc<HandOver>,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let SubscriptionRequest { kind, params, caller, .. } = slot.request();
        let mut kinds = (0..).zip(&self.manifest.subscriptions);
        let (index, _) = kinds
            .find(|(_, known)| *known == kind)
            .ok_or_else(|| Failure::server(format!("it has no subscription {kind:?}")))?;
        let ticket = Ticket::take(self, Kind::Stream).map_err(|_| Failure::server("it is being closed"))?;
        let items = self.instance.subscribe(index, params.as_deref(), caller);
        slot.open_next(items, Box::new(ticket), hand_over, deadline).await
    }
}
