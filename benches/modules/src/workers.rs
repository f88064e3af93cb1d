//! The connections that make requests without pause.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rand::{SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    Arguments, Error,
    connection::{Connection, Transport},
    methods::{Expected, TestRequest, at_random, quantity},
    modules,
    node::Node,
    tally::Tally,
};

/// How often a transaction is sent, so that blocks are not empty.
const TRANSACTION_PAUSE: Duration = Duration::from_millis(20);

/// All connections.
pub(crate) struct Load {
    is_over: watch::Sender<bool>,
    tasks: JoinSet<Result<(), Error>>,
}

impl Load {
    /// Opens the connections and starts the requests.
    pub(crate) async fn start(
        node: &Node,
        arguments: &Arguments,
        tally: &Arc<Tally>,
        seed: u64,
    ) -> Result<Self, Error> {
        let is_over = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        for number in 0..arguments.connections.max(4) {
            let connection = match number % 3 {
                0 => Connection::http(node.http).await?,
                1 => Connection::websocket(node.websocket).await?,
                _ => Connection::socket(&node.socket).await?,
            };
            let (tally, is_over) = (Arc::clone(tally), is_over.subscribe());
            match number {
                // One follows the blocks, one sends transactions, the others make requests.
                1 => tasks.spawn(follow(connection, tally, is_over)),
                2 => tasks.spawn(send(connection, tally, is_over)),
                _ => {
                    let random = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
                    tasks.spawn(ask(connection, random, tally, is_over))
                }
            };
        }
        Ok(Self { is_over, tasks })
    }

    /// Ends all connections after their last answers.
    pub(crate) async fn stop(mut self) -> Result<(), Error> {
        self.is_over.send_replace(true);
        while let Some(outcome) = self.tasks.join_next().await {
            outcome??;
        }
        Ok(())
    }
}

async fn ask(
    mut connection: Connection,
    mut random: StdRng,
    tally: Arc<Tally>,
    is_over: watch::Receiver<bool>,
) -> Result<(), Error> {
    let last_height = AtomicU64::new(0);
    while !*is_over.borrow() {
        let request = at_random(&mut random);
        let (asked, begun) = (tally.request_state(request.module), Instant::now());
        let answer = match connection.ask(request.method, &request.params).await {
            Ok(answer) => answer,
            Err(error) => {
                // The connection is unusable: the answer is lost.
                tally.wrong(request.module, format!("over {:?}: {error}", connection.transport()));
                return Ok(());
            }
        };
        if let Some(code) = answer["error"]["code"].as_i64() {
            let message = answer["error"]["message"].as_str().unwrap_or_default();
            tally.error(request.module, &asked, request.method, code, message);
        } else if is_right(&request, &answer["result"], &last_height, &tally) {
            tally.record_correct(request.module, &asked, begun.elapsed());
        } else {
            tally.wrong(request.module, format!("{} {} gave {answer}", request.method, request.params));
        }
        if connection.transport() == Transport::Http {
            // Its answers come from another task, as for the other transports, which already take turns.
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

fn is_right(request: &TestRequest, result: &Value, last_height: &AtomicU64, tally: &Tally) -> bool {
    match &request.expected {
        Expected::Exactly(value) => result == value,
        Expected::Containing(text) => result.to_string().contains(text),
        Expected::Height => {
            quantity(result).is_some_and(|height| last_height.fetch_max(height, Ordering::Relaxed) <= height)
        }
        Expected::Unique => {
            let number = result.as_u64();
            number.into_iter().for_each(|number| tally.number(number));
            number.is_some()
        }
    }
}

/// Follows new blocks across all replacements of `eth`: each height once, without gaps.
async fn follow(
    mut connection: Connection,
    tally: Arc<Tally>,
    mut is_over: watch::Receiver<bool>,
) -> Result<(), Error> {
    let eth = modules::index("eth").unwrap_or_default();
    let subscribed = connection.ask("eth_subscribe", &json!(["newHeads"])).await?;
    if subscribed["result"].is_null() {
        return Err(format!("no subscription: {subscribed}").into());
    }
    let mut last: Option<u64> = None;
    loop {
        // Cancelled only at the very end: otherwise half a frame would be lost.
        let received = tokio::select! {
            received = connection.receive() => received,
            _ = is_over.changed() => return Ok(()),
        };
        let message: Value = serde_json::from_str(&received?)?;
        let height = quantity(&message["params"]["result"]["number"]);
        match (last, height) {
            (Some(last), Some(height)) if height == last + 1 => {}
            (None, Some(_)) => {}
            _ => tally.wrong(eth, format!("after block {last:?} the subscription said {message}")),
        }
        last = height.or(last);
        tally.heads.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends transactions, so that blocks are not empty.
async fn send(mut connection: Connection, tally: Arc<Tally>, is_over: watch::Receiver<bool>) -> Result<(), Error> {
    let eth = modules::index("eth").unwrap_or_default();
    let accounts = connection.ask("eth_accounts", &json!([])).await?;
    let transfer =
        json!([{"from": accounts["result"][0], "to": accounts["result"][1], "value": "0x1", "gas": "0x5208"}]);
    while !*is_over.borrow() {
        let (asked, begun) = (tally.request_state(eth), Instant::now());
        let answer = connection.ask("eth_sendTransaction", &transfer).await?;
        match answer["error"]["message"].as_str() {
            None => tally.record_correct(eth, &asked, begun.elapsed()),
            // While blocks are not sealed the pool fills up, and refuses transactions.
            Some(message) if message.contains("txpool is full") || message.contains("limit") => {}
            Some(message) => tally.wrong(eth, format!("eth_sendTransaction: {message}")),
        }
        tokio::time::sleep(TRANSACTION_PAUSE).await;
    }
    Ok(())
}
