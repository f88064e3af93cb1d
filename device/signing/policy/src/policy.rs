//! The operator's rules, and the decision about a request.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use alloy_primitives::{Address, B256};
use sha2::{Digest as _, Sha256};
use tenon_api::TransactionPayload;

use crate::{
    DecodedCall, History, Interfaces, Kind, Mismatch, Outcome, PolicyError, Request, Subject,
    file::PolicyFile,
    interfaces::MAX_INTERFACE_BYTES,
    matching::MatchContext,
    rule::{Recipients, Rule, Set},
};

/// Maximum length of a policy file, bytes.
const MAX_POLICY_BYTES: usize = 16 << 20;
/// Maximum number of rules.
const MAX_RULES: usize = 50_000;
/// Maximum number of interfaces.
const MAX_INTERFACES: usize = 1_000;

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The outcome.
    pub outcome: Outcome,
    /// The rule that decided; `None` if no rule did.
    pub rule: Option<String>,
    /// The reason, for the log and the client.
    pub reason: String,
}

/// A decision and the result of every rule of the request's kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedDecision {
    /// The decision.
    pub decision: Decision,
    /// The rules of its kind, in order, each with the first condition that is not met.
    pub rules: Vec<(String, Result<(), Mismatch>)>,
}

/// The operator's rules.
///
/// A matching rule that denies takes precedence. Otherwise the first matching rule decides. If no rule matches, the
/// request is denied.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Vec<Rule>,
    index: Index,
    interfaces: Interfaces,
    hash: B256,
}

/// Index of the rules, so that a decision checks only a few of them. Positions are ascending in each list.
#[derive(Clone, Debug, Default)]
struct Index {
    /// Rules for transactions to particular accounts.
    by_recipient: HashMap<Address, Vec<usize>>,
    /// Other rules for transactions.
    any_recipient: Vec<usize>,
    /// Rules for other requests of particular accounts.
    by_account: HashMap<(Kind, Address), Vec<usize>>,
    /// Rules for other requests of any account.
    any_account: HashMap<Kind, Vec<usize>>,
}

