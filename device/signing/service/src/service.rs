//! The life cycle of a request: asked, decided, approved, signed.

mod people;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use alloy_primitives::{Address, B256, Bytes, eip191_hash_message, keccak256};
use arc_swap::ArcSwap;
use futures_util::FutureExt as _;
use tenon_accounts::{AccountsError, Authority, HashSignature, Signable, Signer, WalletDirectory};
use tenon_api::{RequestError, Transaction, TransactionPayload};
use tenon_bus::CallContext;
use tenon_sdk::Failure;
use tenon_signing_audit::{
    AuditError, AuditLog, Memory, Opened, Step,
    owner::{self, ExposedPath},
};
use tenon_signing_policy::{Decision, History, Outcome, Policy, PolicyError, Request, Subject};
use tenon_typed_data::Hashes;
use tokio::sync::Mutex;

use crate::{
    Approvals, Settings,
    clock::now,
    program::Program,
    rate::Rate,
    scheduler::{ClientPermits, WorkScheduler},
    shares::{Share, Shares},
};
use people::{PROGRAM, Unfinished};

/// Difference between the clock and the log's last entry that is reported, seconds.
const MAX_CLOCK_DIFFERENCE: u64 = 60;

/// Error text for a request that would need a device when too many are waiting for one.
const DEVICES_FULL: &str = "the maximum number of requests is waiting for a device";

/// Why a request was not answered or the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The policy, a guard or a person refused.
    #[error("request denied: {0}")]
    Denied(String),
    /// The client exceeded a limit on requests.
    #[error("too many requests: {0}")]
    TooMany(&'static str),
    /// The request is not valid.
    #[error("{0}")]
    Invalid(String),
    /// No key could sign.
    #[error("{0}")]
    Key(Failure),
    /// The audit log can't be written or read, so nothing is signed.
    #[error("cannot use the audit log, so nothing is signed: {0}")]
    Log(#[from] AuditError),
    /// The policy can't be read; the current one stays in force.
    #[error("cannot read the policy: {0}")]
    Policy(#[from] PolicyError),
    /// Others can change the policy; the current one stays in force.
    #[error("{}: {access}", .path.display())]
    Exposed {
        /// The policy's file or folder, or an interface file.
        path: PathBuf,
        /// Who has access.
        access: tenon_file_access::FileExposure,
    },
    /// The service is stopping.
    #[error("the service is stopping")]
    Stopping,
}

/// The error of a key, with the text that clients of a node know.
impl From<AccountsError> for ServiceError {
    fn from(error: AccountsError) -> Self {
        Self::Key(match error.into_refusal() {
            Ok(refusal) => RequestError::from(refusal).into(),
            Err(error) => Failure::server(error.to_string()),
        })
    }
}

impl From<ExposedPath> for ServiceError {
    fn from(ExposedPath { path, access }: ExposedPath) -> Self {
        Self::Exposed { path, access }
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Invalid(reason) => Self::invalid_params(reason),
            ServiceError::TooMany(_) => Self::limit(error.to_string()),
            error => Self::server(error.to_string()),
        }
    }
}

/// A client's request for a signature.
#[derive(Clone, Debug)]
pub(crate) struct SignatureRequest {
    pub(crate) account: Address,
    pub(crate) subject: Subject,
    /// For typed data: the hashes, and the text for devices.
    pub(crate) typed_data: Option<(Hashes, String)>,
}

impl SignatureRequest {
    /// The hash to sign.
    pub(crate) fn hash(&self) -> B256 {
        match &self.subject {
            Subject::Transaction { hash, .. } => *hash,
            Subject::Message(message) => eip191_hash_message(message),
            Subject::TypedData(data) => data.hash,
            Subject::Raw(bytes) => keccak256(bytes),
            Subject::Validator(message) => message.hash,
        }
    }
}

/// A request in progress, with the decision about it.
struct PendingSignature {
    number: u64,
    request: Request,
    hash: B256,
    typed_data: Option<(Hashes, String)>,
    /// Hash of the policy that decided.
    policy: B256,
    /// The rule that allows it, or requires a person's approval.
    rule: String,
}

impl PendingSignature {
    fn signable(&self) -> Signable<'_> {
        match (&self.request.subject, &self.typed_data) {
            (Subject::Transaction { transaction, .. }, _) => Signable::Transaction(transaction),
            (Subject::Message(message), _) => Signable::Message(message),
            (Subject::TypedData(_), Some((hashes, text))) => {
                Signable::TypedData { domain: hashes.domain, message: hashes.message, data: Some(text) }
            }
            _ => Signable::Block(self.hash),
        }
    }

    /// The log entry that must be written before the signature is released.
    fn signed(&self) -> Step {
        let (request, rule, account, hash) = (self.number, self.rule.clone(), self.request.account, self.hash);
        match &self.request.subject {
            Subject::Transaction { transaction, .. } => {
                let (value, fee) = self.request.cost();
                let (chain_id, nonce) = (transaction.chain_id.unwrap_or_default(), transaction.nonce);
                Step::SignedTransaction { request, rule, account, chain_id, nonce, value, fee, hash }
            }
            Subject::Validator(message) => Step::SignedForConsensus {
                request,
                rule,
                account,
                chain_id: message.chain_id,
                kind: message.kind,
                round: message.round,
                hash,
            },
            _ => Step::Signed { request, rule, account, hash },
        }
    }
}

