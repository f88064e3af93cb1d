//! The actor that removes expired keys and follows the folder of key files, and the task that sends it messages.

use std::{sync::Arc, time::Duration};

use tenon_supervisor::{Actor, ActorOptions, Mailbox, SpawnError, Supervisor};
use tokio::{sync::oneshot, time::MissedTickBehavior};

use crate::{
    WalletDirectory,
    keystore_wallets::{FolderCheck, KeystoreWallets},
};

/// The actor's name.
pub const ACTOR: &str = "accounts";

/// How often the folder's modification time is checked for changed names.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The feed sends a message when the one before has been handled.
const MAILBOX_CAPACITY: usize = 1;

/// A message for the actor, which answers when it has handled it.
pub(crate) enum AccountsMessage {
    /// Removes the keys whose time is over.
    LockExpired(oneshot::Sender<()>),
    /// Lists the key files again, if they may have changed.
    CheckFolder(oneshot::Sender<()>),
    /// Panics.
    #[cfg(test)]
    Panic,
}

/// Removes expired keys and follows the folder of key files.
///
/// Requests of callers bypass its mailbox. A lock must work while the actor is restarted or has failed. An unlock or a
/// new account waits for its key's derivation, which may take seconds, and would block the actor.
struct AccountsActor {
    wallets: Arc<KeystoreWallets>,
    /// Starts empty, so that the first check of a new actor lists the files.
    folder_check: FolderCheck,
}

impl Actor for AccountsActor {
    type Message = AccountsMessage;

    fn handle(&mut self, message: AccountsMessage) {
        let done = match message {
            AccountsMessage::LockExpired(done) => {
                self.wallets.lock_expired();
                done
            }
            AccountsMessage::CheckFolder(done) => {
                self.wallets.check_folder(&mut self.folder_check);
                done
            }
            #[cfg(test)]
            AccountsMessage::Panic => panic!("on purpose"),
        };
        // Fails only if the feed was dropped.
        let _ = done.send(());
    }
}

/// Wakes the actor. The node runs [`AccountsFeed::run`] as a task and drops it to stop.
#[derive(derive_more::Debug)]
#[debug("AccountsFeed({:?})", keystore.as_ref().map(|(_, mailbox)| mailbox))]
pub struct AccountsFeed {
    /// `None` without key files.
    keystore: Option<(Arc<KeystoreWallets>, Mailbox<AccountsMessage>)>,
}

impl AccountsFeed {
    /// Wakes the actor. Once it has failed for good or was stopped, only locks accounts whose time is over. Never returns.
    pub async fn run(self) {
        let Some((wallets, mailbox)) = self.keystore else { return std::future::pending().await };
        let mut ticks = tokio::time::interval(CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (done, is_done) = oneshot::channel();
            let message = tokio::select! {
                () = wallets.key_expiry() => AccountsMessage::LockExpired(done),
                _ = ticks.tick() => AccountsMessage::CheckFolder(done),
            };
            if mailbox.send(message).await.is_err() {
                break;
            }
            // An error means that the actor panicked. Keys that are still expired wake its successor.
            let _ = is_done.await;
        }
        // Expired keys are wiped here and not by the actor, which may panic at each listing of the folder.
        loop {
            wallets.lock_expired();
            wallets.key_expiry().await;
        }
    }
}

/// Starts the actor of the key files under supervision, if the directory has key files. Run the returned feed to send
/// it messages.
///
/// # Errors
/// Those of [`Supervisor::spawn`].
pub fn spawn_accounts(supervisor: &Supervisor, directory: &WalletDirectory) -> Result<AccountsFeed, SpawnError> {
    let Some(wallets) = directory.key_files().cloned() else { return Ok(AccountsFeed { keystore: None }) };
    let shared = Arc::clone(&wallets);
    let make = move || Ok(AccountsActor { wallets: Arc::clone(&shared), folder_check: FolderCheck::default() });
    let options = ActorOptions { mailbox_capacity: MAILBOX_CAPACITY, ..ActorOptions::default() };
    let mailbox = supervisor.spawn(ACTOR, options, make)?;
    Ok(AccountsFeed { keystore: Some((wallets, mailbox)) })
}

#[cfg(test)]
mod tests;
