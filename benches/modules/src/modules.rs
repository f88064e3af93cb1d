//! The modules of the run: the operations on each, and the errors that callers may see meanwhile.

/// A module of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Its name, and its namespace.
    pub(crate) name: &'static str,
    /// The name of the built library.
    pub(crate) library: &'static str,
    /// The file in the plugin folder.
    pub(crate) file: &'static str,
    /// The operations on it.
    pub(crate) operation_kind: OperationKind,
}

/// The operations on a module, and so the errors that its callers may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationKind {
    /// None: no caller may see an error.
    Untouched,
    /// Replaced by other builds: no caller may see an error.
    Replaced,
    /// Disabled, enabled, unloaded, loaded, replaced: callers may see `-32601`, only while it is disabled.
    Switched,
    /// The same, and it runs in a process of its own that is killed or crashes on purpose: callers may then see that
    /// its process has ended.
    Killed,
}

const fn own(name: &'static str, library: &'static str, operation_kind: OperationKind) -> Subject {
    Subject { name, library, file: library, operation_kind }
}

/// All modules.
pub(crate) const SUBJECTS: [Subject; 10] = [
    own("rpc", "libtenon_plugin_rpc.so", OperationKind::Untouched),
    own("txpool", "libtenon_plugin_txpool.so", OperationKind::Untouched),
    own("eth", "libtenon_plugin_eth.so", OperationKind::Replaced),
    own("web3", "libtenon_plugin_web3.so", OperationKind::Replaced),
    own("admin", "libtenon_plugin_admin.so", OperationKind::Replaced),
    Subject {
        name: "counter",
        library: "libtenon_test_counter.so",
        file: "counter.so",
        operation_kind: OperationKind::Replaced,
    },
    own("net", "libtenon_plugin_net.so", OperationKind::Switched),
    own("debug", "libtenon_plugin_debug.so", OperationKind::Switched),
    Subject {
        name: "hello",
        library: "libtenon_example_hello.so",
        file: "hello.so",
        operation_kind: OperationKind::Killed,
    },
    Subject {
        name: "bad",
        library: "libtenon_test_misbehaving.so",
        file: "bad.so",
        operation_kind: OperationKind::Killed,
    },
];

/// Index of a module in [`SUBJECTS`].
pub(crate) fn index(name: &str) -> Option<usize> {
    SUBJECTS.iter().position(|subject| subject.name == name)
}
