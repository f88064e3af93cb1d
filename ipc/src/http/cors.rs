//! Which web pages may read answers (`docs/spec/rpc-eth.md` 2.2), with the rules of rs/cors 1.7 that the
//! reference uses: methods POST and GET, all request headers, ten minutes.
//!
//! Implemented here, because tower-http's `CorsLayer` answers every OPTIONS itself, sends the allowed methods and the
//! maximum age even for a refused origin, and writes `Vary` in one line. Clients can see all three differences.

use http::{HeaderMap, HeaderValue, Method, header};

/// The origins that an operator allows.
#[derive(Clone, Debug)]
pub(crate) struct Cors {
    allows_all: bool,
    origins: Vec<Pattern>,
}

/// An origin in lower case, with at most one `*` in it.
#[derive(Clone, Debug)]
enum Pattern {
    Exact(String),
    Around(String, String),
}

impl Cors {
    /// `None` if the list is empty: then no header is added.
    pub(crate) fn new(origins: &[String]) -> Option<Self> {
        if origins.is_empty() {
            return None;
        }
        let pattern = |origin: &String| {
            let origin = origin.to_ascii_lowercase();
            match origin.split_once('*') {
                Some((before, after)) => Pattern::Around(before.to_owned(), after.to_owned()),
                None => Pattern::Exact(origin),
            }
        };
        Some(Self {
            allows_all: origins.iter().any(|origin| origin == "*"),
            origins: origins.iter().map(pattern).collect(),
        })
    }

    /// Whether CORS itself answers this request.
    pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
        method == Method::OPTIONS
            && headers.get(header::ACCESS_CONTROL_REQUEST_METHOD).is_some_and(|value| !value.is_empty())
    }

    /// The headers of the answer to a preflight.
    pub(crate) fn preflight(&self, request: &HeaderMap) -> HeaderMap {
        let mut answer = HeaderMap::new();
        for name in ["Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"] {
            answer.append(header::VARY, HeaderValue::from_static(name));
        }
        let method = request.get(header::ACCESS_CONTROL_REQUEST_METHOD).and_then(|value| value.to_str().ok());
        let method = method.map(str::to_ascii_uppercase).unwrap_or_default();
        let is_method_allowed = matches!(&method[..], "POST" | "GET" | "OPTIONS");
        let (Some(origin), true, Ok(method)) = (self.allowed(request), is_method_allowed, method.parse()) else {
            return answer;
        };
        answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, method);
        let asked = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS).and_then(|value| value.to_str().ok());
        let names: Vec<String> =
            asked.unwrap_or_default().split([',', ' ']).filter(|name| !name.is_empty()).map(canonical).collect();
        if let (false, Ok(names)) = (names.is_empty(), names.join(", ").parse()) {
            answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names);
        }
        answer.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        answer
    }

    /// Adds the headers of the answer to any other request.
    pub(crate) fn add_headers(&self, method: &Method, request: &HeaderMap, answer: &mut HeaderMap) {
        answer.append(header::VARY, HeaderValue::from_static("Origin"));
        if !matches!(*method, Method::POST | Method::GET | Method::OPTIONS) {
            return;
        }
        if let Some(origin) = self.allowed(request) {
            answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        }
    }

    /// The value of `Access-Control-Allow-Origin`, if the request's origin is allowed.
    fn allowed(&self, request: &HeaderMap) -> Option<HeaderValue> {
        let origin = request.get(header::ORIGIN).filter(|origin| !origin.is_empty())?;
        if self.allows_all {
            return Some(HeaderValue::from_static("*"));
        }
        let lower = origin.to_str().ok()?.to_ascii_lowercase();
        self.origins.iter().any(|pattern| pattern.matches(&lower)).then(|| origin.clone())
    }
}

impl Pattern {
    fn matches(&self, origin: &str) -> bool {
        match self {
            Self::Exact(exact) => exact == origin,
            Self::Around(before, after) => {
                origin.len() >= before.len() + after.len()
                    && origin.starts_with(before.as_str())
                    && origin.ends_with(after.as_str())
            }
        }
    }
}

/// `content-type` becomes `Content-Type`.
fn canonical(name: &str) -> String {
    let capital = |part: &str| {
        let mut part = part.to_ascii_lowercase();
        if let Some(first) = part.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        part
    };
    name.split('-').map(capital).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn cors(origins: &[&str]) -> Cors {
        Cors::new(&origins.iter().map(|origin| (*origin).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn allows_the_origins_of_the_list_and_no_others() {
        for (origins, origin, expected) in [
            (&["*"][..], "http://a.example", Some("*")),
            (&["http://A.example"], "http://a.EXAMPLE", Some("http://a.EXAMPLE")),
            (&["https://*.example"], "https://x.y.example", Some("https://x.y.example")),
            (&["https://*.example"], "https://.exampl", None),
            (&["http://a.example"], "http://b.example", None),
        ] {
            let mut answer = HeaderMap::new();
            cors(origins).add_headers(&Method::POST, &headers(&[("origin", origin)]), &mut answer);
            let allowed = answer.get(header::ACCESS_CONTROL_ALLOW_ORIGIN).map(|value| value.to_str().unwrap());
            assert_eq!(allowed, expected, "{origins:?} {origin}");
            assert_eq!(answer[header::VARY], "Origin");
        }
    }

    #[test]
    fn answers_a_preflight_in_full_only_if_everything_is_allowed() {
        let cors = cors(&["http://a.example"]);
        let origin = ("origin", "http://a.example");
        let asked = headers(&[
            origin,
            ("access-control-request-method", "post"),
            ("access-control-request-headers", "content-type,x-a"),
        ]);

        let answer = cors.preflight(&asked);

        assert_eq!(answer[header::ACCESS_CONTROL_ALLOW_HEADERS], "Content-Type, X-A");
        assert_eq!(answer[header::ACCESS_CONTROL_ALLOW_METHODS], "POST");
        assert_eq!(answer[header::ACCESS_CONTROL_MAX_AGE], "600");
        assert_eq!(answer.get_all(header::VARY).iter().count(), 3);
        for refused in [
            [origin, ("access-control-request-method", "DELETE")],
            [("origin", "http://b.example"), ("access-control-request-method", "POST")],
        ] {
            assert_eq!(cors.preflight(&headers(&refused)).len(), 3, "{refused:?}");
        }
    }

    #[test]
    fn an_empty_list_means_no_headers() {
        assert!(Cors::new(&[]).is_none());
    }
}
