//! The grammar of enode URLs, with the reference's error texts (`docs/spec/rpc-node.md` 3.2).

use std::net::IpAddr;

/// Hexadecimal digits of a node's public key.
const ID_DIGITS: usize = 128;
const SCHEME: &str = "enode://";

/// A peer as named by an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Enode {
    /// The public key, without its leading 04. Not checked to be on the curve.
    pub(crate) id: [u8; ID_DIGITS / 2],
    /// None if only the key was given.
    pub(crate) address: Option<Address>,
}

/// The address of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) ip: IpAddr,
    pub(crate) tcp: u16,
    pub(crate) udp: u16,
}

impl Enode {
    /// Reads a URL, or a key alone.
    ///
    /// # Errors
    /// The problem, for a sentence that begins with `invalid enode: `.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let bare = strip_scheme(text);
        if !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Self { id: node_id(bare)?, address: None });
        }
        let parts = Parts::split(text)?;
        let id = node_id(parts.user.ok_or("does not contain node ID")?)?;
        let (host, port) = split_host_port(parts.host).map_err(|cause| format!("invalid host: {cause}"))?;
        let ip = host.parse().map_err(|_| "invalid IP address")?;
        let tcp = decimal(port).ok_or("invalid port")?;
        let udp = match discovery_port(parts.query) {
            None => tcp,
            Some(port) => decimal(port).ok_or("invalid discport in query")?,
        };
        Ok(Self { id, address: Some(Address { ip, tcp, udp }) })
    }
}

fn strip_scheme(text: &str) -> &str {
    match text.get(..SCHEME.len()) {
        Some(scheme) if scheme.eq_ignore_ascii_case(SCHEME) => &text[SCHEME.len()..],
        _ => text,
    }
}

fn node_id(digits: &str) -> Result<[u8; ID_DIGITS / 2], String> {
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    if let Some(wrong) = digits.bytes().find(|byte| !byte.is_ascii_hexdigit()) {
        // Bytes are shown one by one, as in Go's decoder.
        let shown = char::from(wrong);
        let shown = if shown.is_control() { String::new() } else { format!(" '{shown}'") };
        return Err(format!("invalid node ID (encoding/hex: invalid byte: U+{wrong:04X}{shown})"));
    }
    if !digits.len().is_multiple_of(2) {
        return Err("invalid node ID (encoding/hex: odd length hex string)".to_owned());
    }
    if digits.len() != ID_DIGITS {
        return Err("invalid node ID (wrong length, want 128 hex chars)".to_owned());
    }
    let mut id = [0; ID_DIGITS / 2];
    for (byte, pair) in id.iter_mut().zip(digits.as_bytes().as_chunks::<2>().0) {
        let nibbles = pair.map(|digit| char::from(digit).to_digit(16).unwrap_or_default() as u8);
        *byte = (nibbles[0] << 4) | nibbles[1];
    }
    Ok(id)
}

/// The parts of a URL that are used.
struct Parts<'a> {
    user: Option<&'a str>,
    host: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    /// Splits a URL like Go's `net/url`, with its error texts.
    fn split(text: &'a str) -> Result<Self, String> {
        let parse = |cause: &str| format!("parse {text:?}: {cause}");
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err(parse("net/url: invalid control character in URL"));
        }
        let before_fragment = text.split('#').next().unwrap_or_default();
        let (scheme, rest) = match before_fragment.split_once(':') {
            Some(("", _)) => return Err(parse("missing protocol scheme")),
            Some((scheme, rest)) if is_scheme(scheme) => (scheme, rest),
            Some((first, _)) if !first.contains(['/', '?']) => {
                return Err(parse("first path segment in URL cannot contain colon"));
            }
            _ => ("", before_fragment),
        };
        if !scheme.eq_ignore_ascii_case("enode") {
            return Err("invalid URL scheme, want \"enode\"".to_owned());
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = rest.strip_prefix("//").unwrap_or_default().split('/').next().unwrap_or_default();
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if host.starts_with('[') && !host.contains(']') {
            return Err(parse("missing ']' in host"));
        }
        let after_host = host.rsplit_once(']').map_or(host, |(_, rest)| rest);
        if let Some((_, port)) = after_host.rsplit_once(':')
            && !port.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Err(parse(&format!("invalid port {:?} after host", format!(":{port}"))));
        }
        Ok(Self { user, host, query })
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Like Go's `net.SplitHostPort`, with its error texts.
fn split_host_port(text: &str) -> Result<(&str, &str), String> {
    let wrong = |cause: &str| format!("address {text}: {cause}");
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(|| wrong("missing ']' in address"))?;
        let port = match rest.strip_prefix(':') {
            Some(port) => port,
            None if rest.is_empty() => return Err(wrong("missing port in address")),
            None => return Err(wrong("address after ']' is no port")),
        };
        return if port.contains(':') { Err(wrong("too many colons in address")) } else { Ok((host, port)) };
    }
    match text.rsplit_once(':') {
        None => Err(wrong("missing port in address")),
        Some((host, _)) if host.contains(':') => Err(wrong("too many colons in address")),
        Some(parts) => Ok(parts),
    }
}

