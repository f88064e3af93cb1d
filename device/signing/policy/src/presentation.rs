//! What a person reads before an approval.

use alloy_primitives::{Address, hex};
use serde::{Deserialize, Serialize};
use tenon_api::{Transaction, TransactionPayload};

use crate::{
    DisplayText, Interfaces, Kind, Request, Subject, TypedMessage, ValidatorMessage,
    amount::show_amount,
    approval::unlimited_approval,
    interfaces::{MAX_SHOWN_BYTES, shown_bytes},
    request::max_fee,
};

/// Maximum number of lines.
const MAX_LINES: usize = 200;
/// Maximum number of accounts of an access list, and of storage keys of each.
const MAX_LISTED: usize = 8;

/// A line: a label and a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The label.
    pub label: String,
    /// The value, on one line.
    pub value: String,
}

/// A warning for the person who approves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warning {
    /// The call approves another account for an unlimited amount of tokens.
    #[display("this allows another account to transfer an unlimited amount of tokens")]
    UnlimitedApproval,
    /// The meaning of the data is unknown.
    #[display("the meaning of the data is unknown")]
    Blind,
    /// The transaction creates a contract.
    #[display("this creates a contract")]
    Creation,
    /// The transaction delegates the code of accounts.
    #[display("this delegates accounts to the code of contracts")]
    Delegation,
    /// Characters that could mislead were removed from a text.
    #[display("misleading characters were removed")]
    HiddenCharacters,
    /// Something is too long to be shown completely.
    #[display("some content is not shown")]
    Cut,
}

/// What a person reads before an approval. It describes the whole request; the hash binds the approval to what is
/// signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Presentation {
    /// One line that states what would be signed.
    pub title: String,
    /// The details.
    pub lines: Vec<Line>,
    /// The warnings, each at most once; `marks` in JSON.
    #[serde(rename = "marks")]
    pub warnings: Vec<Warning>,
}

impl Presentation {
    /// Presents a request.
    pub fn new(request: &Request, interfaces: &Interfaces) -> Self {
        let mut shown = Self { title: String::new(), lines: Vec::new(), warnings: Vec::new() };
        shown.text("Asked by", &request.client);
        shown.line("Account", request.account.to_checksum(None));
        match &request.subject {
            Subject::Transaction { transaction, hash } => {
                shown.transaction(transaction, interfaces);
                shown.line("Hash to sign", hash.to_string());
            }
            Subject::Message(bytes) => shown.message(bytes),
            Subject::TypedData(data) => shown.typed_data(data),
            Subject::Raw(bytes) => {
                shown.title = "Sign bytes of unknown meaning".to_owned();
                shown.warn(Warning::Blind);
                shown.bytes("Bytes", bytes);
            }
            Subject::Validator(message) => shown.validator(message),
        }
        if shown.lines.len() > MAX_LINES {
            shown.lines.truncate(MAX_LINES);
            shown.warn(Warning::Cut);
        }
        shown
    }

    fn transaction(&mut self, transaction: &Transaction, interfaces: &Interfaces) {
        self.title = match (transaction.to, transaction.input.is_empty()) {
            (None, _) => "Create a contract".to_owned(),
            (Some(_), true) => format!("Send {}", show_amount(transaction.value)),
            (Some(_), false) => "Call a contract".to_owned(),
        };
        self.line("Chain", transaction.chain_id.map_or_else(|| "none".to_owned(), |chain_id| chain_id.to_string()));
        match transaction.to {
            Some(recipient) => self.line("To", recipient.to_checksum(None)),
            None => {
                self.warn(Warning::Creation);
                self.line("To", "a new contract".to_owned());
            }
        }
        self.line("Value", show_amount(transaction.value));
        self.line("Highest fee", show_amount(max_fee(transaction)));
        self.line("Gas", transaction.gas_limit.to_string());
        self.line("Nonce", transaction.nonce.to_string());
        self.payload(&transaction.payload);
        match transaction.to {
            Some(contract) if !transaction.input.is_empty() => {
                self.describe_call(contract, &transaction.input, interfaces)
            }
            None => self.bytes("Code", &transaction.input),
            _ => {}
        }
    }

