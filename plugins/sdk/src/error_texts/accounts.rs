//! Refusals of wallets and keys, in the words of the reference and go-ethereum (`docs/spec/rpc-node.md` 6).

use alloy_primitives::{U256, hex};
use tenon_api::{AccountRefusal, KeyFileProblem, KeyTextProblem, PathProblem, WalletFeature};

use super::devices::device_problem_text;

const WRONG_PASSWORD: &str = "could not decrypt key with given password";

/// The text for a wallet or key that refuses.
pub fn account_refusal_text(refusal: &AccountRefusal) -> String {
    let text = match refusal {
        AccountRefusal::UnknownAccount => "unknown account",
        AccountRefusal::NoKeyFile => "no key for given address or file",
        AccountRefusal::SeveralKeyFiles(paths) => {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            return format!("multiple keys match address ({})", paths.join(", "));
        }
        AccountRefusal::WrongPassword => WRONG_PASSWORD,
        AccountRefusal::KeyFile { path: Some(path), problem } => {
            return format!("{}: {}", path.display(), key_file_problem(problem));
        }
        AccountRefusal::KeyFile { path: None, problem } => return key_file_problem(problem),
        AccountRefusal::KeyNotSaved { path, problem } => {
            return format!(
                "an error was encountered when saving and verifying the keystore file. The file {} was removed; no key \
                 was saved: {}",
                path.display(),
                key_file_problem(problem)
            );
        }
        AccountRefusal::Locked => "authentication needed: password or unlock",
        AccountRefusal::UnlockForbidden => "account unlock with HTTP access is forbidden",
        AccountRefusal::DurationTooLong => "unlock duration too large",
        AccountRefusal::Exists => "account already exists",
        AccountRefusal::KeyText(problem) => key_text_problem(*problem),
        AccountRefusal::NoKeystore => "local keystore not used",
        AccountRefusal::UnknownWallet => "unknown wallet",
        AccountRefusal::NoWalletUrl => "protocol scheme missing",
        AccountRefusal::Path(problem) => return path_problem(problem),
        AccountRefusal::NotSupported(WalletFeature::Derivation) => "not supported",
        AccountRefusal::NotSupported(WalletFeature::Initialization) => {
            "specified wallet does not support initialization"
        }
        AccountRefusal::NotSupported(WalletFeature::Pairing) => "specified wallet does not support pairing",
        AccountRefusal::Device(problem) => return device_problem_text(problem),
        AccountRefusal::SignatureLength => "signature must be 65 bytes long",
        AccountRefusal::SignatureParity => "invalid Ethereum signature (V is not 27 or 28)",
        AccountRefusal::NotRecovered => "recovery failed",
        AccountRefusal::FeeTooHigh { fee, cap } => {
            let [fee, cap] = [fee, cap].map(|wei| ether(*wei));
            return format!("tx fee ({fee:.2} ether) exceeds the configured cap ({cap:.2} ether)");
        }
        AccountRefusal::NoGas => "gas not specified",
        AccountRefusal::NoNonce => "nonce not specified",
        AccountRefusal::NoPrice => "missing gasPrice or maxFeePerGas/maxPriorityFeePerGas",
        AccountRefusal::BothPrices => "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified",
        AccountRefusal::CreationWithAuthorizations => "EIP-7702 transaction cannot be used to create contract",
        AccountRefusal::NoAuthorizations => "EIP-7702 transaction with empty auth list",
        AccountRefusal::WrongChain { found, wanted } => {
            return format!("chainId does not match node's (have={found}, want={wanted})");
        }
    };
    text.to_owned()
}

