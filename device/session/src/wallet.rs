//! A wallet: the life of a device from closed to open, and its accounts (`docs/spec/device.md 10.4` to `10.8`).

mod opening;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use alloy_primitives::Address;
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tenon_api::messages::{DeviceName, DeviceStatus};
use tenon_device_transport::Transport;
use tokio::sync::watch;

use self::opening::Suspended;
use crate::operations::{GetAddress, GetFeatures, SignMessage, SignTransaction, SignTypedData, SignTypedHash};
use crate::{
    Answer, DerivationPath, DeviceError, DeviceInfo, Driver, NumberedPrompt, Operation, Person, Prompt, Signature,
    Timeouts, Transaction, TypedData, Unsupported, Version,
};

/// Maximum number of accounts of one wallet.
const MAX_ACCOUNTS: usize = 4096;

/// Counts additions of accounts to all wallets, to determine which wallet had an account first.
static ACCOUNTS_SO_FAR: AtomicU64 = AtomicU64::new(0);

/// How far a wallet is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenState {
    /// Not connected, or not opened yet.
    #[default]
    Closed,
    /// The PIN must be entered.
    WaitingForPin,
    /// The passphrase must be entered.
    WaitingForPassphrase,
    /// The wallet can derive and sign.
    Open,
}

/// Status of a wallet, which is available without asking the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalletStatus {
    /// How far it is open.
    pub state: OpenState,
    /// The prompt of an opening that waits for an answer.
    pub asked: Option<NumberedPrompt>,
    /// Firmware version and label, once the device has reported them.
    pub identity: Option<(Version, String)>,
    /// Whether the firmware signs transactions of type 2; `false` until its version is known.
    pub signs_fee_market: bool,
    /// The latest error.
    pub failure: Option<DeviceError>,
    /// Whether a request is running.
    pub is_busy: bool,
    /// Whether the device waits for a button now.
    pub is_waiting_for_button: bool,
    /// The accounts, by address.
    pub accounts: BTreeMap<Address, DerivationPath>,
    /// When each account was added to this wallet, as a number that increases over all wallets.
    pub since: BTreeMap<Address, u64>,
}

impl WalletStatus {
    /// The status for a listing of wallets (`docs/spec/device.md 10.7`).
    pub fn device_status(&self) -> DeviceStatus {
        let Some((Version(major, minor, patch), label)) = &self.identity else { return DeviceStatus::Closed };
        let name = DeviceName { version: [*major, *minor, *patch], label: label.clone() };
        match self.state {
            OpenState::Closed => DeviceStatus::Closed,
            OpenState::WaitingForPin => DeviceStatus::WaitingForPin(name),
            OpenState::WaitingForPassphrase | OpenState::Open => DeviceStatus::Online(name),
        }
    }
}

/// A device at a path, and its accounts. One task owns it; others read its [`WalletStatus`].
pub struct Wallet {
    transport: Arc<dyn Transport>,
    path: String,
    timeouts: Timeouts,
    driver: Option<Driver>,
    suspended: Option<Suspended>,
    status: watch::Sender<WalletStatus>,
    /// Id of the device to which the accounts belong. Another device at the same path is another wallet.
    device_id: Option<String>,
}

impl Wallet {
    /// Creates a closed wallet for the device at a path, which publishes its state in `status`.
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

    /// Publishes the result of a call in the status.
    fn note<T>(&mut self, result: &Result<T, DeviceError>) {
        let (state, failure) = match result {
            Ok(_) => (OpenState::Open, None),
            Err(DeviceError::PinNeeded) => (OpenState::WaitingForPin, None),
            Err(DeviceError::PassphraseNeeded) => (OpenState::WaitingForPassphrase, None),
            Err(error) => (OpenState::Closed, Some(error.clone())),
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

    /// Derives the address at a path. Adds it to the wallet's accounts if `is_pinned`, and shows it on the device if
    /// `is_shown`.
    ///
    /// # Errors
    /// [`DeviceError::Closed`] unless the wallet is open, and errors of the exchange.
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

    /// Signs a transaction with an account of this wallet.
    ///
    /// # Errors
    /// Those of [`Wallet::derive`]; [`DeviceError::Unsupported`], without contacting the device, if it can't sign the
    /// transaction.
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

    /// Signs a message (EIP-191) with an account of this wallet.
    ///
    /// # Errors
    /// Those of [`Wallet::sign_transaction`].
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

    /// Signs typed data with an account of this wallet, by hash or by structure, depending on the device.
    ///
    /// # Errors
    /// Those of [`Wallet::sign_transaction`].
    pub async fn sign_typed_data(
        &mut self,
        account: Address,
        data: TypedData,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Result<Signature, DeviceError> {
        let path = self.path_of(account)?;
        let info = self.info()?;
        if !info.has_recent_firmware() {
            return Err(Unsupported::TypedData.into());
        }
        if info.is_model_one {
            let (domain, message) = (data.domain_separator, data.message_hash);
            let operation = |info: &DeviceInfo| SignTypedHash::new(info, path, account, domain, message);
            return self.run(operation, person, cancel).await;
        }
        self.run(|info: &DeviceInfo| SignTypedData::new(info, path, account, data), person, cancel).await
    }

    /// Checks whether the device is still present and the same, and closes the wallet if not. Does nothing unless the
    /// wallet is open. Limited by the time for a device's response; does not postpone the device's auto-lock.
    ///
    /// # Errors
    /// Errors of the exchange.
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
            // A cancelled heartbeat gives no information about the device.
            Ok(()) | Err(DeviceError::Cancelled) => {}
            Err(_) => {
                self.driver = None;
                self.note(&beat);
            }
        }
        beat
    }

    /// Closes the wallet: cancels what the device is doing, ends the connection and forgets the accounts.
    pub async fn close(&mut self) {
        if let Some(driver) = self.driver.as_mut().filter(|_| self.suspended.is_some()) {
            // The connection ends even if this fails.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, driver.resynchronise()).await;
        }
        self.driver = None;
        self.suspended = None;
        self.device_id = None;
        self.status.send_modify(|status| *status = WalletStatus { is_busy: status.is_busy, ..WalletStatus::default() });
    }

    /// Publishes whether a request is running.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.status.send_modify(|status| status.is_busy = is_busy);
    }

    fn info(&self) -> Result<&DeviceInfo, DeviceError> {
        let info = self.driver.as_ref().and_then(Driver::info).ok_or(DeviceError::Closed)?;
        if self.state() == OpenState::Open { Ok(info) } else { Err(DeviceError::Closed) }
    }

    /// The wallet's account at a path.
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
        let mut person = StatusPublishingPerson { person, status };
        let result = self.driver()?.run(operation, &mut person, cancel).await;
        self.status.send_if_modified(|status| std::mem::take(&mut status.is_waiting_for_button));
        match &result {
            Err(error) if error.is_lost() => self.note(&result),
            // The device locked itself, so PIN or passphrase must be entered again.
            Err(DeviceError::PinNeeded | DeviceError::PassphraseNeeded) => self.note(&result),
            _ => {}
        }
        result
    }
}

/// Time limit for the device when closing.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A person whose pending buttons are published in the wallet's status.
struct StatusPublishingPerson<'a> {
    person: &'a mut dyn Person,
    status: watch::Sender<WalletStatus>,
}

#[async_trait]
impl Person for StatusPublishingPerson<'_> {
    async fn ask(&mut self, prompt: Prompt) -> Option<Answer> {
        self.person.ask(prompt).await
    }

    fn button(&mut self) {
        self.status.send_modify(|status| status.is_waiting_for_button = true);
        self.person.button();
    }
}
