//! Whether a request meets a rule's conditions.

use alloy_dyn_abi::DynSolValue;
use alloy_primitives::{Address, I256, U256, hex};
use tenon_api::{Transaction, TransactionPayload};

use crate::{
    DecodedArgument, DecodedCall, History, Outcome, Request, Subject,
    file::{ArgumentEntry, DomainEntry},
    request::{TypedMessage, max_fee},
    rule::{Functions, NamedFunction, Recipients, Rule, Set},
};

/// The first condition of a rule that a request does not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The rule is about other kinds of requests.
    #[error("the rule is about other kinds of requests")]
    Kind,
    /// The rule is for other clients.
    #[error("the client is not among its `clients`")]
    Client,
    /// The rule is for other accounts.
    #[error("the account is not among its `accounts`")]
    Account,
    /// The rule is for other chains.
    #[error("the chain is not among its `chains`")]
    Chain,
    /// The rule is for other recipients.
    #[error("the recipient is not among its `recipients`")]
    Recipient,
    /// The rule is for other functions, or the data is not a call of one.
    #[error("the function is not among its `functions`, or the data are not a well-formed call of it")]
    Function,
    /// An argument is outside its bound.
    #[error("an argument is not among its values, or above its maximum")]
    Argument,
    /// The value is too high.
    #[error("the value is above `max-value`")]
    Value,
    /// The fee is too high.
    #[error("the highest fee is above `max-fee`")]
    Fee,
    /// The value exceeds what earlier requests left of the window.
    #[error("the value is above the rest of `max-value-in-window`")]
    ValueInWindow,
    /// The fee exceeds what earlier requests left of the window.
    #[error("the highest fee is above the rest of `max-fee-in-window`")]
    FeeInWindow,
    /// The window's number of requests is used up.
    #[error("`max-requests-in-window` is used up")]
    RequestsInWindow,
    /// Another transaction was already signed for the nonce.
    #[error("another transaction was signed for this nonce, and the rule has no `replace = true`")]
    Replacement,
    /// The transaction delegates the code of accounts.
    #[error("the transaction delegates the code of accounts, and the rule has no `delegations = true`")]
    Delegation,
    /// The rule is for other domains of typed data.
    #[error("the domain is not among its `domains`")]
    Domain,
    /// The rule is for other primary types of typed data.
    #[error("the primary type is not among its `primary-types`")]
    PrimaryType,
    /// The rule is for other messages.
    #[error("the message does not begin with one of `prefixes`, or is not text")]
    Prefix,
}

impl Mismatch {
    /// Whether the rule applies to such requests, and only a limit or a guard stops this one.
    pub(crate) const fn is_bound(self) -> bool {
        matches!(
            self,
            Self::Argument
                | Self::Value
                | Self::Fee
                | Self::ValueInWindow
                | Self::FeeInWindow
                | Self::RequestsInWindow
                | Self::Replacement
                | Self::Delegation
        )
    }
}

/// The data besides the rule that decides whether a request matches.
pub(crate) struct MatchContext<'a> {
    pub(crate) history: &'a dyn History,
    /// Seconds since 1970; never before the latest entry of the history.
    pub(crate) now: u64,
    /// The transaction's data, decoded with each interface that has the function.
    pub(crate) calls: &'a [DecodedCall],
}

impl Rule {
    /// Checks all conditions; returns the first one that the request does not meet.
    pub(crate) fn matches(&self, request: &Request, against: &MatchContext<'_>) -> Result<(), Mismatch> {
        require(self.kinds.contains(&request.kind()), Mismatch::Kind)?;
        require(self.clients.has(&request.client), Mismatch::Client)?;
        require(self.accounts.has(&request.account), Mismatch::Account)?;
        match &request.subject {
            Subject::Transaction { transaction, hash } => {
                self.matches_transaction(transaction, against)?;
                let is_permission = self.outcome != Outcome::Deny;
                let chain_id = transaction.chain_id.unwrap_or_default();
                let signed = against.history.signed_for_nonce(chain_id, request.account, transaction.nonce);
                let replaces = signed.is_some_and(|signed| signed != *hash);
                require(self.may_replace || !replaces || !is_permission, Mismatch::Replacement)?;
            }
            Subject::Message(bytes) => self.matches_message(bytes)?,
            Subject::TypedData(data) => self.matches_typed_data(data)?,
            Subject::Raw(_) => {}
            Subject::Validator(message) => require(self.chains.has(&message.chain_id), Mismatch::Chain)?,
        }
        self.matches_window(request, against)
    }

