//! The key of a masternode in a signing service (`docs/signer.md`, Validators).

use std::{
    collections::HashSet,
    num::NonZeroUsize,
    sync::{Arc, Weak},
    time::Duration,
};

use alloy_primitives::{Address, B256, Bytes, U256, uint};
use lru::LruCache;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tenon_accounts::HashSignature;
use tenon_api::{BlockSigner, SignError, SignerMessage};
use tokio::runtime::Handle;

use crate::{
    Endpoint, EndpointError,
    wallet::{AccountsAnswer, NO_PARAMS, signature, transaction_signature},
};

/// Time for a signature: less than a round in which it would still count.
const SIGN_TIME: Duration = Duration::from_secs(3);
/// Interval at which a service that did not answer is asked again.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which the log repeats that the service does not answer.
const REMIND_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of signatures that are requested at a time. A round needs three: seal, vote, signing transaction.
const MAX_ASKED: usize = 16;
/// Half the order of secp256k1: the highest s of a signature in its canonical form.
const HALF_ORDER: U256 = uint!(0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0_U256);
/// Answers that are kept: those of several rounds.
const MAX_ANSWERS: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// What the service answered about a digest.
#[derive(Clone)]
enum Answer {
    Signature([u8; 65]),
    /// It refused, or its answer was invalid: it is not asked for this digest again.
    Refused(String),
}

/// Whether the service answers.
enum ServiceStatus {
    /// It has not answered since the start.
    Unknown,
    Answers,
    /// It does not answer. A task asks it repeatedly.
    Away(String),
}

struct State {
    status: ServiceStatus,
    asked: HashSet<B256>,
    answers: LruCache<B256, Answer>,
    ready: Option<Arc<dyn Fn() + Send + Sync>>,
}

struct Inner {
    endpoint: Endpoint,
    account: Address,
    chain_id: u64,
    runtime: Handle,
    /// Locked for single look-ups and changes; nothing awaits under it.
    state: Mutex<State>,
}

/// A masternode's key in a signing service, in the form that the voting uses ([`BlockSigner`]).
///
/// No caller waits for the service: a task requests a signature, and a later call returns it. While the service does
/// not answer, nothing is signed; the log reports this, and reports when the service answers again.
#[derive(Clone)]
pub struct ServiceMasternode {
    inner: Arc<Inner>,
}

impl ServiceMasternode {
    /// The key of an account of the service, for a chain. Starts to ask for the account in a task of the current
    /// runtime; the service may start later.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(endpoint: Endpoint, account: Address, chain_id: u64) -> Self {
        let state = State {
            status: ServiceStatus::Unknown,
            asked: HashSet::new(),
            answers: LruCache::new(MAX_ANSWERS),
            ready: None,
        };
        let inner = Inner { endpoint, account, chain_id, runtime: Handle::current(), state: Mutex::new(state) };
        let own = Self { inner: Arc::new(inner) };
        own.inner.runtime.spawn(probe(Arc::downgrade(&own.inner)));
        own
    }
}

impl BlockSigner for ServiceMasternode {
    fn address(&self) -> Address {
        self.inner.account
    }

    /// Refused: the service signs messages, never a digest alone.
    fn sign(&self, _: B256) -> Result<[u8; 65], SignError> {
        Err(self.inner.sign_error("a signing service does not sign bare digests".to_owned(), false))
    }

    fn sign_message(&self, message: SignerMessage<'_>, digest: B256) -> Result<[u8; 65], SignError> {
        let inner = &self.inner;
        let state = &mut *inner.state.lock();
        match state.answers.get(&digest) {
            Some(Answer::Signature(signature)) => return Ok(*signature),
            Some(Answer::Refused(reason)) => return Err(inner.sign_error(reason.clone(), false)),
            None => {}
        }
        if let ServiceStatus::Away(reason) = &state.status {
            return Err(inner.sign_error(reason.clone(), false));
        }
        if !state.asked.contains(&digest) {
            if state.asked.len() >= MAX_ASKED {
                let reason = format!("{MAX_ASKED} signatures are already requested");
                return Err(inner.sign_error(reason, false));
            }
            state.asked.insert(digest);
            let request = Request::new(inner, message);
            inner.runtime.spawn(ask(Arc::clone(inner), request, digest));
        }
        Err(inner.sign_error("its signature is requested".to_owned(), true))
    }

    fn on_ready(&self, ready: Arc<dyn Fn() + Send + Sync>) {
        self.inner.state.lock().ready = Some(ready);
    }
}

impl Inner {
    fn sign_error(&self, reason: String, is_pending: bool) -> SignError {
        SignError { address: self.account, reason, is_pending }
    }

    /// Notifies the voting, without holding the lock.
    fn notify_ready(&self) {
        let ready = self.state.lock().ready.clone();
        if let Some(ready) = ready {
            ready();
        }
    }

    /// Records that the service does not answer. Returns whether it answered before, in which case no task is probing
    /// it yet.
    fn note_away(&self, reason: String) -> bool {
        let state = &mut *self.state.lock();
        if !matches!(state.status, ServiceStatus::Away(_)) {
            tracing::error!(masternode = %self.account, %reason, "THIS NODE SIGNS NOTHING until its signing service answers");
        }
        let before = std::mem::replace(&mut state.status, ServiceStatus::Away(reason));
        matches!(before, ServiceStatus::Answers)
    }
}

