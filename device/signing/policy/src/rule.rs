//! A rule in its checked form, with sets in place of lists.

use std::collections::HashSet;
use std::hash::Hash;

use alloy_primitives::{Address, Selector, U256};

use crate::{
    Interfaces, Kind, Outcome, PolicyError,
    file::{Amount, ArgumentEntry, Choice, DomainEntry, OutcomeEntry, RuleEntry, WrittenAddress},
};

/// Maximum length of a rule's name, characters.
const MAX_NAME: usize = 100;

/// A set of values, or all of them.
#[derive(Clone, Debug)]
pub(crate) enum Set<T> {
    Any,
    Of(HashSet<T>),
}

impl<T: Eq + Hash> Set<T> {
    pub(crate) fn has(&self, value: &T) -> bool {
        match self {
            Self::Any => true,
            Self::Of(values) => values.contains(value),
        }
    }
}

/// Permitted recipients of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Recipients {
    /// To an account.
    Accounts(Set<Address>),
    /// To a new contract.
    Creation,
}

/// Permitted data of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Functions {
    /// The data must be empty.
    NoData,
    Any,
    Of(Vec<NamedFunction>),
}

/// A function that a rule names.
#[derive(Clone, Debug)]
pub(crate) enum NamedFunction {
    /// By name: the data must decode as a call of it.
    Known { name: String, selectors: Vec<Selector> },
    /// By selector: the rest of the data is not checked.
    Blind(Selector),
}

/// Bounds on what is spent within a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowBounds {
    /// Seconds.
    pub(crate) length: u64,
    pub(crate) value: Option<U256>,
    pub(crate) fee: Option<U256>,
    pub(crate) requests: Option<u64>,
}

/// A checked rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) clients: Set<String>,
    pub(crate) accounts: Set<Address>,
    pub(crate) chains: Set<u64>,
    pub(crate) recipients: Recipients,
    pub(crate) functions: Functions,
    pub(crate) arguments: Vec<ArgumentEntry>,
    pub(crate) max_value: Option<U256>,
    pub(crate) max_fee: Option<U256>,
    pub(crate) window: Option<WindowBounds>,
    pub(crate) may_replace: bool,
    pub(crate) may_delegate: bool,
    pub(crate) domains: Option<Vec<DomainEntry>>,
    pub(crate) primary_types: Set<String>,
    pub(crate) prefixes: Option<Vec<String>>,
}

impl Rule {
    /// Checks a rule. A rule that allows or asks must state every property; in a rule that denies, a missing property
    /// means any.
    pub(crate) fn new(entry: RuleEntry, interfaces: &Interfaces) -> Result<Self, PolicyError> {
        let name = entry.name.clone();
        Self::checked(entry, interfaces).map_err(|reason| PolicyError::Rule { rule: shown_name(&name), reason })
    }

    fn checked(entry: RuleEntry, interfaces: &Interfaces) -> Result<Self, String> {
        if entry.name.trim().is_empty()
            || entry.name.chars().count() > MAX_NAME
            || entry.name.chars().any(char::is_control)
        {
            return Err(format!("a name has 1 to {MAX_NAME} characters, without control characters"));
        }
        if entry.kinds.is_empty() {
            return Err("`kinds` is empty: give at least one, such as \"transaction\"".to_owned());
        }
        check_words(&entry)?;
        check_keys(&entry)?;
        let is_required = entry.outcome != OutcomeEntry::Deny;
        let has = |kind| entry.kinds.contains(&kind);
        let needs_chains = entry.kinds.iter().any(|kind| !matches!(kind, Kind::Message | Kind::Raw));
        let window = window_bounds(&entry)?;
        let functions = functions(entry.functions, is_required && has(Kind::Transaction), interfaces)?;
        check_arguments(&entry.arguments, &functions, interfaces)?;
        Ok(Self {
            clients: set("clients", entry.clients, is_required)?,
            accounts: set("accounts", entry.accounts.map(addresses), is_required)?,
            chains: set("chains", entry.chains, is_required && needs_chains)?,
            recipients: recipients(entry.recipients.map(addresses), is_required && has(Kind::Transaction))?,
            functions,
            arguments: entry.arguments,
            max_value: entry.max_value.map(|Amount(wei)| wei),
            max_fee: entry.max_fee.map(|Amount(wei)| wei),
            window,
            may_replace: entry.replace,
            may_delegate: entry.delegations,
            domains: list("domains", entry.domains, is_required && has(Kind::TypedData))?,
            primary_types: set("primary-types", entry.primary_types, is_required && has(Kind::TypedData))?,
            prefixes: list("prefixes", entry.prefixes, is_required && has(Kind::Message))?,
            outcome: match entry.outcome {
                OutcomeEntry::Allow => Outcome::Allow,
                OutcomeEntry::Ask => Outcome::Ask,
                OutcomeEntry::Deny => Outcome::Deny,
            },
            name: entry.name,
            kinds: entry.kinds,
        })
    }
}

