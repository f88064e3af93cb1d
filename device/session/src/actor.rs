//! The actor that owns a wallet, and the handle by which many callers use it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use alloy_primitives::Address;
use futures_util::future::BoxFuture;
use tenon_supervisor::{Actor, Mailbox};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::{
    DerivationPath, DeviceError, Given, OpenState, Person, Signature, Transaction, TypedData, Wallet, WalletStatus,
};

/// Where an answer goes. Dropping the other end cancels the request.
type Reply<T> = oneshot::Sender<Result<T, DeviceError>>;

/// What a wallet is asked.
enum Command {
    Open(Option<Given>, Reply<()>),
    Derive { path: DerivationPath, is_pinned: bool, is_shown: bool, reply: Reply<Address> },
    SignTransaction(Address, Box<Transaction>, Reply<Signature>),
    SignMessage(Address, Vec<u8>, Reply<Signature>),
    SignTypedData(Address, Box<TypedData>, Reply<Signature>),
    Heartbeat(Reply<()>),
    Close(Reply<()>),
}

/// A request that waits for the device.
pub struct Request {
    command: Command,
    person: Box<dyn Person>,
    /// After this it is not begun any more.
    deadline: Instant,
    is_begun: Arc<AtomicBool>,
}

/// Owns a wallet: one request at a time. A panic closes the wallet, and the supervisor builds it again.
pub struct WalletActor {
    /// Taken while a request runs; gone after a panic.
    wallet: Option<Wallet>,
    /// Where exchanges run: the actor's own thread waits for them.
    runtime: Handle,
}

impl WalletActor {
    /// An actor for a wallet, whose exchanges run on `runtime`.
    pub fn new(wallet: Wallet, runtime: Handle) -> Self {
        Self { wallet: Some(wallet), runtime }
    }

    /// Runs work on the runtime and waits for it.
    fn run(&mut self, work: impl FnOnce(Wallet) -> BoxFuture<'static, Wallet>) {
        let Some(wallet) = self.wallet.take() else { return };
        let (done, is_done) = mpsc::channel();
        let work = work(wallet);
        self.runtime.spawn(async move {
            // This thread waits just below.
            let _ = done.send(work.await);
        });
        match is_done.recv() {
            Ok(wallet) => self.wallet = Some(wallet),
            // The work panicked, and the wallet with its link is gone: let the supervisor see it.
            Err(mpsc::RecvError) => std::panic::resume_unwind(Box::new("the exchange with the device panicked")),
        }
    }
}

impl Actor for WalletActor {
    type Message = Request;

    fn handle(&mut self, request: Request) {
        if Instant::now() >= request.deadline {
            return request.command.refuse(DeviceError::DeadlineWhileWaiting);
        }
        request.is_begun.store(true, Ordering::Release);
        self.run(|mut wallet| {
            Box::pin(async move {
                wallet.set_busy(true);
                request.command.execute(&mut wallet, request.person).await;
                wallet.set_busy(false);
                wallet
            })
        });
    }

    fn stopping(&mut self) {
        self.run(|mut wallet| {
            Box::pin(async move {
                wallet.close().await;
                wallet
            })
        });
    }
}

/// Runs an exchange whose caller may leave; answers.
macro_rules! answer {
    ($reply:ident, $cancel:ident => $work:expr) => {{
        let mut reply = $reply;
        if reply.is_closed() {
            return;
        }
        let result = {
            let mut $cancel: BoxFuture<'_, ()> = Box::pin(reply.closed());
            $work.await
        };
        // A caller that left needs no answer.
        let _ = reply.send(result);
    }};
}

impl Command {
    async fn execute(self, wallet: &mut Wallet, mut person: Box<dyn Person>) {
        let person = person.as_mut();
        match self {
            Self::Open(given, reply) => answer!(reply, cancel => wallet.open(given, person, &mut cancel)),
            Self::Derive { path, is_pinned, is_shown, reply } => {
                answer!(reply, cancel => wallet.derive(path, is_pinned, is_shown, person, &mut cancel));
            }
            Self::SignTransaction(account, transaction, reply) => {
                answer!(reply, cancel => wallet.sign_transaction(account, *transaction, person, &mut cancel));
            }
            Self::SignMessage(account, message, reply) => {
                answer!(reply, cancel => wallet.sign_message(account, message, person, &mut cancel));
            }
            Self::SignTypedData(account, data, reply) => {
                answer!(reply, cancel => wallet.sign_typed_data(account, *data, person, &mut cancel));
            }
            Self::Heartbeat(reply) => answer!(reply, cancel => wallet.heartbeat(&mut cancel)),
            Self::Close(reply) => {
                wallet.close().await;
                let _ = reply.send(Ok(()));
            }
        }
    }

    fn refuse(self, error: DeviceError) {
        // A caller that left needs no answer.
        match self {
            Self::Open(_, reply) | Self::Heartbeat(reply) | Self::Close(reply) => drop(reply.send(Err(error))),
            Self::Derive { reply, .. } => drop(reply.send(Err(error))),
            Self::SignTransaction(_, _, reply) | Self::SignMessage(_, _, reply) | Self::SignTypedData(_, _, reply) => {
                drop(reply.send(Err(error)));
            }
        }
    }
}

