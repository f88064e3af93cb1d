//! Opening a wallet, with the texts and states that callers know (`docs/spec/device.md 10.4`, `10.7`).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

mod support;

use support::{ACCOUNT, HIDDEN, Held, Says, legacy, never, positions, settings};
use tenon_device_session::{DerivationPath, DeviceError, NoPerson, OpenState};
use tenon_device_simulator::{Model, PassphraseSource, SimulatorSettings};
use zeroize::Zeroizing;

async fn open(held: &mut Held, answer: &str) -> Result<(), String> {
    let answer = Some(Zeroizing::new(answer.to_owned()));
    held.wallet.open(answer, &mut NoPerson, &mut never()).await.map_err(|error| error.to_string())
}

fn with_pin(model: Model) -> SimulatorSettings {
    let label = Some("mine".into());
    SimulatorSettings { pin: Some(Zeroizing::new("1234".into())), label, ..settings(model) }
}

#[tokio::test]
async fn a_device_without_protection_opens_at_once() {
    for model in Model::ALL {
        let mut held = Held::new(SimulatorSettings { label: Some("mine".into()), ..settings(model) });
        assert_eq!(held.text(), "Closed");

        open(&mut held, "").await.unwrap();

        let (major, minor, patch) = model.version();
        assert_eq!(held.text(), format!("Trezor v{major}.{minor}.{patch} 'mine' online"));
        assert_eq!(open(&mut held, "").await, Err("wallet already open".into()));
        assert_eq!(held.pin_account().await, Ok(ACCOUNT));
        held.wallet.close().await;
        assert_eq!(held.text(), "Closed");
        assert_eq!(held.pin_account().await, Err(DeviceError::Closed));
        open(&mut held, "").await.unwrap();
    }
}

#[tokio::test]
async fn a_pin_is_brought_by_the_next_call() {
    for model in [Model::One, Model::OneLater] {
        let mut held = Held::new(with_pin(model));

        assert_eq!(open(&mut held, "").await, Err("trezor: pin needed".into()));
        assert!(held.text().ends_with("'mine' waiting for PIN"), "{}", held.text());
        assert_eq!(open(&mut held, "").await, Err("trezor: pin needed".into()));
        let typed = positions(&held.simulator, "1234").await;
        open(&mut held, &typed).await.unwrap();

        assert!(held.text().ends_with("'mine' online"), "{}", held.text());
        assert_eq!(held.pin_account().await, Ok(ACCOUNT));
    }
}

#[tokio::test]
async fn a_wrong_pin_is_sent_once_and_opening_begins_anew() {
    let mut held = Held::new(with_pin(Model::One));
    assert_eq!(open(&mut held, "").await, Err("trezor: pin needed".into()));

    assert_eq!(open(&mut held, "999").await, Err("trezor: PIN invalid".into()));

    assert_eq!(held.text(), "Failed: PIN invalid");
    assert_eq!(held.status.borrow().failure.as_deref(), Some("PIN invalid"));
    assert_eq!(held.simulator.observed().received.iter().filter(|id| **id == 19).count(), 1);
    assert_eq!(open(&mut held, "").await, Err("trezor: pin needed".into()));
    // What is no PIN is not sent at all: the device would count it.
    assert_eq!(open(&mut held, "12a4").await, Err("trezor: a PIN is one to nine positions 1 to 9".into()));
    assert_eq!(open(&mut held, "").await, Err("trezor: pin needed".into()));
    let typed = positions(&held.simulator, "1234").await;
    open(&mut held, &typed).await.unwrap();
}

#[tokio::test]
async fn a_passphrase_is_brought_by_the_next_call() {
    for model in Model::ALL {
        let source = PassphraseSource::Host;
        let mut held = Held::new(SimulatorSettings {
            has_passphrase_protection: true,
            passphrase_source: source,
            ..settings(model)
        });

        assert_eq!(open(&mut held, "").await, Err("trezor: passphrase needed".into()), "{model}");
        assert_eq!(held.status.borrow().state, OpenState::WaitingForPassphrase);
        assert!(held.text().ends_with("online"), "{}", held.text());
        open(&mut held, "trezor").await.unwrap();
        assert_eq!(held.pin_account().await, Ok(HIDDEN), "{model}");

        held.wallet.close().await;
        assert_eq!(open(&mut held, "").await, Err("trezor: passphrase needed".into()), "{model}");
        // Here an empty text is an answer: the standard wallet.
        open(&mut held, "").await.unwrap();
        assert_eq!(held.pin_account().await, Ok(ACCOUNT), "{model}");

        held.wallet.close().await;
        open(&mut held, "trezor").await.unwrap();
        assert_eq!(held.pin_account().await, Ok(HIDDEN), "{model}: given ahead");
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

        held.wallet.open(None, &mut Says("trezor"), &mut never()).await.unwrap();

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
    assert_eq!(open(&mut held, "").await, Err("trezor: passphrase needed".into()));

    let error = open(&mut held, &"x".repeat(51)).await;

    assert_eq!(error, Err("trezor: the passphrase has 51 bytes, 50 are the most".into()));
    assert!(!held.simulator.observed().received.contains(&42));
    open(&mut held, "trezor").await.unwrap();
}

#[tokio::test]
async fn a_device_that_locked_itself_is_cancelled_and_says_what_it_needs() {
    let mut held = Held::new(with_pin(Model::One));
    assert_eq!(open(&mut held, "").await, Err("trezor: pin needed".into()));
    let typed = positions(&held.simulator, "1234").await;
    open(&mut held, &typed).await.unwrap();
    held.pin_account().await.unwrap();
    held.simulator.unplug();
    held.simulator.plug().await;
    // Pulled and back between two requests: the link failed meanwhile.
    let error = held.pin_account().await.unwrap_err();

    assert!(matches!(error, DeviceError::PinNeeded | DeviceError::Link(_)), "{error:?}");
    assert_eq!(open(&mut held, "").await, Err("trezor: pin needed".into()));
    let typed = positions(&held.simulator, "1234").await;
    open(&mut held, &typed).await.unwrap();
    let signed = held.wallet.sign_transaction(ACCOUNT, legacy(Some(50), 0), &mut NoPerson, &mut never()).await;
    assert!(signed.is_ok(), "{signed:?}");
}

#[tokio::test]
async fn another_device_at_the_same_path_is_not_taken_for_this_one() {
    let mut held = Held::open(settings(Model::One)).await;
    held.simulator.unplug();
    assert!(matches!(held.wallet.heartbeat().await, Err(DeviceError::Link(_))));
    held.simulator.plug().await;
    held.simulator.swap_device_id().await;

    let error = open(&mut held, "").await;

    assert_eq!(error, Err("trezor: another device is connected in place of this wallet's".into()));
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