/// The reference's text, or that of the problem if the reference has none.
fn key_file_problem(problem: &KeyFileProblem) -> String {
    match problem {
        KeyFileProblem::Version(version) => format!("version not supported: {version}"),
        KeyFileProblem::Cipher(cipher) => format!("cipher not supported: {cipher}"),
        KeyFileProblem::Kdf(kdf) => format!("unsupported KDF: {kdf}"),
        KeyFileProblem::Prf(prf) => format!("unsupported PBKDF2 PRF: {prf}"),
        KeyFileProblem::WrongPassword => WRONG_PASSWORD.to_owned(),
        KeyFileProblem::OtherAccount { have, want } => {
            format!("key content mismatch: have account {}, want {}", hex::encode(have), hex::encode(want))
        }
        KeyFileProblem::TooLong { .. }
        | KeyFileProblem::NotJson { .. }
        | KeyFileProblem::Field { .. }
        | KeyFileProblem::TooMuchMemory { .. }
        | KeyFileProblem::TooMuchWork
        | KeyFileProblem::InvalidKey => problem.to_string(),
    }
}

const fn key_text_problem(problem: KeyTextProblem) -> &'static str {
    match problem {
        KeyTextProblem::Letter => "invalid hex character in private key",
        KeyTextProblem::OddLength => "invalid hex data for private key",
        KeyTextProblem::Length => "invalid length, need 256 bits",
        KeyTextProblem::TooLarge => "invalid private key, >=N",
        KeyTextProblem::Zero => "invalid private key, zero or negative",
    }
}

/// The reference's text, or that of the problem if the reference has none.
fn path_problem(problem: &PathProblem) -> String {
    match problem {
        PathProblem::Empty => "empty derivation path".to_owned(),
        PathProblem::Ambiguous => {
            "ambiguous path: use 'm/' prefix for absolute paths, or no leading '/' for relative ones".to_owned()
        }
        PathProblem::Component(component) => format!("invalid component: {component}"),
        PathProblem::Range(number) => format!("component {number} out of allowed range [0, 4294967295]"),
        PathProblem::HardenedRange(number) => {
            format!("component {number} out of allowed hardened range [0, 2147483647]")
        }
        PathProblem::TooLong => problem.to_string(),
    }
}

/// Ether as `f64`, precise enough for two decimals.
fn ether(wei: U256) -> f64 {
    f64::from(wei) / 1e18
}

#[cfg(test)]
mod tests {
    use alloy_primitives::address;
    use tenon_api::DeviceProblem;

    use super::*;

    #[test]
    fn refusals_of_wallets_and_keys_have_the_texts_that_clients_match() {
        let wei = |ether: u64| U256::from(ether) * U256::from(1_000_000_000_000_000_000_u64);
        let cases = [
            (AccountRefusal::UnknownAccount, "unknown account"),
            (AccountRefusal::NoKeyFile, "no key for given address or file"),
            (AccountRefusal::SeveralKeyFiles(vec!["/a".into(), "/b".into()]), "multiple keys match address (/a, /b)"),
            (AccountRefusal::WrongPassword, "could not decrypt key with given password"),
            (AccountRefusal::Locked, "authentication needed: password or unlock"),
            (AccountRefusal::UnlockForbidden, "account unlock with HTTP access is forbidden"),
            (AccountRefusal::DurationTooLong, "unlock duration too large"),
            (AccountRefusal::Exists, "account already exists"),
            (KeyTextProblem::Letter.into(), "invalid hex character in private key"),
            (KeyTextProblem::OddLength.into(), "invalid hex data for private key"),
            (KeyTextProblem::Length.into(), "invalid length, need 256 bits"),
            (KeyTextProblem::TooLarge.into(), "invalid private key, >=N"),
            (KeyTextProblem::Zero.into(), "invalid private key, zero or negative"),
            (AccountRefusal::NoKeystore, "local keystore not used"),
            (AccountRefusal::UnknownWallet, "unknown wallet"),
            (AccountRefusal::NoWalletUrl, "protocol scheme missing"),
            (PathProblem::Empty.into(), "empty derivation path"),
            (
                PathProblem::Ambiguous.into(),
                "ambiguous path: use 'm/' prefix for absolute paths, or no leading '/' for relative ones",
            ),
            (PathProblem::Component("x".to_owned()).into(), "invalid component: x"),
            (PathProblem::Range(1 << 32).into(), "component 4294967296 out of allowed range [0, 4294967295]"),
            (
                PathProblem::HardenedRange(1 << 31).into(),
                "component 2147483648 out of allowed hardened range [0, 2147483647]",
            ),
            (PathProblem::TooLong.into(), "a path has at most 16 elements"),
            (AccountRefusal::NotSupported(WalletFeature::Derivation), "not supported"),
            (
                AccountRefusal::NotSupported(WalletFeature::Initialization),
                "specified wallet does not support initialization",
            ),
            (AccountRefusal::NotSupported(WalletFeature::Pairing), "specified wallet does not support pairing"),
            (DeviceProblem::PinNeeded.into(), "trezor: pin needed"),
            (AccountRefusal::SignatureLength, "signature must be 65 bytes long"),
            (AccountRefusal::SignatureParity, "invalid Ethereum signature (V is not 27 or 28)"),
            (AccountRefusal::NotRecovered, "recovery failed"),
            (
                AccountRefusal::FeeTooHigh { fee: wei(2), cap: wei(1) },
                "tx fee (2.00 ether) exceeds the configured cap (1.00 ether)",
            ),
            (AccountRefusal::NoGas, "gas not specified"),
            (AccountRefusal::NoNonce, "nonce not specified"),
            (AccountRefusal::NoPrice, "missing gasPrice or maxFeePerGas/maxPriorityFeePerGas"),
            (AccountRefusal::BothPrices, "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified"),
            (AccountRefusal::CreationWithAuthorizations, "EIP-7702 transaction cannot be used to create contract"),
            (AccountRefusal::NoAuthorizations, "EIP-7702 transaction with empty auth list"),
            (
                AccountRefusal::WrongChain { found: 1, wanted: 31337 },
                "chainId does not match node's (have=1, want=31337)",
            ),
        ];
        for (refusal, text) in cases {
            assert_eq!(account_refusal_text(&refusal), text);
        }
    }