/// A signature and the request that it answers.
#[derive(Clone, Copy, Debug)]
pub struct Signed {
    /// The request's number in the log.
    pub number: u64,
    /// The signature.
    pub signature: HashSignature,
}

/// The signing service. Clones share the state.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

struct Inner {
    policy: ArcSwap<Policy>,
    policy_path: PathBuf,
    /// Held while the policy's file is reloaded.
    reloading: Mutex<()>,
    /// Held while a decision is made and its lines are written, so that two requests never spend the same remainder of
    /// a window.
    log: Arc<Mutex<AuditLog>>,
    wallets: WalletDirectory,
    approvals: Approvals,
    /// Validator accounts, each with the id of its chain.
    validators: BTreeMap<Address, u64>,
    rate: Rate,
    /// Schedules the parsing of typed data.
    scheduler: WorkScheduler,
    /// Each client has at most one request at a time at the log, so that the requests of one client do not delay those
    /// of others.
    at_log: ClientPermits,
    /// The requests that need a device, including those that first wait for people.
    at_devices: Arc<Shares>,
    /// By approver: the clients that are the same person.
    approvers: BTreeMap<String, BTreeSet<String>>,
    approvals_needed: u8,
    approval_time: Duration,
    program: Option<Program>,
}

/// Result of a request's first step.
enum RequestProgress {
    Signed(Signed),
    Denied(String),
    /// A person or a device must still act.
    Waits(Box<PendingSignature>, Outcome),
}

impl Service {
    /// Reads the policy, opens the log and restores its state. `program` approves requests, if given.
    ///
    /// # Errors
    /// [`ServiceError::Policy`], [`ServiceError::Log`].
    pub fn open(
        settings: &Settings,
        wallets: WalletDirectory,
        program: Option<Program>,
    ) -> Result<(Self, Opened), ServiceError> {
        settings.paths_that_decide().try_for_each(owner::check_with_folder)?;
        let policy = read_policy(&settings.policy)?;
        let (mut log, opened) = AuditLog::open(&settings.log)?;
        let latest = History::latest(log.memory());
        if latest > now().saturating_add(MAX_CLOCK_DIFFERENCE) {
            tracing::warn!(
                latest,
                now = now(),
                "the last entry of the log is later than the clock: windows count from that entry on"
            );
        }
        log.append(Step::Started { policy: policy.hash() }, now())?;
        let of_approver = |(name, entry): (&String, &crate::ApproverEntry)| (name.clone(), entry.clients.clone());
        let mut approvers: BTreeMap<_, _> = settings.approvers.iter().map(of_approver).collect();
        if let Some(program) = &settings.program {
            approvers.insert(PROGRAM.to_owned(), program.clients.clone());
        }
        let inner = Inner {
            policy: ArcSwap::from_pointee(policy),
            policy_path: settings.policy.clone(),
            reloading: Mutex::default(),
            log: Arc::new(Mutex::new(log)),
            wallets,
            approvals: Approvals::default(),
            validators: settings.validators.clone(),
            rate: Rate::new(settings.requests_per_minute),
            scheduler: WorkScheduler::default(),
            at_log: ClientPermits::default(),
            at_devices: Arc::default(),
            approvers,
            approvals_needed: settings.approvals,
            approval_time: settings.approval_time(),
            program,
        };
        Ok((Self { inner: Arc::new(inner) }, opened))
    }

