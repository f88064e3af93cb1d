//! Cancellation and panics at each button and prompt of each flow: nothing is signed unseen, and the next signing
//! succeeds.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tenon_device_session::{Answer, DerivationPath, DeviceError, OpenState, Person, Prompt};
use tenon_device_simulator::{Approval, Model, PassphraseSource, Simulator, SimulatorSettings};
use tokio::sync::watch;
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::support::{ACCOUNT, HIDDEN, LATER, Shared, legacy, mail, positions, settings, soon};

/// Longer than any step takes on a busy machine.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
enum Flow {
    Transaction,
    Message,
    TypedData,
    ShownAddress,
}

/// The flows in which the model asks for buttons.
fn flows(model: Model) -> &'static [Flow] {
    match LATER.contains(&model) {
        true => &[Flow::Transaction, Flow::Message, Flow::TypedData, Flow::ShownAddress],
        false => &[Flow::Transaction, Flow::Message, Flow::ShownAddress],
    }
}

/// Counts buttons; panics at one of them if `panics_at` is set.
struct Counts {
    buttons: watch::Sender<u32>,
    panics_at: Option<u32>,
}

#[async_trait]
impl Person for Counts {
    async fn ask(&mut self, _: Prompt) -> Option<Answer> {
        None
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
            Flow::TypedData => handle.sign_typed_data(ACCOUNT, mail(), person, soon()).await.map(drop),
            Flow::ShownAddress => {
                handle.derive(DerivationPath::account(0), false, true, person, soon()).await.map(drop)
            }
        }
    }
    .boxed()
}

