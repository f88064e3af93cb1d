//! The register of the modules that can be switched while the node runs: plugins, and the parts of the node (module
//! actors) that operators start and stop like plugins.
//!
//! It owns the state of every module, the operations on them (load, enable, disable, replace, unload, and the changes
//! of the settings), the operator's choices that outlast the node, and `tenon module check`. Plugins run by
//! `core/host`, or by `core/isolation` in processes of their own; which of the two, and with what grants, is decided
//! here by the hash of the library's content.
//!
//! Invariants:
//!
//! - one operation runs at a time, and is done as a whole or changes nothing;
//! - a foreign plugin is granted only the capabilities that the operator named;
//! - an operator's choice is never lost or overridden without a log line.
//!
//! It knows no namespace, no transport, and module actors by name only.
//!
//! [`ModuleRegister`] is in `register`; the data types in `actor`, `plugin_module`, `choices`, `end_times` and `plugin_plan`
//! import neither it nor its operations.

#![forbid(unsafe_code)]

mod actor;
mod actor_operations;
mod bus_handlers;
mod candidates;
mod choices;
mod end_times;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod listing;
mod low_priority;
mod operation_end;
mod operations;
mod plugin_check;
mod plugin_module;
mod plugin_plan;
mod register;
mod register_options;
mod reports;
mod shutdown;
mod space_retry;
mod start;
mod storage_use;
mod timed;

pub use actor::{ActorControl, ActorModule, ActorProbe, ActorReport, ActorStage, ActorSwitch, SwitchError};
pub use bus_handlers::register;
pub use error::ModuleError;
pub use operations::AppliedPlan;
pub use plugin_check::{Check, CheckReport, LoadFigures, check_plugin};
pub use plugin_plan::PluginPlan;
pub use register::ModuleRegister;
pub use register_options::ModuleOptions;
pub use shutdown::ShutdownReport;
