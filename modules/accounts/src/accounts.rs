//! The accounts of a mnemonic, for development networks.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use tenon_api::{
    AccountRefusal, Address, B256, BlockSigner, SignError, Transaction,
    messages::{CallRequest, Wallet, WalletAccount, WalletStatus},
};
use zeroize::Zeroizing;

use crate::{
    AccountsError, derivation,
    key::{HashSignature, Key},
    keystore_wallets::KeySigner,
    port::{Authority, KeyPlace, Signer, WalletBackend},
    transaction,
};

/// URL of the wallet of a mnemonic. It does not contain the words.
const URL: &str = "development://mnemonic";

/// Maximum number of accounts derived from one mnemonic.
pub const MAX_ACCOUNTS: u32 = 1000;

/// The always unlocked keys of a development network's mnemonic. Clones share them.
#[derive(Clone, Debug)]
pub struct Accounts {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    chain_id: u64,
    /// In the order of the derivation path: account 0 first.
    keys: Vec<Arc<Key>>,
    /// Position in `keys`.
    positions: HashMap<Address, usize>,
}

/// An account together with its secret key in plain text.
///
/// For the banner of a development network, whose keys are public anyway.
pub struct RevealedAccount {
    /// The address.
    pub address: Address,
    /// `0x` and 64 hexadecimal digits.
    pub secret_key: Zeroizing<String>,
}

impl Accounts {
    /// An empty set of accounts.
    pub fn none(chain_id: u64) -> Self {
        Self::from_keys(Vec::new(), chain_id)
    }

    /// The first `count` accounts of a mnemonic, on the path `m/44'/60'/0'/0/i`. Transactions are signed for
    /// `chain_id`.
    ///
    /// # Errors
    /// [`AccountsError::InvalidMnemonic`], [`AccountsError::TooManyAccounts`] beyond [`MAX_ACCOUNTS`].
    pub fn from_mnemonic(phrase: &str, count: u32, chain_id: u64) -> Result<Self, AccountsError> {
        if count > MAX_ACCOUNTS {
            return Err(AccountsError::TooManyAccounts { wanted: count, max: MAX_ACCOUNTS });
        }
        Ok(Self::from_keys(derivation::keys(phrase, 0, count)?, chain_id))
    }

    /// The keys of a development network's masternode: its own, its owner's and the foundation's, on the path
    /// `m/44'/60'/1'/0/i`, separate from the funded accounts.
    ///
    /// # Errors
    /// [`AccountsError::InvalidMnemonic`].
    pub fn masternode_from_mnemonic(phrase: &str, chain_id: u64) -> Result<Self, AccountsError> {
        Ok(Self::from_keys(derivation::keys(phrase, 1, 3)?, chain_id))
    }

    /// The block signer of an account; `None` if the account is not one of these.
    pub fn block_signer(&self, address: Address) -> Option<Arc<dyn BlockSigner>> {
        self.key(address).ok().map(|key| Arc::new(KeyBlockSigner(Arc::clone(key))) as Arc<dyn BlockSigner>)
    }

    fn from_keys(keys: Vec<Key>, chain_id: u64) -> Self {
        let keys: Vec<_> = keys.into_iter().map(Arc::new).collect();
        let positions = keys.iter().enumerate().map(|(position, key)| (key.address(), position)).collect();
        Self { inner: Arc::new(Inner { chain_id, keys, positions }) }
    }

    /// All addresses, account 0 first.
    pub fn addresses(&self) -> Vec<Address> {
        self.inner.keys.iter().map(|key| key.address()).collect()
    }

    /// Every account with its secret key. Only for the development banner.
    pub fn reveal(&self) -> Vec<RevealedAccount> {
        let reveal = |key: &Arc<Key>| RevealedAccount { address: key.address(), secret_key: key.reveal() };
        self.inner.keys.iter().map(reveal).collect()
    }

    /// Signs a complete transaction of type 0, 1, 2 or 4 with the key of its `from`.
    ///
    /// The members decide the type, as elsewhere in this protocol: an authorization list makes it type 4, a fee cap
    /// type 2, an access list type 1. Type 0 is replay-protected (EIP-155).
    ///
    /// # Errors
    /// [`AccountRefusal`], also without `from`; [`AccountsError::NoBlobs`].
    pub fn sign_transaction(&self, request: &CallRequest) -> Result<Transaction, AccountsError> {
        let key = self.key(request.from.ok_or(AccountRefusal::UnknownAccount)?)?;
        let mut transaction = transaction::unsigned(request, self.inner.chain_id)?;
        let signature = key.sign(tenon_chain::signing_hash(&transaction)).ok_or(AccountRefusal::UnknownAccount)?;
        transaction::attach(&mut transaction, signature, self.inner.chain_id);
        Ok(transaction)
    }