    fn matches_transaction(&self, transaction: &Transaction, against: &MatchContext<'_>) -> Result<(), Mismatch> {
        let chain = transaction.chain_id.is_some_and(|chain_id| self.chains.has(&chain_id));
        require(chain || matches!(self.chains, Set::Any), Mismatch::Chain)?;
        let is_recipient = match (&self.recipients, transaction.to) {
            (Recipients::Accounts(accounts), Some(recipient)) => accounts.has(&recipient),
            (Recipients::Creation, None) => true,
            // A rule that denies all recipients also denies contract creations.
            (Recipients::Accounts(Set::Any), None) => self.outcome == Outcome::Deny,
            _ => false,
        };
        require(is_recipient, Mismatch::Recipient)?;
        self.matches_data(transaction, against.calls)?;
        let delegates = matches!(&transaction.payload, TransactionPayload::SetCode { .. });
        require(self.may_delegate || !delegates || self.outcome == Outcome::Deny, Mismatch::Delegation)?;
        require(self.max_value.is_none_or(|max| transaction.value <= max), Mismatch::Value)?;
        require(self.max_fee.is_none_or(|max| max_fee(transaction) <= max), Mismatch::Fee)
    }

    fn matches_data(&self, transaction: &Transaction, calls: &[DecodedCall]) -> Result<(), Mismatch> {
        let data = &transaction.input;
        match &self.functions {
            Functions::Any => Ok(()),
            Functions::NoData => require(data.is_empty(), Mismatch::Function),
            Functions::Of(named) => {
                let mut mismatch = Mismatch::Function;
                for function in named {
                    match self.matches_function(function, data, calls) {
                        Ok(()) => return Ok(()),
                        Err(found) if found == Mismatch::Argument => mismatch = found,
                        Err(_) => {}
                    }
                }
                Err(mismatch)
            }
        }
    }

    fn matches_function(&self, function: &NamedFunction, data: &[u8], calls: &[DecodedCall]) -> Result<(), Mismatch> {
        let selector = data.first_chunk::<4>().ok_or(Mismatch::Function)?;
        match function {
            NamedFunction::Blind(named) => require(named.0 == *selector, Mismatch::Function),
            // A contract may accept malformed data in a way that is not known here, so a rule that denies the function
            // matches it too.
            NamedFunction::Known { selectors, .. } if self.outcome == Outcome::Deny => {
                require(selectors.iter().any(|known| known.0 == *selector), Mismatch::Function)
            }
            NamedFunction::Known { name, .. } => {
                let call = calls.iter().find(|call| call.name == *name).ok_or(Mismatch::Function)?;
                let mut bounds = self.arguments.iter().filter(|bound| bound.function == *name);
                require(bounds.all(|bound| is_within(bound, &call.arguments)), Mismatch::Argument)
            }
        }
    }

    fn matches_message(&self, bytes: &[u8]) -> Result<(), Mismatch> {
        let Some(prefixes) = &self.prefixes else { return Ok(()) };
        let text = std::str::from_utf8(bytes).map_err(|_| Mismatch::Prefix)?;
        require(prefixes.iter().any(|prefix| text.starts_with(prefix)), Mismatch::Prefix)
    }

