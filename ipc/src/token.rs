//! Bearer tokens, as in Ethereum's engine API: JWT with HS256 and a 32 byte secret in a file. `iat` may differ by at
//! most a minute when a connection or, over HTTP, a request begins. `exp` and `nbf` apply if a token has them.
//!
//! jsonwebtoken reads them, with a provider of HS256 only: its own providers bring RSA or a C build.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, header};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, IntoDeserializer as _},
};
use tenon_file_access::check_unchangeable_except_by_group;
use zeroize::Zeroizing;

use crate::{StartError, service::ClientId};

mod provider;

/// Maximum difference between a token's `iat` and this node's clock, in seconds.
const LEEWAY: u64 = 60;

/// Checks tokens against one secret.
#[derive(Clone, derive_more::Debug)]
#[debug("TokenCheck(..)")]
pub(crate) struct TokenCheck {
    key: DecodingKey,
    validation: Validation,
}

/// Content of a request's `Authorization` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authorization {
    /// No token.
    Absent,
    /// A valid token.
    Valid {
        /// The client that it names, if any.
        client: Option<ClientId>,
        /// Its expiry in seconds since 1970, if any.
        expiry: Option<u64>,
    },
    /// A refused token, and the reason.
    Refused(&'static str),
}

/// The member of a token's header that jsonwebtoken does not check.
#[derive(Deserialize)]
struct Extensions {
    /// Whether the header has the member `crit`, which lists extensions that the verifier must understand. This node
    /// understands none. A `crit` of `null` counts too; jsonwebtoken would treat it as absent.
    #[serde(default, rename = "crit", deserialize_with = "is_there")]
    are_critical: bool,
}

/// Whether a member exists, with any value.
fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

#[derive(Deserialize)]
struct Claims {
    iat: u64,
    exp: Option<u64>,
    nbf: Option<u64>,
    /// The client of the token. Ethereum's engine API names this claim `id`, all others `sub`.
    sub: Option<String>,
    id: Option<String>,
}

impl TokenCheck {
    /// Reads the secret: 64 hex digits, with or without `0x`, white space around them ignored. A file that any user, or
    /// another user than root and the own one, can change is refused: that user could make valid tokens.
    pub(crate) fn from_file(path: &Path) -> Result<Self, StartError> {
        let failed = |reason: String| StartError::TokenSecret { path: path.to_owned(), reason };
        let unreadable = |error: io::Error| failed(error.to_string());
        let mut file = File::open(path).map_err(unreadable)?;
        check_unchangeable_except_by_group(&file.metadata().map_err(unreadable)?)
            .map_err(|exposed| failed(exposed.to_string()))?;
        let mut text = Zeroizing::new(String::new());
        file.read_to_string(&mut text).map_err(unreadable)?;
        let secret = secret_in(&text)
            .ok_or_else(|| failed("it must hold 64 hex digits; `openssl rand -hex 32` makes such a file".to_owned()))?;
        Ok(Self::new(&secret))
    }

    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        provider::install();
        let mut validation = Validation::new(Algorithm::HS256);
        // The times are checked here, at the time of the request, with other limits.
        validation.required_spec_claims.clear();
        (validation.validate_exp, validation.validate_aud) = (false, false);
        Self { key: DecodingKey::from_secret(secret), validation }
    }

    pub(crate) fn check(&self, headers: &HeaderMap) -> Authorization {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let Some(value) = values.next() else { return Authorization::Absent };
        if values.next().is_some() {
            return Authorization::Refused("more than one Authorization header");
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.check_at(value, now)
    }

    /// Checks the header's value at a Unix time.
    pub(crate) fn check_at(&self, value: &HeaderValue, now: u64) -> Authorization {
        let token = value.to_str().ok().and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let Some(token) = token else { return Authorization::Refused("missing token") };
        let Some(claims) = self.claims(token) else { return Authorization::Refused("invalid token") };
        if claims.iat.abs_diff(now) > LEEWAY {
            return Authorization::Refused("stale token: iat must be within 60 seconds of the node's clock");
        }
        if claims.exp.is_some_and(|expiry| expiry <= now) {
            return Authorization::Refused("token is expired");
        }
        if claims.nbf.is_some_and(|beginning| beginning > now) {
            return Authorization::Refused("token is not valid yet");
        }
        let client = claims.sub.or(claims.id).map(|identity| ClientId::of_token(&identity));
        Authorization::Valid { client, expiry: claims.exp }
    }

    /// The claims of a token, if this secret signed it with HS256.
    fn claims(&self, token: &str) -> Option<Claims> {
        // A map, because jsonwebtoken would also take a list of the claims' values in order.
        let claims: serde_json::Map<_, _> = decode(token, &self.key, &self.validation).ok()?.claims;
        let header = URL_SAFE_NO_PAD.decode(token.split('.').next()?).ok()?;
        let extensions: Extensions = serde_json::from_slice(&header).ok()?;
        if extensions.are_critical { None } else { Claims::deserialize(claims.into_deserializer()).ok() }
    }
}