/// A rule's name for an error text: bounded, on one line.
fn shown_name(name: &str) -> String {
    name.chars().filter(|character| !character.is_control()).take(MAX_NAME).collect()
}

/// Rejects a word such as "any" that is written as a name in a list.
fn check_words(entry: &RuleEntry) -> Result<(), String> {
    let has = |choice: &Option<Choice<String>>, word: &str| matches!(choice, Some(Choice::List(names)) if names.iter().any(|name| name == word));
    let lists = [
        ("clients", &entry.clients, "any"),
        ("functions", &entry.functions, "any"),
        ("functions", &entry.functions, "none"),
    ];
    match lists.iter().find(|(_, choice, word)| has(choice, word)) {
        Some((key, _, word)) => Err(format!("`{key}`: write \"{word}\" without brackets")),
        None => Ok(()),
    }
}

/// Rejects keys that have no effect for the rule's kinds or outcome.
fn check_keys(entry: &RuleEntry) -> Result<(), String> {
    let has = |kind| entry.kinds.contains(&kind);
    let of_kind = [
        ("recipients", entry.recipients.is_some(), Kind::Transaction, "transaction"),
        ("functions", entry.functions.is_some(), Kind::Transaction, "transaction"),
        ("arguments", !entry.arguments.is_empty(), Kind::Transaction, "transaction"),
        ("max-value", entry.max_value.is_some(), Kind::Transaction, "transaction"),
        ("max-fee", entry.max_fee.is_some(), Kind::Transaction, "transaction"),
        ("max-value-in-window", entry.max_value_in_window.is_some(), Kind::Transaction, "transaction"),
        ("max-fee-in-window", entry.max_fee_in_window.is_some(), Kind::Transaction, "transaction"),
        ("replace", entry.replace, Kind::Transaction, "transaction"),
        ("delegations", entry.delegations, Kind::Transaction, "transaction"),
        ("domains", entry.domains.is_some(), Kind::TypedData, "typed-data"),
        ("primary-types", entry.primary_types.is_some(), Kind::TypedData, "typed-data"),
        ("prefixes", entry.prefixes.is_some(), Kind::Message, "message"),
    ];
    if let Some((key, .., kind)) = of_kind.iter().find(|(_, is_given, kind, _)| *is_given && !has(*kind)) {
        return Err(format!("`{key}` applies only to the kind \"{kind}\", which is not among the kinds of the rule"));
    }
    if entry.outcome != OutcomeEntry::Deny {
        return Ok(());
    }
    let of_permission = [
        ("arguments", !entry.arguments.is_empty()),
        ("max-value", entry.max_value.is_some()),
        ("max-fee", entry.max_fee.is_some()),
        ("window", entry.window.is_some()),
        ("replace", entry.replace),
        ("delegations", entry.delegations),
    ];
    match of_permission.iter().find(|(_, is_given)| *is_given) {
        Some((key, _)) => Err(format!("`{key}` is a bound for rules that allow; a rule that denies can't have it")),
        None => Ok(()),
    }
}

