//! Prevents core files, which would contain keys and passwords.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Makes the kernel write no core file of this process, and pass none to a program that collects them. Other processes
/// of the same user can then neither read its memory nor attach a debugger.
pub(crate) fn refuse() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // The limit is inherited by plugins' processes, which refuse core files themselves too. Neither call fails on any
    // kernel that the node supports.
    let limited = setrlimit(Resource::Core, none);
    let refused = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    if let Err(error) = limited.and(refused) {
        crate::log_output::eprint_line(&format!("tenon: can't turn core dumps off: {error}"));
    }
}
