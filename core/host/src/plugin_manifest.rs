//! A plugin's manifest, checked.

use std::collections::HashSet;

use tenon_api::{
    Capability,
    messages::{MethodInfo, NamespaceInfo},
};

/// Maximum length of a namespace.
const MAX_NAMESPACE: usize = 32;
/// Maximum length of a plugin's or method's name, and of the text about its build, in bytes.
const MAX_NAME: usize = 256;
/// Maximum length of a method's description, in bytes.
const MAX_DESCRIPTION: usize = 256 * 1024;
/// Maximum number of needed namespaces.
const MAX_NEEDS: usize = 64;

/// How expensive a method is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Answers from memory or a few point reads.
    Fast,
    /// Runs the EVM or scans; bounded by `ModuleOptions::slow_calls` of `core/modules`.
    Slow,
}

/// A method of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    /// Full name.
    pub name: String,
    /// Cost class.
    pub cost: Cost,
    /// Whether it changes no state visible to other calls.
    pub only_reads: bool,
    /// Whether the host, never a client, calls it ahead of many calls of another method
    /// ([`METHOD_AHEAD`](tenon_api::abi::METHOD_AHEAD)).
    pub is_ahead: bool,
    /// Whether its parameters hold passwords or keys.
    pub takes_secrets: bool,
    /// JSON text of an OpenRPC method object without `name`.
    pub description: String,
}

/// A namespace that a plugin needs, with the minimum version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceRequirement {
    /// The namespace.
    pub namespace: String,
    /// Major and minor number.
    pub min_version: (u32, u32),
}

impl NamespaceRequirement {
    /// Reads a list such as `eth >= 1, net`.
    ///
    /// # Errors
    /// The malformed part, and the right form.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        let needs = text.split(',').map(str::trim).filter(|need| !need.is_empty());
        if needs.clone().nth(MAX_NEEDS).is_some() {
            return Err(format!("it needs more than {MAX_NEEDS} namespaces"));
        }
        needs.map(Self::parse).collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let malformed =
            || format!("requirement {text:?} is malformed; expected: a namespace, or `namespace >= major.minor`");
        let (namespace, min_version) = match text.split_once(">=") {
            Some((namespace, min_version)) => (namespace.trim(), numbers(min_version.trim()).ok_or_else(malformed)?),
            None => (text, (0, 0)),
        };
        if !is_namespace(namespace) {
            return Err(malformed());
        }
        Ok(Self { namespace: namespace.to_owned(), min_version })
    }

    /// Whether this version of a namespace is sufficient.
    pub fn is_met_by(&self, version: &str) -> bool {
        numbers(version).is_some_and(|version| version >= self.min_version)
    }
}

impl std::fmt::Display for NamespaceRequirement {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.min_version {
            (0, 0) => formatter.write_str(&self.namespace),
            (major, minor) => write!(formatter, "{} >= {major}.{minor}", self.namespace),
        }
    }
}

/// Parses `1` or `1.2`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A plugin's description of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Name of the plugin.
    pub name: String,
    /// The namespace that it serves.
    pub namespace: String,
    /// `<major>.<minor>` of the namespace.
    pub version: String,
    /// Compiler and build.
    pub built_with: String,
    /// Requested capabilities.
    pub capabilities: Vec<Capability>,
    /// Namespaces that it needs.
    pub needs: Vec<NamespaceRequirement>,
    /// Whether its subscriptions can be reopened in the instance that replaces it.
    pub has_lasting_subscriptions: bool,
    /// Whether it marks the items of its subscriptions with positions, so that it can take subscriptions over.
    pub has_item_positions: bool,
    /// Whether it does background work, independent of calls.
    pub has_background: bool,
    /// Its methods, in the order of their numbers.
    pub methods: Vec<Method>,
    /// Its subscription kinds, in the order of their numbers.
    pub subscriptions: Vec<String>,
    /// Whether it was built with this node's messages, and so may use the bus.
    pub sends_frames: bool,
}