    /// The requests that wait for people.
    pub fn approvals(&self) -> &Approvals {
        &self.inner.approvals
    }

    /// The accounts, in the order of the wallets.
    pub fn accounts(&self) -> Vec<Address> {
        self.inner.wallets.addresses()
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.inner.policy.load_full()
    }

    /// The wallets.
    pub(crate) fn wallets(&self) -> &WalletDirectory {
        &self.inner.wallets
    }

    /// Like [`Service::reload`], counted against the client's limit per minute.
    ///
    /// # Errors
    /// Those of [`Service::reload`], and [`ServiceError::TooMany`].
    pub(crate) async fn reload_for(&self, client: &str) -> Result<B256, ServiceError> {
        self.count(client)?;
        self.reload().await
    }

    /// Counts a request of a client. Must be called before any expensive work, so that rejected requests count too.
    ///
    /// # Errors
    /// [`ServiceError::TooMany`].
    pub(crate) fn count(&self, client: &str) -> Result<(), ServiceError> {
        match self.inner.rate.take(client, Instant::now()) {
            true => Ok(()),
            false => Err(ServiceError::TooMany("the client has used its requests for this minute")),
        }
    }

    /// The scheduler for work that takes processor time.
    pub(crate) fn scheduler(&self) -> &WorkScheduler {
        &self.inner.scheduler
    }

    /// Reloads the policy's file and returns the policy's hash. Waiting requests were decided by the old policy; they
    /// are decided again before they are signed.
    ///
    /// # Errors
    /// [`ServiceError::Policy`] (the old policy stays in force), [`ServiceError::Exposed`], [`ServiceError::Log`], and
    /// [`ServiceError::TooMany`] while another reload runs.
    pub async fn reload(&self) -> Result<B256, ServiceError> {
        let inner = Arc::clone(&self.inner);
        // Only one reload at a time, and without holding the log's lock: a large policy takes long to read.
        let Ok(_reading) = self.inner.reloading.try_lock() else {
            return Err(ServiceError::TooMany("the policy is already being read"));
        };
        let path = inner.policy_path.clone();
        let reading = tokio::task::spawn_blocking(move || read_policy(&path));
        let policy = reading.await.unwrap_or(Err(ServiceError::Stopping))?;
        self.with_log(move |log| {
            let hash = policy.hash();
            if hash != inner.policy.load().hash() {
                log.append(Step::PolicyApplied { policy: hash }, now())?;
                inner.policy.store(Arc::new(policy));
                tracing::info!(%hash, "another policy is in force");
            }
            Ok(hash)
        })
        .await
    }

