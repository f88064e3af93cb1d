//! No core files: they would hold keys and passwords.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Has the kernel write no core file of this process, and give none to a program that collects them. Other processes of the same
/// user can then neither read its memory nor attach a debugger.
pub(crate) fn refuse() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // Inherited by plugins' processes, which refuse by themselves, too. Both calls fail on no kernel that the node runs on.
    let limited = setrlimit(Resource::Core, none);
    let refused = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    if let Err(error) = limited.and(refused) {
        crate::log_output::say(&format!("tenon: core files can't be refused: {error}"));
    }
}