impl Manifest {
    /// Checks for malformed parts.
    ///
    /// # Errors
    /// The malformed part, and what it should be.
    pub fn check(&self) -> Result<(), String> {
        let Self { name, namespace, version, built_with, .. } = self;
        for (what, text) in [("name", name), ("build", built_with)] {
            if text.len() > MAX_NAME || text.chars().any(char::is_control) {
                return Err(format!(
                    "its {what} is malformed; expected: at most {MAX_NAME} bytes, without control characters"
                ));
            }
        }
        if !is_namespace(namespace) {
            return Err(format!(
                "namespace {namespace:?} is malformed; expected: a letter, then at most {} letters and digits",
                MAX_NAMESPACE - 1
            ));
        }
        if !is_version(version) {
            return Err(format!(
                "version {version:?} of namespace {namespace} is malformed; expected: <major>.<minor>"
            ));
        }
        let mut seen = HashSet::new();
        for method in &self.methods {
            self.check_method(method)?;
            if !seen.insert(method.name.as_str()) {
                return Err(format!("method {} is listed twice", method.name));
            }
        }
        seen.clear();
        for kind in &self.subscriptions {
            if kind.is_empty() || !kind.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return Err(format!("subscription {kind:?} is malformed; expected: letters and digits"));
            }
            if !seen.insert(kind.as_str()) {
                return Err(format!("subscription {kind} is listed twice"));
            }
        }
        Ok(())
    }

    fn check_method(&self, method: &Method) -> Result<(), String> {
        let Method { name, description, .. } = method;
        let rest = name.strip_prefix(self.namespace.as_str()).and_then(|rest| rest.strip_prefix('_'));
        let Some(rest) = rest else {
            return Err(format!("method {name:?} is not in namespace {}", self.namespace));
        };
        if name.len() > MAX_NAME || description.len() > MAX_DESCRIPTION {
            return Err(format!(
                "a method has a name of more than {MAX_NAME} bytes or a description of more than {MAX_DESCRIPTION}"
            ));
        }
        if rest.is_empty() || !rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(format!("method {name:?} is malformed; expected: letters, digits and _ after the namespace"));
        }
        if ["_subscribe", "_unsubscribe", "_subscription"].iter().any(|taken| name.ends_with(taken)) {
            return Err(format!("the name of method {name} is reserved for subscriptions"));
        }
        match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(description) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("the description of {name} is not a JSON object: {error}")),
        }
    }

    /// The form for the bus, with the other names of the namespace.
    pub(crate) fn namespace_info(&self, aliases: Vec<String>) -> NamespaceInfo {
        let describe =
            |method: &Method| MethodInfo { name: method.name.clone(), description: method.description.clone() };
        NamespaceInfo {
            namespace: self.namespace.clone(),
            version: self.version.clone(),
            methods: self.methods.iter().map(describe).collect(),
            subscriptions: self.subscriptions.clone(),
            aliases,
        }
    }
}

fn is_namespace(name: &str) -> bool {
    name.len() <= MAX_NAMESPACE
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn is_version(version: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    version.split_once('.').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let method = Method {
            name: "good_method".into(),
            cost: Cost::Fast,
            only_reads: false,
            is_ahead: false,
            takes_secrets: false,
            description: "{}".into(),
        };
        Manifest {
            name: "good".into(),
            namespace: "good".into(),
            version: "1.0".into(),
            built_with: String::new(),
            capabilities: Vec::new(),
            needs: Vec::new(),
            has_lasting_subscriptions: false,
            has_item_positions: true,
            has_background: false,
            methods: vec![method],
            subscriptions: vec!["things".into()],
            sends_frames: true,
        }
    }

    #[test]
    fn a_well_formed_manifest_passes() {
        assert_eq!(manifest().check(), Ok(()));
    }

    #[test]
    fn requirements_are_parsed_compared_and_refused() {
        let needs = NamespaceRequirement::parse_list("eth >= 1.2, net").unwrap();

        assert_eq!(needs.iter().map(NamespaceRequirement::to_string).collect::<Vec<_>>(), ["eth >= 1.2", "net"]);
        assert!(needs[0].is_met_by("1.2") && needs[0].is_met_by("1.10") && needs[0].is_met_by("2.0"));
        assert!(!needs[0].is_met_by("1.1") && needs[1].is_met_by("0.1"));
        assert!(NamespaceRequirement::parse_list(&"a,".repeat(65)).unwrap_err().contains("more than 64"));
        for text in ["eth > 1", "eth >=", ">= 1", "e th", "eth >= x.1"] {
            assert!(NamespaceRequirement::parse_list(text).unwrap_err().contains("is malformed"), "{text}");
        }
    }

    #[test]
    fn errors_name_the_malformed_part() {
        type Case = (fn(&mut Manifest), &'static str);
        let cases: [Case; 14] = [
            (|m| m.name = "a\nb".into(), "its name is malformed"),
            (|m| m.built_with = "x".repeat(257), "its build is malformed"),
            (|m| m.methods[0].name += &"x".repeat(256), "a name of more than 256 bytes"),
            (|m| m.methods[0].description = " ".repeat(256 * 1024) + "{}", "a description of more than 262144"),
            (|m| m.namespace = String::new(), "namespace \"\" is malformed"),
            (|m| m.namespace = "a_b".into(), "namespace \"a_b\" is malformed"),
            (|m| m.version = "1".into(), "version \"1\" of namespace good is malformed"),
            (|m| m.methods[0].name = "other_method".into(), "is not in namespace good"),
            (|m| m.methods[0].name = "good_".into(), "method \"good_\" is malformed"),
            (|m| m.methods[0].name = "good_subscribe".into(), "is reserved for subscriptions"),
            (|m| m.methods[0].description = "[]".into(), "is not a JSON object"),
            (|m| m.methods.push(m.methods[0].clone()), "method good_method is listed twice"),
            (|m| m.subscriptions.push("a b".into()), "subscription \"a b\" is malformed"),
            (|m| m.subscriptions.push("things".into()), "subscription things is listed twice"),
        ];
        for (spoil, words) in cases {
            let mut spoilt = manifest();
            spoil(&mut spoilt);

            let error = spoilt.check().expect_err(words);

            assert!(error.contains(words), "{error:?} says {words:?}");
        }
    }
}
