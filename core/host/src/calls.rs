//! Counts of calls and their outcomes, taken where calls are routed.
//!
//! A method's counter is looked up when its plugin starts, not when it is called: counting a call is one relaxed
//! addition, and two when calls are timed. Counts outlive the plugin, so that a replacement continues them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use parking_lot::Mutex;
use tenon_api::{DurationCounts, Durations};
use tenon_bus::Transport;

use crate::{Cost, Manifest};

/// Maximum number of methods with counters of their own. Plugins that come and go under new names must not use
/// unbounded memory: further methods share [`OTHERS`].
const MAX_METHODS: usize = 4096;
/// Name of the counter that methods beyond [`MAX_METHODS`] share.
const OTHERS: &str = "other_methods";

/// Call counts of one method over one transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallCounts {
    /// Full name of the method, by its namespace's own name.
    pub method: String,
    /// Its namespace.
    pub namespace: String,
    /// Its cost class.
    pub cost: Cost,
    /// Transport of the calls.
    pub transport: Transport,
    /// Calls that ended, in any way.
    pub calls: u64,
    /// Ended calls that failed.
    pub failed: u64,
    /// Ended calls that were cancelled: the client left, or the time limit passed.
    pub cancelled: u64,
    /// Durations of the timed calls.
    pub durations: DurationCounts,
}

/// The calls of one method.
#[derive(Debug)]
pub(crate) struct MethodCalls {
    method: String,
    namespace: String,
    cost: Cost,
    by_transport: [TransportCounters; Transport::ALL.len()],
}

#[derive(Debug, Default)]
struct TransportCounters {
    /// Calls that were not timed; the timed ones are in `durations`.
    untimed: AtomicU64,
    durations: Durations,
    failed: AtomicU64,
    cancelled: AtomicU64,
}

impl MethodCalls {
    fn new(method: &str, namespace: &str, cost: Cost) -> Self {
        Self { method: method.to_owned(), namespace: namespace.to_owned(), cost, by_transport: Default::default() }
    }

    fn counted(&self) -> impl Iterator<Item = CallCounts> {
        Transport::ALL.into_iter().zip(&self.by_transport).filter_map(|(transport, counters)| {
            let durations = counters.durations.counted();
            let calls = counters.untimed.load(Ordering::Relaxed) + durations.number();
            (calls > 0).then(|| CallCounts {
                method: self.method.clone(),
                namespace: self.namespace.clone(),
                cost: self.cost,
                transport,
                calls,
                failed: counters.failed.load(Ordering::Relaxed),
                cancelled: counters.cancelled.load(Ordering::Relaxed),
                durations,
            })
        })
    }

    /// Begins to count a call. [`CountedCall::end`] or dropping it ends the count.
    pub(crate) fn begin(&self, transport: Transport, is_timed: bool) -> CountedCall<'_> {
        CountedCall {
            counters: &self.by_transport[transport as usize],
            begun: is_timed.then(Instant::now),
            has_ended: false,
        }
    }
}

/// A call in progress.
pub(crate) struct CountedCall<'a> {
    counters: &'a TransportCounters,
    begun: Option<Instant>,
    has_ended: bool,
}

