//! The modules of the run: what is done to each, and what its callers may see meanwhile.

/// A module of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Its name, and its namespace.
    pub(crate) name: &'static str,
    /// The library among the built ones.
    pub(crate) library: &'static str,
    /// The file in the plugin folder.
    pub(crate) file: &'static str,
    /// What the run does to it.
    pub(crate) fate: Fate,
}

/// What the run does to a module, and so what its callers may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing at all: no caller may see an error.
    Untouched,
    /// Replaced by other builds of the same: no caller may see an error.
    Replaced,
    /// Disabled, enabled, unloaded, loaded, replaced: callers may see `-32601`, only while it is away.
    Switched,
    /// As well, and it runs in a process of its own that is killed, or crashes on purpose: callers may see that its
    /// process has ended, only then.
    Killed,
}

const fn own(name: &'static str, library: &'static str, fate: Fate) -> Subject {
    Subject { name, library, file: library, fate }
}

/// All of them.
pub(crate) const SUBJECTS: [Subject; 10] = [
    own("rpc", "libtenon_plugin_rpc.so", Fate::Untouched),
    own("txpool", "libtenon_plugin_txpool.so", Fate::Untouched),
    own("eth", "libtenon_plugin_eth.so", Fate::Replaced),
    own("web3", "libtenon_plugin_web3.so", Fate::Replaced),
    own("admin", "libtenon_plugin_admin.so", Fate::Replaced),
    Subject { name: "counter", library: "libtenon_test_counter.so", file: "counter.so", fate: Fate::Replaced },
    own("net", "libtenon_plugin_net.so", Fate::Switched),
    own("debug", "libtenon_plugin_debug.so", Fate::Switched),
    Subject { name: "hello", library: "libtenon_example_hello.so", file: "hello.so", fate: Fate::Killed },
    Subject { name: "bad", library: "libtenon_test_misbehaving.so", file: "bad.so", fate: Fate::Killed },
];

/// The place of a module among [`SUBJECTS`].
pub(crate) fn index(name: &str) -> Option<usize> {
    SUBJECTS.iter().position(|subject| subject.name == name)
}
