//! Authentication of requests: tokens, and headers that decide on access.

use std::net::IpAddr;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use tenon_ipc::fuzzing::{HeaderDecisions, authorization, check_headers, token_secret};

const SECRET: [u8; 32] = [7; 32];
/// The instant at which tokens are checked, seconds since 1970.
const NOW: u64 = 1_800_000_000;
/// Allowed difference of `iat`.
const LEEWAY: u64 = 60;

/// The first byte selects: a header's value, the two JSON texts of a token that is then signed correctly, or the text
/// of a secret file.
pub(crate) fn token(input: &[u8]) {
    let Some((mode, rest)) = input.split_first() else { return };
    match mode % 3 {
        0 => value(rest),
        1 => {
            let mut parts = rest.splitn(2, |byte| *byte == b'\n');
            let (header, claims) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            signed(header, claims, *mode);
        }
        _ => {
            let Ok(text) = std::str::from_utf8(rest) else { return };
            let Some(secret) = token_secret(text) else { return };
            let digits = text.trim();
            assert_eq!(hex::encode(secret), digits.strip_prefix("0x").unwrap_or(digits).to_lowercase());
        }
    }
}

/// An accepted value has our signature.
fn value(value: &[u8]) {
    if authorization(value, &SECRET, NOW).is_err() {
        return;
    }
    let text = std::str::from_utf8(value).expect("a token is text");
    let token = text.split_once(' ').expect("a scheme").1.trim();
    let (parts, signature) = token.rsplit_once('.').expect("a signature");
    assert_eq!(signature, signature_of(parts), "{text}");
}

/// A token signed over invalid contents is refused, and so is a valid token with any byte changed.
fn signed(header: &[u8], claims: &[u8], flipped: u8) {
    let parts = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let value = format!("Bearer {parts}.{}", signature_of(&parts)).into_bytes();
    let Err(words) = authorization(&value, &SECRET, NOW) else {
        let read = |text: &[u8]| serde_json::from_slice::<Value>(text);
        // Members that are not used are not checked: broken UTF-8, numbers out of range.
        let (Ok(header), Ok(claims)) = (read(header), read(claims)) else { return };
        assert_eq!(header["alg"], "HS256");
        assert!(header.get("crit").is_none(), "extensions that must be understood");
        assert!(claims["iat"].as_u64().expect("a time").abs_diff(NOW) <= LEEWAY);
        assert!(claims["exp"].is_null() || claims["exp"].as_u64().expect("a time") > NOW);
        assert!(claims["nbf"].is_null() || claims["nbf"].as_u64().expect("a time") <= NOW);
        let mut other = value;
        // After `Bearer `, whose case is ignored.
        let at = 7 + usize::from(flipped) % (other.len() - 7);
        other[at] ^= 1 << (flipped % 7);
        assert!(authorization(&other, &SECRET, NOW).is_err(), "bit {} of byte {at}", flipped % 7);
        return;
    };
    assert!(!words.is_empty());
}

fn signature_of(parts: &str) -> String {
    let mut hash = Hmac::<Sha256>::new_from_slice(&SECRET).expect("a key of any length");
    hash.update(parts.as_bytes());
    URL_SAFE_NO_PAD.encode(hash.finalize().into_bytes())
}

/// Header lines `name: value`. A served host is an IP address or on the list, an origin that may read answers is on its
/// list, and the answers to preflights and upgrades are well-formed.
pub(crate) fn headers(input: &[u8]) {
    let lines = input.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()))
    });
    let lines: Vec<_> = lines.collect();
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let (hosts, readers) = (list(&["localhost", "node.example"]), list(&["https://*.example", "http://a.example:80"]));
    let HeaderDecisions { host, is_host_served, readers, preflight, upgrade } =
        check_headers(&lines, &hosts, &readers, &list(&["https://a.example"]));
    if is_host_served {
        let without_port = host.rsplit_once(':').map_or("", |(name, _)| name);
        let is_known = |name: &str| {
            let name = name.trim_matches(['[', ']']);
            name.parse::<IpAddr>().is_ok() || hosts.iter().any(|listed| listed.eq_ignore_ascii_case(name))
        };
        assert!(is_known(&host) || (is_known(without_port) && !without_port.is_empty()), "{host:?}");
    }
    if let Some(origin) = readers {
        let lower = origin.to_ascii_lowercase();
        let is_listed = lower.starts_with("https://") && lower.ends_with(".example") || lower == "http://a.example:80";
        assert!(is_listed, "{origin:?}");
        assert!(lines.iter().any(|(_, value)| *value == origin.as_bytes()), "an origin is given back as it came");
    }
    assert!(preflight.len() <= 7, "{preflight:?}");
    for (name, value) in &preflight {
        let is_method = name == "access-control-allow-methods";
        assert!(!is_method || ["GET", "POST", "OPTIONS"].contains(&value.as_str()), "{value}");
    }
    match upgrade {
        Some(Ok(key)) => assert_eq!(key.len(), 28, "twenty bytes in base64"),
        Some(Err(status)) => assert!((400..500).contains(&status), "{status}"),
        None => {}
    }
}

/// Valid and invalid tokens, and secrets.
pub(crate) fn tokens() -> Vec<Vec<u8>> {
    let good = format!("\x01{{\"typ\":\"JWT\",\"alg\":\"HS256\"}}\n{{\"iat\":{NOW}}}");
    let expiring = format!("\x04{{\"alg\":\"HS256\"}}\n{{\"iat\":{},\"exp\":{}}}", NOW - LEEWAY, NOW + 1);
    let other = format!("\x01{{\"alg\":\"none\"}}\n{{\"iat\":{NOW}}}");
    let stale = format!("\x01{{\"alg\":\"HS256\"}}\n{{\"iat\":{}}}", NOW - LEEWAY - 1);
    let parts = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode("{\"alg\":\"HS256\"}"),
        URL_SAFE_NO_PAD.encode(format!("{{\"iat\":{NOW}}}"))
    );
    let value = format!("\0bearer {parts}.{}", signature_of(&parts));
    let secret = format!("\x020x{}\n", "aB".repeat(32));
    [good, expiring, other, stale, value, secret, "\0Bearer a.b.c".into(), "\0Basic dTpw".into()]
        .map(String::into_bytes)
        .into()
}

/// Headers of plain requests, preflights and handshakes.
pub(crate) fn header_lines() -> Vec<Vec<u8>> {
    let texts = [
        "host: localhost:8545\ncontent-type: application/json\norigin: https://x.example",
        "host: [::1]:80\norigin: http://a.example:80\naccess-control-request-method: post\naccess-control-request-headers: content-type,x-a",
        "host: node.example\nupgrade: websocket\nconnection: keep-alive, Upgrade\nsec-websocket-version: 13\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\norigin: https://a.example",
        "host: 127.0.0.1:1\nupgrade: websocket\nconnection: upgrade\nsec-websocket-version: 8",
        "host: evil.example\norigin: null",
        "host: localhost.evil.example:80\norigin: http://evil",
    ];
    texts.map(|text| text.as_bytes().to_vec()).into()
}
