//! Faults of the device at every message of a signing: an error is returned, no wrong response is accepted, and the
//! next signing succeeds.

use std::time::Duration;

use tenon_device_session::{DeviceError, NoPerson};
use tenon_device_simulator::{Fault, FaultPlan, Model};

use crate::support::{ACCOUNT, Held, legacy, never, settings};

/// Number of messages from the device when it signs 1,500 bytes of data: three buttons, a data request and the
/// signature.
const MESSAGES: u32 = 5;

/// Signs with a fault, then without; returns the first result.
async fn sign_with_fault(model: Model, plan: FaultPlan) -> Result<(), DeviceError> {
    let mut held = Held::open(settings(model)).await;
    held.simulator.plan_fault(plan);
    let signed = held.wallet.sign_transaction(ACCOUNT, legacy(Some(50), 1500), &mut NoPerson, &mut never()).await;

    if !held.simulator.is_plugged() {
        held.simulator.plug().await;
        held.wallet.open(None, &mut NoPerson, &mut never()).await.unwrap();
    }
    let again = held.wallet.sign_transaction(ACCOUNT, legacy(Some(51), 1500), &mut NoPerson, &mut never()).await;
    assert!(again.is_ok(), "{model}, after {plan:?} ({signed:?}): {again:?}");
    let observed = held.simulator.observed();
    assert!(observed.confirmations >= 3 * observed.signatures, "{model}, {plan:?}: signed without confirmation");
    signed.map(|_| ())
}

/// Runs a fault on all models and at all messages concurrently.
async fn at_every_message(fault: Fault, check: impl Fn(u32, Result<(), DeviceError>)) {
    let runs = Model::ALL.into_iter().flat_map(|model| (0..MESSAGES).map(move |after| (model, after)));
    let results =
        runs.map(|(model, after)| async move { (after, sign_with_fault(model, FaultPlan { fault, after }).await) });
    for (after, result) in futures_util::future::join_all(results).await {
        check(after, result);
    }
}

#[tokio::test]
async fn survives_malformed_packets() {
    at_every_message(Fault::BadMagic, |_, result| assert!(matches!(result, Err(DeviceError::Frame(_))), "{result:?}"))
        .await;
    at_every_message(Fault::OverlongLength, |_, result| {
        assert!(matches!(result, Err(DeviceError::Frame(_))), "{result:?}");
    })
    .await;
    at_every_message(Fault::RandomPacket, |_, result| assert!(result.is_err(), "{result:?}")).await;
    at_every_message(Fault::Truncated, |_, result| assert_eq!(result, Err(DeviceError::AnswerTimeout))).await;
}

#[tokio::test]
async fn survives_unexpected_messages() {
    at_every_message(Fault::WrongId, |_, result| {
        assert!(matches!(result, Err(DeviceError::Unexpected { got: 30, .. })), "{result:?}");
    })
    .await;
    at_every_message(Fault::BadBody, |_, result| assert!(matches!(result, Err(DeviceError::Body(_))), "{result:?}"))
        .await;
    // A duplicate message may pass unnoticed at a button, but it never leads to a wrong signature.
    at_every_message(Fault::Twice, |_, _| ()).await;
}

#[tokio::test]
async fn survives_buttons_without_reason() {
    at_every_message(Fault::ExtraButtons, |_, result| assert_eq!(result, Ok(()))).await;
    at_every_message(Fault::EndlessButtons, |_, result| {
        assert_eq!(result, Err(DeviceError::TooManyButtons { max: 1000 }));
    })
    .await;
}

#[tokio::test]
async fn survives_a_disconnected_device() {
    at_every_message(Fault::Disconnect, |_, result| assert!(matches!(result, Err(DeviceError::Link(_))), "{result:?}"))
        .await;
}

#[tokio::test]
async fn accepts_no_wrong_signature() {
    let last = MESSAGES - 1;
    for model in Model::ALL {
        let wrong = sign_with_fault(model, FaultPlan { fault: Fault::WrongSignature, after: last }).await;
        let high = sign_with_fault(model, FaultPlan { fault: Fault::HighSignature, after: last }).await;

        assert!(matches!(wrong, Err(DeviceError::SignerMismatch { .. })), "{model}: {wrong:?}");
        assert_eq!(high, Err(DeviceError::InvalidSignature), "{model}");
    }
}

#[tokio::test]
async fn sends_no_more_data_than_there_is() {
    for model in Model::ALL {
        let too_much = sign_with_fault(model, FaultPlan { fault: Fault::TooMuchData, after: MESSAGES - 2 }).await;
        let none = sign_with_fault(model, FaultPlan { fault: Fault::NoData, after: MESSAGES - 2 }).await;

        assert_eq!(too_much, Err(DeviceError::DataRequest { asked: 477, left: 476 }), "{model}");
        assert_eq!(none, Err(DeviceError::DataRequest { asked: 0, left: 476 }), "{model}");
    }
}

#[tokio::test]
async fn does_not_wait_for_ever_for_a_silent_device() {
    let mut held = Held::open(settings(Model::One)).await;
    held.simulator.plan_fault(FaultPlan { fault: Fault::Silence, after: 0 });

    let error = held.pin_account().await.unwrap_err();

    assert_eq!(error, DeviceError::AnswerTimeout);
    assert_eq!(held.pin_account().await, Ok(ACCOUNT));
}

#[tokio::test]
async fn a_dropped_exchange_is_cancelled_before_the_next() {
    for model in Model::ALL {
        let mut held = Held::open(settings(model)).await;
        for millis in 0..12 {
            let (transaction, mut person, mut never) = (legacy(Some(50), 4099), NoPerson, never());
            let signing = held.wallet.sign_transaction(ACCOUNT, transaction, &mut person, &mut never);
            // Whether or not the signing completed, the next request must succeed.
            let _ = tokio::time::timeout(Duration::from_millis(millis), signing).await;
            assert_eq!(held.pin_account().await, Ok(ACCOUNT), "{model}, {millis} ms");
        }
    }
}
