//! Requests that wait for people or for the approving program.

use std::{collections::BTreeSet, convert::Infallible, future::pending};

use alloy_primitives::B256;
use tenon_signing_audit::Step;
use tenon_signing_policy::Presentation;

use super::{PendingSignature, Service, ServiceError};
use crate::{
    ApproveError, WaitingRequest,
    approvals::{Answer, Approver, WaitingEntry},
    clock::now,
    program::Program,
};

/// The name of the approving program in the log. It differs from all names of people, which contain no space.
pub(super) const PROGRAM: &str = "the program";

impl Service {
    /// Waits until enough people have approved.
    pub(super) async fn ask_people(&self, asked: &PendingSignature) -> Result<(), ServiceError> {
        let policy = self.policy();
        let waiting = WaitingRequest {
            number: asked.number,
            client: asked.request.client.clone(),
            account: asked.request.account,
            kind: asked.request.kind(),
            hash: asked.hash,
            rule: asked.rule.clone(),
            until: now().saturating_add(self.inner.approval_time.as_secs()),
            needed: self.inner.approvals_needed,
            approved_by: Vec::new(),
            presentation: Presentation::new(&asked.request, policy.interfaces()),
        };
        drop(policy);
        let entry = self.inner.approvals.wait(waiting.clone());
        let mut entry: WaitingEntry =
            entry.ok_or(ServiceError::TooMany("the maximum number of requests is waiting for approval"))?;
        // The question to the program is withdrawn when the request stops waiting.
        let asking = async {
            if let Some(program) = &self.inner.program {
                self.ask_program(program, waiting).await;
            }
            pending::<Infallible>().await
        };
        let answered = tokio::time::timeout(self.inner.approval_time, &mut entry.answer);
        let answered = tokio::select! {
            answered = answered => answered,
            never = asking => match never {},
        };
        match answered {
            Ok(Ok(Answer::Approved)) => Ok(()),
            Ok(Ok(Answer::Refused { by })) => Err(ServiceError::Denied(format!("{by} refused it"))),
            Ok(Err(_)) => Err(ServiceError::Stopping),
            Err(_) => Err(ServiceError::Denied("it was not approved in time".to_owned())),
        }
    }

    async fn ask_program(&self, program: &Program, waiting: WaitingRequest) {
        let (number, hash) = (waiting.number, waiting.hash);
        let _ = self.note_shown(number, "program").await;
        let answered = match program.ask(&waiting).await {
            Some(true) => self.approve(PROGRAM, number, hash).await,
            Some(false) => self.inner.approvals.refuse(PROGRAM, number),
            None => return,
        };
        if let Err(error) = answered {
            tracing::info!(number, %error, "the answer of the approving program was ignored");
        }
    }

    /// Logs that a waiting request was shown at a place, once per place.
    ///
    /// # Errors
    /// [`ServiceError::Log`].
    pub(crate) async fn note_shown(&self, number: u64, place: &'static str) -> Result<(), ServiceError> {
        if !self.inner.approvals.mark_shown(number, place) {
            return Ok(());
        }
        let step = Step::Shown { request: number, place: place.to_owned() };
        self.with_log(move |log| Ok(log.append(step, now())?)).await
    }

    /// Approves a waiting request with exactly this hash. Returns after the approval is logged. Approvals are counted
    /// and logged while the log is locked, so that only an approval that counts has a line.
    ///
    /// # Errors
    /// [`ApproveError`].
    pub async fn approve(&self, by: &str, number: u64, hash: B256) -> Result<(), ApproveError> {
        let none = BTreeSet::new();
        // Rejects most invalid approvals before waiting for the log.
        let approver = Approver { name: by, clients: self.inner.approvers.get(by).unwrap_or(&none) };
        self.inner.approvals.check(approver, number, hash)?;
        let (service, by) = (self.clone(), by.to_owned());
        let approved = self.with_log(move |log| {
            let none = BTreeSet::new();
            let approver = Approver { name: &by, clients: service.inner.approvers.get(&by).unwrap_or(&none) };
            let counted = match service.inner.approvals.count(approver, number, hash) {
                Ok(counted) => counted,
                Err(error) => return Ok(Err(error)),
            };
            log.append(Step::Approved { request: number, by, hash }, now())?;
            counted.notify_if_approved();
            Ok(Ok(()))
        });
        approved.await.unwrap_or_else(|error| Err(ApproveError::Log(error.to_string())))
    }

    /// Refuses a waiting request.
    ///
    /// # Errors
    /// [`ApproveError::NotWaiting`].
    pub fn refuse(&self, by: &str, number: u64) -> Result<(), ApproveError> {
        self.inner.approvals.refuse(by, number)
    }
}

/// Logs the end of a request whose caller stopped waiting.
pub(super) struct Unfinished {
    pub(super) service: Service,
    pub(super) number: u64,
    pub(super) is_armed: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_armed {
            let (service, request) = (self.service.clone(), self.number);
            let step = Step::Failed { request, reason: "the client disconnected, or its time limit passed".to_owned() };
            runtime.spawn(async move { service.with_log(move |log| Ok(log.append(step, now())?)).await });
        }
    }
}
