//! The accounts module's handlers on the bus.

use tenon_api::messages::{
    CreateAccount, DescribeSigner, ImportKey, ListAccounts, ListWallets, LockAccount, RecoverSigner, SendTransaction,
    SignMessage, SignTransaction, SignTypedData, SignedTransactionReply, UnlockAccount, UseWallet,
};
use tenon_bus::{Bus, CallContext, RegisterError};

use crate::{WalletDirectory, key::recover_signer};

/// Registers handlers for the requests `0x0500..`. Lists are reads; signing may wait for a key derivation or for a
/// person's confirmation.
///
/// # Errors
/// [`RegisterError`] if one of them already has a handler.
pub fn register(bus: &Bus, directory: &WalletDirectory) -> Result<(), RegisterError> {
    let wallets = directory.clone();
    bus.handle_read(move |_: ListAccounts, _: &CallContext| Ok(wallets.addresses()))?;
    let wallets = directory.clone();
    bus.handle_read(move |_: ListWallets, _: &CallContext| Ok(wallets.wallets()))?;
    let wallets = directory.clone();
    bus.handle_read(move |request: LockAccount, _: &CallContext| {
        wallets.lock(request.address);
        Ok(())
    })?;
    let wallets = directory.clone();
    bus.handle_read(move |request: DescribeSigner, _: &CallContext| Ok(wallets.abilities(request.address)))?;
    let wallets = directory.clone();
    bus.handle(move |request: UseWallet, context| {
        let wallets = wallets.clone();
        async move { Ok(wallets.use_wallet(&request.url, request.operation, &context).await?) }
    })?;
    bus.handle_read(|request: RecoverSigner, _: &CallContext| {
        Ok(recover_signer(&request.message, &request.signature)?)
    })?;
    register_signing(bus, directory)?;
    register_keeping(bus, directory)
}

fn register_signing(bus: &Bus, directory: &WalletDirectory) -> Result<(), RegisterError> {
    let wallets = directory.clone();
    bus.handle(move |request: SignMessage, context| {
        let wallets = wallets.clone();
        async move {
            let SignMessage { address, message, password } = request;
            Ok(wallets.sign_message(address, &message, password.as_ref(), &context).await?)
        }
    })?;
    let wallets = directory.clone();
    bus.handle(move |request: SignTypedData, context| {
        let wallets = wallets.clone();
        async move { Ok(wallets.sign_typed_data(request, &context).await?) }
    })?;
    let wallets = directory.clone();
    bus.handle(move |request: SignTransaction, context| {
        let wallets = wallets.clone();
        async move {
            let SignTransaction { request, password } = request;
            let transaction = wallets.sign_transaction(&request, password.as_ref(), &context).await?;
            let raw = tenon_chain::encode_transaction(&transaction).into();
            Ok(SignedTransactionReply { raw, hash: transaction.hash })
        }
    })?;
    let wallets = directory.clone();
    bus.handle(move |request: SendTransaction, context| {
        let wallets = wallets.clone();
        async move { Ok(wallets.send_transaction(request, &context).await?) }
    })
}

fn register_keeping(bus: &Bus, directory: &WalletDirectory) -> Result<(), RegisterError> {
    let wallets = directory.clone();
    bus.handle(move |request: CreateAccount, context| {
        let wallets = wallets.clone();
        async move { Ok(wallets.create_account(request.password, &context).await?) }
    })?;
    let wallets = directory.clone();
    bus.handle(move |request: ImportKey, context| {
        let wallets = wallets.clone();
        async move { Ok(wallets.import_key(&request.key, request.password, &context).await?) }
    })?;
    let wallets = directory.clone();
    bus.handle(move |request: UnlockAccount, context| {
        let wallets = wallets.clone();
        async move {
            let UnlockAccount { address, password, seconds } = request;
            Ok(wallets.unlock(address, &password, seconds, &context).await?)
        }
    })
}