/// The secret in a file's text.
pub(crate) fn secret_in(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let digits = text.trim();
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    let mut secret = Zeroizing::new([0; 32]);
    hex::decode_to_slice(digits, &mut secret[..]).ok()?;
    Some(secret)
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, KeyInit as _, Mac as _};
    use serde_json::json;
    use sha2::Sha256;

    use super::*;

    fn now() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
    }

    fn token(algorithm: &str, secret: &[u8], claims: &serde_json::Value) -> String {
        signed(&json!({ "typ": "JWT", "alg": algorithm }), secret, claims)
    }

    fn signed(header: &serde_json::Value, secret: &[u8], claims: &serde_json::Value) -> String {
        let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(header), part(claims));
        let mut hash = Hmac::<Sha256>::new_from_slice(secret).unwrap();
        hash.update(signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(hash.finalize().into_bytes()))
    }

    #[test]
    fn accepts_only_fresh_tokens_of_its_own_secret_and_algorithm() {
        let secret = [7; 32];
        let check = TokenCheck::new(&secret);
        let fresh = json!({ "iat": now() });
        for (header, is_valid) in [
            (format!("Bearer {}", token("HS256", &secret, &fresh)), true),
            (format!("bearer {}", token("HS256", &secret, &json!({ "iat": now() + 50 }))), true),
            (format!("Bearer {}", token("HS256", &secret, &json!({ "iat": now() - 70 }))), false),
            (format!("Bearer {}", token("HS256", &secret, &json!({ "iat": now() + 70 }))), false),
            (format!("Bearer {}", token("HS256", &secret, &json!({ "iat": now(), "exp": now() - 100 }))), false),
            (format!("Bearer {}", token("HS256", &secret, &json!({}))), false),
            (format!("Bearer {}", token("HS256", &secret, &json!([now(), null]))), false),
            (format!("Bearer {}", token("HS512", &secret, &fresh)), false),
            (format!("Bearer {}", token("HS256", &[8; 32], &fresh)), false),
            (format!("Basic {}", token("HS256", &secret, &fresh)), false),
            ("Bearer eyJhbGciOiJub25lIn0.eyJpYXQiOjF9.".to_owned(), false),
            ("Bearer".to_owned(), false),
            ("Bearer a.b.c".to_owned(), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, header.parse().unwrap());
            assert_eq!(matches!(check.check(&headers), Authorization::Valid { .. }), is_valid, "{header}");
            if is_valid {
                headers.append(header::AUTHORIZATION, header.parse().unwrap());
                assert!(matches!(check.check(&headers), Authorization::Refused(_)), "twice");
            }
        }
        assert_eq!(check.check(&HeaderMap::new()), Authorization::Absent);
    }

    #[test]
    fn a_token_holds_from_its_beginning_to_its_end() {
        let check = TokenCheck::new(&[7; 32]);
        let at = |claims: serde_json::Value| {
            let header = format!("Bearer {}", token("HS256", &[7; 32], &claims));
            check.check_at(&header.parse().unwrap(), 1_000)
        };

        assert_eq!(at(json!({ "iat": 1_000, "nbf": 1_000 })), Authorization::Valid { client: None, expiry: None });
        assert_eq!(
            at(json!({ "iat": 1_000, "exp": 1_001 })),
            Authorization::Valid { client: None, expiry: Some(1_001) }
        );
        for refused in [
            json!({ "iat": 1_000, "nbf": 1_001 }),
            json!({ "iat": 1_000, "exp": 1_000 }),
            json!({ "iat": 1_000, "exp": "1001" }),
            json!({ "iat": 1_000, "nbf": "1" }),
        ] {
            assert!(matches!(at(refused.clone()), Authorization::Refused(_)), "{refused}");
        }
    }

    #[test]
    fn a_token_with_extensions_that_must_be_understood_is_refused() {
        let check = TokenCheck::new(&[7; 32]);
        let refuses = |header: serde_json::Value| {
            let token = signed(&header, &[7; 32], &json!({ "iat": 1_000 }));
            matches!(check.check_at(&format!("Bearer {token}").parse().unwrap(), 1_000), Authorization::Refused(_))
        };

        assert!(!refuses(json!({ "alg": "HS256", "kid": "1" })));
        for critical in [json!(["exp"]), json!(["b64"]), json!([]), json!(null)] {
            assert!(refuses(json!({ "alg": "HS256", "crit": critical })), "{critical}");
        }
    }

    #[test]
    fn reads_the_secret_with_and_without_prefix_and_names_a_bad_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jwt.hex");
        for (text, is_good) in
            [("ab".repeat(32), true), (format!("0x{}\n", "AB".repeat(32)), true), ("ab".repeat(31), false)]
        {
            std::fs::write(&path, &text).unwrap();
            let result = TokenCheck::from_file(&path);
            assert_eq!(result.is_ok(), is_good, "{text}");
            if let Err(error) = result {
                assert!(error.to_string().contains("jwt.hex"), "{error}");
            }
        }
    }

    #[test]
    fn a_secret_that_any_user_can_replace_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jwt.hex");
        std::fs::write(&path, "ab".repeat(32)).unwrap();

        for (mode, is_good) in [(0o600, true), (0o644, true), (0o664, true), (0o666, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(TokenCheck::from_file(&path).is_ok(), is_good, "{mode:o}");
        }
    }
}