fn window_bounds(entry: &RuleEntry) -> Result<Option<WindowBounds>, String> {
    let bounds = WindowBounds {
        length: entry.window.map_or(0, |window| window.0),
        value: entry.max_value_in_window.map(|Amount(wei)| wei),
        fee: entry.max_fee_in_window.map(|Amount(wei)| wei),
        requests: entry.max_requests_in_window,
    };
    let has_bound = bounds.value.is_some() || bounds.fee.is_some() || bounds.requests.is_some();
    match (entry.window.is_some(), has_bound) {
        (false, false) => Ok(None),
        (true, true) => Ok(Some(bounds)),
        (true, false) => {
            Err("`window` needs `max-value-in-window`, `max-fee-in-window` or `max-requests-in-window`".to_owned())
        }
        (false, true) => Err("a bound for a window needs `window`, such as \"24h\"".to_owned()),
    }
}

/// The error text for a missing property.
fn missing(key: &str) -> String {
    format!("`{key}` is missing: write a list, or \"any\"")
}

fn set<T: Eq + Hash>(key: &str, choice: Option<Choice<T>>, is_required: bool) -> Result<Set<T>, String> {
    Ok(match list(key, choice, is_required)? {
        None => Set::Any,
        Some(values) => Set::Of(values.into_iter().collect()),
    })
}

/// `None` means any.
fn list<T>(key: &str, choice: Option<Choice<T>>, is_required: bool) -> Result<Option<Vec<T>>, String> {
    match choice {
        None if is_required => Err(missing(key)),
        None => Ok(None),
        Some(Choice::Word(word)) if word == "any" => Ok(None),
        Some(Choice::Word(word)) => Err(format!("`{key}`: \"{word}\" is not known: write a list, or \"any\"")),
        Some(Choice::List(values)) if values.is_empty() => Err(format!("`{key}` is empty: the rule would never match")),
        Some(Choice::List(values)) => Ok(Some(values)),
    }
}

fn addresses(written: Choice<WrittenAddress>) -> Choice<Address> {
    match written {
        Choice::Word(word) => Choice::Word(word),
        Choice::List(list) => Choice::List(list.into_iter().map(|written| written.0).collect()),
    }
}

fn recipients(choice: Option<Choice<Address>>, is_required: bool) -> Result<Recipients, String> {
    match choice {
        Some(Choice::Word(word)) if word == "creation" => Ok(Recipients::Creation),
        choice => set("recipients", choice, is_required).map(Recipients::Accounts),
    }
}

fn functions(choice: Option<Choice<String>>, is_required: bool, interfaces: &Interfaces) -> Result<Functions, String> {
    if choice == Some(Choice::Word("none".to_owned())) {
        return Ok(Functions::NoData);
    }
    let Some(names) = list("functions", choice, is_required)? else { return Ok(Functions::Any) };
    names.into_iter().map(|name| named_function(name, interfaces)).collect::<Result<_, _>>().map(Functions::Of)
}

fn named_function(name: String, interfaces: &Interfaces) -> Result<NamedFunction, String> {
    if name.starts_with("0x") {
        let selector = name.parse().map_err(|_| format!("`functions`: \"{name}\" is not a selector of four bytes"))?;
        return Ok(NamedFunction::Blind(selector));
    }
    let selectors: Vec<Selector> = interfaces.selectors(&name).collect();
    match selectors.is_empty() {
        true => Err(format!(
            "`functions`: no interface has \"{name}\"; write INTERFACE.FUNCTION, such as erc20.transfer, or a selector, such as 0xa9059cbb"
        )),
        false => Ok(NamedFunction::Known { name, selectors }),
    }
}

fn check_arguments(entries: &[ArgumentEntry], functions: &Functions, interfaces: &Interfaces) -> Result<(), String> {
    for ArgumentEntry { function, name, one_of, max } in entries {
        let is_named = matches!(functions, Functions::Of(named) if named.iter().any(
            |named| matches!(named, NamedFunction::Known { name, .. } if name == function)
        ));
        if !is_named {
            return Err(format!("`arguments`: the rule's `functions` do not name \"{function}\""));
        }
        if !interfaces.has_argument(function, name) {
            return Err(format!("`arguments`: \"{function}\" has no argument \"{name}\""));
        }
        if one_of.is_none() == max.is_none() {
            return Err(format!("`arguments`: \"{function}\", \"{name}\": give either `one-of` or `max`"));
        }
    }
    Ok(())
}
