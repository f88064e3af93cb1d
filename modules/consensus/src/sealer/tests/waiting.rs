//! Tests of waiting for the blocks of transactions.

use tenon_api::messages::AwaitSealing;
use tenon_bus::CallContext;

use super::*;

impl Running {
    /// Adds a transaction to the pool, without an event, and waits for its block.
    async fn send(&self, nonce: u64) {
        self.network.pool.lock().unwrap().push(transaction(nonce));
        self.wait(nonce).await;
    }

    async fn wait(&self, nonce: u64) {
        let request = AwaitSealing { hash: transaction(nonce).transaction.hash };
        self.bus.call(request, &CallContext::new()).await.unwrap();
    }

    /// One transaction is pending, and no block is made until the returned sender is dropped.
    fn start_held() -> (Self, std::sync::mpsc::Sender<()>) {
        let (let_go, held) = std::sync::mpsc::channel::<()>();
        let held = Mutex::new(held);
        let (network, mut ports, made) = network(vec![transaction(0)], 9);
        ports.clock.random = Arc::new(move || {
            let _ = held.lock().unwrap().recv();
            B256::ZERO
        });
        (Self::start(SealMode::OnTransaction, (network, ports, made)), let_go)
    }

    fn is_sealed(&self, nonce: u64) -> bool {
        self.network.chain.transaction_location(transaction(nonce).transaction.hash).unwrap().is_some()
    }
}

#[tokio::test]
async fn the_answer_comes_when_the_block_is_the_head() {
    let running = Running::start(SealMode::OnTransaction, network(Vec::new(), 9));

    for nonce in 0..200 {
        running.send(nonce).await;
        assert!(running.is_sealed(nonce), "{nonce}");
    }

    running.stop().await;
}

#[tokio::test]
async fn many_senders_wait_for_one_block() {
    let (running, let_go) = Running::start_held();
    running.network.pool.lock().unwrap().extend((1..9).map(transaction));
    let waiting: Vec<_> = (0..9).map(|nonce| running.wait(nonce)).collect();

    let (_, ()) = tokio::join!(futures_of(waiting), async { drop(let_go) });

    assert!((0..9).all(|nonce| running.is_sealed(nonce)));
    assert!(running.network.chain.head().header.number <= 2);
    running.stop().await;
}

/// Polls all futures concurrently until they have completed.
async fn futures_of(waiting: Vec<impl Future<Output = ()>>) {
    let mut waiting: Vec<_> = waiting.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        waiting.retain_mut(|each| each.as_mut().poll(context).is_pending());
        if waiting.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn an_unsealable_transaction_costs_a_round_and_no_block() {
    let running = Running::start(SealMode::OnTransaction, network(Vec::new(), 9));

    running.send(1).await;
    running.wait(7).await;

    assert_eq!(running.network.chain.head().header.number, 0);
    running.stop().await;
}

#[tokio::test]
async fn waiting_returns_at_once_with_blocks_at_intervals_or_a_stopped_sealer() {
    let running = Running::start(SealMode::Interval(Duration::from_secs(3600)), network(vec![transaction(0)], 9));
    running.wait(0).await;
    assert!(!running.is_sealed(0));
    running.stop().await;

    let running = Running::start(SealMode::OnTransaction, network(Vec::new(), 9));
    let (bus, on_demand) = (running.bus.clone(), running.on_demand.clone());
    let network = Arc::clone(&running.network);
    running.stop().await;
    network.pool.lock().unwrap().push(transaction(0));
    bus.call(AwaitSealing { hash: transaction(0).transaction.hash }, &CallContext::new()).await.unwrap();
    assert_eq!(network.chain.head().header.number, 0);
    drop(on_demand);
}

#[tokio::test]
async fn a_sealer_that_panics_or_fails_blocks_no_waiter() {
    let running = Running::start(SealMode::OnTransaction, network_whose_sealer_panics_once());

    running.wait(0).await;

    assert!(running.is_sealed(0));
    running.stop().await;
}

#[tokio::test]
async fn the_wait_is_bounded_if_the_block_never_finishes() {
    let (running, let_go) = Running::start_held();

    running.wait(0).await;

    assert!(!running.is_sealed(0));
    drop(let_go);
    running.stop().await;
}
