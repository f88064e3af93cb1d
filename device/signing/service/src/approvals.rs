//! Requests that wait for people.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use alloy_primitives::{Address, B256};
use parking_lot::Mutex;
use serde::Serialize;
use tenon_signing_policy::{Kind, Presentation};
use tokio::sync::{oneshot, watch};

use crate::shares::{MAX_WAITING, MAX_WAITING_OF_CLIENT};

/// A request that waits for people, in the form shown to them.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingRequest {
    /// Its number in the log.
    pub number: u64,
    /// The client, by name.
    pub client: String,
    /// The account whose key should sign.
    pub account: Address,
    /// The kind of request.
    pub kind: Kind,
    /// The hash to sign, which an approval must repeat.
    pub hash: B256,
    /// The rule that requires a person's approval.
    pub rule: String,
    /// When it expires, seconds since 1970.
    pub until: u64,
    /// Number of approvals required.
    pub needed: u8,
    /// The people who have approved.
    pub approved_by: Vec<String>,
    /// The text that people read.
    pub presentation: Presentation,
}

/// Why an approval or a refusal was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApproveError {
    /// No such request is waiting: it was answered or has expired, or its client left.
    #[error("request {0} is not waiting for approval: it was answered, it expired, or its client disconnected")]
    NotWaiting(u64),
    /// The approval is for another hash.
    #[error("request {number} has another hash, {hash}: look at the request again")]
    OtherHash {
        /// The request.
        number: u64,
        /// Its hash.
        hash: B256,
    },
    /// The approver is the person who made the request.
    #[error("{0} sent it, so another approver must approve it")]
    Requester(String),
    /// The approver has already approved.
    #[error("{0} has already approved it; it waits for another approver")]
    Twice(String),
    /// The log could not be written.
    #[error("{0}")]
    Log(String),
}

/// The answer to a waiting request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Enough people approved.
    Approved,
    /// A person refused.
    Refused {
        /// The person's name.
        by: String,
    },
}

/// An approver, and the clients that are the same person.
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
    /// Places where the request was shown.
    places: BTreeSet<&'static str>,
    answer: Option<oneshot::Sender<Answer>>,
}

/// The waiting requests. Clones share them.
#[derive(Clone)]
pub struct Approvals {
    /// Not held across an await.
    waiting: Arc<Mutex<BTreeMap<u64, Waiting>>>,
    /// Counts the changes.
    changes: Arc<watch::Sender<u64>>,
}

impl Default for Approvals {
    fn default() -> Self {
        let (changes, _) = watch::channel(0);
        Self { waiting: Arc::default(), changes: Arc::new(changes) }
    }
}

/// An entry in the table of waiting requests, removed on drop.
pub(crate) struct WaitingEntry {
    approvals: Approvals,
    number: u64,
    pub(crate) answer: oneshot::Receiver<Answer>,
}

impl Drop for WaitingEntry {
    fn drop(&mut self) {
        self.approvals.waiting.lock().remove(&self.number);
        self.approvals.notify_watchers();
    }
}

/// A counted approval. If it was the last one needed and is dropped without [`Counted::notify_if_approved`], for
/// example because its log line can't be written, the request ends.
#[must_use]
pub(crate) struct Counted {
    answer: Option<oneshot::Sender<Answer>>,
}

impl Counted {
    /// Continues the request if this was the last approval needed.
    pub(crate) fn notify_if_approved(self) {
        if let Some(answer) = self.answer {
            // The receiver is gone if the client has just left.
            let _ = answer.send(Answer::Approved);
        }
    }
}

impl Approvals {
    fn notify_watchers(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Adds a waiting request; `None` if too many are waiting.
    pub(crate) fn wait(&self, request: WaitingRequest) -> Option<WaitingEntry> {
        let mut waiting = self.waiting.lock();
        let of_client = waiting.values().filter(|waiting| waiting.request.client == request.client).count();
        if waiting.len() >= MAX_WAITING || of_client >= MAX_WAITING_OF_CLIENT {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        let number = request.number;
        waiting.insert(number, Waiting { request, places: BTreeSet::new(), answer: Some(sender) });
        drop(waiting);
        self.notify_watchers();
        Some(WaitingEntry { approvals: self.clone(), number, answer })
    }

    /// All waiting requests, in order of arrival.
    pub fn list(&self) -> Vec<WaitingRequest> {
        self.waiting.lock().values().map(|waiting| waiting.request.clone()).collect()
    }

    /// The waiting request with this number.
    pub fn get(&self, number: u64) -> Option<WaitingRequest> {
        self.waiting.lock().get(&number).map(|waiting| waiting.request.clone())
    }

    /// Returns a receiver that changes whenever the list does.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Records that a request was shown at a place. Returns `false` if it was already shown there, or is not waiting.
    pub(crate) fn mark_shown(&self, number: u64, place: &'static str) -> bool {
        self.waiting.lock().get_mut(&number).is_some_and(|waiting| waiting.places.insert(place))
    }

    /// Checks whether an approval would be accepted.
    pub(crate) fn check(&self, approver: Approver<'_>, number: u64, hash: B256) -> Result<(), ApproveError> {
        check(&mut self.waiting.lock(), approver, number, hash).map(drop)
    }

    /// Counts an approval. The waiting request continues with [`Counted::notify_if_approved`].
    pub(crate) fn count(&self, approver: Approver<'_>, number: u64, hash: B256) -> Result<Counted, ApproveError> {
        let mut all = self.waiting.lock();
        let waiting = check(&mut all, approver, number, hash)?;
        waiting.request.approved_by.push(approver.name.to_owned());
        let is_enough = waiting.request.approved_by.len() >= usize::from(waiting.request.needed);
        let answer = if is_enough { waiting.answer.take() } else { None };
        drop(all);
        self.notify_watchers();
        Ok(Counted { answer })
    }

    /// Refuses a request. Anyone may refuse, including the requester.
    pub(crate) fn refuse(&self, by: &str, number: u64) -> Result<(), ApproveError> {
        let mut all = self.waiting.lock();
        let answer = all.get_mut(&number).and_then(|waiting| waiting.answer.take());
        let answer = answer.ok_or(ApproveError::NotWaiting(number))?;
        // The receiver is gone if the client has just left.
        let _ = answer.send(Answer::Refused { by: by.to_owned() });
        drop(all);
        self.notify_watchers();
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