/// Confirms all buttons before the one with this number. Returns whether the flow reached it.
async fn confirm_up_to(
    shared: &Shared,
    last: u32,
    buttons: &mut watch::Receiver<u32>,
    flow: &mut BoxFuture<'_, Result<(), DeviceError>>,
) -> bool {
    for number in 1..=last {
        let is_shown = tokio::select! {
            biased;
            // An error means that the flow has ended.
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

/// Runs a flow to completion with every button pressed.
async fn confirmed(shared: &Shared, flow: Flow) {
    let (buttons, mut shown) = watch::channel(0);
    let mut running = begin(shared, flow, Counts { buttons, panics_at: None });
    let is_left = timeout(STEP_TIMEOUT, confirm_up_to(shared, u32::MAX, &mut shown, &mut running)).await;
    assert_eq!(is_left, Ok(false), "{flow:?}");
}

fn asking(model: Model) -> SimulatorSettings {
    SimulatorSettings { approval: Approval::Asked, ..settings(model) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_may_leave_at_any_button() {
    for model in Model::ALL {
        let shared = Shared::open(asking(model)).await;
        for &flow in flows(model) {
            for number in 1.. {
                let before = shared.simulator.observed().signatures;
                let (buttons, mut shown) = watch::channel(0);
                let mut running = begin(&shared, flow, Counts { buttons, panics_at: None });
                let is_there = timeout(STEP_TIMEOUT, confirm_up_to(&shared, number, &mut shown, &mut running)).await;
                if !is_there.expect("the flow hangs") {
                    assert!(number > 1, "{model}, {flow:?}: it shows nothing");
                    break;
                }
                drop(running);

                // The device was cancelled, so its prompt is gone.
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
        for &flow in flows(model) {
            panics_at_each_button(model, flow).await;
        }
    }
}

async fn panics_at_each_button(model: Model, flow: Flow) {
    for number in 1.. {
        let shared = Shared::open(asking(model)).await;
        let (buttons, mut shown) = watch::channel(0);
        let panics = Counts { buttons, panics_at: Some(number) };
        let mut running = begin(&shared, flow, panics);
        if !timeout(STEP_TIMEOUT, confirm_up_to(&shared, number, &mut shown, &mut running)).await.unwrap() {
            assert!(number > 1, "{model}, {flow:?}: it shows nothing");
            return;
        }

        assert_eq!(running.await, Err(DeviceError::SessionFailed), "{model}, {flow:?}, button {number}");

        closes(&shared).await;
        assert_eq!(shared.simulator.observed().signatures, 0, "{model}, {flow:?}, button {number}");
        shared.reopen().await;
        confirmed(&shared, Flow::Transaction).await;
        assert_eq!(shared.simulator.observed().signatures, 1, "{model}, {flow:?}, button {number}");
    }
}

async fn closes(shared: &Shared) {
    let mut status = shared.handle.watch_status();
    let closed = status.wait_for(|status| status.state == OpenState::Closed);
    timeout(STEP_TIMEOUT, closed).await.expect("the wallet stays open").unwrap();
}

/// How an opening is interrupted at a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    Leave,
    Panic,
}

/// Knows PIN and passphrase; interrupts the opening at one of the prompts if `breaks_at` is set.
struct Prompted {
    simulator: Arc<Simulator>,
    prompts: watch::Sender<u32>,
    breaks_at: Option<(u32, Break)>,
}

#[async_trait]
impl Person for Prompted {
    async fn ask(&mut self, prompt: Prompt) -> Option<Answer> {
        self.prompts.send_modify(|count| *count += 1);
        let number = *self.prompts.borrow();
        match self.breaks_at {
            Some((at, Break::Panic)) if at == number => panic!("by the test"),
            Some((at, Break::Leave)) if at == number => return std::future::pending().await,
            _ => {}
        }
        Some(match prompt {
            Prompt::Pin(_) => Answer::Pin(positions(&self.simulator, "1234").await),
            Prompt::Passphrase { .. } => Answer::Passphrase(Zeroizing::new("trezor".to_owned())),
        })
    }

    fn button(&mut self) {}
}

fn guarded(model: Model) -> SimulatorSettings {
    let has_keypad = matches!(model, Model::One | Model::OneLater);
    SimulatorSettings {
        pin: has_keypad.then(|| Zeroizing::new("1234".to_owned())),
        has_passphrase_protection: true,
        passphrase_source: PassphraseSource::Host,
        ..settings(model)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opening_may_be_interrupted_at_any_prompt() {
    for model in Model::ALL {
        let prompts = if guarded(model).pin.is_some() { 2 } else { 1 };
        for (number, how) in (1..=prompts).flat_map(|number| [(number, Break::Leave), (number, Break::Panic)]) {
            let shared = Shared::new(guarded(model));
            let person = |breaks_at| {
                let (prompts, asked) = watch::channel(0);
                (Box::new(Prompted { simulator: Arc::clone(&shared.simulator), prompts, breaks_at }), asked)
            };

            let (breaking, mut asked) = person(Some((number, how)));
            let opening = shared.handle.open(None, breaking, soon());
            match how {
                Break::Panic => assert_eq!(opening.await, Err(DeviceError::SessionFailed), "{model}, prompt {number}"),
                Break::Leave => {
                    let reached = async { asked.wait_for(|count| *count >= number).await.map(drop) };
                    tokio::select! {
                        opened = opening => panic!("{model}, prompt {number}: {opened:?}"),
                        reached = timeout(STEP_TIMEOUT, reached) => reached.expect("no prompt").unwrap(),
                    }
                }
            }
            closes(&shared).await;

            let (sound, _asked) = person(None);
            assert_eq!(shared.handle.open(None, sound, soon()).await, Ok(()), "{model}, {how:?} at prompt {number}");
            let path = DerivationPath::account(0);
            let (sound, _asked) = person(None);
            assert_eq!(shared.handle.derive(path, true, false, sound, soon()).await, Ok(HIDDEN), "{model}");
            let (sound, _asked) = person(None);
            let signed = shared.handle.sign_message(HIDDEN, b"hello".to_vec(), sound, soon()).await;
            assert!(signed.is_ok(), "{model}, {how:?} at prompt {number}: {signed:?}");
            assert_eq!(shared.simulator.observed().signatures, 1, "{model}, {how:?} at prompt {number}");
        }
    }
}
