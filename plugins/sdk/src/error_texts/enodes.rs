//! Refused enode URLs, in the words of the reference (`docs/spec/p2p.md` 3, `docs/spec/rpc-node.md` 3.2).

use tenon_api::{EnodeProblem, HostProblem, UnusableNode, UrlProblem};

/// The text for an enode URL that is refused.
pub(crate) fn enode_problem_text(problem: &EnodeProblem) -> String {
    format!("invalid enode: {}", cause_of(problem))
}

fn cause_of(problem: &EnodeProblem) -> String {
    let text = match problem {
        EnodeProblem::Url { text, problem } => return format!("parse {text:?}: {}", url_problem_text(problem)),
        EnodeProblem::Scheme => "invalid URL scheme, want \"enode\"",
        EnodeProblem::NoId => "does not contain node ID",
        EnodeProblem::IdDigit { byte } => {
            return format!("invalid node ID (encoding/hex: invalid byte: {})", go_byte(*byte));
        }
        EnodeProblem::IdOdd => "invalid node ID (encoding/hex: odd length hex string)",
        EnodeProblem::IdLength => "invalid node ID (wrong length, want 128 hex chars)",
        EnodeProblem::Host { host, problem } => {
            return format!("invalid host: address {host}: {}", host_problem_text(*problem));
        }
        EnodeProblem::Address => "invalid IP address",
        EnodeProblem::Port => "invalid port",
        EnodeProblem::DiscoveryPort => "invalid discport in query",
        EnodeProblem::Unusable(UnusableNode::Incomplete) => "incomplete node",
        EnodeProblem::Unusable(UnusableNode::NoUdpPort) => "missing UDP port",
        EnodeProblem::Unusable(UnusableNode::NoTcpPort) => "missing TCP port",
        EnodeProblem::Unusable(UnusableNode::Address) => "invalid IP (multicast/unspecified)",
        EnodeProblem::Unusable(UnusableNode::NotOnCurve) => "invalid secp256k1 curve point",
    };
    text.to_owned()
}

/// The text of Go's `net/url`.
fn url_problem_text(problem: &UrlProblem) -> String {
    let text = match problem {
        UrlProblem::ControlCharacter => "net/url: invalid control character in URL",
        UrlProblem::NoScheme => "missing protocol scheme",
        UrlProblem::Colon => "first path segment in URL cannot contain colon",
        UrlProblem::NoBracket => "missing ']' in host",
        UrlProblem::Port(port) => {
            let port = format!(":{port}");
            return format!("invalid port {port:?} after host");
        }
    };
    text.to_owned()
}

/// The text of Go's `net.SplitHostPort`.
const fn host_problem_text(problem: HostProblem) -> &'static str {
    match problem {
        HostProblem::NoBracket => "missing ']' in address",
        HostProblem::NoPort => "missing port in address",
        HostProblem::NotPort => "address after ']' is no port",
        HostProblem::Colons => "too many colons in address",
    }
}

/// A byte as Go's decoder of hexadecimal digits shows it.
fn go_byte(byte: u8) -> String {
    let shown = char::from(byte);
    if shown.is_control() { format!("U+{byte:04X}") } else { format!("U+{byte:04X} '{shown}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_enode_urls_have_the_texts_of_the_reference() {
        let url = |problem| EnodeProblem::Url { text: "a\tb".to_owned(), problem };
        let host = |problem| EnodeProblem::Host { host: "[::1".to_owned(), problem };
        let cases = [
            (url(UrlProblem::ControlCharacter), r#"parse "a\tb": net/url: invalid control character in URL"#),
            (url(UrlProblem::NoScheme), r#"parse "a\tb": missing protocol scheme"#),
            (url(UrlProblem::Colon), r#"parse "a\tb": first path segment in URL cannot contain colon"#),
            (url(UrlProblem::NoBracket), r#"parse "a\tb": missing ']' in host"#),
            (url(UrlProblem::Port("x'\"".to_owned())), r#"parse "a\tb": invalid port ":x'\"" after host"#),
            (EnodeProblem::Scheme, "invalid URL scheme, want \"enode\""),
            (EnodeProblem::NoId, "does not contain node ID"),
            (EnodeProblem::IdDigit { byte: b'g' }, "invalid node ID (encoding/hex: invalid byte: U+0067 'g')"),
            (EnodeProblem::IdDigit { byte: 1 }, "invalid node ID (encoding/hex: invalid byte: U+0001)"),
            (EnodeProblem::IdOdd, "invalid node ID (encoding/hex: odd length hex string)"),
            (EnodeProblem::IdLength, "invalid node ID (wrong length, want 128 hex chars)"),
            (host(HostProblem::NoBracket), "invalid host: address [::1: missing ']' in address"),
            (host(HostProblem::NoPort), "invalid host: address [::1: missing port in address"),
            (host(HostProblem::NotPort), "invalid host: address [::1: address after ']' is no port"),
            (host(HostProblem::Colons), "invalid host: address [::1: too many colons in address"),
            (EnodeProblem::Address, "invalid IP address"),
            (EnodeProblem::Port, "invalid port"),
            (EnodeProblem::DiscoveryPort, "invalid discport in query"),
            (UnusableNode::Incomplete.into(), "incomplete node"),
            (UnusableNode::NoUdpPort.into(), "missing UDP port"),
            (UnusableNode::NoTcpPort.into(), "missing TCP port"),
            (UnusableNode::Address.into(), "invalid IP (multicast/unspecified)"),
            (UnusableNode::NotOnCurve.into(), "invalid secp256k1 curve point"),
        ];
        for (problem, cause) in cases {
            assert_eq!(enode_problem_text(&problem), format!("invalid enode: {cause}"));
        }
    }
}
