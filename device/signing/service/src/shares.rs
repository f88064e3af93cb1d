//! Limits on waiting requests, per client and in total.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

/// Maximum number of requests that wait for the same resource.
pub(crate) const MAX_WAITING: usize = 128;
/// Maximum number of them from one client.
pub(crate) const MAX_WAITING_OF_CLIENT: usize = 16;

/// Places in the queue for one resource.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// Number of places taken, by client. Not held across an await.
    taken: Mutex<BTreeMap<String, usize>>,
}

/// A place, released on drop.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    client: String,
}

impl Shares {
    /// Takes a place for a client; `None` if the client or all clients together have reached their limit.
    pub(crate) fn take(self: &Arc<Self>, client: &str) -> Option<Share> {
        let mut taken = self.taken.lock();
        let of_client = taken.get(client).copied().unwrap_or_default();
        if of_client >= MAX_WAITING_OF_CLIENT || taken.values().sum::<usize>() >= MAX_WAITING {
            return None;
        }
        taken.insert(client.to_owned(), of_client + 1);
        Some(Share { shares: Arc::clone(self), client: client.to_owned() })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken.lock();
        let left = taken.get(&self.client).copied().unwrap_or_default().saturating_sub(1);
        match left {
            0 => drop(taken.remove(&self.client)),
            left => drop(taken.insert(self.client.clone(), left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_a_share_and_all_together_a_limit() {
        let shares = Arc::new(Shares::default());
        let take = |client: &str| (0..100).map_while(|_| shares.take(client)).collect::<Vec<_>>();

        let first = take("a");
        assert_eq!((first.len(), take("b").len()), (MAX_WAITING_OF_CLIENT, MAX_WAITING_OF_CLIENT));
        let others: Vec<_> = (0..20).flat_map(|number| take(&format!("other {number}"))).collect();
        assert_eq!(first.len() + others.len(), MAX_WAITING);
        assert!(shares.take("b").is_none());
        drop(first);
        assert_eq!(take("b").len(), MAX_WAITING_OF_CLIENT);
        drop(others);
        assert!(shares.taken.lock().is_empty());
    }
}
