//! Who calls a method, and through which endpoint.

use tenon_bus::{CallContext, Origin};

use crate::Exposure;

/// The caller: its endpoint's exposure, and the call's context.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Exposure of its endpoint.
    pub exposure: Exposure,
    /// Deadline, cancellation and origin.
    pub context: CallContext,
}

impl Caller {
    /// Creates a caller with this exposure and call context.
    pub const fn new(exposure: Exposure, context: CallContext) -> Self {
        Self { exposure, context }
    }

    /// Creates a caller in this process that sees everything and has no deadline.
    pub fn local() -> Self {
        Self::new(Exposure::all(), CallContext::new())
    }

    /// The same caller with this origin.
    #[must_use]
    pub fn with_origin(self, origin: Origin) -> Self {
        Self { context: self.context.with_origin(origin), ..self }
    }
}