impl Policy {
    /// Reads a policy file and the interface files next to it.
    ///
    /// # Errors
    /// [`PolicyError`]: a file can't be read or is too long, or an error of [`Policy::parse`].
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        Self::read_checked(path, |_| Ok(()))
    }

    /// Like [`Policy::read`]. `check` is called with the path of each interface file before it is read, and returns the
    /// reason if it must not be read.
    ///
    /// # Errors
    /// Those of [`Policy::read`], and [`PolicyError::Unreadable`] with the reason that `check` returned.
    pub fn read_checked(path: &Path, check: impl Fn(&Path) -> Result<(), String>) -> Result<Self, PolicyError> {
        let text = read_bounded(path, MAX_POLICY_BYTES)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, |file| {
            let path = folder.join(file);
            match check(&path) {
                Ok(()) => read_bounded(&path, MAX_INTERFACE_BYTES),
                Err(reason) => Err(PolicyError::Unreadable { path, reason }),
            }
        })
    }

    /// Parses the text of a policy. `read` returns the text of an interface's file.
    ///
    /// # Errors
    /// [`PolicyError`]: the text is not a policy, a rule is not valid, or an interface can't be used.
    pub fn parse(text: &str, mut read: impl FnMut(&Path) -> Result<String, PolicyError>) -> Result<Self, PolicyError> {
        let file: PolicyFile = toml::from_str(text).map_err(|error| PolicyError::Form(error.to_string()))?;
        if file.version != 1 {
            return Err(PolicyError::Form(format!("`version` is {}; this program reads version 1", file.version)));
        }
        if file.rules.len() > MAX_RULES || file.interfaces.len() > MAX_INTERFACES {
            return Err(PolicyError::Form(format!("more than {MAX_RULES} rules or {MAX_INTERFACES} interfaces")));
        }
        let mut hasher = Sha256::new();
        add_to_hash(&mut hasher, text);
        let mut interfaces = Interfaces::default();
        for (name, entry) in &file.interfaces {
            let json = read(&entry.file)?;
            add_to_hash(&mut hasher, &json);
            let contracts =
                entry.contracts.as_ref().map(|written| written.iter().map(|each| each.0).collect::<Vec<_>>());
            interfaces.add(name, &json, contracts.as_deref())?;
        }
        let rules = file.rules.into_iter().map(|entry| Rule::new(entry, &interfaces));
        let rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
        let mut names = HashSet::new();
        if let Some(rule) = rules.iter().find(|rule| !names.insert(&rule.name)) {
            let reason =
                "another rule has this name, but names must be unique, as windows are counted by name".to_owned();
            return Err(PolicyError::Rule { rule: rule.name.clone(), reason });
        }
        let hash = B256::from_slice(&hasher.finalize());
        Ok(Self { index: Index::new(&rules), rules, interfaces, hash })
    }

    /// SHA-256 over the policy's text and those of its interfaces, each preceded by its length.
    pub const fn hash(&self) -> B256 {
        self.hash
    }

    /// The interfaces that the policy names.
    pub const fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }

    /// Names of clients in rules that `is_known` does not know, each with its rule.
    pub fn unknown_clients(&self, is_known: impl Fn(&str) -> bool) -> Vec<(&str, &str)> {
        let mut unknown = Vec::new();
        for rule in &self.rules {
            let Set::Of(names) = &rule.clients else { continue };
            let names = names.iter().filter(|name| !is_known(name));
            unknown.extend(names.map(|name| (rule.name.as_str(), name.as_str())));
        }
        unknown
    }

    /// Number of rules.
    pub const fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is no rule, so that everything is denied.
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether a rule permits signing raw bytes, whose meaning is unknown.
    pub fn signs_raw(&self) -> bool {
        self.rules.iter().any(|rule| rule.kinds.contains(&Kind::Raw) && rule.outcome != Outcome::Deny)
    }

    /// Decides about a request. `now` is in seconds since 1970. A time before the latest entry of the history counts as
    /// that entry's, so that setting the clock back does not reopen a window.
    pub fn decide(&self, request: &Request, history: &dyn History, now: u64) -> Decision {
        if let Some(reason) = never_signed(request) {
            return denied(reason);
        }
        let calls = self.calls_of(request);
        let against = MatchContext { history, now: now.max(history.latest()), calls: &calls };
        let candidates = self.index.candidates(request);
        let (mut decided, mut closest) = (None, None);
        for rule in candidates.iter().filter_map(|position| self.rules.get(*position)) {
            if decided.is_some() && rule.outcome != Outcome::Deny {
                continue;
            }
            match rule.matches(request, &against) {
                Ok(()) => {
                    decided = Some(rule);
                    if rule.outcome == Outcome::Deny {
                        break;
                    }
                }
                Err(mismatch) if mismatch.is_bound() && closest.is_none() => closest = Some((rule, mismatch)),
                Err(_) => {}
            }
        }
        match (decided, closest) {
            (Some(rule), _) => rule.decision(),
            (None, Some((rule, mismatch))) => denied(&format!("no rule allows it; rule \"{}\": {mismatch}", rule.name)),
            (None, None) => denied("no rule allows it"),
        }
    }

    /// Returns the decision, and the result of every rule of the request's kind.
    pub fn explain(&self, request: &Request, history: &dyn History, now: u64) -> ExplainedDecision {
        let calls = self.calls_of(request);
        let against = MatchContext { history, now: now.max(history.latest()), calls: &calls };
        let of_kind = self.rules.iter().filter(|rule| rule.kinds.contains(&request.kind()));
        let rules = of_kind.map(|rule| (rule.name.clone(), rule.matches(request, &against))).collect();
        ExplainedDecision { decision: self.decide(request, history, now), rules }
    }

    fn calls_of(&self, request: &Request) -> Vec<DecodedCall> {
        match &request.subject {
            Subject::Transaction { transaction, .. } => {
                transaction.to.map(|contract| self.interfaces.decode(contract, &transaction.input)).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }
}

impl Rule {
    fn decision(&self) -> Decision {
        let word = match self.outcome {
            Outcome::Allow => "allows it",
            Outcome::Ask => "requires approval",
            Outcome::Deny => "denies it",
        };
        let reason = format!("rule \"{}\" {word}", self.name);
        Decision { outcome: self.outcome, rule: Some(self.name.clone()), reason }
    }
}

impl Index {
    fn new(rules: &[Rule]) -> Self {
        let mut index = Self::default();
        for (position, rule) in rules.iter().enumerate() {
            for kind in rule.kinds.iter().collect::<HashSet<_>>() {
                index.add(position, rule, *kind);
            }
        }
        index
    }

    fn add(&mut self, position: usize, rule: &Rule, kind: Kind) {
        match (kind, &rule.recipients, &rule.accounts) {
            (Kind::Transaction, Recipients::Accounts(Set::Of(accounts)), _) => {
                accounts.iter().for_each(|account| self.by_recipient.entry(*account).or_default().push(position));
            }
            (Kind::Transaction, ..) => self.any_recipient.push(position),
            (_, _, Set::Of(accounts)) => {
                accounts.iter().for_each(|account| self.by_account.entry((kind, *account)).or_default().push(position));
            }
            (_, _, Set::Any) => self.any_account.entry(kind).or_default().push(position),
        }
    }

    /// Positions of the rules that can match, ascending.
    fn candidates(&self, request: &Request) -> Vec<usize> {
        let none = Vec::new();
        let (named, any) = match &request.subject {
            Subject::Transaction { transaction, .. } => {
                let named = transaction.to.and_then(|recipient| self.by_recipient.get(&recipient));
                (named, Some(&self.any_recipient))
            }
            _ => {
                let kind = request.kind();
                (self.by_account.get(&(kind, request.account)), self.any_account.get(&kind))
            }
        };
        let mut positions = [named.unwrap_or(&none).as_slice(), any.unwrap_or(&none)].concat();
        positions.sort_unstable();
        positions
    }
}

/// Returns why no policy can permit the request, if so.
fn never_signed(request: &Request) -> Option<&'static str> {
    let Subject::Transaction { transaction, .. } = &request.subject else { return None };
    match (&transaction.payload, transaction.chain_id) {
        (_, None) => Some("a transaction without a chain id would be valid on every chain"),
        (TransactionPayload::Blob { .. }, _) => Some("blob transactions are not supported"),
        // EIP-2681: no account can reach this nonce, and every chain rejects it.
        _ if transaction.nonce == u64::MAX => Some("the nonce is 2^64 - 1, which no chain accepts"),
        _ => None,
    }
}

fn denied(reason: &str) -> Decision {
    Decision { outcome: Outcome::Deny, rule: None, reason: reason.to_owned() }
}

fn add_to_hash(hasher: &mut Sha256, text: &str) {
    hasher.update((text.len() as u64).to_be_bytes());
    hasher.update(text);
}

/// Reads a file of at most `max` bytes.
fn read_bounded(path: &Path, max: usize) -> Result<String, PolicyError> {
    use std::io::Read as _;
    let error = |reason: String| PolicyError::Unreadable { path: path.to_owned(), reason };
    let file = std::fs::File::open(path).map_err(|reason| error(reason.to_string()))?;
    let mut text = String::new();
    let mut bounded = file.take(max as u64 + 1);
    bounded.read_to_string(&mut text).map_err(|reason| error(reason.to_string()))?;
    match text.len() > max {
        true => Err(error(format!("it is longer than {max} bytes"))),
        false => Ok(text),
    }
}
