//! Requests that wait for people.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use alloy_primitives::{Address, B256};
use serde::Serialize;
use tenon_signing_policy::{Kind, Presentation};
use tokio::sync::{oneshot, watch};

use crate::shares::{MAX_WAITING, MAX_WAITING_OF_CLIENT};

/// A request that waits for people, as they see it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingRequest {
    /// Its number in the log.
    pub number: u64,
    /// Who asks.
    pub client: String,
    /// Whose key.
    pub account: Address,
    /// What kind.
    pub kind: Kind,
    /// The hash to sign; an approval names it.
    pub hash: B256,
    /// The rule that wants a person.
    pub rule: String,
    /// When it expires, seconds since 1970.
    pub until: u64,
    /// Number of approvals that it needs.
    pub needed: u8,
    /// Who has approved.
    pub approved_by: Vec<String>,
    /// What a person reads.
    pub presentation: Presentation,
}

/// Why an approval or a refusal does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApproveError {
    /// No such request waits: it was answered, it expired, or its client left.
    #[error("request {0} does not wait for an approval: it was answered, it expired, or its client left")]
    NotWaiting(u64),
    /// The approval is of other bytes.
    #[error("request {number} is about another hash, {hash}: look at it again")]
    OtherHash {
        /// The request.
        number: u64,
        /// Its hash.
        hash: B256,
    },
    /// The approver is the one who asks.
    #[error("{0} asked for it, and somebody else must approve it")]
    Requester(String),
    /// The approver has approved already.
    #[error("{0} has approved it already; it waits for somebody else")]
    Twice(String),
    /// The log could not be written.
    #[error("{0}")]
    Log(String),
}

/// How a request that waited was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Enough people approved.
    Approved,
    /// Somebody refused.
    Refused {
        /// Who.
        by: String,
    },
}

/// An approver and the clients that are the same person.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Approver<'a> {
    pub(crate) name: &'a str,
    pub(crate) clients: &'a BTreeSet<String>,
}

impl Approver<'_> {
    fn is_requester(&self, request: &WaitingRequest) -> bool {
        self.name == request.client || self.clients.contains(&request.client)
    }
}

struct Waiting {
    request: WaitingRequest,
    /// Where it was shown.
    places: BTreeSet<&'static str>,
    answer: Option<oneshot::Sender<Answer>>,
}

/// The requests that wait. Clones share them.
#[derive(Clone)]
pub struct Approvals {
    /// Nothing awaits under the lock.
    waiting: Arc<Mutex<BTreeMap<u64, Waiting>>>,
    /// The number of changes.
    changes: Arc<watch::Sender<u64>>,
}

impl Default for Approvals {
    fn default() -> Self {
        let (changes, _) = watch::channel(0);
        Self { waiting: Arc::default(), changes: Arc::new(changes) }
    }
}

/// A place among the waiting requests; dropping it ends the waiting.
pub(crate) struct Place {
    approvals: Approvals,
    number: u64,
    pub(crate) answer: oneshot::Receiver<Answer>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.approvals.waiting().remove(&self.number);
        self.approvals.tell();
    }
}

/// An approval that counts. Dropped without being told, as when its line can't be written, it ends the request if it was
/// the last one needed.
#[must_use]
pub(crate) struct Counted {
    answer: Option<oneshot::Sender<Answer>>,
}

impl Counted {
    /// Has the request go on if this was the last approval needed.
    pub(crate) fn tell(self) {
        if let Some(answer) = self.answer {
            // The receiver is gone if the client has just left.
            let _ = answer.send(Answer::Approved);
        }
    }
}

impl Approvals {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Has a request wait; `None` if too many wait.
    pub(crate) fn wait(&self, request: WaitingRequest) -> Option<Place> {
        let mut waiting = self.waiting();
        let of_client = waiting.values().filter(|waiting| waiting.request.client == request.client).count();
        if waiting.len() >= MAX_WAITING || of_client >= MAX_WAITING_OF_CLIENT {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        let number = request.number;
        waiting.insert(number, Waiting { request, places: BTreeSet::new(), answer: Some(sender) });
        drop(waiting);
        self.tell();
        Some(Place { approvals: self.clone(), number, answer })
    }

    /// All that wait, in the order in which they came.
    pub fn list(&self) -> Vec<WaitingRequest> {
        self.waiting().values().map(|waiting| waiting.request.clone()).collect()
    }

    /// One that waits.
    pub fn get(&self, number: u64) -> Option<WaitingRequest> {
        self.waiting().get(&number).map(|waiting| waiting.request.clone())
    }

    /// Waits for a change of the list.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Notes that a request is shown at a place; false if it was there before, or does not wait.
    pub(crate) fn is_first_shown(&self, number: u64, place: &'static str) -> bool {
        self.waiting().get_mut(&number).is_some_and(|waiting| waiting.places.insert(place))
    }

    /// Whether an approval would count.
    pub(crate) fn check(&self, approver: Approver<'_>, number: u64, hash: B256) -> Result<(), ApproveError> {
        check(&mut self.waiting(), approver, number, hash).map(drop)
    }

    /// Counts an approval. What waits for it learns of it by [`Counted::tell`].
    pub(crate) fn count(&self, approver: Approver<'_>, number: u64, hash: B256) -> Result<Counted, ApproveError> {
        let mut all = self.waiting();
        let waiting = check(&mut all, approver, number, hash)?;
        waiting.request.approved_by.push(approver.name.to_owned());
        let is_enough = waiting.request.approved_by.len() >= usize::from(waiting.request.needed);
        let answer = if is_enough { waiting.answer.take() } else { None };
        drop(all);
        self.tell();
        Ok(Counted { answer })
    }

    /// Refuses a request. Anybody may, also who asked.
    pub(crate) fn refuse(&self, by: &str, number: u64) -> Result<(), ApproveError> {
        let mut all = self.waiting();
        let answer = all.get_mut(&number).and_then(|waiting| waiting.answer.take());
        let answer = answer.ok_or(ApproveError::NotWaiting(number))?;
        // The receiver is gone if the client has just left.
        let _ = answer.send(Answer::Refused { by: by.to_owned() });
        drop(all);
        self.tell();
        Ok(())
    }
}

fn check<'w>(
    waiting: &'w mut BTreeMap<u64, Waiting>,
    approver: Approver<'_>,
    number: u64,
    hash: B256,
) -> Result<&'w mut Waiting, ApproveError> {
    let found = waiting.get_mut(&number).filter(|waiting| waiting.answer.is_some());
    let found = found.ok_or(ApproveError::NotWaiting(number))?;
    let request = &found.request;
    if request.hash != hash {
        return Err(ApproveError::OtherHash { number, hash: request.hash });
    }
    if approver.is_requester(request) {
        return Err(ApproveError::Requester(approver.name.to_owned()));
    }
    if request.approved_by.iter().any(|name| name == approver.name) {
        return Err(ApproveError::Twice(approver.name.to_owned()));
    }
    Ok(found)
}
