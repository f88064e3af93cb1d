//! The allocator of the whole process, and its figures.
//!
//! One allocator serves everybody: its functions carry the system's names in the linked program, so that the database
//! engine, the other C libraries and plugins in the node's process take memory from it too. Two allocators beside each
//! other each kept what the other could have used, and the system's kept it for good: blocks of the engine's cache are
//! read by one thread and given back by another, which scatters them over an arena for each thread.

use tikv_jemalloc_ctl::{background_thread, epoch, max_background_threads, stats};

/// Allocation is a tenth of a read's cost with the system's allocator under many threads; jemalloc halves it, and keeps
/// long-running nodes from fragmenting.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What the allocator has from the system, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AllocatorUsage {
    /// What the program asked for and has not given back.
    pub(crate) allocated: u64,
    /// Pages that hold some of it: what is more than `allocated` lies between what is in use.
    pub(crate) active: u64,
    /// Pages that are in physical memory: what is more than `active` waits to be used again or given back, and the
    /// allocator's own records.
    pub(crate) resident: u64,
    /// Addresses that are kept, but no memory.
    pub(crate) retained: u64,
}

/// What the allocator has; none when it counts nothing.
pub(crate) fn usage() -> Option<AllocatorUsage> {
    // The figures stand still until they are asked for anew.
    epoch::advance().ok()?;
    Some(AllocatorUsage {
        allocated: stats::allocated::read().ok()? as u64,
        active: stats::active::read().ok()? as u64,
        resident: stats::resident::read().ok()? as u64,
        retained: stats::retained::read().ok()? as u64,
    })
}

/// Lets a thread of the allocator's own give back, within ten seconds, the pages that nobody uses any more. Without it they are given
/// back by whoever allocates next in the same arena: after a burst that may be nobody.
///
/// For the node's own process only: one that may start no threads (a plugin's) must not call this.
pub(crate) fn give_back_in_background() {
    // One is enough for what a node gives back, however many processors there are.
    let started = max_background_threads::write(1).and_then(|()| background_thread::write(true));
    if let Err(error) = started {
        tracing::debug!(%error, "the allocator gives memory back without a thread of its own");
    }
}

#[cfg(test)]
mod tests {
    use tenon_storage::{Store, StoreOptions};

    use super::*;

    #[test]
    fn what_the_database_engine_allocates_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let own = tikv_jemalloc_ctl::thread::allocatedp::read().unwrap();
        let before = own.get();

        let store = Store::open(folder.path(), StoreOptions::with_cache(64 << 20)).unwrap();

        let allocated = own.get() - before;
        drop(store);
        println!("opening a database: {allocated} bytes on this thread");
        assert!(allocated > 1 << 20, "{allocated}: the engine's memory comes from elsewhere");
    }

    #[test]
    fn memory_in_use_is_shown_and_leaves_the_figures_when_it_is_given_back() {
        let before = usage().unwrap();
        let held = vec![1_u8; 256 << 20];
        let during = usage().unwrap();
        drop(held);
        let after = usage().unwrap();

        assert!(during.allocated >= before.allocated + (200 << 20), "{before:?} {during:?}");
        assert!(during.active >= during.allocated && during.resident >= during.active, "{during:?}");
        assert!(after.allocated + (200 << 20) <= during.allocated, "{during:?} {after:?}");
    }
}
