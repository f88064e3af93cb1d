//! Opening a wallet, with the texts and states that callers see (`docs/spec/device.md 10.4`, `10.7`).

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tenon_api::messages::{DeviceName, DeviceStatus};
use tenon_device_session::{
    Answer, DerivationPath, DeviceError, NoPerson, OpenState, Person, Prompt, PromptReply, Timeouts,
};
use tenon_device_simulator::{Fault, FaultPlan, Model, PassphraseSource, SimulatorSettings};
use zeroize::Zeroizing;

use crate::support::{ACCOUNT, AlwaysAnswers, HIDDEN, Held, TIMEOUTS, legacy, never, positions, settings};

async fn open(held: &mut Held, answer: &str) -> Result<(), String> {
    let prompt_reply = held.status.borrow().reply_to_prompt(Zeroizing::new(answer.to_owned()));
    held.wallet.open(prompt_reply, &mut NoPerson, &mut never()).await.map_err(|error| error.to_string())
}

fn with_pin(model: Model) -> SimulatorSettings {
    let label = Some("mine".into());
    SimulatorSettings { pin: Some(Zeroizing::new("1234".into())), label, ..settings(model) }
}

/// What a device of this model with the label `mine` reports about itself.
fn mine(model: Model) -> DeviceName {
    let (major, minor, patch) = model.version();
    DeviceName { version: [major, minor, patch], label: "mine".to_owned() }
}

#[tokio::test]
async fn a_device_without_protection_opens_at_once() {
    for model in Model::ALL {
        let mut held = Held::new(SimulatorSettings { label: Some("mine".into()), ..settings(model) });
        assert_eq!(held.device_status(), DeviceStatus::Closed);

        open(&mut held, "").await.unwrap();

        assert_eq!(held.device_status(), DeviceStatus::Online(mine(model)));
        assert_eq!(open(&mut held, "").await, Err("wallet already open".into()));
        assert_eq!(held.pin_account().await, Ok(ACCOUNT));
        held.wallet.close().await;
        assert_eq!(held.device_status(), DeviceStatus::Closed);
        assert_eq!(held.pin_account().await, Err(DeviceError::Closed));
        open(&mut held, "").await.unwrap();
    }
}

#[tokio::test]
async fn a_pin_is_brought_by_the_next_call() {
    for model in [Model::One, Model::OneLater] {
        let mut held = Held::new(with_pin(model));

        assert_eq!(open(&mut held, "").await, Err("pin needed".into()));
        assert_eq!(held.device_status(), DeviceStatus::WaitingForPin(mine(model)));
        assert_eq!(open(&mut held, "").await, Err("pin needed".into()));
        let typed = positions(&held.simulator, "1234").await;
        open(&mut held, &typed).await.unwrap();

        assert_eq!(held.device_status(), DeviceStatus::Online(mine(model)));
        assert_eq!(held.pin_account().await, Ok(ACCOUNT));
    }
}

#[tokio::test]
async fn a_wrong_pin_is_sent_once_and_opening_starts_again() {
    let mut held = Held::new(with_pin(Model::One));
    assert_eq!(open(&mut held, "").await, Err("pin needed".into()));

    assert_eq!(open(&mut held, "999").await, Err("PIN invalid".into()));

    let failure = held.status.borrow().failure.clone();
    assert!(matches!(&failure, Some(DeviceError::Refused { text, .. }) if text == "PIN invalid"), "{failure:?}");
    assert_eq!(held.device_status(), DeviceStatus::Closed);
    assert_eq!(held.simulator.observed().received.iter().filter(|id| **id == 19).count(), 1);
    assert_eq!(open(&mut held, "").await, Err("pin needed".into()));
    // A malformed PIN is not sent at all, because the device would count it as wrong.
    assert_eq!(open(&mut held, "12a4").await, Err("a PIN is one to nine positions 1 to 9".into()));
    assert_eq!(open(&mut held, "").await, Err("pin needed".into()));
    let typed = positions(&held.simulator, "1234").await;
    open(&mut held, &typed).await.unwrap();
}

#[tokio::test]
async fn the_next_call_supplies_the_passphrase() {
    for model in Model::ALL {
        let source = PassphraseSource::Host;
        let mut held = Held::new(SimulatorSettings {
            has_passphrase_protection: true,
            passphrase_source: source,
            ..settings(model)
        });

        assert_eq!(open(&mut held, "").await, Err("passphrase needed".into()), "{model}");
        assert_eq!(held.status.borrow().state, OpenState::WaitingForPassphrase);
        assert!(matches!(held.device_status(), DeviceStatus::Online(_)), "{:?}", held.device_status());
        open(&mut held, "trezor").await.unwrap();
        assert_eq!(held.pin_account().await, Ok(HIDDEN), "{model}");

        held.wallet.close().await;
        assert_eq!(open(&mut held, "").await, Err("passphrase needed".into()), "{model}");
        // Here an empty text is an answer: the standard wallet.
        open(&mut held, "").await.unwrap();
        assert_eq!(held.pin_account().await, Ok(ACCOUNT), "{model}");

        held.wallet.close().await;
        let before = held.simulator.observed().received.iter().filter(|id| **id == 42).count();
        // A text without an open question is not sent, because it could be a PIN.
        assert_eq!(open(&mut held, "trezor").await, Err("passphrase needed".into()), "{model}");
        assert_eq!(held.simulator.observed().received.iter().filter(|id| **id == 42).count(), before, "{model}");
        open(&mut held, "trezor").await.unwrap();
    }
}

