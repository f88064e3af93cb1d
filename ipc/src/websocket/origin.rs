//! Which web pages may connect (`docs/spec/rpc-eth.md` 2.3).

/// The origins that an operator allows. Programs other than browsers send none and are always accepted.
#[derive(Clone, Debug)]
pub(crate) struct OriginRules {
    allows_all: bool,
    rules: Vec<Origin>,
}

/// An origin, or the parts of one that a rule states. Lower case; an empty part matches everything.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    scheme: String,
    host: String,
    port: String,
}

impl OriginRules {
    /// Creates rules from settings. An empty list means this machine by its names.
    pub(crate) fn new(origins: &[String]) -> Self {
        // A rule without a host would match the pages of every host.
        let mut rules: Vec<Origin> =
            origins.iter().map(|origin| Origin::parse(origin)).filter(|rule| !rule.host.is_empty()).collect();
        if origins.is_empty() {
            rules.push(Origin::parse("http://localhost"));
            if let Some(name) = host_name() {
                rules.push(Origin::parse(&format!("http://{name}")));
            }
        }
        Self { allows_all: origins.iter().any(|origin| origin == "*"), rules }
    }

    /// Whether a page of this origin may connect.
    pub(crate) fn allow(&self, origin: Option<&str>) -> bool {
        let Some(origin) = origin.filter(|origin| !origin.is_empty()) else { return true };
        if self.allows_all {
            return true;
        }
        let origin = Origin::parse(origin);
        let matches = |rule: &str, part: &str| rule.is_empty() || rule == part;
        self.rules.iter().any(|rule| {
            matches(&rule.scheme, &origin.scheme)
                && matches(&rule.host, &origin.host)
                && matches(&rule.port, &origin.port)
        })
    }
}

impl Origin {
    fn parse(text: &str) -> Self {
        let text = text.trim().to_ascii_lowercase();
        let (scheme, rest) = text.split_once("://").map_or(("", text.as_str()), |(scheme, rest)| (scheme, rest));
        let authority = rest.split('/').next().unwrap_or_default();
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
            _ => (authority, ""),
        };
        Self { scheme: scheme.to_owned(), host: host.to_owned(), port: port.to_owned() }
    }
}

fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stated_part_of_a_rule_must_match() {
        for (rules, origin, allowed) in [
            (&["*"][..], Some("http://evil.example"), true),
            (&["https://a.example"], Some("https://A.example"), true),
            (&["https://a.example"], Some("https://a.example:8443"), true),
            (&["https://a.example"], Some("http://a.example"), false),
            (&["a.example"], Some("http://a.example"), true),
            (&["http://a.example:80"], Some("http://a.example:81"), false),
            (&["http://a.example"], Some("http://a.example.evil"), false),
            (&["http://a.example"], Some("null"), false),
            (&["http://a.example"], None, true),
            (&[], Some("http://localhost:3000"), true),
            (&[], Some("http://evil.example"), false),
            (&[""], Some("http://evil.example"), false),
            (&["http://"], Some("http://evil.example"), false),
        ] {
            let list: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
            assert_eq!(OriginRules::new(&list).allow(origin), allowed, "{rules:?} {origin:?}");
        }
    }
}
