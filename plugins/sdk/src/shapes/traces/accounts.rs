//! `prestateTracer`: accounts before a transaction, and after it.

use std::vec;

use tenon_api::messages::{Prestate, SignedBalance, TracedAccount, TracerDialect};

use super::JsonWriter;

/// Accounts while they are written.
pub(super) struct AccountsText {
    dialect: TracerDialect,
    /// The lists that are left, the next one last, with their names if there are two.
    left: Vec<(Option<&'static str>, vec::IntoIter<TracedAccount>)>,
    is_list_open: bool,
    is_difference: bool,
    has_begun: bool,
}

impl AccountsText {
    pub(super) fn new(prestate: Prestate, dialect: TracerDialect) -> Self {
        let is_difference = matches!(prestate, Prestate::Difference { .. });
        let left = match prestate {
            Prestate::Before(accounts) => vec![(None, accounts.into_iter())],
            Prestate::Difference { before, after } => {
                vec![(Some("pre"), before.into_iter()), (Some("post"), after.into_iter())]
            }
        };
        Self { dialect, left, is_list_open: false, is_difference, has_begun: false }
    }

    /// Writes until the text has `end` bytes. Returns whether the accounts are complete.
    pub(super) fn write(&mut self, json: &mut JsonWriter, end: usize) -> bool {
        if self.is_difference && !self.has_begun {
            json.begin_object();
        }
        self.has_begun = true;
        while let Some((name, accounts)) = self.left.last_mut() {
            if !self.is_list_open {
                self.is_list_open = true;
                if let Some(name) = name {
                    json.key(name);
                }
                json.begin_object();
            }
            for account in accounts.by_ref() {
                write_account(json, self.dialect, &account);
                if json.len() >= end {
                    return false;
                }
            }
            json.end_object();
            self.is_list_open = false;
            self.left.pop();
        }
        if self.is_difference {
            json.end_object();
        }
        true
    }
}

/// The reference writes the nonce before the code, and `storage` even if it is empty.
fn write_account(json: &mut JsonWriter, dialect: TracerDialect, account: &TracedAccount) {
    json.data_key(account.address).begin_object();
    if let Some(balance) = account.balance {
        write_balance(json.key("balance"), balance);
    }
    let is_reference = dialect == TracerDialect::Reference;
    if is_reference {
        write_nonce(json, account);
    }
    if let Some(code) = &account.code {
        json.key("code").data(code);
    }
    if !is_reference {
        write_nonce(json, account);
    }
    if is_reference || !account.slots.is_empty() {
        json.key("storage").begin_object();
        for (slot, value) in &account.slots {
            json.data_key(slot).data(value);
        }
        json.end_object();
    }
    json.end_object();
}

fn write_balance(json: &mut JsonWriter, balance: SignedBalance) {
    match balance.is_negative {
        true => json.text(&format!("0x-{:x}", balance.magnitude)),
        false => json.whole_balance(balance.magnitude),
    }
}

fn write_nonce(json: &mut JsonWriter, account: &TracedAccount) {
    if let Some(nonce) = account.nonce {
        json.key("nonce").raw(&nonce.to_string());
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{
        Address, B256, Bytes, WholeBalance,
        messages::{TraceReply, TraceResult, TraceResults},
    };

    use super::super::tests::whole_text;
    use super::*;

    fn account(is_negative: bool, slots: Vec<(B256, B256)>) -> TracedAccount {
        TracedAccount {
            address: Address::ZERO,
            balance: Some(SignedBalance { magnitude: WholeBalance::from(16), is_negative }),
            nonce: Some(-1),
            code: Some(Bytes::new()),
            slots,
        }
    }

    fn text(dialect: TracerDialect, prestate: Prestate) -> String {
        whole_text(TraceReply { dialect, results: TraceResults::Single(TraceResult::Prestate(prestate)) })
    }

    #[test]
    fn accounts_have_the_members_of_their_dialect_in_its_order() {
        let (zero, slot) = (format!("0x{}", "0".repeat(40)), format!("0x{}", "0".repeat(64)));
        let with_slot = account(false, vec![(B256::ZERO, B256::ZERO)]);

        let reference = text(TracerDialect::Reference, Prestate::Before(vec![account(true, vec![])]));
        assert_eq!(reference, format!(r#"{{"{zero}":{{"balance":"0x-10","nonce":-1,"code":"0x","storage":{{}}}}}}"#));

        let nothing = TracedAccount { balance: None, nonce: None, code: None, ..account(false, vec![]) };
        let difference = Prestate::Difference { before: vec![with_slot], after: vec![nothing.clone(), nothing] };
        let before = format!(r#"{{"balance":"0x10","code":"0x","nonce":-1,"storage":{{"{slot}":"{slot}"}}}}"#);
        assert_eq!(
            text(TracerDialect::Ethereum, difference),
            format!(r#"{{"post":{{"{zero}":{{}},"{zero}":{{}}}},"pre":{{"{zero}":{before}}}}}"#)
        );
        assert_eq!(text(TracerDialect::Ethereum, Prestate::Before(vec![])), "{}");
    }

    #[test]
    fn many_accounts_are_written_in_pieces() {
        let many = |count| vec![account(false, vec![]); count];
        let prestate = Prestate::Difference { before: many(5_000), after: many(5_000) };

        let json = text(TracerDialect::Reference, prestate);

        assert!(json.len() > 3 * super::super::PIECE_BYTES);
        assert_eq!((json.matches("balance").count(), json.matches("}{").count()), (10_000, 0));
        assert!(json.starts_with(r#"{"post":{"0x"#) && json.contains(r#"}}},"pre":{"0x"#) && json.ends_with("}}}}"));
    }
}
