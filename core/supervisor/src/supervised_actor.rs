//! The only actix actor: it wraps an [`Actor`] and catches its panics.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};

use actix::{ActorContext, Context, Handler, Supervised};
use tenon_bus::{
    panic_text, spans,
    waits::{self, WaitPlace},
};
use tokio::sync::oneshot;

use crate::{
    MakeError,
    actor::{Actor, ActorOptions, ActorState, HealthCell, WaitingGuard},
};

/// An item of a mailbox.
pub(crate) enum Envelope<M> {
    /// For the actor; when it was sent, if waits are sampled; its part of the number of waiting messages.
    Message(M, Option<Instant>, WaitingGuard),
    /// The node stops: the actor cleans up and reports that it has.
    Stop(oneshot::Sender<()>),
}

impl<M: Send + 'static> actix::Message for Envelope<M> {
    type Result = ();
}

/// Set once, when the node stops; wakes actors that pause before a restart.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopFlag(Arc<(Mutex<bool>, Condvar)>);

impl StopFlag {
    pub(crate) fn set(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Waits for `pause` or until the flag is set; returns whether it is set.
    fn wait_timeout(&self, pause: Duration) -> bool {
        let flag = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (flag, _) = self.0.1.wait_timeout_while(flag, pause, |stop| !*stop).unwrap_or_else(PoisonError::into_inner);
        *flag
    }
}

pub(crate) type Factory<A> = Box<dyn FnMut() -> Result<A, MakeError> + Send>;

/// An actor with what is needed to rebuild it.
pub(crate) struct SupervisedActor<A: Actor> {
    name: &'static str,
    options: ActorOptions,
    make: Factory<A>,
    health: HealthCell,
    stop: StopFlag,
    /// `None` after a panic, until it is rebuilt; stays `None` once it has failed for good.
    ///
    /// Boxed because actix requires its actors to be `Unpin`, and ours may not be.
    inner: Option<Box<A>>,
    failures: Vec<Instant>,
    /// Signalled once the mailbox has its capacity; until then actix's default of 16 holds.
    ready: Option<mpsc::Sender<()>>,
}

impl<A: Actor> SupervisedActor<A> {
    pub(crate) fn new(
        name: &'static str,
        options: ActorOptions,
        make: Factory<A>,
        inner: A,
        health: HealthCell,
        stop: StopFlag,
        ready: mpsc::Sender<()>,
    ) -> Self {
        Self {
            name,
            options,
            make,
            health,
            stop,
            inner: Some(Box::new(inner)),
            failures: Vec::new(),
            ready: Some(ready),
        }
    }

    /// Runs a closure on the actor. After a panic it drops the actor and returns `false`.
    fn run(&mut self, action: impl FnOnce(&mut A)) -> bool {
        let Some(inner) = self.inner.as_mut() else { return false };
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| action(inner))) else { return true };
        let cause = panic_text(&*panic);
        tracing::error!(actor = self.name, cause, "actor panicked");
        self.health.update(|health| health.last_panic = Some(cause.to_owned()));
        // Its state may be half changed, so only a new actor is sound. A panic in its destructor is ignored.
        let broken = self.inner.take();
        let _ = catch_unwind(AssertUnwindSafe(move || drop(broken)));
        false
    }

    /// The pause after this failure, or `None` if it was one too many.
    fn pause(&mut self) -> Option<Duration> {
        let policy = self.options.restart;
        let now = Instant::now();
        self.failures.retain(|failure| now.duration_since(*failure) < policy.window);
        self.failures.push(now);
        let failures = u32::try_from(self.failures.len()).unwrap_or(u32::MAX);
        if failures > policy.ceiling {
            return None;
        }
        let factor = 2u32.saturating_pow(failures - 1);
        Some(policy.first_pause.saturating_mul(factor).min(policy.max_pause))
    }

    /// Pauses and rebuilds the actor, as often as the policy allows.
    fn restart(&mut self) {
        self.health.update(|health| health.state = ActorState::Restarting);
        let mut reason = self.health.get().last_panic.unwrap_or_default();
        while let Some(pause) = self.pause() {
            if self.stop.wait_timeout(pause) {
                return;
            }
            match catch_unwind(AssertUnwindSafe(|| (self.make)())) {
                Ok(Ok(inner)) => {
                    self.inner = Some(Box::new(inner));
                    if self.run(A::started) {
                        self.health.update(|health| {
                            health.restarts += 1;
                            health.state = ActorState::Running;
                        });
                        tracing::warn!(actor = self.name, ?pause, "actor restarted");
                        return;
                    }
                }
                Ok(Err(error)) => reason = error.to_string(),
                Err(panic) => reason = panic_text(&*panic).to_owned(),
            }
        }
        tracing::error!(actor = self.name, reason, "actor failed too often and is not restarted");
        self.health.update(|health| health.state = ActorState::Failed { reason });
    }
}

impl<A: Actor> actix::Actor for SupervisedActor<A> {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.set_mailbox_capacity(self.options.mailbox_capacity);
        if let Some(ready) = self.ready.take() {
            // The supervisor waits for this.
            let _ = ready.send(());
        }
        if self.inner.is_some() && self.failures.is_empty() && !self.run(A::started) {
            self.restart();
        }
    }
}

impl<A: Actor> Supervised for SupervisedActor<A> {
    fn restarting(&mut self, _context: &mut Self::Context) {
        self.restart();
    }
}

impl<A: Actor> Handler<Envelope<A::Message>> for SupervisedActor<A> {
    type Result = ();

    fn handle(&mut self, envelope: Envelope<A::Message>, context: &mut Self::Context) {
        match envelope {
            Envelope::Message(message, sent, waiting) => {
                drop(waiting);
                let (was_alive, name) = (self.inner.is_some(), self.name);
                let (function, file, line) = ("tenon_supervisor::Mailbox", file!(), line!());
                waits::record_wait(sent, WaitPlace { function, subject: name, file, line });
                let handle = |inner: &mut A| {
                    let _span = spans::span("actor", name);
                    tenon_bus::panic_if_injected("actor", name);
                    inner.handle(message);
                };
                if !self.run(handle) && was_alive {
                    // actix's supervisor calls `restarting` and keeps the mailbox.
                    context.stop();
                }
            }
            Envelope::Stop(done) => {
                self.run(A::stopping);
                self.inner = None;
                // It is not built again, so what it needed for that is released before the stop is reported.
                self.make = Box::new(|| Err("the actor was stopped".into()));
                self.health.update(|health| health.state = ActorState::Stopped);
                // Fails only if the receiver is gone.
                let _ = done.send(());
            }
        }
    }
}