    /// Runs a function with the log on a blocking thread, because every entry waits for the disk. Once started it runs
    /// to completion even if the future is dropped.
    async fn with_log<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut AuditLog) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let mut log = Arc::clone(&self.inner.log).lock_owned().await;
        let done = tokio::task::spawn_blocking(move || work(&mut log)).await;
        let done = done.unwrap_or(Err(ServiceError::Stopping));
        match &done {
            // Not logged again: after the first failure, every request fails with this error.
            Err(ServiceError::Log(AuditError::Broken)) => {}
            Err(ServiceError::Log(error)) => {
                tracing::error!(%error, "cannot use the audit log, so nothing is signed: restart the service")
            }
            _ => {}
        }
        done
    }

    /// Signs a client's request once the policy, the guards and people allow it. Call [`Service::count`] first.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub(crate) async fn sign(
        &self,
        client: &str,
        ask: SignatureRequest,
        context: &CallContext,
    ) -> Result<Signed, ServiceError> {
        let signer = self.inner.wallets.signer(ask.account, Authority { password: None, context }).await;
        let signer = signer.map(Arc::<dyn Signer>::from).map_err(|error| ServiceError::from(error).to_string());
        let (asked, outcome) = match self.begin(client, ask, signer.clone()).await? {
            RequestProgress::Signed(signed) => return Ok(signed),
            RequestProgress::Denied(reason) => return Err(ServiceError::Denied(reason)),
            RequestProgress::Waits(asked, outcome) => (*asked, outcome),
        };
        let mut unfinished = Unfinished { service: self.clone(), number: asked.number, is_armed: true };
        let signed = self.continue_with(asked, outcome, signer).await;
        unfinished.is_armed = false;
        signed
    }

    /// Logs the request and the policy's decision. If the request is allowed and its key is in memory, signs in the
    /// same step.
    async fn begin(
        &self,
        client: &str,
        ask: SignatureRequest,
        signer: Result<Arc<dyn Signer>, String>,
    ) -> Result<RequestProgress, ServiceError> {
        let permit = self.inner.at_log.take(client).await?;
        let (service, client) = (self.clone(), client.to_owned());
        self.with_log(move |log| {
            let _permit = permit;
            let (now, policy) = (now(), service.policy());
            let hash = ask.hash();
            let request = Request { client, account: ask.account, subject: ask.subject };
            let number = log.memory().last_request() + 1;
            let decision = match &signer {
                Ok(_) => service.decide(&policy, &request, hash, log.memory(), now),
                Err(reason) => denied(reason.clone()),
            };
            let mut steps = vec![
                Step::Asked {
                    request: number,
                    client: request.client.clone(),
                    account: request.account,
                    kind: request.kind(),
                    hash,
                },
                Step::Decided {
                    request: number,
                    outcome: word(decision.outcome).to_owned(),
                    rule: decision.rule.clone(),
                    reason: decision.reason.clone(),
                },
            ];
            let rule = decision.rule.unwrap_or_default();
            let asked =
                PendingSignature { number, request, hash, typed_data: ask.typed_data, policy: policy.hash(), rule };
            let begun = match (decision.outcome, signer) {
                (Outcome::Deny, _) | (_, Err(_)) => RequestProgress::Denied(decision.reason),
                (Outcome::Allow, Ok(signer)) if signer.has_key_in_memory() => match at_once(&*signer, &asked) {
                    Ok(signature) => {
                        steps.push(asked.signed());
                        RequestProgress::Signed(Signed { number, signature })
                    }
                    Err(error) => {
                        steps.push(Step::Failed { request: number, reason: error.to_string() });
                        RequestProgress::Denied(error.to_string())
                    }
                },
                (outcome, Ok(_)) => RequestProgress::Waits(Box::new(asked), outcome),
            };
            log.append_all(steps, now)?;
            Ok(begun)
        })
        .await
    }

    /// Waits for people and the device, decides again and logs the outcome.
    async fn continue_with(
        &self,
        asked: PendingSignature,
        outcome: Outcome,
        signer: Result<Arc<dyn Signer>, String>,
    ) -> Result<Signed, ServiceError> {
        let number = asked.number;
        let signer = signer.map_err(ServiceError::Denied)?;
        // Reserved before the approval is asked for, so that a request is not approved and then refused for lack of a
        // place.
        let _place: Option<Share> = match signer.has_key_in_memory() {
            true => None,
            false => match self.inner.at_devices.take(&asked.request.client) {
                None => return Err(self.end(number, ServiceError::TooMany(DEVICES_FULL)).await),
                place => place,
            },
        };
        if outcome == Outcome::Ask
            && let Err(error) = self.ask_people(&asked).await
        {
            return Err(self.end(number, error).await);
        }
        let is_approved = outcome == Outcome::Ask;
        let made = match signer.has_key_in_memory() {
            true => None,
            false => match signer.sign(asked.signable()).await {
                Ok(signature) => Some(signature),
                Err(error) => return Err(self.end(number, error.into()).await),
            },
        };
        match self.finish(asked, is_approved, made, signer).await {
            Err(error @ (ServiceError::Denied(_) | ServiceError::Key(_))) => Err(self.end(number, error).await),
            finished => finished,
        }
    }

    /// Decides again, considering signatures made in the meantime, and logs the signature.
    async fn finish(
        &self,
        asked: PendingSignature,
        is_approved: bool,
        made: Option<HashSignature>,
        signer: Arc<dyn Signer>,
    ) -> Result<Signed, ServiceError> {
        let permit = self.inner.at_log.take(&asked.request.client).await?;
        let service = self.clone();
        self.with_log(move |log| {
            let _permit = permit;
            let (now, policy) = (now(), service.policy());
            let decision = service.decide(&policy, &asked.request, asked.hash, log.memory(), now);
            let is_same = policy.hash() == asked.policy && decision.rule.as_deref() == Some(&asked.rule);
            match decision.outcome {
                Outcome::Allow => {}
                Outcome::Ask if is_approved && is_same => {}
                Outcome::Ask => {
                    let reason = "the policy's decision changed in the meantime; send the request again".to_owned();
                    return Err(ServiceError::Denied(reason));
                }
                Outcome::Deny => return Err(ServiceError::Denied(decision.reason)),
            }
            let asked = PendingSignature { rule: decision.rule.unwrap_or_default(), ..asked };
            let signature = match made {
                Some(signature) => signature,
                None => at_once(&*signer, &asked)?,
            };
            log.append(asked.signed(), now)?;
            Ok(Signed { number: asked.number, signature })
        })
        .await
    }

    /// The decision of the policy and of the guards that no policy can override. A second transaction for a nonce is
    /// left to the policy: a rule needs `replace = true` to allow it.
    fn decide(&self, policy: &Policy, request: &Request, hash: B256, memory: &Memory, now: u64) -> Decision {
        let chain_of_validator = self.inner.validators.get(&request.account);
        let refusal = match (&request.subject, chain_of_validator) {
            (Subject::Validator(message), Some(chain_id)) if message.chain_id == *chain_id => {
                let of = (request.account, message.kind);
                memory.check_round(of, message.round, hash, now).err().map(|refusal| refusal.to_string())
            }
            (Subject::Validator(_), Some(chain_id)) => Some(format!("the validator's key is for chain {chain_id}")),
            (Subject::Validator(_), None) => Some("the account is not among `validators`".to_owned()),
            (Subject::Transaction { transaction, .. }, Some(chain_id))
                if is_free_signing_transaction(transaction) && transaction.chain_id == Some(*chain_id) =>
            {
                None
            }
            (_, Some(_)) => Some("a validator's key signs consensus messages and signing transactions only".to_owned()),
            (_, None) => None,
        };
        if let Some(refusal) = refusal {
            return denied(refusal);
        }
        let decision = policy.decide(request, memory, now);
        match (&request.subject, &decision.rule, decision.outcome) {
            (Subject::Transaction { transaction, .. }, Some(rule), Outcome::Allow | Outcome::Ask) => {
                let of = (transaction.chain_id.unwrap_or_default(), request.account, transaction.nonce);
                memory.check_gaps(rule, of).map_or_else(|refusal| denied(refusal.to_string()), |()| decision)
            }
            _ => decision,
        }
    }

    /// Logs the end of a request that was not signed. Returns the error, or that of the log.
    async fn end(&self, number: u64, error: ServiceError) -> ServiceError {
        let reason = match &error {
            ServiceError::Denied(reason) => reason.clone(),
            error => error.to_string(),
        };
        let step = match &error {
            ServiceError::Key(_) => Step::Failed { request: number, reason },
            _ => Step::Refused { request: number, reason },
        };
        match self.with_log(move |log| Ok(log.append(step, now())?)).await {
            Ok(()) => error,
            Err(error) => error,
        }
    }
}

