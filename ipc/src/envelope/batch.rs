//! Batches: calls run at the same time, answers stand in order.

use std::task::Poll;

use futures_util::{StreamExt as _, stream::FuturesUnordered};

use super::{Answer, Dispatcher, Outcome, Reply, Request, Subscriptions, failures, poll_once, reply, scan::RawMessage};
use crate::service::{Caller, RpcService};

/// One entry of the answer.
struct Entry<'a, S: RpcService> {
    /// `None` for a notification, which leaves no entry.
    id: Option<&'a str>,
    outcome: Option<Outcome<S>>,
}

impl<S: RpcService> Dispatcher<S> {
    pub(super) async fn answer_batch(
        &self,
        text: &str,
        message: &RawMessage,
        caller: &Caller,
        subscriptions: Option<&Subscriptions>,
    ) -> Answer<S> {
        if message.item_count == 0 {
            return Answer::only(Some(Reply::stray_failure(&failures::empty_batch())));
        }
        if message.item_count > self.limits.batch_items {
            let failure = failures::batch_too_large(message.item_count, self.limits.batch_items);
            return Answer::only(Some(Reply::stray_failure(&failure)));
        }
        let entries = self.run_batch(text, message, caller, subscriptions).await;
        render(entries)
    }

    async fn run_batch<'a>(
        &self,
        text: &'a str,
        message: &RawMessage,
        caller: &Caller,
        subscriptions: Option<&Subscriptions>,
    ) -> Vec<Entry<'a, S>> {
        let mut entries: Vec<Entry<'a, S>> = Vec::with_capacity(message.items.len());
        let mut running = FuturesUnordered::new();
        let mut budget = Budget { left: self.limits.batch_response_bytes, most: self.limits.batch_response_bytes };
        for raw in &message.items {
            let (id, method, params) = match Request::look_at(raw, text) {
                Request::Ignored => continue,
                Request::Invalid { id } => {
                    let outcome = Some(Outcome::Failed(failures::invalid_request()));
                    entries.push(Entry { id: Some(id), outcome });
                    continue;
                }
                Request::Call { id, method, params } => (id, method, params),
            };
            let index = entries.len();
            entries.push(Entry { id, outcome: None });
            if budget.is_spent() {
                entries[index].outcome = Some(budget.refusal());
                continue;
            }
            // Most calls are done on their first poll; only the others are worth a place among the running.
            let subscriptions = subscriptions.filter(|_| id.is_some());
            let mut call =
                Box::pin(async move { (index, self.call_in_time(&method, params, caller, subscriptions).await) });
            match poll_once(call.as_mut()).await {
                Poll::Ready((index, outcome)) => entries[index].outcome = Some(budget.charge(outcome)),
                Poll::Pending => running.push(call),
            }
            tokio::task::coop::consume_budget().await;
            if running.len() >= self.limits.batch_concurrency.max(1)
                && let Some((index, outcome)) = running.next().await
            {
                entries[index].outcome = Some(budget.charge(outcome));
            }
        }
        while let Some((index, outcome)) = running.next().await {
            entries[index].outcome = Some(budget.charge(outcome));
        }
        entries
    }
}

/// What is left of the bytes that a batch's answer may have.
struct Budget {
    left: usize,
    most: usize,
}

impl Budget {
    const fn is_spent(&self) -> bool {
        self.left == 0
    }

    fn refusal<S: RpcService>(&self) -> Outcome<S> {
        Outcome::Failed(failures::batch_response_too_large(self.most))
    }

    fn charge<S: RpcService>(&mut self, outcome: Outcome<S>) -> Outcome<S> {
        let length = match &outcome {
            Outcome::Json(json) => json.as_ref().len(),
            Outcome::Failed(failure) => failure.message.len() + failure.data.as_ref().map_or(0, String::len),
            Outcome::Done | Outcome::Opened(_) => 0,
        };
        if length > self.left {
            self.left = 0;
            return self.refusal();
        }
        self.left -= length;
        outcome
    }
}

fn render<S: RpcService>(entries: Vec<Entry<'_, S>>) -> Answer<S> {
    let mut text = Vec::with_capacity(estimate(&entries));
    let mut opened = Vec::new();
    text.push(b'[');
    for Entry { id, outcome } in entries {
        let (Some(id), Some(outcome)) = (id, outcome) else { continue };
        if text.len() > 1 {
            text.push(b',');
        }
        match outcome {
            Outcome::Json(json) => reply::write_result(&mut text, id, json.as_ref()),
            Outcome::Done => reply::write_result(&mut text, id, b"true"),
            Outcome::Failed(failure) => reply::write_failure(&mut text, id, &failure),
            Outcome::Opened(subscription) => {
                let quoted = format!("\"{}\"", subscription.id);
                reply::write_result(&mut text, id, quoted.as_bytes());
                opened.push(subscription);
            }
        }
    }
    if text.len() == 1 {
        return Answer::only(None);
    }
    text.extend_from_slice(b"]\n");
    Answer { reply: Some(Reply::whole(text)), opened }
}

fn estimate<S: RpcService>(entries: &[Entry<'_, S>]) -> usize {
    let length = |entry: &Entry<'_, S>| match &entry.outcome {
        Some(Outcome::Json(json)) => json.as_ref().len() + 48,
        _ => 128,
    };
    entries.iter().map(length).sum::<usize>() + 3
}