#[tokio::test]
async fn a_person_is_asked_while_the_exchange_runs() {
    for model in Model::ALL {
        let mut held = Held::new(SimulatorSettings { has_passphrase_protection: true, ..settings(model) });
        if model == Model::T {
            held = Held::new(SimulatorSettings {
                has_passphrase_protection: true,
                passphrase_source: PassphraseSource::Host,
                ..settings(model)
            });
        }

        held.wallet.open(None, &mut AlwaysAnswers("trezor"), &mut never()).await.unwrap();

        assert_eq!(held.pin_account().await, Ok(HIDDEN), "{model}");
    }
}

#[tokio::test]
async fn a_passphrase_typed_on_the_device_is_not_sent() {
    let mut held = Held::new(SimulatorSettings {
        has_passphrase_protection: true,
        passphrase_source: PassphraseSource::Device,
        passphrase_on_device: Zeroizing::new("trezor".into()),
        ..settings(Model::T)
    });

    open(&mut held, "").await.unwrap();

    assert_eq!(held.pin_account().await, Ok(HIDDEN));
}

#[tokio::test]
async fn a_passphrase_that_is_too_long_is_not_sent() {
    let mut held = Held::new(SimulatorSettings { has_passphrase_protection: true, ..settings(Model::One) });
    assert_eq!(open(&mut held, "").await, Err("passphrase needed".into()));

    let error = open(&mut held, &"x".repeat(51)).await;

    assert_eq!(error, Err("the passphrase has 51 bytes; at most 50 are allowed".into()));
    assert!(!held.simulator.observed().received.contains(&42));
    assert_eq!(open(&mut held, "").await, Err("passphrase needed".into()), "it asks again");
    open(&mut held, "trezor").await.unwrap();
}

#[tokio::test]
async fn a_device_that_locked_itself_is_cancelled_and_asks_for_its_pin() {
    let mut held = Held::new(with_pin(Model::One));
    assert_eq!(open(&mut held, "").await, Err("pin needed".into()));
    let typed = positions(&held.simulator, "1234").await;
    open(&mut held, &typed).await.unwrap();
    held.pin_account().await.unwrap();
    held.simulator.unplug();
    held.simulator.plug().await;
    // Disconnected and reconnected between two requests: the link has failed.
    let error = held.pin_account().await.unwrap_err();

    assert!(matches!(error, DeviceError::PinNeeded | DeviceError::Link(_)), "{error:?}");
    assert_eq!(open(&mut held, "").await, Err("pin needed".into()));
    let typed = positions(&held.simulator, "1234").await;
    open(&mut held, &typed).await.unwrap();
    let signed = held.wallet.sign_transaction(ACCOUNT, legacy(Some(50), 0), &mut NoPerson, &mut never()).await;
    assert!(signed.is_ok(), "{signed:?}");
}

#[tokio::test]
async fn another_device_at_the_same_path_is_not_taken_for_this_one() {
    let mut held = Held::open(settings(Model::One)).await;
    held.simulator.unplug();
    assert!(matches!(held.wallet.heartbeat(&mut never()).await, Err(DeviceError::Link(_))));
    held.simulator.plug().await;
    held.simulator.swap_device_id().await;

    let error = open(&mut held, "").await;

    assert_eq!(error, Err("another device is connected instead of the device of this wallet".into()));
    held.wallet.close().await;
    open(&mut held, "").await.unwrap();
    let unknown = held.wallet.sign_transaction(ACCOUNT, legacy(Some(50), 0), &mut NoPerson, &mut never()).await;
    assert_eq!(unknown, Err(DeviceError::UnknownAccount), "its accounts went with it");
}

#[tokio::test]
async fn shows_an_address_on_the_device() {
    for model in Model::ALL {
        let mut held = Held::open(settings(model)).await;
        let before = held.simulator.observed().confirmations;

        let path = DerivationPath::account(1);
        held.wallet.derive(path, false, true, &mut NoPerson, &mut never()).await.unwrap();

        assert_eq!(held.simulator.observed().confirmations, before + 1, "{model}");
    }
}

/// Number of messages with this id that the device received.
fn heard(held: &Held, id: u16) -> usize {
    held.simulator.observed().received.iter().filter(|heard| **heard == id).count()
}

#[tokio::test]
async fn a_locked_model_one_is_not_taken_for_an_open_one() {
    // From 1.9.0 on it responds to a `Ping` while locked.
    let mut held = Held::new(with_pin(Model::OneLater));

    assert_eq!(open(&mut held, "").await, Err("pin needed".into()));

    assert_eq!(held.status.borrow().state, OpenState::WaitingForPin);
    assert_eq!(heard(&held, 56), 1, "it was asked for an address");
}

