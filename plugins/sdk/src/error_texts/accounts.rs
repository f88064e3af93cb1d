//! Refusals of wallets and keys, in the words of the reference and go-ethereum (`docs/spec/rpc-node.md` 6).

use alloy_primitives::U256;
use tenon_api::{AccountRefusal, KeyTextProblem, WalletFeature};

/// The text for a wallet or key that refuses.
pub fn account_refusal_text(refusal: &AccountRefusal) -> String {
    let text = match refusal {
        AccountRefusal::UnknownAccount => "unknown account",
        AccountRefusal::NoKeyFile => "no key for given address or file",
        AccountRefusal::SeveralKeyFiles(paths) => {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            return format!("multiple keys match address ({})", paths.join(", "));
        }
        AccountRefusal::WrongPassword => "could not decrypt key with given password",
        AccountRefusal::Locked => "authentication needed: password or unlock",
        AccountRefusal::UnlockForbidden => "account unlock with HTTP access is forbidden",
        AccountRefusal::DurationTooLong => "unlock duration too large",
        AccountRefusal::Exists => "account already exists",
        AccountRefusal::KeyText(problem) => key_text_problem(*problem),
        AccountRefusal::NoKeystore => "local keystore not used",
        AccountRefusal::UnknownWallet => "unknown wallet",
        AccountRefusal::NoWalletUrl => "protocol scheme missing",
        AccountRefusal::NotSupported(WalletFeature::Derivation) => "not supported",
        AccountRefusal::NotSupported(WalletFeature::Initialization) => {
            "specified wallet does not support initialization"
        }
        AccountRefusal::NotSupported(WalletFeature::Pairing) => "specified wallet does not support pairing",
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

const fn key_text_problem(problem: KeyTextProblem) -> &'static str {
    match problem {
        KeyTextProblem::Letter => "invalid hex character in private key",
        KeyTextProblem::OddLength => "invalid hex data for private key",
        KeyTextProblem::Length => "invalid length, need 256 bits",
        KeyTextProblem::TooLarge => "invalid private key, >=N",
        KeyTextProblem::Zero => "invalid private key, zero or negative",
    }
}

/// Ether as `f64`, precise enough for two decimals.
fn ether(wei: U256) -> f64 {
    f64::from(wei) / 1e18
}

#[cfg(test)]
mod tests {
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
            (AccountRefusal::NotSupported(WalletFeature::Derivation), "not supported"),
            (
                AccountRefusal::NotSupported(WalletFeature::Initialization),
                "specified wallet does not support initialization",
            ),
            (AccountRefusal::NotSupported(WalletFeature::Pairing), "specified wallet does not support pairing"),
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
}
