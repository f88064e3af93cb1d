use tenon_bus::{CallContext, Origin};

use crate::Exposure;

/// Who calls: what its endpoint exposes, and in which context.
#[derive(Clone, Debug)]
pub struct Caller {
    /// What its endpoint exposes.
    pub exposure: Exposure,
    /// Deadline, cancellation and origin.
    pub context: CallContext,
}

impl Caller {
    /// A caller within these bounds.
    pub const fn new(exposure: Exposure, context: CallContext) -> Self {
        Self { exposure, context }
    }

    /// A caller in this process that sees everything and waits without a bound.
    pub fn local() -> Self {
        Self::new(Exposure::all(), CallContext::new())
    }

    /// The same caller with this origin.
    #[must_use]
    pub fn from_origin(self, origin: Origin) -> Self {
        Self { context: self.context.from_origin(origin), ..self }
    }
}
