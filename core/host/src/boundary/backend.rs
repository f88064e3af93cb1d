//! What answers the requests of a plugin's code.

use tenon_api::{EventPosition, Topic};
use tenon_bus::CallContext;
use tenon_sdk::boundary::{ExportedFuture, ExportedStream};

/// Answers a plugin's requests. In the node this is the bus; in a plugin's own process it is the connection to the
/// node.
pub trait Backend: Send + Sync + 'static {
    /// Answers a request frame. `context` is that of the call for which the plugin asks, if there is one.
    fn call_bus(&self, context: Option<&CallContext>, topic: Topic, schema: u32, frame: &[u8]) -> ExportedFuture;

    /// Subscribes to an event topic.
    fn subscribe(&self, topic: Topic, schema: u32) -> ExportedStream;

    /// Calls a method of any namespace by its name, with the JSON text of its parameters or none.
    fn call_json(&self, context: Option<&CallContext>, method: &[u8], params: &[u8]) -> ExportedFuture;

    /// Counts memory that the plugin keeps for a client. Returns false if the client's share is used up. The provided
    /// method counts nothing: the memory limit of the plugin's process applies instead.
    fn hold(&self, _client: u64, _bytes: i64) -> bool {
        true
    }

    /// Writes a line to the log. Levels as in `TenonHost::log`.
    fn log(&self, level: u32, message: &str);

    /// Ends the plugin's event subscriptions after the latest event, and returns the position of that event; 0 if the
    /// backend has no events.
    fn end_events(&self) -> EventPosition {
        EventPosition::default()
    }

    /// Fails every later request.
    fn stop(&self);
}