    #[test]
    fn key_files_have_the_texts_that_clients_match_after_their_path() {
        let word = || "x".to_owned();
        let have = address!("008aeeda4d805471df9b2a5b0f38a0c3bcba786b");
        let want = address!("f39fd6e51aad88f6f4ce6ab8827279cfffb92266");
        let mismatch = "key content mismatch: have account 008aeeda4d805471df9b2a5b0f38a0c3bcba786b, want \
                        f39fd6e51aad88f6f4ce6ab8827279cfffb92266";
        let cases = [
            (KeyFileProblem::Version(word()), "version not supported: x"),
            (KeyFileProblem::Cipher(word()), "cipher not supported: x"),
            (KeyFileProblem::Kdf(word()), "unsupported KDF: x"),
            (KeyFileProblem::Prf(word()), "unsupported PBKDF2 PRF: x"),
            (KeyFileProblem::WrongPassword, "could not decrypt key with given password"),
            (KeyFileProblem::OtherAccount { have, want }, mismatch),
            (KeyFileProblem::TooLong { allowed: 9 }, "a key file has at most 9 bytes"),
            (KeyFileProblem::NotJson { line: 1, column: 2 }, "the key file is not JSON: line 1, column 2"),
            (KeyFileProblem::Field { name: "c", problem: "is zero" }, "invalid key file: c is zero"),
            (
                KeyFileProblem::TooMuchMemory { wanted: 1024, allowed: 512 },
                "opening this key file takes 1024 MiB, but `accounts.memory` allows 512",
            ),
            (
                KeyFileProblem::TooMuchWork,
                "opening this key file takes too long: create it again with the standard cost",
            ),
            (
                KeyFileProblem::InvalidKey,
                "invalid key: the decrypted number is zero or not below the order of the curve",
            ),
        ];
        for (problem, text) in cases {
            let refused = |path| account_refusal_text(&AccountRefusal::KeyFile { path, problem: problem.clone() });
            assert_eq!(refused(None), text);
            assert_eq!(refused(Some("/a".into())), format!("/a: {text}"));
        }
        assert_eq!(
            account_refusal_text(&AccountRefusal::KeyNotSaved {
                path: "/a".into(),
                problem: KeyFileProblem::WrongPassword
            }),
            "an error was encountered when saving and verifying the keystore file. The file /a was removed; no key was \
             saved: could not decrypt key with given password"
        );
    }
}
