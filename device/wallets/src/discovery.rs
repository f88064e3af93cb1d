//! Finding the accounts of a wallet that were used: one index after the other, up to the first that has neither balance nor
//! nonce (`docs/spec/device.md 10.7`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenon_api::messages::GetAccount;
use tenon_api::{Address, BlockId};
use tenon_bus::CallContext;
use tenon_device_session::{DerivationPath, DeviceError, NoPerson, WalletHandle};
use tokio::time::Instant;

use crate::running::{Running, warn_of_second};

/// How often accounts of one wallet are looked for at most.
const SEARCH_EVERY: Duration = Duration::from_secs(1);

/// Accounts that are found by themselves; further ones are derived on request.
const MAX_FOUND: u32 = 1000;

/// How long the device may be busy with others before the search is left for another time.
const TURN_LIMIT: Duration = Duration::from_secs(2);

/// The searches by URL of the wallet.
#[derive(Clone, Default)]
pub(crate) struct Discoveries {
    /// Nothing awaits under the lock.
    searches: Arc<Mutex<HashMap<String, Search>>>,
}

#[derive(Clone, Copy, Default)]
struct Search {
    began: Option<Instant>,
    is_running: bool,
    /// The first index that was not found used yet, and its address once the device has told it.
    next: u32,
    candidate: Option<Address>,
}

/// The right to search, given back on drop.
pub(crate) struct Turn {
    url: String,
    search: Search,
    of: Discoveries,
}

impl Discoveries {
    /// A turn, unless accounts are looked for already or were within the last second.
    pub(crate) fn turn(&self, url: &str) -> Option<Turn> {
        let mut searches = self.lock();
        let search = searches.entry(url.to_owned()).or_default();
        if search.is_running || search.began.is_some_and(|began| began.elapsed() < SEARCH_EVERY) {
            return None;
        }
        search.is_running = true;
        search.began = Some(Instant::now());
        Some(Turn { url: url.to_owned(), search: *search, of: self.clone() })
    }

    /// Begins anew with the next search: another passphrase has other accounts.
    pub(crate) fn forget(&self, url: &str) {
        self.lock().remove(url);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Search>> {
        self.searches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Derives and keeps accounts up to the first that was never used, which is kept, too.
    pub(crate) async fn search(
        mut self,
        running: &Running,
        url: &str,
        handle: &WalletHandle,
    ) -> Result<(), DeviceError> {
        while self.search.next < MAX_FOUND {
            let address = match self.search.candidate {
                Some(address) => address,
                None => {
                    let (path, deadline) = (DerivationPath::account(self.search.next), Instant::now() + TURN_LIMIT);
                    let address = handle.derive(path, true, false, Box::new(NoPerson), deadline).await?;
                    warn_of_second(&running.hub, url, address);
                    address
                }
            };
            self.search.candidate = Some(address);
            let state = running.bus.call(GetAccount { address, block: BlockId::LATEST }, &CallContext::new()).await;
            // Without a chain's state, or without balance and nonce, it is as good as unused.
            if !state.is_ok_and(|account| account.nonce > 0 || !account.whole_balance().is_zero()) {
                return Ok(());
            }
            tracing::info!(url, %address, "USB wallet discovered new account");
            self.search.next += 1;
            self.search.candidate = None;
        }
        Ok(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A wallet that was forgotten meanwhile begins anew.
        if let Some(search) = self.of.lock().get_mut(&self.url).filter(|search| search.began == self.search.began) {
            *search = Search { is_running: false, ..self.search };
        }
    }
}
