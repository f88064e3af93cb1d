//! Errors and states of hardware wallets, in the words of the reference (`docs/spec/rpc-node.md` 6.6;
//! `docs/spec/device.md` 10.7).

use std::borrow::Cow;

use tenon_api::{
    DeviceProblem,
    messages::{DeviceName, DeviceStatus, WalletFailure},
};

/// The reference's name of the driver, before its own errors and those of the device.
const DRIVER: &str = "trezor";

/// The text for a hardware wallet that fails or refuses.
pub(crate) fn device_problem_text(problem: &DeviceProblem) -> String {
    let text = text_without_driver(problem);
    match problem {
        DeviceProblem::PinNeeded
        | DeviceProblem::PassphraseNeeded
        | DeviceProblem::UnexpectedMessage { .. }
        | DeviceProblem::Failed(_) => format!("{DRIVER}: {text}"),
        DeviceProblem::AlreadyOpen
        | DeviceProblem::Closed
        | DeviceProblem::NoSignature
        | DeviceProblem::OtherSigner { .. }
        | DeviceProblem::NoAddress
        | DeviceProblem::TransactionType
        | DeviceProblem::RawHash
        | DeviceProblem::Unsupported(_) => text.into_owned(),
    }
}

fn text_without_driver(problem: &DeviceProblem) -> Cow<'_, str> {
    Cow::Borrowed(match problem {
        DeviceProblem::PinNeeded => "pin needed",
        DeviceProblem::PassphraseNeeded => "passphrase needed",
        DeviceProblem::AlreadyOpen => "wallet already open",
        DeviceProblem::Closed => "wallet closed",
        DeviceProblem::UnexpectedMessage { expected, got } => {
            return format!("expected reply types [{}], got {got}", expected.join(" ")).into();
        }
        DeviceProblem::NoSignature => "reply lacks signature",
        DeviceProblem::OtherSigner { expected, got } => {
            return format!("signer mismatch: expected {expected}, got {got}").into();
        }
        DeviceProblem::NoAddress => "missing derived address",
        DeviceProblem::TransactionType => "transaction type not supported",
        DeviceProblem::RawHash => "not supported",
        DeviceProblem::Unsupported(text) | DeviceProblem::Failed(text) => text,
    })
}

/// The last error of a wallet, as its listing shows it: without the name of the driver.
pub fn wallet_failure_text(failure: &WalletFailure) -> Cow<'_, str> {
    match failure {
        WalletFailure::Device(problem) => text_without_driver(problem),
        WalletFailure::Text(text) => text.into(),
    }
}

/// The status of a hardware wallet with this last error.
pub fn device_status_text(status: &DeviceStatus, failure: Option<&WalletFailure>) -> String {
    if let Some(failure) = failure {
        return format!("Failed: {}", wallet_failure_text(failure));
    }
    let (DeviceName { version: [major, minor, patch], label }, state) = match status {
        DeviceStatus::Closed => return "Closed".to_owned(),
        DeviceStatus::WaitingForPin(name) => (name, "waiting for PIN"),
        DeviceStatus::Online(name) => (name, "online"),
    };
    format!("Trezor v{major}.{minor}.{patch} '{label}' {state}")
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, address};

    use super::*;

    #[test]
    fn devices_have_the_texts_that_clients_match_and_listings_leave_out_the_driver() {
        let word = || "PIN invalid".to_owned();
        let expected = address!("73d0385F4d8E00C5e6504C6030F47BF6212736A8");
        let mismatch = format!("signer mismatch: expected {expected}, got {}", Address::ZERO);
        let types = vec!["Success".to_owned(), "ButtonRequest".to_owned()];
        let unexpected = DeviceProblem::UnexpectedMessage { expected: types, got: "Features".to_owned() };
        let cases = [
            (DeviceProblem::PinNeeded, "trezor: ", "pin needed"),
            (DeviceProblem::PassphraseNeeded, "trezor: ", "passphrase needed"),
            (DeviceProblem::AlreadyOpen, "", "wallet already open"),
            (DeviceProblem::Closed, "", "wallet closed"),
            (unexpected, "trezor: ", "expected reply types [Success ButtonRequest], got Features"),
            (DeviceProblem::NoSignature, "", "reply lacks signature"),
            (DeviceProblem::OtherSigner { expected, got: Address::ZERO }, "", mismatch.as_str()),
            (DeviceProblem::NoAddress, "", "missing derived address"),
            (DeviceProblem::TransactionType, "", "transaction type not supported"),
            (DeviceProblem::RawHash, "", "not supported"),
            (DeviceProblem::Unsupported(word()), "", "PIN invalid"),
            (DeviceProblem::Failed(word()), "trezor: ", "PIN invalid"),
        ];
        for (problem, driver, text) in cases {
            assert_eq!(device_problem_text(&problem), format!("{driver}{text}"));
            assert_eq!(wallet_failure_text(&WalletFailure::Device(problem)), text);
        }
        assert_eq!(wallet_failure_text(&WalletFailure::Text("no answer".to_owned())), "no answer");
    }

    #[test]
    fn the_status_of_a_device_has_the_text_of_the_reference() {
        let name = || DeviceName { version: [1, 8, 1], label: "mine".to_owned() };
        let failure = WalletFailure::Device(DeviceProblem::Failed("PIN invalid".to_owned()));

        assert_eq!(device_status_text(&DeviceStatus::Closed, None), "Closed");
        assert_eq!(
            device_status_text(&DeviceStatus::WaitingForPin(name()), None),
            "Trezor v1.8.1 'mine' waiting for PIN"
        );
        assert_eq!(device_status_text(&DeviceStatus::Online(name()), None), "Trezor v1.8.1 'mine' online");
        assert_eq!(device_status_text(&DeviceStatus::Closed, Some(&failure)), "Failed: PIN invalid");
    }
}
