//! One wallet shared by many callers: turns, deadlines, cancellation, panics.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::LocalBoxFuture;
use tenon_device_session::{Answer, DerivationPath, DeviceError, NoPerson, OpenState, Person, Prompt, Signature};
use tenon_device_simulator::{Approval, Model, SimulatorSettings};
use tokio::time::{Instant, timeout};

use crate::support::{ACCOUNT, Shared, legacy, settings, soon};

async fn sign(shared: &Shared, person: Box<dyn Person>) -> Result<Signature, DeviceError> {
    shared.handle.sign_transaction(ACCOUNT, legacy(Some(50), 0), person, soon()).await
}

/// Waits until the device asks for a button.
async fn button(shared: &Shared) {
    let mut status = shared.handle.watch_status();
    let asked = timeout(Duration::from_secs(5), status.wait_for(|status| status.is_waiting_for_button)).await;
    asked.expect("no button is asked for").unwrap();
}

/// Returns a request for which the device shows its prompt.
async fn sign_until_button(shared: &Shared) -> LocalBoxFuture<'_, Result<Signature, DeviceError>> {
    let mut signing: LocalBoxFuture<'_, _> = Box::pin(sign(shared, Box::new(NoPerson)));
    tokio::select! {
        result = &mut signing => panic!("{result:?}"),
        () = button(shared) => {}
    }
    signing
}

/// Presses the device's button until a request has completed.
async fn confirm<T>(shared: &Shared, request: impl Future<Output = T>) -> T {
    let pressing = async {
        loop {
            shared.simulator.decide(true).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        result = request => result,
        () = pressing => unreachable!("pressing never ends"),
    }
}

fn asking(model: Model) -> SimulatorSettings {
    SimulatorSettings { approval: Approval::Asked, ..settings(model) }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_take_turns() {
    let shared = Shared::open(settings(Model::One)).await;

    let (one, two, three) = tokio::join!(
        sign(&shared, Box::new(NoPerson)),
        sign(&shared, Box::new(NoPerson)),
        sign(&shared, Box::new(NoPerson))
    );

    assert!(one.is_ok() && two.is_ok() && three.is_ok(), "{one:?} {two:?} {three:?}");
    assert_eq!(shared.simulator.observed().signatures, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_requests_wait_until_their_deadline_and_the_status_never_waits() {
    let shared = Shared::open(asking(Model::One)).await;
    let signing = sign_until_button(&shared).await;

    let asked = Instant::now();
    let deadline = Instant::now() + Duration::from_millis(50);
    let other = shared.handle.derive(DerivationPath::account(1), false, false, Box::new(NoPerson), deadline).await;
    let status = shared.handle.status();

    assert_eq!(other, Err(DeviceError::DeadlineWhileWaiting));
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    assert_eq!((status.state, status.is_waiting_for_button), (OpenState::Open, true));
    assert!(confirm(&shared, signing).await.is_ok());
    assert!(!shared.handle.status().is_waiting_for_button);
    assert_eq!(
        shared.simulator.observed().received.iter().filter(|id| **id == 56).count(),
        1,
        "the late one never ran"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_an_immediate_error() {
    let shared = Shared::open(asking(Model::One)).await;
    let calls: Vec<_> = (0..10).map(|_| sign(&shared, Box::new(NoPerson))).collect();
    let all = futures_util::future::join_all(calls);

    let results = confirm(&shared, all).await;

    let busy = results.iter().filter(|result| **result == Err(DeviceError::Busy)).count();
    assert!(busy > 0 && results.iter().any(Result::is_ok), "{results:?}");
    assert!(results.iter().all(|result| result.is_ok() || *result == Err(DeviceError::Busy)), "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_request_clears_the_prompt_of_the_device() {
    for model in Model::ALL {
        let shared = Shared::open(asking(model)).await;
        drop(sign_until_button(&shared).await);

        let path = DerivationPath::account(0);
        let next = shared.handle.derive(path, false, false, Box::new(NoPerson), soon()).await;

        assert_eq!(next, Ok(ACCOUNT), "{model}");
        let observed = shared.simulator.observed();
        assert_eq!(observed.signatures, 0, "{model}");
    }
}

struct Panics;

#[async_trait]
impl Person for Panics {
    async fn ask(&mut self, _: Prompt) -> Option<Answer> {
        None
    }

    fn button(&mut self) {
        panic!("by the test");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_panic_the_wallet_is_closed_and_opens_again() {
    for model in Model::ALL {
        let shared = Shared::open(asking(model)).await;

        let failed = sign(&shared, Box::new(Panics)).await;

        assert_eq!(failed, Err(DeviceError::SessionFailed), "{model}");
        let mut status = shared.handle.watch_status();
        let closed = status.wait_for(|status| status.state == OpenState::Closed);
        timeout(Duration::from_secs(5), closed).await.expect("the wallet stays open").unwrap();
        // The device still shows the transaction of the exchange that panicked; opening cancels it.
        shared.reopen().await;
        let signing = sign_until_button(&shared).await;
        assert!(confirm(&shared, signing).await.is_ok(), "{model}");
        assert_eq!(shared.simulator.observed().signatures, 1, "{model}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnected_device_closes_the_wallet() {
    let shared = Shared::open(asking(Model::T)).await;
    let signing = sign_until_button(&shared).await;

    shared.simulator.unplug();

    assert!(matches!(signing.await, Err(DeviceError::Link(_))));
    assert_eq!(shared.handle.status().state, OpenState::Closed);
    shared.simulator.plug().await;
    shared.reopen().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_heartbeat_detects_a_disconnected_device() {
    let shared = Shared::open(settings(Model::One)).await;
    assert_eq!(shared.handle.heartbeat(soon()).await, Ok(()));

    shared.simulator.unplug();

    assert!(shared.handle.heartbeat(soon()).await.is_err());
    assert_eq!(shared.handle.status().state, OpenState::Closed);
}