/// The first `discport` of a query, unless it is empty.
fn discovery_port(query: &str) -> Option<&str> {
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(name, _)| *name == "discport").map(|(_, port)| port).filter(|port| !port.is_empty())
}

/// Decimal digits only: no sign.
fn decimal(text: &str) -> Option<u16> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> String {
        "1dd9d65c4552b5eb43d5ad55a2ee3f56c6cbc1c64a5c8d659f51fcd51bace24351232b8d7821617d2b29b54b81cdefb9b3e9c37d7fd5f63270bcc9e1a6f6a439"
            .to_owned()
    }

    fn error(text: &str) -> String {
        Enode::parse(text).unwrap_err()
    }

    #[test]
    fn reads_a_key_alone_with_and_without_scheme() {
        for text in [key(), format!("enode://{}", key()), format!("ENODE://{}", key().to_uppercase())] {
            let enode = Enode::parse(&text).unwrap();

            assert_eq!((enode.id[0], enode.id[63], enode.address), (0x1d, 0x39, None), "{text}");
        }
    }

    #[test]
    fn reads_address_and_ports() {
        let parsed = |rest: &str| Enode::parse(&format!("enode://{}@{rest}", key())).unwrap().address.unwrap();
        let address = |ip: &str, tcp, udp| Address { ip: ip.parse().unwrap(), tcp, udp };

        assert_eq!(parsed("127.0.0.1:30303"), address("127.0.0.1", 30303, 30303));
        assert_eq!(parsed("127.0.0.1:30303?discport=0"), address("127.0.0.1", 30303, 0));
        assert_eq!(parsed("127.0.0.1:30303?discport="), address("127.0.0.1", 30303, 30303));
        assert_eq!(parsed("[::1]:0?x=1&discport=7"), address("::1", 0, 7));
        assert_eq!(Enode::parse(&format!("enode://0x{}@10.0.0.1:1", key())).unwrap().id[0], 0x1d);
    }

    #[test]
    fn says_what_is_wrong_in_the_words_of_the_reference() {
        let at = |rest: &str| format!("enode://{}@{rest}", key());
        let parse = |text: &str, cause: &str| format!("parse {text:?}: {cause}");
        let cases = [
            ("abcd".to_owned(), "invalid node ID (wrong length, want 128 hex chars)".to_owned()),
            ("abc".to_owned(), "invalid node ID (encoding/hex: odd length hex string)".to_owned()),
            (
                format!("enode://g{}@1.2.3.4:5", &key()[1..]),
                "invalid node ID (encoding/hex: invalid byte: U+0067 'g')".to_owned(),
            ),
            ("http://foobar".to_owned(), "invalid URL scheme, want \"enode\"".to_owned()),
            (String::new(), "invalid URL scheme, want \"enode\"".to_owned()),
            ("enode://foobar.com:1".to_owned(), "does not contain node ID".to_owned()),
            (at("127.0.0.1"), "invalid host: address 127.0.0.1: missing port in address".to_owned()),
            (at("[::1]"), "invalid host: address [::1]: missing port in address".to_owned()),
            (at("::1:5"), "invalid host: address ::1:5: too many colons in address".to_owned()),
            (at("node.example:5"), "invalid IP address".to_owned()),
            (at("127.0.0.1:"), "invalid port".to_owned()),
            (at("127.0.0.1:65536"), "invalid port".to_owned()),
            (at("127.0.0.1:3?discport=x"), "invalid discport in query".to_owned()),
            (at("127.0.0.1:foo"), parse(&at("127.0.0.1:foo"), "invalid port \":foo\" after host")),
            (at("[::1:5"), parse(&at("[::1:5"), "missing ']' in host")),
            (":foo".to_owned(), parse(":foo", "missing protocol scheme")),
            ("01:2".to_owned(), parse("01:2", "first path segment in URL cannot contain colon")),
        ];
        for (text, wanted) in cases {
            assert_eq!(error(&text), wanted, "{text}");
        }
        assert_eq!(error("a\nb"), parse("a\nb", "net/url: invalid control character in URL"));
    }

    #[test]
    fn no_text_makes_it_fall_over() {
        for text in ["enode://ü@ü:ü", "enode:", "enode://@", "enode://]@]:[", "é", "enode://0x", "enode://%@%:%"] {
            assert!(Enode::parse(text).is_err(), "{text}");
        }
    }
}
