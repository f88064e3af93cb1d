//! The allocator of the whole process, and its figures.
//!
//! The linked program has the allocator's functions under the system's names. So the database engine, the other C
//! libraries and plugins in the node's process use it too. With two allocators, each would keep memory that the other
//! could have used. The system's allocator would keep it permanently: one thread reads a block of the engine's cache
//! and another frees it, which scatters the blocks over the arenas of all threads.

use tikv_jemalloc_ctl::{background_thread, epoch, max_background_threads, stats};

/// Under many threads, the system's allocator takes a tenth of a read's time. jemalloc halves that, and prevents
/// fragmentation in long-running nodes.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The allocator's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AllocatorUsage {
    /// Allocated and not freed by the program.
    pub(crate) allocated: u64,
    /// Pages with allocated memory. The excess over `allocated` is free space between allocations.
    pub(crate) active: u64,
    /// Pages in physical memory. The excess over `active` is memory to be reused or returned, and the allocator's own
    /// records.
    pub(crate) resident: u64,
    /// Reserved addresses without memory.
    pub(crate) retained: u64,
}

/// The allocator's figures; `None` if it does not count.
pub(crate) fn usage() -> Option<AllocatorUsage> {
    // The figures change only on request.
    epoch::advance().ok()?;
    Some(AllocatorUsage {
        allocated: stats::allocated::read().ok()? as u64,
        active: stats::active::read().ok()? as u64,
        resident: stats::resident::read().ok()? as u64,
        retained: stats::retained::read().ok()? as u64,
    })
}

/// Starts a thread of the allocator that returns unused pages within a second (`.cargo/config.toml`). Without it they
/// are only returned at the next allocation in the same arena, which may never come after a burst.
///
/// Only for the node's own process: a process that is not permitted to start threads (a plugin's) must not call this.
pub(crate) fn release_memory_in_background() {
    // One is enough for a node, regardless of the number of processors.
    let started = max_background_threads::write(1).and_then(|()| background_thread::write(true));
    if let Err(error) = started {
        tracing::debug!(%error, "the allocator has no background thread and returns memory late");
    }
}

#[cfg(test)]
mod tests {
    use tenon_config::DatabaseSettings;
    use tenon_storage::Store;

    use super::*;
    use crate::opened_chain::store_options;

    #[test]
    fn memory_of_the_database_engine_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let own = tikv_jemalloc_ctl::thread::allocatedp::read().unwrap();
        let before = own.get();

        let store =
            Store::open(folder.path(), store_options(&DatabaseSettings { cache: 64, ..DatabaseSettings::default() }))
                .unwrap();

        let allocated = own.get() - before;
        drop(store);
        println!("opening a database: {allocated} bytes on this thread");
        assert!(allocated > 1 << 20, "{allocated}: the engine's memory comes from elsewhere");
    }

    #[test]
    fn used_memory_is_counted_until_it_is_freed() {
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
