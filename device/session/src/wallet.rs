//! A wallet: a device from closed to open, and its accounts (`docs/spec/device.md 10.4` to `10.8`).

mod opening;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use alloy_primitives::Address;
use futures_util::future::BoxFuture;
use tenon_device_transport::Transport;
use tokio::sync::watch;

use self::opening::Suspended;
use crate::operations::{GetAddress, GetFeatures, SignMessage, SignTransaction, SignTypedData, SignTypedHash};
use crate::{
    Answer, DerivationPath, DeviceError, DeviceInfo, Driver, Operation, Person, Prompt, Question, Signature, Timeouts,
    Transaction, TypedData, Unsupported, Version,
};

/// Accounts that one wallet keeps.
const MAX_ACCOUNTS: usize = 4096;

/// Counts the accounts of all wallets as they come, so that it is known which wallet had one first.
static ACCOUNTS_SO_FAR: AtomicU64 = AtomicU64::new(0);

/// How far a wallet is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenState {
    /// No connection, or nothing asked yet.
    #[default]
    Closed,
    /// The PIN must be entered.
    WaitingForPin,
    /// The passphrase must be entered.
    WaitingForPassphrase,
    /// It derives and signs.
    Open,
}

/// What is told of a wallet at once, without asking the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalletStatus {
    /// How far it is open.
    pub state: OpenState,
    /// The question of an opening that waits for an answer.
    pub asked: Option<Question>,
    /// Version of the firmware and label, once the device has told them.
    pub identity: Option<(Version, String)>,
    /// Whether its firmware signs transactions of type 2, once it has told its version.
    pub signs_fee_market: bool,
    /// What went wrong last.
    pub failure: Option<String>,
    /// Whether a request runs.
    pub is_busy: bool,
    /// Whether the device waits for a button now.
    pub is_waiting_for_button: bool,
    /// The accounts by address.
    pub accounts: BTreeMap<Address, DerivationPath>,
    /// When each account became this wallet's: a number that is greater than those of earlier accounts of any wallet.
    pub since: BTreeMap<Address, u64>,
}

impl WalletStatus {
    /// The status in the reference's words (`docs/spec/device.md 10.7`).
    pub fn text(&self) -> String {
        if let Some(failure) = &self.failure {
            return format!("Failed: {failure}");
        }
        let Some((version, label)) = self.identity.as_ref().filter(|_| self.state != OpenState::Closed) else {
            return "Closed".into();
        };
        let state = if self.state == OpenState::WaitingForPin { "waiting for PIN" } else { "online" };
        format!("Trezor v{version} '{label}' {state}")
    }
}

/// A device at a path, and its accounts. One task holds it; others read its [`WalletStatus`].
pub struct Wallet {
    transport: Arc<dyn Transport>,
    path: String,
    timeouts: Timeouts,
    driver: Option<Driver>,
    suspended: Option<Suspended>,
    status: watch::Sender<WalletStatus>,
    /// The device that the accounts belong to: another one at the same path is another wallet.
    device_id: Option<String>,
}

impl Wallet {
    /// A closed wallet for the device at a path. `status` is what others read.
    pub fn new(
        transport: Arc<dyn Transport>,
        path: String,
        timeouts: Timeouts,
        status: watch::Sender<WalletStatus>,
    ) -> Self {
        status.send_modify(|status| {
            status.state = OpenState::Closed;
            status.asked = None;
            status.is_waiting_for_button = false;
            status.is_busy = false;
        });
        Self { transport, path, timeouts, driver: None, suspended: None, status, device_id: None }
    }

    /// Keeps what a call came to where others see it.
    fn note<T>(&mut self, result: &Result<T, DeviceError>) {
        let (state, failure) = match result {
            Ok(_) => (OpenState::Open, None),
            Err(DeviceError::PinNeeded) => (OpenState::WaitingForPin, None),
            Err(DeviceError::PassphraseNeeded) => (OpenState::WaitingForPassphrase, None),
            Err(error) => {
                let text = error.to_string();
                (OpenState::Closed, Some(text.strip_prefix("trezor: ").map_or(text.clone(), str::to_owned)))
            }
        };
        if result.as_ref().is_err_and(DeviceError::is_lost) {
            self.driver = None;
            self.suspended = None;
        }
        let is_asked = self.suspended.is_some();
        self.status.send_modify(|status| {
            status.state = state;
            status.asked = status.asked.filter(|_| is_asked);
            status.failure = failure;
            status.is_waiting_for_button = false;
        });
    }

    fn driver(&mut self) -> Result<&mut Driver, DeviceError> {
        self.driver.as_mut().ok_or(DeviceError::Closed)
    }

    fn state(&self) -> OpenState {
        self.status.borrow().state
    }