    fn payload(&mut self, payload: &TransactionPayload) {
        let access_list = match payload {
            TransactionPayload::Legacy { .. } => return,
            TransactionPayload::AccessList { access_list, .. }
            | TransactionPayload::DynamicFee { access_list, .. }
            | TransactionPayload::Blob { access_list, .. }
            | TransactionPayload::SetCode { access_list, .. } => access_list,
        };
        for entry in access_list.iter().take(MAX_LISTED) {
            let keys = entry.storage_keys.iter().take(MAX_LISTED).map(ToString::to_string);
            let keys: Vec<String> = keys.collect();
            self.line("Access list", [&[entry.address.to_checksum(None)], &keys[..]].concat().join(" "));
        }
        if access_list.len() > MAX_LISTED || access_list.iter().any(|entry| entry.storage_keys.len() > MAX_LISTED) {
            self.warn(Warning::Cut);
            self.line("Access list (complete)", format!("{} accounts", access_list.len()));
        }
        if let TransactionPayload::SetCode { authorization_list, .. } = payload {
            self.warn(Warning::Delegation);
            for authorization in authorization_list {
                let code = authorization.address.to_checksum(None);
                self.line(
                    "Delegates to",
                    format!("{code}, chain {}, nonce {}", authorization.chain_id, authorization.nonce),
                );
            }
        }
    }

    fn describe_call(&mut self, contract: Address, data: &[u8], interfaces: &Interfaces) {
        if let Some(spender) = unlimited_approval(data) {
            self.warn(Warning::UnlimitedApproval);
            self.line("Unlimited approval for", Address::from(spender).to_checksum(None));
        }
        let calls = interfaces.decode(contract, data);
        if calls.is_empty() {
            self.warn(Warning::Blind);
        }
        for call in calls {
            self.title = format!("Call {}", DisplayText::new(&call.name));
            self.text("Function", &call.signature);
            for (position, argument) in call.arguments.iter().enumerate() {
                let name = match argument.name.is_empty() {
                    true => format!("Argument {}", position + 1),
                    false => argument.name.clone(),
                };
                self.text(&format!("{name} ({})", argument.kind), &argument.text());
            }
        }
        self.bytes("Data", data);
    }