/// A call of the service.
enum Request {
    /// A method that returns a signature.
    Consensus {
        method: &'static str,
        params: Value,
    },
    Transaction(Box<tenon_api::Transaction>),
}

impl Request {
    fn new(inner: &Inner, message: SignerMessage<'_>) -> Self {
        let (account, chain_id) = (inner.account, inner.chain_id);
        let (method, params) = match message {
            SignerMessage::Vote { hash, round, number, gap_number } => {
                let block = json!({ "hash": hash, "round": round, "number": number });
                let vote = json!({ "proposedBlockInfo": block, "gapNumber": gap_number });
                ("consensus_signVote", json!([account, chain_id, vote]))
            }
            SignerMessage::Timeout { round, gap_number } => {
                let timeout = json!({ "round": round, "gapNumber": gap_number });
                ("consensus_signTimeout", json!([account, chain_id, timeout]))
            }
            SignerMessage::Seal(header) => {
                let mut encoded = Vec::new();
                tenon_chain::encode_header(header, &mut encoded);
                ("consensus_signSeal", json!([account, chain_id, Bytes::from(encoded)]))
            }
            SignerMessage::Transaction(transaction) => return Self::Transaction(Box::new(transaction.clone())),
        };
        Self::Consensus { method, params }
    }

    const fn method(&self) -> &'static str {
        match self {
            Self::Consensus { method, .. } => method,
            Self::Transaction(_) => "account_signTransaction",
        }
    }

    async fn signature(&self, inner: &Inner) -> Result<Option<HashSignature>, EndpointError> {
        match self {
            Self::Consensus { method, params } => signature(&inner.endpoint, method, params).await,
            Self::Transaction(transaction) => transaction_signature(&inner.endpoint, inner.account, transaction).await,
        }
    }
}

/// Requests a signature, checks it, and notifies the voting.
async fn ask(inner: Arc<Inner>, request: Request, digest: B256) {
    let asked = tokio::time::timeout(SIGN_TIME, request.signature(&inner)).await;
    let late = || {
        Err(EndpointError::Unreachable {
            endpoint: inner.endpoint.to_string(),
            reason: format!("no answer in {} s", SIGN_TIME.as_secs()),
        })
    };
    let answer = match asked.unwrap_or_else(|_| late()) {
        Ok(signature) => {
            // Other nodes refuse a high s.
            let is_own = |signature: &HashSignature| {
                signature.s <= HALF_ORDER && signature.signer_of(digest) == Some(inner.account)
            };
            match signature.filter(is_own) {
                Some(signature) => Some(Answer::Signature(bytes_of(&signature))),
                None => {
                    let reason = "the signing service returned no valid signature of this account".to_owned();
                    tracing::error!(masternode = %inner.account, method = request.method(), %reason, "the answer of \
                        the signing service is not used");
                    Some(Answer::Refused(reason))
                }
            }
        }
        Err(error @ (EndpointError::Refused(_) | EndpointError::Wrong { .. })) => {
            let reason = error.to_string();
            tracing::warn!(masternode = %inner.account, method = request.method(), %reason, "the signing service \
                refused");
            Some(Answer::Refused(reason))
        }
        Err(error) => {
            inner.state.lock().asked.remove(&digest);
            if inner.note_away(error.to_string()) {
                inner.runtime.spawn(probe(Arc::downgrade(&inner)));
            }
            None
        }
    };
    if let Some(answer) = answer {
        let state = &mut *inner.state.lock();
        state.asked.remove(&digest);
        state.answers.put(digest, answer);
    }
    inner.notify_ready();
}

/// Asks for the account until the service answers, or the key is dropped.
async fn probe(inner: Weak<Inner>) {
    let mut told_at: Option<tokio::time::Instant> = None;
    loop {
        let Some(inner) = inner.upgrade() else { return };
        let listed = tokio::time::timeout(SIGN_TIME, inner.endpoint.request("account_list", &NO_PARAMS)).await;
        let reason = match listed {
            Ok(Ok(AccountsAnswer(accounts))) if accounts.contains(&inner.account) => {
                inner.state.lock().status = ServiceStatus::Answers;
                tracing::info!(masternode = %inner.account, endpoint = %inner.endpoint, "the signing service answers");
                inner.notify_ready();
                return;
            }
            Ok(Ok(_)) => "it does not have this account".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer in {} s", SIGN_TIME.as_secs()),
        };
        inner.note_away(reason.clone());
        if told_at.is_some_and(|told_at| told_at.elapsed() >= REMIND_INTERVAL) {
            tracing::error!(masternode = %inner.account, %reason, "this node still signs nothing, because its \
                signing service does not answer");
            told_at = None;
        }
        told_at.get_or_insert_with(tokio::time::Instant::now);
        drop(inner);
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
}

/// R, S, recovery id.
fn bytes_of(signature: &HashSignature) -> [u8; 65] {
    let mut bytes = [0; 65];
    bytes[..32].copy_from_slice(&signature.r.to_be_bytes::<32>());
    bytes[32..64].copy_from_slice(&signature.s.to_be_bytes::<32>());
    bytes[64] = u8::from(signature.y_parity);
    bytes
}

#[cfg(test)]
mod tests;