impl CountedCall<'_> {
    /// Counts the call as answered.
    pub(crate) fn end(mut self, is_failure: bool) {
        self.has_ended = true;
        if is_failure {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for CountedCall<'_> {
    fn drop(&mut self) {
        match self.begun {
            Some(begun) => self.counters.durations.count(begun.elapsed()),
            None => {
                self.counters.untimed.fetch_add(1, Ordering::Relaxed);
            }
        }
        if !self.has_ended {
            self.counters.cancelled.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Call counts of all methods since the node started.
#[derive(Debug, Default)]
pub(crate) struct CallCounters {
    /// Locked when a plugin starts and when counts are read; nothing awaits under it.
    methods: Mutex<BTreeMap<String, Arc<MethodCalls>>>,
    unknown: [AtomicU64; Transport::ALL.len()],
    is_timed: AtomicBool,
}

impl CallCounters {
    /// The counters of a plugin's methods, in their order.
    pub(crate) fn counters(&self, manifest: &Manifest) -> Box<[Arc<MethodCalls>]> {
        let mut methods = self.methods.lock();
        let mut counters_of = |name: &str, namespace: &str, cost| {
            let name = if methods.contains_key(name) || methods.len() < MAX_METHODS { name } else { OTHERS };
            let namespace = if name == OTHERS { OTHERS } else { namespace };
            let new = || Arc::new(MethodCalls::new(name, namespace, cost));
            Arc::clone(methods.entry(name.to_owned()).or_insert_with(new))
        };
        manifest.methods.iter().map(|method| counters_of(&method.name, &manifest.namespace, method.cost)).collect()
    }

    /// Counts a call of a method that is not served, or not on that transport.
    pub(crate) fn count_unknown(&self, transport: Transport) {
        self.unknown[transport as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn is_timed(&self) -> bool {
        self.is_timed.load(Ordering::Relaxed)
    }

    pub(crate) fn time(&self, is_timed: bool) {
        self.is_timed.store(is_timed, Ordering::Relaxed);
    }

    pub(crate) fn counted(&self) -> Vec<CallCounts> {
        let methods: Vec<_> = {
            let methods = self.methods.lock();
            methods.values().cloned().collect()
        };
        methods.iter().flat_map(|method| method.counted()).collect()
    }

    pub(crate) fn unknown(&self) -> [(Transport, u64); Transport::ALL.len()] {
        Transport::ALL.map(|transport| (transport, self.unknown[transport as usize].load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Method;

    fn manifest(methods: impl IntoIterator<Item = String>) -> Manifest {
        let method = |name| Method {
            name,
            cost: Cost::Fast,
            only_reads: true,
            is_ahead: false,
            takes_secrets: false,
            description: "{}".to_owned(),
        };
        Manifest {
            name: "tenon-plugin-abacus".to_owned(),
            namespace: "abacus".to_owned(),
            version: "1.0".to_owned(),
            built_with: String::new(),
            capabilities: Vec::new(),
            needs: Vec::new(),
            has_lasting_subscriptions: false,
            has_item_positions: true,
            has_background: false,
            methods: methods.into_iter().map(method).collect(),
            subscriptions: Vec::new(),
            sends_frames: false,
        }
    }

    #[test]
    fn counts_calls_by_their_end_and_times_them_only_when_asked_to() {
        let book = CallCounters::default();
        let counters = book.counters(&manifest(["abacus_next".to_owned()]));

        counters[0].begin(Transport::Http, book.is_timed()).end(false);
        counters[0].begin(Transport::Http, book.is_timed()).end(true);
        book.time(true);
        drop(counters[0].begin(Transport::Http, book.is_timed()));
        counters[0].begin(Transport::Socket, book.is_timed()).end(false);

        let counted = book.counted();
        let shown: Vec<_> = counted
            .iter()
            .map(|count| (count.transport, count.calls, count.failed, count.cancelled, count.durations.number()))
            .collect();
        assert_eq!(shown, [(Transport::Socket, 1, 0, 0, 1), (Transport::Http, 3, 1, 1, 1)]);
    }

    #[test]
    fn a_method_that_comes_again_goes_on_counting_where_it_was() {
        let book = CallCounters::default();
        book.counters(&manifest(["abacus_next".to_owned()]))[0].begin(Transport::Inside, false).end(false);
        book.counters(&manifest(["abacus_next".to_owned()]))[0].begin(Transport::Inside, false).end(false);

        assert_eq!(book.counted()[0].calls, 2);
    }

    #[test]
    fn methods_without_number_share_their_counters() {
        let book = CallCounters::default();
        let many = manifest((0..MAX_METHODS + 10).map(|number| format!("abacus_{number}")));

        let counters = book.counters(&many);
        counters.iter().for_each(|counters| counters.begin(Transport::Inside, false).end(false));

        let counted = book.counted();
        assert_eq!(counted.len(), MAX_METHODS + 1);
        let others = counted.iter().find(|count| count.method == OTHERS).map(|count| count.calls);
        assert_eq!(others, Some(10));
    }
}
