//! Bounded queue of questions for the approving program, round-robin by client.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use crate::shares::{MAX_WAITING, MAX_WAITING_OF_CLIENT};

/// A question about a request.
#[derive(Debug)]
pub(crate) struct Question {
    /// The client that requested the signature.
    pub(crate) client: String,
    /// Standard input of the program.
    pub(crate) input: String,
    /// Closed when the request is no longer waiting.
    pub(crate) answer: oneshot::Sender<Option<bool>>,
}

/// The queue. One thread takes questions from it and sleeps while it is empty.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// The queue of each client, never empty. The first client is next.
    clients: VecDeque<VecDeque<Question>>,
    is_closed: bool,
}

impl Questions {
    /// Adds a question; `false` if its client or all clients together have reached their limit. First removes questions
    /// whose request has ended.
    pub(crate) fn add(&self, question: Question) -> bool {
        let mut waiting = self.waiting();
        waiting.remove_ended();
        let all: usize = waiting.clients.iter().map(VecDeque::len).sum();
        let is_own = |of: &&mut VecDeque<Question>| of.front().is_some_and(|first| first.client == question.client);
        let own = waiting.clients.iter_mut().find(is_own);
        if all >= MAX_WAITING || own.as_ref().is_some_and(|own| own.len() >= MAX_WAITING_OF_CLIENT) {
            return false;
        }
        match own {
            Some(own) => own.push_back(question),
            None => waiting.clients.push_back(VecDeque::from([question])),
        }
        drop(waiting);
        self.changed.notify_one();
        true
    }

    /// Waits for the next question whose request is still waiting; `None` once the queue is closed.
    pub(crate) fn next(&self) -> Option<Question> {
        let mut waiting = self.waiting();
        loop {
            if waiting.is_closed {
                return None;
            }
            if let Some(question) = waiting.take_next() {
                return Some(question);
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
        self.clients.iter_mut().for_each(|own| own.retain(|question| !question.answer.is_closed()));
        self.clients.retain(|own| !own.is_empty());
    }

    fn take_next(&mut self) -> Option<Question> {
        self.remove_ended();
        let mut own = self.clients.pop_front()?;
        let question = own.pop_front();
        if !own.is_empty() {
            self.clients.push_back(own);
        }
        question
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(client: &str, input: &str) -> (Question, oneshot::Receiver<Option<bool>>) {
        let (answer, receiver) = oneshot::channel();
        (Question { client: client.to_owned(), input: input.to_owned(), answer }, receiver)
    }

    #[test]
    fn clients_have_their_turns_and_their_shares() {
        let questions = Questions::default();
        let mut receivers = Vec::new();
        let mut add = |client: &str, input: &str| {
            let (question, receiver) = question(client, input);
            receivers.push(receiver);
            questions.add(question)
        };

        assert_eq!((0..30).filter(|number| add("a", &format!("a{number}"))).count(), MAX_WAITING_OF_CLIENT);
        assert!(add("b", "b0") && add("b", "b1"));
        let order: Vec<String> = (0..5).map(|_| questions.next().unwrap().input).collect();
        assert_eq!(order, ["a0", "b0", "a1", "b1", "a2"]);
        let more = (0..20).flat_map(|client| (0..MAX_WAITING_OF_CLIENT).map(move |_| format!("c{client}")));
        let accepted = more.filter(|client| add(client, "")).count();
        assert_eq!(accepted, MAX_WAITING - (MAX_WAITING_OF_CLIENT - 3));
    }

    #[test]
    fn a_question_whose_request_has_ended_is_never_asked_and_takes_no_place() {
        let questions = Questions::default();
        for _ in 0..1_000 {
            let (question, receiver) = question("a", "left");
            assert!(questions.add(question));
            drop(receiver);
        }
        let (question, _receiver) = question("a", "waits");
        assert!(questions.add(question));

        assert_eq!(questions.next().unwrap().input, "waits");
        questions.close();
        assert!(questions.next().is_none());
    }
}