    fn matches_typed_data(&self, data: &TypedMessage) -> Result<(), Mismatch> {
        let chain = data.domain.chain_id.and_then(|chain_id| u64::try_from(chain_id).ok());
        let is_chain = chain.is_some_and(|chain_id| self.chains.has(&chain_id));
        require(is_chain || matches!(self.chains, Set::Any), Mismatch::Chain)?;
        let is_domain =
            self.domains.as_ref().is_none_or(|domains| domains.iter().any(|domain| is_domain(domain, data)));
        require(is_domain, Mismatch::Domain)?;
        require(self.primary_types.has(&data.primary_type), Mismatch::PrimaryType)
    }

    fn matches_window(&self, request: &Request, against: &MatchContext<'_>) -> Result<(), Mismatch> {
        let Some(bounds) = &self.window else { return Ok(()) };
        let spent = against.history.spent(&self.name, against.now.saturating_sub(bounds.length));
        let (value, fee) = match is_signed(request, against.history) {
            true => (U256::ZERO, U256::ZERO),
            false => request.cost(),
        };
        let fits = |max: Option<U256>, spent: U256, more: U256| max.is_none_or(|max| spent.saturating_add(more) <= max);
        require(fits(bounds.value, spent.value, value), Mismatch::ValueInWindow)?;
        require(fits(bounds.fee, spent.fee, fee), Mismatch::FeeInWindow)?;
        require(bounds.requests.is_none_or(|max| spent.requests < max), Mismatch::RequestsInWindow)
    }
}

/// Whether this exact transaction was signed before. It then counts only once in a window.
fn is_signed(request: &Request, history: &dyn History) -> bool {
    let Subject::Transaction { transaction, hash } = &request.subject else { return false };
    let chain_id = transaction.chain_id.unwrap_or_default();
    history.signed_for_nonce(chain_id, request.account, transaction.nonce) == Some(*hash)
}

fn require(is_met: bool, mismatch: Mismatch) -> Result<(), Mismatch> {
    if is_met { Ok(()) } else { Err(mismatch) }
}

fn is_domain(wanted: &DomainEntry, data: &TypedMessage) -> bool {
    let DomainEntry { name, version, contract } = wanted;
    (name.is_none() || *name == data.domain.name)
        && (version.is_none() || *version == data.domain.version)
        && (contract.is_none() || contract.map(|written| written.0) == data.domain.contract)
}

/// Whether all arguments of that name are within the bound; `false` if there is no such argument.
fn is_within(bound: &ArgumentEntry, arguments: &[DecodedArgument]) -> bool {
    let mut named = arguments.iter().filter(|argument| argument.name == bound.name).peekable();
    named.peek().is_some() && named.all(|argument| is_value_within(bound, argument))
}

fn is_value_within(bound: &ArgumentEntry, argument: &DecodedArgument) -> bool {
    if let Some(max) = bound.max {
        return match &argument.value {
            DynSolValue::Uint(number, _) => *number <= max.0,
            DynSolValue::Int(number, _) => !number.is_negative() && number.into_raw() <= max.0,
            _ => false,
        };
    }
    let Some(values) = &bound.one_of else { return false };
    // Compares whole values, not the shortened text that is shown.
    let is_one = |is_equal: &dyn Fn(&str) -> bool| values.iter().any(|value| is_equal(value));
    match &argument.value {
        DynSolValue::Address(address) => is_one(&|value| value.parse::<Address>() == Ok(*address)),
        DynSolValue::Uint(number, _) => is_one(&|value| value.parse::<U256>().is_ok_and(|value| value == *number)),
        DynSolValue::Int(number, _) => is_one(&|value| value.parse::<I256>().is_ok_and(|value| value == *number)),
        DynSolValue::Bool(flag) => is_one(&|value| value == flag.to_string()),
        DynSolValue::String(text) => is_one(&|value| value == text),
        DynSolValue::Bytes(bytes) => is_one(&|value| hex::decode(value).is_ok_and(|value| value == *bytes)),
        DynSolValue::FixedBytes(word, length) => {
            is_one(&|value| hex::decode(value).is_ok_and(|value| Some(&value[..]) == word.get(..*length)))
        }
        // Lists and structures have no textual form here, so a rule cannot name them.
        _ => false,
    }
}
