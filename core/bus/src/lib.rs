//! The typed message bus: how modules and plugins call one another and publish events.
//!
//! It owns the table of handlers and the broadcast channels of events. A *read handler* runs on the caller's own task,
//! so that a read never waits behind another one. An *async handler* may wait, for an actor's answer for instance.
//! *Work* runs as one job on a bounded pool of threads ([`WorkPool`]), which clients share fairly; work that is usually
//! short is *attempted* on the caller's task first. One budget limits the memory of all requests ([`MemoryBudget`]).
//!
//! Invariants:
//!
//! - a call inside the process is a typed function call without encoding;
//! - every queue is bounded, and a full one is an immediate error to the caller;
//! - a call ends at its deadline, and its work sees that the caller has gone;
//! - publishing never waits for a subscriber;
//! - a panic in a handler returns an error to its caller only.
//!
//! The bus knows no message by name.
//!
//! ```
//! # tokio_test();
//! # fn tokio_test() {
//! use tenon_api::messages::GetClientVersion;
//! use tenon_bus::{Bus, CallContext};
//!
//! let bus = Bus::new();
//! bus.handle_read(|_: GetClientVersion, _: &CallContext| Ok("Tenon/v0.1.0".to_owned())).unwrap();
//! let answer = bus.try_read(GetClientVersion, &CallContext::new());
//! assert_eq!(answer, Some(Ok("Tenon/v0.1.0".to_owned())));
//! # }
//! ```

#![forbid(unsafe_code)]

mod allowance;
mod call;
mod context;
mod events;
mod fair;
mod injected_panic;
mod memory;
mod origin;
mod recent_clients;
pub mod spans;
pub mod waits;
mod work;

pub use allowance::CallerAllowance;
pub use call::{Bus, RegisterError, handler_panics, panic_text};
pub use context::{CallContext, CancelOnDrop};
pub use events::{Delivery, FrameDelivery, FrameSubscription, Subscription};
pub use fair::{EnterError, FairLimits, FairQueue, JobPermit, Share};
#[doc(hidden)]
pub use injected_panic::panic_if_injected;
pub use memory::{
    ClientMemory, ConnectionPlace, MemoryBudget, MemoryLimits, MemoryUsage, MemoryUse, OutOfMemory, Reservation,
    SubscriptionPlace,
};
pub use origin::{ClientId, Origin, PluginId, Transport};
pub use tenon_api::{BusError, PoolBusy};
pub use work::WorkPool;