/// Reads a policy that no other user can change, including its folder and its interface files.
fn read_policy(path: &Path) -> Result<Policy, ServiceError> {
    owner::check_with_folder(path)?;
    let check = |file: &Path| owner::check(file).map_err(|exposed| exposed.access.to_string());
    Ok(Policy::read_checked(path, check)?)
}

/// The signature of a key in memory, without waiting.
fn at_once(signer: &dyn Signer, asked: &PendingSignature) -> Result<HashSignature, ServiceError> {
    let signature = signer.sign(asked.signable()).now_or_never();
    signature.unwrap_or(Err(AccountsError::NotSupported("the key can't sign immediately"))).map_err(ServiceError::from)
}

/// A transaction by which a masternode states that it has seen a block: it moves nothing and pays nothing.
fn is_free_signing_transaction(transaction: &Transaction) -> bool {
    let is_free = matches!(&transaction.payload, TransactionPayload::Legacy { gas_price } if gas_price.is_zero());
    is_free && transaction.value.is_zero() && tenon_native_consensus::is_signing_transaction(transaction)
}

fn denied(reason: String) -> Decision {
    Decision { outcome: Outcome::Deny, rule: None, reason }
}

const fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Allow => "allow",
        Outcome::Ask => "ask",
        Outcome::Deny => "deny",
    }
}

/// The signature as bytes: `r ‖ s ‖ v` with `v` 27 or 28.
pub(crate) fn message_bytes(signed: &Signed) -> Bytes {
    signed.signature.to_message_bytes()
}
