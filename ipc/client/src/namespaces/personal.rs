//! `personal`: the accounts of a node. Methods that take a password are called with
//! [`Client::call_with_secret`](crate::Client::call_with_secret).

use alloy_primitives::Address;
use jsonrpsee::proc_macros::rpc;

/// The accounts of a node.
#[rpc(client, namespace = "personal")]
pub trait Personal {
    /// Addresses of all accounts.
    #[method(name = "listAccounts")]
    async fn personal_accounts(&self) -> RpcResult<Vec<Address>>;

    /// Forgets the key of an unlocked account.
    #[method(name = "lockAccount")]
    async fn lock_account(&self, account: Address) -> RpcResult<bool>;
}
