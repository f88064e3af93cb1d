//! The answer to `GET /health`, which the owner of the front-ends gives.

use std::sync::Arc;

/// Result of `GET /health`.
#[derive(Clone, Debug)]
pub struct HealthReport {
    /// Answered with 200 if true, otherwise 503.
    pub is_healthy: bool,
    /// A JSON text: head, its age, peers.
    pub details: String,
}

/// Called at every `GET /health`; must not block.
pub type HealthCheck = Arc<dyn Fn() -> HealthReport + Send + Sync>;