    /// The address at a path; kept among the wallet's accounts if `is_pinned`, shown on the device if `is_shown`.
    ///
    /// # Errors
    /// [`DeviceError::Closed`] unless the wallet is open, and what the exchange failed with.
    pub async fn derive(
        &mut self,
        path: DerivationPath,
        is_pinned: bool,
        is_shown: bool,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Result<Address, DeviceError> {
        let operation = |_: &DeviceInfo| GetAddress::new(path.clone(), is_shown);
        let address = self.run(operation, person, cancel).await?;
        if is_pinned {
            self.status.send_modify(|status| {
                if status.accounts.len() < MAX_ACCOUNTS {
                    status.accounts.insert(address, path);
                    let number = ACCOUNTS_SO_FAR.fetch_add(1, Ordering::Relaxed);
                    status.since.entry(address).or_insert(number);
                }
            });
        }
        Ok(address)
    }

    /// Signs a transaction by an account of this wallet.
    ///
    /// # Errors
    /// As [`Wallet::derive`]; what the device can't sign is refused before it is touched.
    pub async fn sign_transaction(
        &mut self,
        account: Address,
        transaction: Transaction,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Result<Signature, DeviceError> {
        let path = self.path_of(account)?;
        let operation = |info: &DeviceInfo| SignTransaction::new(info, path, account, transaction);
        self.run(operation, person, cancel).await
    }

    /// Signs a message in the form of EIP-191 by an account of this wallet.
    ///
    /// # Errors
    /// As [`Wallet::sign_transaction`].
    pub async fn sign_message(
        &mut self,
        account: Address,
        message: Vec<u8>,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Result<Signature, DeviceError> {
        let path = self.path_of(account)?;
        let operation = |info: &DeviceInfo| SignMessage::new(info, path, account, message);
        self.run(operation, person, cancel).await
    }

    /// Signs typed data by an account of this wallet: by their hashes or their structure, as the device takes them.
    ///
    /// # Errors
    /// As [`Wallet::sign_transaction`].
    pub async fn sign_typed_data(
        &mut self,
        account: Address,
        data: TypedData,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Result<Signature, DeviceError> {
        let path = self.path_of(account)?;
        let info = self.info()?;
        if !info.is_later() {
            return Err(Unsupported::TypedData.into());
        }
        if info.is_model_one {
            let (domain, message) = (data.domain_separator, data.message_hash);
            let operation = |info: &DeviceInfo| SignTypedHash::new(info, path, account, domain, message);
            return self.run(operation, person, cancel).await;
        }
        self.run(|info: &DeviceInfo| SignTypedData::new(info, path, account, data), person, cancel).await
    }

    /// Asks whether the device is still there and still the same; closes the wallet if not. Does nothing unless it is open. Takes no
    /// longer than the device has for an answer, and does not keep it from locking itself.
    ///
    /// # Errors
    /// What the exchange failed with.
    pub async fn heartbeat(&mut self, cancel: &mut BoxFuture<'_, ()>) -> Result<(), DeviceError> {
        if self.state() != OpenState::Open {
            return Ok(());
        }
        let beat = self.driver()?.run_alone(GetFeatures, cancel).await;
        let beat = match beat {
            Ok(info) if self.device_id.as_ref() != Some(&info.device_id) => Err(DeviceError::OtherDevice),
            beat => beat.map(drop),
        };
        match &beat {
            // Nobody waited for the answer any more; that says nothing of the device.
            Ok(()) | Err(DeviceError::Cancelled) => {}
            Err(_) => {
                self.driver = None;
                self.note(&beat);
            }
        }
        beat
    }

    /// Closes the wallet: what the device does is cancelled, and the connection ends. The accounts are forgotten.
    pub async fn close(&mut self) {
        if let Some(driver) = self.driver.as_mut().filter(|_| self.suspended.is_some()) {
            // The connection ends whether the device comes along or not.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, driver.resynchronise()).await;
        }
        self.driver = None;
        self.suspended = None;
        self.device_id = None;
        self.status.send_modify(|status| *status = WalletStatus { is_busy: status.is_busy, ..WalletStatus::default() });
    }

    /// Tells others whether a request runs.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.status.send_modify(|status| status.is_busy = is_busy);
    }

    fn info(&self) -> Result<&DeviceInfo, DeviceError> {
        let info = self.driver.as_ref().and_then(Driver::info).ok_or(DeviceError::Closed)?;
        if self.state() == OpenState::Open { Ok(info) } else { Err(DeviceError::Closed) }
    }

    /// The account at a path, if it is among the wallet's.
    pub fn account_at(&self, path: &DerivationPath) -> Option<Address> {
        self.status.borrow().accounts.iter().find(|(_, known)| *known == path).map(|(address, _)| *address)
    }

    fn path_of(&self, account: Address) -> Result<DerivationPath, DeviceError> {
        self.status.borrow().accounts.get(&account).cloned().ok_or(DeviceError::UnknownAccount)
    }

    /// Runs an operation on the open device.
    async fn run<O: Operation>(
        &mut self,
        operation: impl FnOnce(&DeviceInfo) -> Result<O, DeviceError>,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Result<O::Output, DeviceError> {
        let operation = operation(self.info()?)?;
        let status = self.status.clone();
        let mut person = ShownPerson { person, status };
        let result = self.driver()?.run(operation, &mut person, cancel).await;
        self.status.send_if_modified(|status| std::mem::take(&mut status.is_waiting_for_button));
        match &result {
            Err(error) if error.is_lost() => self.note(&result),
            // The device asked for what must be entered again.
            Err(DeviceError::PinNeeded | DeviceError::PassphraseNeeded) => self.note(&result),
            _ => {}
        }
        result
    }
}

/// How long closing waits for the device.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A person whose buttons are shown in the wallet's status.
struct ShownPerson<'a> {
    person: &'a mut dyn Person,
    status: watch::Sender<WalletStatus>,
}

impl Person for ShownPerson<'_> {
    fn ask(&mut self, prompt: Prompt) -> BoxFuture<'_, Option<Answer>> {
        self.person.ask(prompt)
    }

    fn button(&mut self) {
        self.status.send_modify(|status| status.is_waiting_for_button = true);
        self.person.button();
    }
}
