//! Bounded queue of requests for the approving program, round-robin by client.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use crate::shares::{MAX_WAITING, MAX_WAITING_OF_CLIENT};

/// A signing request that the program is to approve or refuse.
#[derive(Debug)]
pub(crate) struct ApprovalRequest {
    /// The client that requested the signature.
    pub(crate) client: String,
    /// Standard input of the program.
    pub(crate) input: String,
    /// Closed when the request is no longer waiting.
    pub(crate) answer: oneshot::Sender<Option<bool>>,
}

/// The queue. One thread takes requests from it and sleeps while it is empty.
#[derive(Debug, Default)]
pub(crate) struct ApprovalQueue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// The queue of each client, never empty. The first client is next.
    clients: VecDeque<VecDeque<ApprovalRequest>>,
    is_closed: bool,
}

impl ApprovalQueue {
    /// Adds a request; `false` if its client or all clients together have reached their limit. First removes requests
    /// that have ended.
    pub(crate) fn add(&self, request: ApprovalRequest) -> bool {
        let mut waiting = self.waiting();
        waiting.remove_ended();
        let all: usize = waiting.clients.iter().map(VecDeque::len).sum();
        let is_own =
            |of: &&mut VecDeque<ApprovalRequest>| of.front().is_some_and(|first| first.client == request.client);
        let own = waiting.clients.iter_mut().find(is_own);
        if all >= MAX_WAITING || own.as_ref().is_some_and(|own| own.len() >= MAX_WAITING_OF_CLIENT) {
            return false;
        }
        match own {
            Some(own) => own.push_back(request),
            None => waiting.clients.push_back(VecDeque::from([request])),
        }
        drop(waiting);
        self.changed.notify_one();
        true
    }

    /// Waits for the next request that has not ended; `None` once the queue is closed.
    pub(crate) fn next(&self) -> Option<ApprovalRequest> {
        let mut waiting = self.waiting();
        loop {
            if waiting.is_closed {
                return None;
            }
            if let Some(request) = waiting.take_next() {
                return Some(request);
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes the queue, which ends the thread that takes from it.
    pub(crate) fn close(&self) {
        self.waiting().is_closed = true;
        self.changed.notify_all();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn remove_ended(&mut self) {
        self.clients.iter_mut().for_each(|own| own.retain(|request| !request.answer.is_closed()));
        self.clients.retain(|own| !own.is_empty());
    }

    fn take_next(&mut self) -> Option<ApprovalRequest> {
        self.remove_ended();
        let mut own = self.clients.pop_front()?;
        let request = own.pop_front();
        if !own.is_empty() {
            self.clients.push_back(own);
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(client: &str, input: &str) -> (ApprovalRequest, oneshot::Receiver<Option<bool>>) {
        let (answer, receiver) = oneshot::channel();
        (ApprovalRequest { client: client.to_owned(), input: input.to_owned(), answer }, receiver)
    }

    #[test]
    fn clients_have_their_turns_and_their_shares() {
        let queue = ApprovalQueue::default();
        let mut receivers = Vec::new();
        let mut add = |client: &str, input: &str| {
            let (request, receiver) = request(client, input);
            receivers.push(receiver);
            queue.add(request)
        };

        assert_eq!((0..30).filter(|number| add("a", &format!("a{number}"))).count(), MAX_WAITING_OF_CLIENT);
        assert!(add("b", "b0") && add("b", "b1"));
        let order: Vec<String> = (0..5).map(|_| queue.next().unwrap().input).collect();
        assert_eq!(order, ["a0", "b0", "a1", "b1", "a2"]);
        let more = (0..20).flat_map(|client| (0..MAX_WAITING_OF_CLIENT).map(move |_| format!("c{client}")));
        let accepted = more.filter(|client| add(client, "")).count();
        assert_eq!(accepted, MAX_WAITING - (MAX_WAITING_OF_CLIENT - 3));
    }

    #[test]
    fn a_request_that_has_ended_is_never_passed_on_and_takes_no_place() {
        let queue = ApprovalQueue::default();
        for _ in 0..1_000 {
            let (request, receiver) = request("a", "left");
            assert!(queue.add(request));
            drop(receiver);
        }
        let (request, _receiver) = request("a", "waits");
        assert!(queue.add(request));

        assert_eq!(queue.next().unwrap().input, "waits");
        queue.close();
        assert!(queue.next().is_none());
    }
}
