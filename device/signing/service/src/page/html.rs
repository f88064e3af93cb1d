//! The page's HTML: without scripts, and with all external text escaped. Links are relative to the session's folder.

use std::fmt::Write as _;

use crate::{WaitingRequest, clock::now};

/// The content security policy: only the page's own style, and forms to the page itself. The hash is that of [`STYLE`].
pub(super) const CONTENT_POLICY: &str = concat!(
    "default-src 'none'; style-src 'sha256-",
    "snrm+bTVHHVICH00cP3YGtbEuDCUW63CFOtIeMNtRiI=",
    "'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
);

/// The page's style.
const STYLE: &str = "\
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #f4f4f2; margin: 0; }
main { max-width: 46rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
header { display: flex; justify-content: space-between; align-items: baseline; gap: 1rem; }
h1 { font-size: 1.4rem; margin: 0; }
h2 { font-size: 1.15rem; margin: 0 0 .25rem; }
section { background: #fff; border: 1px solid #d5d5d0; border-radius: 8px; padding: 1rem 1.25rem; margin: 1rem 0; }
.facts { color: #555; margin: 0 0 .75rem; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; }
th { text-align: left; font-weight: 600; vertical-align: top; padding: .2rem 1rem .2rem 0; width: 11rem; overflow-wrap: anywhere; }
td { padding: .2rem 0; font-family: ui-monospace, monospace; font-size: .9rem; overflow-wrap: anywhere; white-space: pre-wrap; }
.mark { background: #fff1d6; border-left: 4px solid #c77700; padding: .4rem .75rem; margin: .5rem 0; }
.decide { display: flex; gap: .75rem; margin-top: 1rem; }
button { font: inherit; padding: .45rem 1.25rem; border-radius: 6px; border: 1px solid #888; background: #fff; cursor: pointer; }
button.approve { background: #14663a; border-color: #14663a; color: #fff; }
button.deny { border-color: #a3271f; color: #a3271f; }
form { display: inline; margin: 0; }
";

/// Escapes the characters that have a meaning in HTML.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

fn page(title: &str, refresh: bool, body: &str) -> String {
    let refresh = if refresh { "<meta http-equiv=\"refresh\" content=\"5\">" } else { "" };
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">{refresh}\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style></head>\
         <body><main>{body}</main></body></html>"
    )
}

/// A page with one sentence.
pub(super) fn message(words: &str) -> String {
    let body = format!(
        "<h1>Signing service</h1><section><p>{}</p><p><a href=\"./\">Requests</a></p></section>",
        escaped(words)
    );
    page("Signing service", false, &body)
}

/// The list of waiting requests. Only an empty list refreshes by itself, so that a request does not move just before a
/// click.
pub(super) fn list(approver: &str, token: &str, waiting: &[WaitingRequest]) -> String {
    let mut body = format!(
        "<header><h1>Requests to sign</h1><span>{} <form method=\"post\" action=\"logout\">\
         <input type=\"hidden\" name=\"token\" value=\"{token}\"><button>Log out</button></form></span></header>",
        escaped(approver)
    );
    if waiting.is_empty() {
        body.push_str(
            "<section><p>No request is waiting for approval. This page is updated every 5 seconds.</p></section>",
        );
    } else {
        body.push_str("<p><a href=\"./\">Update</a></p>");
    }
    waiting.iter().for_each(|request| add_request(&mut body, approver, token, request));
    page("Requests to sign", waiting.is_empty(), &body)
}

fn add_request(body: &mut String, approver: &str, token: &str, request: &WaitingRequest) {
    let shown = &request.presentation;
    let left = request.until.saturating_sub(now());
    let _ = write!(
        body,
        "<section id=\"request-{}\"><h2>{}</h2><p class=\"facts\">Request {}, rule \u{201c}{}\u{201d}, {} of {} approvals, \
         {left} seconds left</p>",
        request.number,
        escaped(&shown.title),
        request.number,
        escaped(&request.rule),
        request.approved_by.len(),
        request.needed,
    );
    for warning in &shown.warnings {
        let _ = write!(body, "<p class=\"mark\">Warning: {}</p>", escaped(&warning.to_string()));
    }
    body.push_str("<table>");
    for line in &shown.lines {
        let _ = write!(body, "<tr><th>{}</th><td>{}</td></tr>", escaped(&line.label), escaped(&line.value));
    }
    body.push_str("</table><div class=\"decide\">");
    let hidden = format!(
        "<input type=\"hidden\" name=\"token\" value=\"{token}\">\
         <input type=\"hidden\" name=\"number\" value=\"{}\"><input type=\"hidden\" name=\"hash\" value=\"{}\">",
        request.number, request.hash
    );
    if !request.approved_by.iter().any(|name| name == approver) {
        let _ = write!(
            body,
            "<form method=\"post\" action=\"approve\">{hidden}<button class=\"approve\">Approve</button></form>"
        );
    }
    let _ = write!(
        body,
        "<form method=\"post\" action=\"deny\">{hidden}<button class=\"deny\">Deny</button></form></div></section>"
    );
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, B256};
    use base64::Engine as _;
    use sha2::{Digest as _, Sha256};
    use tenon_signing_policy::{Kind, Line, Presentation};

    use super::*;

    #[test]
    fn the_content_policy_names_the_style() {
        let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(STYLE));
        assert!(CONTENT_POLICY.contains(&format!("'sha256-{hash}'")), "the style's hash is {hash}");
    }

    #[test]
    fn texts_from_outside_are_no_html() {
        let line = Line { label: "<b>".to_owned(), value: "\"><script>alert('x')</script>".to_owned() };
        let request = WaitingRequest {
            number: 7,
            client: "website".to_owned(),
            account: Address::ZERO,
            kind: Kind::Message,
            hash: B256::ZERO,
            rule: "<i>".to_owned(),
            until: 0,
            needed: 1,
            approved_by: Vec::new(),
            presentation: Presentation { title: "<u>".to_owned(), lines: vec![line], warnings: Vec::new() },
        };

        let html = list("<alice>", "00", &[request]);

        for tag in ["<b>", "<script", "<i>", "<u>", "<alice>"] {
            assert!(!html.contains(tag), "{tag}");
        }
        assert!(html.contains("&lt;script&gt;"));
    }
}
