//! A caller that leaves, and a panic, at each button of each flow: nothing is signed unseen, and the next signing works.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

mod support;

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use support::{ACCOUNT, Shared, legacy, settings, soon};
use tenon_device_session::{Answer, DerivationPath, DeviceError, OpenState, Person, Prompt};
use tenon_device_simulator::{Approval, Model, SimulatorSettings};
use tokio::sync::watch;
use tokio::time::timeout;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
enum Flow {
    Transaction,
    Message,
    ShownAddress,
}

/// Counts buttons; panics at one of them, if it is to.
struct Counts {
    buttons: watch::Sender<u32>,
    panics_at: Option<u32>,
}

impl Person for Counts {
    fn ask(&mut self, _: Prompt) -> BoxFuture<'_, Option<Answer>> {
        std::future::ready(None).boxed()
    }

    fn button(&mut self) {
        self.buttons.send_modify(|count| *count += 1);
        assert!(self.panics_at != Some(*self.buttons.borrow()), "by the test");
    }
}

fn begin<'a>(shared: &'a Shared, flow: Flow, person: Counts) -> BoxFuture<'a, Result<(), DeviceError>> {
    let (handle, person) = (&shared.handle, Box::new(person));
    async move {
        match flow {
            Flow::Transaction => {
                handle.sign_transaction(ACCOUNT, legacy(Some(50), 1500), person, soon()).await.map(drop)
            }
            Flow::Message => handle.sign_message(ACCOUNT, b"hello".to_vec(), person, soon()).await.map(drop),
            Flow::ShownAddress => {
                handle.derive(DerivationPath::account(0), false, true, person, soon()).await.map(drop)
            }
        }
    }
    .boxed()
}

/// Confirms everything before the button with this number; gives whether the flow came to it.
async fn confirm_up_to(
    shared: &Shared,
    last: u32,
    buttons: &mut watch::Receiver<u32>,
    flow: &mut BoxFuture<'_, Result<(), DeviceError>>,
) -> bool {
    for number in 1..=last {
        let is_shown = tokio::select! {
            biased;
            // An error says that the flow is over.
            shown = buttons.wait_for(|count| *count >= number) => shown.is_ok(),
            result = &mut *flow => {
                assert!(result.is_ok(), "{result:?}");
                return false;
            }
        };
        if !is_shown {
            assert_eq!(flow.await, Ok(()));
            return false;
        }
        if number < last {
            shared.simulator.decide(true).await;
        }
    }
    true
}

/// Runs a flow to its end, with every button pressed.
async fn confirmed(shared: &Shared, flow: Flow) {
    let (buttons, mut shown) = watch::channel(0);
    let mut running = begin(shared, flow, Counts { buttons, panics_at: None });
    let is_left = timeout(PATIENCE, confirm_up_to(shared, u32::MAX, &mut shown, &mut running)).await;
    assert_eq!(is_left, Ok(false), "{flow:?}");
}

fn asking(model: Model) -> SimulatorSettings {
    SimulatorSettings { approval: Approval::Asked, ..settings(model) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_may_leave_at_any_button() {
    for model in Model::ALL {
        let shared = Shared::open(asking(model)).await;
        for flow in [Flow::Transaction, Flow::Message, Flow::ShownAddress] {
            for number in 1.. {
                let before = shared.simulator.observed().signatures;
                let (buttons, mut shown) = watch::channel(0);
                let mut running = begin(&shared, flow, Counts { buttons, panics_at: None });
                let is_there = timeout(PATIENCE, confirm_up_to(&shared, number, &mut shown, &mut running)).await;
                if !is_there.expect("the flow hangs") {
                    assert!(number > 1, "{model}, {flow:?}: it shows nothing");
                    break;
                }
                drop(running);

                // The device was told: what it showed is gone.
                confirmed(&shared, Flow::ShownAddress).await;
                assert_eq!(shared.simulator.observed().signatures, before, "{model}, {flow:?}, button {number}");
            }
            confirmed(&shared, flow).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_at_any_button_closes_the_wallet_and_signs_nothing() {
    for model in Model::ALL {
        for number in 1..=3 {
            let shared = Shared::open(asking(model)).await;
            let (buttons, mut shown) = watch::channel(0);
            let panics = Counts { buttons, panics_at: Some(number) };
            let mut running = begin(&shared, Flow::Transaction, panics);
            assert!(timeout(PATIENCE, confirm_up_to(&shared, number, &mut shown, &mut running)).await.unwrap());

            assert_eq!(running.await, Err(DeviceError::SessionFailed), "{model}, button {number}");

            let mut status = shared.handle.watch_status();
            let closed = status.wait_for(|status| status.state == OpenState::Closed);
            timeout(PATIENCE, closed).await.expect("it stays open").unwrap();
            assert_eq!(shared.simulator.observed().signatures, 0, "{model}, button {number}");
            shared.reopen().await;
            confirmed(&shared, Flow::Transaction).await;
            assert_eq!(shared.simulator.observed().signatures, 1, "{model}, button {number}");
        }
    }
}