    fn message(&mut self, bytes: &[u8]) {
        self.title = "Sign a message".to_owned();
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                text.split('\n').take(MAX_LINES).for_each(|line| self.text("Message", line.trim_end_matches('\r')))
            }
            Err(_) => {
                self.warn(Warning::Blind);
                self.bytes("Message (not text)", bytes);
            }
        }
        self.line("Length", format!("{} bytes", bytes.len()));
    }

    fn typed_data(&mut self, data: &TypedMessage) {
        self.title = format!("Sign typed data: {}", DisplayText::new(&data.primary_type));
        let domain = &data.domain;
        self.text("Program", domain.name.as_deref().unwrap_or("not named"));
        if let Some(version) = &domain.version {
            self.text("Version", version);
        }
        self.line("Chain", domain.chain_id.map_or_else(|| "any".to_owned(), |chain_id| chain_id.to_string()));
        if let Some(contract) = domain.contract {
            self.line("Contract", contract.to_checksum(None));
        }
        self.line("Hash to sign", data.hash.to_string());
        // The prefix keeps member names, which the client chooses, from imitating the labels above.
        self.members("domain", &domain.others);
        self.members("message", &data.members);
    }

    fn members(&mut self, of: &str, members: &[(String, String)]) {
        for (name, value) in members.iter().take(MAX_LINES) {
            self.text(&format!("{of}.{name}"), value);
        }
        if members.len() > MAX_LINES {
            self.warn(Warning::Cut);
        }
    }

    fn validator(&mut self, message: &ValidatorMessage) {
        let what = match message.kind {
            Kind::Seal => "a block",
            Kind::Vote => "a vote",
            Kind::Timeout => "a timeout",
            _ => "sync info",
        };
        self.title = format!("Sign {what} of round {}", message.round);
        self.line("Chain", message.chain_id.to_string());
        if let Some(number) = message.number {
            self.line("Block", number.to_string());
        }
        self.line("Hash to sign", hex::encode_prefixed(message.hash));
    }

    fn warn(&mut self, warning: Warning) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Adds a line whose value was produced by this program.
    fn line(&mut self, label: &str, value: String) {
        self.lines.push(Line { label: label.to_owned(), value });
    }

    /// Adds a line with bytes, of which only the first ones are shown.
    fn bytes(&mut self, label: &str, bytes: &[u8]) {
        if bytes.len() > MAX_SHOWN_BYTES {
            self.warn(Warning::Cut);
        }
        self.line(label, shown_bytes(bytes));
    }

    /// Adds a line whose label or value comes from the client.
    fn text(&mut self, label: &str, value: &str) {
        let (label, value) = (DisplayText::new(label), DisplayText::new(value));
        if label.removed() + value.removed() > 0 {
            self.warn(Warning::HiddenCharacters);
        }
        if label.is_cut() || value.is_cut() {
            self.warn(Warning::Cut);
        }
        self.lines.push(Line { label: label.as_str().to_owned(), value: value.as_str().to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use alloy_dyn_abi::{DynSolValue, JsonAbiExt as _};
    use alloy_json_abi::Function;
    use alloy_primitives::{B256, U256};
    use tenon_api::TransactionSignature;

    use super::*;
    use crate::Domain;

    fn shown(subject: Subject, interfaces: &Interfaces) -> Presentation {
        let request = Request { client: "shop".to_owned(), account: Address::ZERO, subject };
        Presentation::new(&request, interfaces)
    }

    fn values<'a>(shown: &'a Presentation, label: &str) -> Vec<&'a str> {
        shown.lines.iter().filter(|line| line.label == label).map(|line| line.value.as_str()).collect()
    }

    #[test]
    fn members_of_typed_data_can_not_pass_for_other_lines() {
        let own = ["Asked by", "Account", "Program", "Version", "Chain", "Contract", "Hash to sign"];
        let imitate = |value: &str| own.map(|label| (label.to_owned(), value.to_owned())).to_vec();
        let domain = Domain { chain_id: Some(U256::from(50)), others: imitate("of the domain"), ..Domain::default() };
        let data =
            TypedMessage { domain, primary_type: "T".to_owned(), hash: B256::ZERO, members: imitate("of the message") };

        let shown = shown(Subject::TypedData(Box::new(data)), &Interfaces::default());

        for label in own {
            assert!(!values(&shown, label).iter().any(|value| value.starts_with("of the ")), "{label}");
            assert_eq!(values(&shown, &format!("message.{label}")), ["of the message"]);
            assert_eq!(values(&shown, &format!("domain.{label}")), ["of the domain"]);
        }
        assert_eq!(values(&shown, "Chain"), ["50"]);
    }

    #[test]
    fn many_members_leave_the_hash_in_its_place() {
        let members = vec![("a".to_owned(), "b".to_owned()); 1_000];
        let data = TypedMessage { domain: Domain::default(), primary_type: "T".to_owned(), hash: B256::ZERO, members };

        let shown = shown(Subject::TypedData(Box::new(data)), &Interfaces::default());

        assert_eq!(values(&shown, "Hash to sign").len(), 1);
        assert_eq!((shown.lines.len(), shown.warnings.as_slice()), (MAX_LINES, &[Warning::Cut][..]));
    }

    #[test]
    fn hidden_characters_in_an_argument_are_marked() {
        let json = r#"[{"type":"function","name":"note","inputs":[{"name":"text","type":"string[]"}],"outputs":[],"stateMutability":"view"}]"#;
        let mut interfaces = Interfaces::default();
        interfaces.add("notes", json, None).unwrap();
        let function = Function::parse("note(string[])").unwrap();
        let call = |text: &str| {
            let list = DynSolValue::Array(vec![DynSolValue::String(text.to_owned())]);
            let transaction = Transaction {
                chain_id: Some(50),
                nonce: 0,
                gas_limit: 0,
                to: Some(Address::ZERO),
                value: U256::ZERO,
                input: function.abi_encode_input(&[list]).unwrap().into(),
                payload: TransactionPayload::Legacy { gas_price: U256::ZERO },
                signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
                hash: B256::ZERO,
            };
            shown(Subject::Transaction { transaction: Box::new(transaction), hash: B256::ZERO }, &interfaces)
        };

        let plain = call("pay 1000");
        assert_eq!(values(&plain, "text (string[])"), ["[\"pay 1000\"]"]);
        assert!(!plain.warnings.contains(&Warning::HiddenCharacters));
        let hidden = call("pay \u{202e}0001");
        assert_eq!(values(&hidden, "text (string[])"), ["[\"pay 0001\"]"]);
        assert!(hidden.warnings.contains(&Warning::HiddenCharacters));
        assert!(call(&"x".repeat(2_000)).warnings.contains(&Warning::Cut));
    }
}