    fn key(&self, address: Address) -> Result<&Arc<Key>, AccountsError> {
        let position = self.inner.positions.get(&address).ok_or(AccountRefusal::UnknownAccount)?;
        Ok(self.inner.keys.get(*position).ok_or(AccountRefusal::UnknownAccount)?)
    }
}

/// Signs blocks with a key that is always unlocked.
struct KeyBlockSigner(Arc<Key>);

impl BlockSigner for KeyBlockSigner {
    fn address(&self) -> Address {
        self.0.address()
    }

    fn sign(&self, digest: B256) -> Result<[u8; 65], SignError> {
        let no_key = || SignError {
            address: self.address(),
            reason: AccountRefusal::UnknownAccount.to_string(),
            is_pending: false,
        };
        self.0.sign(digest).map(HashSignature::to_block_bytes).ok_or_else(no_key)
    }
}

#[async_trait]
impl WalletBackend for Accounts {
    fn scheme(&self) -> &'static str {
        "development"
    }

    fn key_place(&self) -> KeyPlace {
        KeyPlace::Node
    }

    fn is_always_unlocked(&self) -> bool {
        true
    }

    fn wallets(&self) -> Vec<Wallet> {
        if self.inner.keys.is_empty() {
            return Vec::new();
        }
        let accounts =
            self.inner.keys.iter().enumerate().map(|(index, key)| WalletAccount {
                address: key.address(),
                url: format!("{URL}/m/44'/60'/0'/0/{index}"),
            });
        vec![Wallet {
            url: URL.to_owned(),
            status: WalletStatus::Unlocked,
            failure: None,
            accounts: accounts.collect(),
        }]
    }

    fn addresses(&self) -> Vec<Address> {
        Self::addresses(self)
    }

    fn has_key(&self, address: Address) -> bool {
        self.inner.positions.contains_key(&address)
    }

    async fn signer(&self, address: Address, _authority: Authority<'_>) -> Result<Box<dyn Signer>, AccountsError> {
        Ok(Box::new(KeySigner(Arc::clone(self.key(address)?))))
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{address, hex};
    use tenon_config::DEVELOPMENT_MNEMONIC;

    use super::*;

    fn dev() -> Accounts {
        Accounts::from_mnemonic(DEVELOPMENT_MNEMONIC, 10, 31337).unwrap()
    }

    #[test]
    fn derives_the_well_known_development_accounts() {
        let revealed = dev().reveal();

        assert_eq!(revealed[0].address, address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266"));
        let first = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
        assert_eq!(*revealed[0].secret_key, first);
        assert_eq!(revealed[1].address, address!("70997970C51812dc3A010C7d01b50e0d17dc79C8"));
        assert_eq!(revealed[9].address, address!("a0Ee7A142d267C1f36714E4a8F75612F20a79720"));
        assert_eq!(revealed.len(), 10);
    }

    #[test]
    fn spaces_around_the_words_do_not_matter() {
        let spaced = format!("  {}\n", DEVELOPMENT_MNEMONIC.replace(' ', "  "));

        let accounts = Accounts::from_mnemonic(&spaced, 1, 1).unwrap();

        assert_eq!(accounts.addresses(), dev().addresses()[..1]);
    }

    #[test]
    fn refuses_bad_mnemonics_without_repeating_a_word_of_them() {
        let cases = [
            "",
            "test",
            "test test test test test test test test test test test test",
            "test test test test test test test test test test test nonsense",
        ];
        for phrase in cases {
            let error = Accounts::from_mnemonic(phrase, 1, 1).unwrap_err();

            assert!(matches!(error, AccountsError::InvalidMnemonic), "{phrase:?}");
            assert!(!error.to_string().contains("nonsense"));
        }
    }

    #[test]
    fn refuses_more_accounts_than_the_limit() {
        let error = Accounts::from_mnemonic(DEVELOPMENT_MNEMONIC, MAX_ACCOUNTS + 1, 1).unwrap_err();

        assert!(matches!(error, AccountsError::TooManyAccounts { wanted: 1001, max: 1000 }));
    }

    #[test]
    fn debug_output_holds_no_secret() {
        let accounts = dev();
        let printed = format!("{accounts:?}").to_lowercase();

        for revealed in accounts.reveal() {
            assert!(!printed.contains(&revealed.secret_key[2..]));
        }
    }

    #[test]
    fn an_account_is_own_if_its_key_is_present() {
        let accounts = dev();

        assert!(accounts.addresses().into_iter().all(|address| accounts.has_key(address)));
        assert!(!accounts.has_key(address!("00000000000000000000000000000000000000aa")));
    }

    #[test]
    fn the_secret_is_shown_as_prefixed_hexadecimal() {
        let shown = dev().reveal().remove(3).secret_key;

        assert_eq!(hex::decode(shown.as_str()).unwrap().len(), 32);
        assert!(shown.starts_with("0x"));
    }
}
