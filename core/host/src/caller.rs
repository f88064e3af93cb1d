use std::sync::Arc;

use tenon_bus::{CallContext, Origin};

/// Which namespaces an endpoint exposes. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// None means all.
    listed: Option<Arc<Listed>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Listed {
    /// Sorted, each once.
    names: Vec<String>,
    /// The same, separated by commas: what plugins are told.
    text: String,
}

impl Exposure {
    /// Everything, as the Unix socket exposes it.
    pub const fn all() -> Self {
        Self { listed: None }
    }

    /// These namespaces. `rpc` is always among them (`spec/rpc-eth.md` 2.1).
    pub fn of<N: Into<String>>(namespaces: impl IntoIterator<Item = N>) -> Self {
        let mut names: Vec<String> = namespaces.into_iter().map(Into::into).chain(["rpc".to_owned()]).collect();
        names.sort_unstable();
        names.dedup();
        let text = names.join(",");
        Self { listed: Some(Arc::new(Listed { names, text })) }
    }

    /// Whether a namespace is exposed.
    pub fn exposes(&self, namespace: &str) -> bool {
        self.listed.as_ref().is_none_or(|listed| listed.names.iter().any(|name| name == namespace))
    }

    /// The names separated by commas; `*` for all.
    pub fn as_text(&self) -> &str {
        self.listed.as_ref().map_or("*", |listed| &listed.text)
    }
}

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
