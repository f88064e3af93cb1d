//! The actor that owns a wallet, and the handle through which callers share it.

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
    DerivationPath, DeviceError, OpenState, Person, PromptReply, Signature, Transaction, TypedData, Wallet,
    WalletStatus,
};

/// Sender of a response. Dropping the receiver cancels the request.
type Reply<T> = oneshot::Sender<Result<T, DeviceError>>;

/// A request to the wallet.
enum Command {
    Open(Option<PromptReply>, Reply<()>),
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
    /// A request that has not started at this time fails.
    deadline: Instant,
    is_begun: Arc<AtomicBool>,
}

/// Owns a wallet and runs one request at a time. A panic closes the wallet, and the supervisor restarts the actor.
pub struct WalletActor {
    /// `None` while a request runs, and after a panic.
    wallet: Option<Wallet>,
    /// Runs the exchanges; the actor's own thread waits for them.
    runtime: Handle,
}

impl WalletActor {
    /// Creates an actor for a wallet, whose exchanges run on `runtime`.
    pub fn new(wallet: Wallet, runtime: Handle) -> Self {
        Self { wallet: Some(wallet), runtime }
    }

    /// Runs work on the runtime and blocks until it has finished.
    fn run(&mut self, work: impl FnOnce(Wallet) -> BoxFuture<'static, Wallet>) {
        let Some(wallet) = self.wallet.take() else { return };
        let (done, is_done) = mpsc::channel();
        let work = work(wallet);
        self.runtime.spawn(async move {
            // The receiver exists until the `recv` below returns.
            let _ = done.send(work.await);
        });
        match is_done.recv() {
            Ok(wallet) => self.wallet = Some(wallet),
            // The work panicked and dropped the wallet with its link. Propagates the panic to the supervisor.
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

/// Runs an exchange that ends early if the receiver of its response is dropped, then responds.
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
        // The receiver may be gone.
        let _ = reply.send(result);
    }};
}

impl Command {
    async fn execute(self, wallet: &mut Wallet, mut person: Box<dyn Person>) {
        let person = person.as_mut();
        match self {
            Self::Open(prompt_reply, reply) => answer!(reply, cancel => wallet.open(prompt_reply, person, &mut cancel)),
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
        // The receivers may be gone.
        match self {
            Self::Open(_, reply) | Self::Heartbeat(reply) | Self::Close(reply) => drop(reply.send(Err(error))),
            Self::Derive { reply, .. } => drop(reply.send(Err(error))),
            Self::SignTransaction(_, _, reply) | Self::SignMessage(_, _, reply) | Self::SignTypedData(_, _, reply) => {
                drop(reply.send(Err(error)));
            }
        }
    }
}

/// A wallet shared between callers. Reading its status never waits; all other calls wait for their turn. Dropping the
/// future of a call cancels the request, even while the device shows a prompt.
#[derive(Clone)]
pub struct WalletHandle {
    mailbox: Mailbox<Request>,
    status: watch::Receiver<WalletStatus>,
}

impl WalletHandle {
    /// Creates the handle of an actor whose wallet writes `status`.
    pub const fn new(mailbox: Mailbox<Request>, status: watch::Receiver<WalletStatus>) -> Self {
        Self { mailbox, status }
    }

    /// The last known status of the wallet.
    pub fn status(&self) -> WalletStatus {
        self.status.borrow().clone()
    }

    /// Whether a request is running.
    pub fn is_busy(&self) -> bool {
        self.status.borrow().is_busy
    }

    /// Whether the wallet is open, so that it can derive and sign.
    pub fn is_open(&self) -> bool {
        self.status.borrow().state == OpenState::Open
    }

    /// Whether the account belongs to the wallet.
    pub fn has_account(&self, address: Address) -> bool {
        self.status.borrow().accounts.contains_key(&address)
    }

    /// When the account was added to the wallet ([`WalletStatus::since`]); `None` if it does not belong to it.
    pub fn account_since(&self, address: Address) -> Option<u64> {
        self.status.borrow().since.get(&address).copied()
    }

    /// Returns a receiver that changes with the status.
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
        // The request has started, so from now on only the time limits of its prompts apply.
        answer.await.map_err(gone)?
    }

    /// See [`Wallet::open`].
    ///
    /// # Errors
    /// Those of [`Wallet::open`]; [`DeviceError::Busy`] and [`DeviceError::DeadlineWhileWaiting`] while other requests
    /// use the device.
    pub async fn open(
        &self,
        prompt_reply: Option<PromptReply>,
        person: Box<dyn Person>,
        deadline: Instant,
    ) -> Result<(), DeviceError> {
        self.ask(deadline, person, |reply| Command::Open(prompt_reply, reply)).await
    }

    /// See [`Wallet::derive`].
    ///
    /// # Errors
    /// Those of [`Wallet::derive`] and [`WalletHandle::open`].
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

    /// See [`Wallet::sign_transaction`].
    ///
    /// # Errors
    /// Those of [`Wallet::sign_transaction`] and [`WalletHandle::open`].
    pub async fn sign_transaction(
        &self,
        account: Address,
        transaction: Transaction,
        person: Box<dyn Person>,
        deadline: Instant,
    ) -> Result<Signature, DeviceError> {
        self.ask(deadline, person, |reply| Command::SignTransaction(account, Box::new(transaction), reply)).await
    }

    /// See [`Wallet::sign_message`].
    ///
    /// # Errors
    /// Those of [`Wallet::sign_message`] and [`WalletHandle::open`].
    pub async fn sign_message(
        &self,
        account: Address,
        message: Vec<u8>,
        person: Box<dyn Person>,
        deadline: Instant,
    ) -> Result<Signature, DeviceError> {
        self.ask(deadline, person, |reply| Command::SignMessage(account, message, reply)).await
    }

    /// See [`Wallet::sign_typed_data`].
    ///
    /// # Errors
    /// Those of [`Wallet::sign_typed_data`] and [`WalletHandle::open`].
    pub async fn sign_typed_data(
        &self,
        account: Address,
        data: TypedData,
        person: Box<dyn Person>,
        deadline: Instant,
    ) -> Result<Signature, DeviceError> {
        self.ask(deadline, person, |reply| Command::SignTypedData(account, Box::new(data), reply)).await
    }

    /// See [`Wallet::heartbeat`]. Not needed while requests run.
    ///
    /// # Errors
    /// Those of [`Wallet::heartbeat`] and [`WalletHandle::open`].
    pub async fn heartbeat(&self, deadline: Instant) -> Result<(), DeviceError> {
        self.ask(deadline, Box::new(crate::NoPerson), Command::Heartbeat).await
    }

    /// Like [`Wallet::close`], after the requests ahead of it. To interrupt a running request, drop its future first.
    ///
    /// # Errors
    /// [`DeviceError::Busy`] and [`DeviceError::DeadlineWhileWaiting`] while other requests use the device.
    pub async fn close(&self, deadline: Instant) -> Result<(), DeviceError> {
        self.ask(deadline, Box::new(crate::NoPerson), Command::Close).await
    }
}
