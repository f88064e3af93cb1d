use std::sync::Arc;

use tenon_bus::CallContext;

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

/// The way by which calls come; what is counted is counted for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// None: the caller is in this process.
    #[default]
    Inside,
    /// The local socket.
    Socket,
    /// HTTP.
    Http,
    /// WebSocket.
    WebSocket,
}

impl Transport {
    /// All of them, each at its own number.
    pub const ALL: [Self; 4] = [Self::Inside, Self::Socket, Self::Http, Self::WebSocket];

    /// The word for people and labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inside => "inside",
            Self::Socket => "socket",
            Self::Http => "http",
            Self::WebSocket => "websocket",
        }
    }
}

/// Who calls: what its endpoint exposes, how long it waits, and by which way it came.
#[derive(Clone, Debug)]
pub struct Caller {
    /// What its endpoint exposes.
    pub exposure: Exposure,
    /// Deadline and cancellation.
    pub context: CallContext,
    /// By which way it came.
    pub transport: Transport,
}

impl Caller {
    /// A caller in this process.
    pub const fn new(exposure: Exposure, context: CallContext) -> Self {
        Self { exposure, context, transport: Transport::Inside }
    }

    /// A caller in this process that sees everything and waits without a bound.
    pub fn local() -> Self {
        Self::new(Exposure::all(), CallContext::new())
    }

    /// The same, come by this way.
    #[must_use]
    pub fn over(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }
}
