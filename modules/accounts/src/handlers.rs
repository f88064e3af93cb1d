use tenon_api::messages::{ListAccounts, SignMessage, SignTransaction, SignedTransactionReply};
use tenon_bus::{Bus, CallContext, RegisterError};

use crate::Accounts;

/// Answers the requests `0x0500..`. A signature takes some forty microseconds, so all are read handlers.
///
/// # Errors
/// [`RegisterError`] when another module answers one of them already.
pub fn register(bus: &Bus, accounts: &Accounts) -> Result<(), RegisterError> {
    let keys = accounts.clone();
    bus.handle_read(move |_: ListAccounts, _: &CallContext| Ok(keys.addresses()))?;
    let keys = accounts.clone();
    bus.handle_read(move |request: SignMessage, _: &CallContext| {
        Ok(keys.sign_message(request.address, &request.message)?)
    })?;
    let keys = accounts.clone();
    bus.handle_read(move |request: SignTransaction, _: &CallContext| {
        let transaction = keys.sign_transaction(&request.request)?;
        let raw = tenon_chain::encode_transaction(&transaction).into();
        Ok(SignedTransactionReply { raw, hash: transaction.hash })
    })
}

#[cfg(test)]
mod tests {
    use tenon_api::messages::CallRequest;

    use super::*;
    use crate::DEV_MNEMONIC;

    #[test]
    fn answers_on_the_bus() {
        let bus = Bus::new();
        let accounts = Accounts::from_mnemonic(DEV_MNEMONIC, 2, 1).unwrap();

        register(&bus, &accounts).unwrap();

        let listed = bus.try_read(ListAccounts, &CallContext::new()).unwrap().unwrap();
        assert_eq!(listed, accounts.addresses());
        let refused = bus.try_read(SignTransaction { request: CallRequest::default() }, &CallContext::new());
        assert_eq!(refused.unwrap().unwrap_err().message, "unknown account");
    }
}
