//! HS256 for jsonwebtoken.

use hmac::{Hmac, KeyInit as _, Mac as _};
use jsonwebtoken::{
    Algorithm, DecodingKey,
    crypto::{CryptoProvider, JwtVerifier, KeyUtils},
    errors::{Error, ErrorKind},
    signature::{self, Verifier},
};
use sha2::Sha256;

/// Verifies HS256 and signs nothing.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(refused()),
    verifier_factory: |algorithm, key| match algorithm {
        Algorithm::HS256 => Ok(Box::new(Hs256::new(key)?)),
        _ => Err(refused()),
    },
    // For keys inside tokens, which are never used.
    key_utils: KeyUtils::new_unimplemented(),
};

fn refused() -> Error {
    ErrorKind::InvalidAlgorithm.into()
}

struct Hs256(Hmac<Sha256>);

impl Hs256 {
    fn new(key: &DecodingKey) -> Result<Self, Error> {
        Hmac::new_from_slice(key.try_get_as_bytes()?).map(Self).map_err(|_| ErrorKind::InvalidKeyFormat.into())
    }
}

impl Verifier<Vec<u8>> for Hs256 {
    /// Compares in constant time.
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let mut hash = self.0.clone();
        hash.update(message);
        hash.verify_slice(signature).map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

/// Makes this the provider of the process, unless it already is.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}