/// A wallet as callers see it. Reading its status waits for nothing; everything else waits for its turn. A caller that
/// drops a future cancels its request, also while the device asks.
#[derive(Clone)]
pub struct WalletHandle {
    mailbox: Mailbox<Request>,
    status: watch::Receiver<WalletStatus>,
}

impl WalletHandle {
    /// The handle of an actor whose wallet writes `status`.
    pub const fn new(mailbox: Mailbox<Request>, status: watch::Receiver<WalletStatus>) -> Self {
        Self { mailbox, status }
    }

    /// What is known of the wallet.
    pub fn status(&self) -> WalletStatus {
        self.status.borrow().clone()
    }

    /// Whether a request runs.
    pub fn is_busy(&self) -> bool {
        self.status.borrow().is_busy
    }

    /// Whether it derives and signs.
    pub fn is_open(&self) -> bool {
        self.status.borrow().state == OpenState::Open
    }

    /// Whether an account is among the wallet's.
    pub fn has_account(&self, address: Address) -> bool {
        self.status.borrow().accounts.contains_key(&address)
    }

    /// When an account became the wallet's ([`WalletStatus::since`]), if it is among its accounts.
    pub fn account_since(&self, address: Address) -> Option<u64> {
        self.status.borrow().since.get(&address).copied()
    }

    /// Changes of the status, for those who wait for them.
    pub fn watch_status(&self) -> watch::Receiver<WalletStatus> {
        self.status.clone()
    }

    async fn ask<T>(
        &self,
        deadline: Instant,
        person: Box<dyn Person>,
        command: impl FnOnce(Reply<T>) -> Command,
    ) -> Result<T, DeviceError> {
        let (reply, mut answer) = oneshot::channel();
        let is_begun = Arc::new(AtomicBool::new(false));
        let request = Request { command: command(reply), person, deadline, is_begun: is_begun.clone() };
        self.mailbox.try_send(request).map_err(|_| DeviceError::Busy)?;
        let gone = |_| DeviceError::SessionFailed;
        tokio::select! {
            answered = &mut answer => return answered.map_err(gone)?,
            () = sleep_until(deadline) => {}
        }
        if !is_begun.load(Ordering::Acquire) {
            return Err(DeviceError::DeadlineWhileWaiting);
        }
        // It has the device now, and has as long as its prompts have.
        answer.await.map_err(gone)?
    }

    /// As [`Wallet::open`].
    ///
    /// # Errors
    /// As [`Wallet::open`]; [`DeviceError::Busy`] and [`DeviceError::DeadlineWhileWaiting`] when others hold the device.
    pub async fn open(
        &self,
        given: Option<Given>,
        person: Box<dyn Person>,
        deadline: Instant,
    ) -> Result<(), DeviceError> {
        self.ask(deadline, person, |reply| Command::Open(given, reply)).await
    }

    /// As [`Wallet::derive`].
    ///
    /// # Errors
    /// As [`WalletHandle::open`].
    pub async fn derive(
        &self,
        path: DerivationPath,
        is_pinned: bool,
        is_shown: bool,
        person: Box<dyn Person>,
        deadline: Instant,
    ) -> Result<Address, DeviceError> {
        self.ask(deadline, person, |reply| Command::Derive { path, is_pinned, is_shown, reply }).await
    }

    /// As [`Wallet::sign_transaction`].
    ///
    /// # Errors
    /// As [`WalletHandle::open`].
    pub async fn sign_transaction(
        &self,
        account: Address,
        transaction: Transaction,
        person: Box<dyn Person>,
        deadline: Instant,
    ) -> Result<Signature, DeviceError> {
        self.ask(deadline, person, |reply| Command::SignTransaction(account, Box::new(transaction), reply)).await
    }

    /// As [`Wallet::sign_message`].
    ///
    /// # Errors
    /// As [`WalletHandle::open`].
    pub async fn sign_message(
        &self,
        account: Address,
        message: Vec<u8>,
        person: Box<dyn Person>,
        deadline: Instant,
    ) -> Result<Signature, DeviceError> {
        self.ask(deadline, person, |reply| Command::SignMessage(account, message, reply)).await
    }

    /// As [`Wallet::sign_typed_data`].
    ///
    /// # Errors
    /// As [`WalletHandle::open`].
    pub async fn sign_typed_data(
        &self,
        account: Address,
        data: TypedData,
        person: Box<dyn Person>,
        deadline: Instant,
    ) -> Result<Signature, DeviceError> {
        self.ask(deadline, person, |reply| Command::SignTypedData(account, Box::new(data), reply)).await
    }

    /// As [`Wallet::heartbeat`]. Leave it out while requests run.
    ///
    /// # Errors
    /// As [`WalletHandle::open`].
    pub async fn heartbeat(&self, deadline: Instant) -> Result<(), DeviceError> {
        self.ask(deadline, Box::new(crate::NoPerson), Command::Heartbeat).await
    }

    /// As [`Wallet::close`], in its turn. To interrupt a request, drop its future first.
    ///
    /// # Errors
    /// As [`WalletHandle::open`].
    pub async fn close(&self, deadline: Instant) -> Result<(), DeviceError> {
        self.ask(deadline, Box::new(crate::NoPerson), Command::Close).await
    }
}