#[tokio::test]
async fn an_answer_to_an_earlier_question_is_not_sent() {
    let settings = SimulatorSettings { has_passphrase_protection: true, ..with_pin(Model::One) };
    let mut held = Held::new(settings);
    assert_eq!(open(&mut held, "").await, Err("pin needed".into()));
    let of_before = held.status.borrow().asked.unwrap();
    let typed = positions(&held.simulator, "1234").await;
    assert_eq!(open(&mut held, &typed).await, Err("passphrase needed".into()));

    // A second caller also saw the keypad and sends its positions too late.
    for answer in [Answer::Pin(typed.clone()), Answer::Passphrase(typed.clone())] {
        let late = PromptReply { number: of_before.number, answer };
        let refused = held.wallet.open(Some(late), &mut NoPerson, &mut never()).await;
        assert_eq!(refused, Err(DeviceError::PassphraseNeeded));
    }

    assert_eq!((heard(&held, 19), heard(&held, 42)), (1, 0));
    let asked = held.status.borrow().asked.unwrap();
    let other_kind = PromptReply { number: asked.number, answer: Answer::Pin(typed) };
    assert_eq!(held.wallet.open(Some(other_kind), &mut NoPerson, &mut never()).await, Err(DeviceError::Cancelled));
    assert_eq!((heard(&held, 19), heard(&held, 42)), (1, 0));
    assert_eq!(open(&mut held, "").await, Err("passphrase needed".into()), "it asks again");
    open(&mut held, "trezor").await.unwrap();
    assert_eq!(held.pin_account().await, Ok(HIDDEN));
}

/// A person who never answers.
struct NeverAnswers;

#[async_trait]
impl Person for NeverAnswers {
    async fn ask(&mut self, _: Prompt) -> Option<Answer> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn an_unanswered_question_times_out_even_when_asked_again() {
    let timeouts = Timeouts { prompt: Duration::from_millis(50), ..TIMEOUTS };
    let mut held = Held::with_timeouts(with_pin(Model::One), timeouts);
    assert_eq!(open(&mut held, "").await, Err("pin needed".into()));

    let first = held.wallet.open(None, &mut NeverAnswers, &mut never()).await;
    let second = held.wallet.open(None, &mut NeverAnswers, &mut never()).await;

    assert_eq!((first, second), (Err(DeviceError::PromptTimeout), Err(DeviceError::PromptTimeout)));
    assert_eq!(held.status.borrow().asked, None);
}

#[tokio::test]
async fn the_delay_after_a_wrong_pin_may_exceed_the_limit_for_prompts() {
    let timeouts = Timeouts { prompt: Duration::from_millis(100), ..TIMEOUTS };
    let settings = SimulatorSettings { time_scale: 0.4, ..with_pin(Model::One) };
    let mut held = Held::with_timeouts(settings, timeouts);
    for _ in 0..2 {
        assert_eq!(open(&mut held, "").await, Err("pin needed".into()));
        assert_eq!(open(&mut held, "999").await, Err("PIN invalid".into()));
    }
    assert_eq!(open(&mut held, "").await, Err("pin needed".into()));
    let typed = positions(&held.simulator, "1234").await;
    let prompt_reply = held.status.borrow().reply_to_prompt(typed);

    // The device now delays its response by 1.2 seconds; cancelling the call ends the wait.
    let mut leaves: BoxFuture<'_, ()> = Box::pin(tokio::time::sleep(Duration::from_millis(50)));
    assert_eq!(held.wallet.open(prompt_reply, &mut NoPerson, &mut leaves).await, Err(DeviceError::Cancelled));
    assert_eq!(open(&mut held, "").await, Err("pin needed".into()));
    let typed = positions(&held.simulator, "1234").await;

    open(&mut held, &typed).await.unwrap();
}

#[tokio::test]
async fn a_heartbeat_is_bounded_and_does_not_count_as_use() {
    for model in Model::ALL {
        let mut held = Held::open(settings(model)).await;
        let pings = heard(&held, 1);
        held.wallet.heartbeat(&mut never()).await.unwrap();
        assert_eq!((heard(&held, 55), heard(&held, 1)), (1, pings), "{model}");

        held.simulator.plan_fault(FaultPlan { fault: Fault::EndlessButtons, after: 0 });
        let beat = held.wallet.heartbeat(&mut never()).await;

        assert!(matches!(beat, Err(DeviceError::Unexpected { got: 26, .. })), "{model}: {beat:?}");
        assert_eq!(held.status.borrow().state, OpenState::Closed);
        held.wallet.open(None, &mut NoPerson, &mut never()).await.unwrap();
        let mut left: BoxFuture<'_, ()> = Box::pin(std::future::ready(()));
        assert_eq!(held.wallet.heartbeat(&mut left).await, Err(DeviceError::Cancelled));
        assert_eq!(held.status.borrow().state, OpenState::Open, "{model}: the caller left, the device did not");
        assert_eq!(held.pin_account().await, Ok(ACCOUNT));
    }
}
