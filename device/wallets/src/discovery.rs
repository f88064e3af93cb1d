//! Discovery of a wallet's used accounts: checks one index after the other, up to the first without balance and nonce
//! (`docs/spec/device.md 10.7`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenon_api::messages::GetAccount;
use tenon_api::{Address, BlockId};
use tenon_bus::CallContext;
use tenon_device_session::{DerivationPath, DeviceError, NoPerson, WalletHandle};
use tokio::time::Instant;

use crate::running::{Running, warn_of_second};

/// Minimum interval between searches of one wallet.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of discovered accounts; further ones are derived on request.
const MAX_FOUND: u32 = 1000;

/// Time for which a search waits for a busy device before it gives up until the next one.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(2);

/// The searches, by URL of the wallet.
#[derive(Clone, Default)]
pub(crate) struct Discoveries {
    /// Not locked across an await.
    searches: Arc<Mutex<HashMap<String, Search>>>,
}

#[derive(Clone, Copy, Default)]
struct Search {
    began: Option<Instant>,
    is_running: bool,
    /// The first index whose account is not known to be used, and its address once the device has derived it.
    next: u32,
    candidate: Option<Address>,
}

/// The permission to run one search of a wallet. Its drop ends the search.
pub(crate) struct SearchPermit {
    url: String,
    search: Search,
    of: Discoveries,
}

impl Discoveries {
    /// Returns a permit, unless a search is running or began within the last second.
    pub(crate) fn begin_search(&self, url: &str) -> Option<SearchPermit> {
        let mut searches = self.searches.lock();
        let search = searches.entry(url.to_owned()).or_default();
        if search.is_running || search.began.is_some_and(|began| began.elapsed() < SEARCH_INTERVAL) {
            return None;
        }
        search.is_running = true;
        search.began = Some(Instant::now());
        Some(SearchPermit { url: url.to_owned(), search: *search, of: self.clone() })
    }

    /// Makes the next search start from the first index, because another passphrase has other accounts.
    pub(crate) fn forget(&self, url: &str) {
        self.searches.lock().remove(url);
    }
}

impl SearchPermit {
    /// Derives accounts and adds them to the wallet, up to and including the first unused one.
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
                    let (path, deadline) = (DerivationPath::account(self.search.next), Instant::now() + DEVICE_TIMEOUT);
                    let address = handle.derive(path, true, false, Box::new(NoPerson), deadline).await?;
                    warn_of_second(&running.hub, url, address);
                    address
                }
            };
            self.search.candidate = Some(address);
            let state = running.bus.call(GetAccount { address, block: BlockId::LATEST }, &CallContext::new()).await;
            // An account without balance and nonce counts as unused, and so does one whose state cannot be read.
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

impl Drop for SearchPermit {
    fn drop(&mut self) {
        // Does nothing if `Discoveries::forget` was called in the meantime.
        let mut searches = self.of.searches.lock();
        if let Some(search) = searches.get_mut(&self.url).filter(|search| search.began == self.search.began) {
            *search = Search { is_running: false, ..self.search };
        }
    }
}
