//! Starts and stops actors.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::mpsc,
    thread,
    time::Duration,
};

use actix_rt::{Arbiter, System};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{
    MakeError, SpawnError,
    actor::{Actor, ActorHealth, ActorOptions, ActorState, HealthCell, Mailbox},
    supervised_actor::{Envelope, Factory, StopFlag, SupervisedActor},
};

/// A future without the actor's type.
type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An actor's entry in the supervisor.
struct Supervised {
    health: HealthCell,
    /// Its thread; `None` without a thread of its own.
    arbiter: Option<Arbiter>,
    /// Tells the actor to stop and waits until it has.
    stop: Box<dyn FnOnce() -> BoxFuture + Send>,
}

/// The actix system, which creates the threads of actors.
struct RunningSystem {
    system: System,
    /// `None` after the stop.
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

/// Starts actors, each on a thread of its own, and stops them in reverse order.
#[derive(derive_more::Debug)]
#[debug("Supervisor({:?})", self.health())]
pub struct Supervisor {
    /// `None`: actors run as tasks of the caller.
    system: Option<RunningSystem>,
    stop: StopFlag,
    /// In order of start; `None` after the stop. Locked only to push, list and take; nothing awaits under it.
    actors: Mutex<Option<Vec<Supervised>>>,
}

impl Supervisor {
    /// Starts the actix system.
    ///
    /// # Errors
    /// If the operating system refuses a thread.
    pub fn new() -> Result<Self, SpawnError> {
        let (send, receive) = mpsc::channel();
        let run = move || {
            let runner = System::new();
            // Cannot fail: the receiver waits below.
            let _ = send.send(System::current());
            if let Err(error) = runner.run() {
                tracing::error!(%error, "actor system ended");
            }
        };
        let thread = thread::Builder::new().name("actors".to_owned()).spawn(run).map_err(SpawnError::System)?;
        let system = receive.recv().map_err(|_| SpawnError::SystemEnded)?;
        Ok(Self {
            system: Some(RunningSystem { system, thread: Mutex::new(Some(thread)) }),
            stop: StopFlag::default(),
            actors: Mutex::new(Some(Vec::new())),
        })
    }

    /// For simulations: actors run as tasks of the `LocalSet` in which [`Supervisor::spawn`] is called, so that a
    /// virtual clock determines their order. An actor that blocks stops everything else there.
    pub fn without_threads() -> Self {
        Self { system: None, stop: StopFlag::default(), actors: Mutex::new(Some(Vec::new())) }
    }

    /// Starts an actor. `make` builds it now, on the caller's thread, and again after each failure, on the actor's
    /// thread.
    ///
    /// # Errors
    /// The error of `make`; the operating system refuses a thread; or the supervisor was stopped.
    pub fn spawn<A: Actor>(
        &self,
        name: &'static str,
        options: ActorOptions,
        mut make: impl FnMut() -> Result<A, MakeError> + Send + 'static,
    ) -> Result<Mailbox<A::Message>, SpawnError> {
        let inner = catch_unwind(AssertUnwindSafe(&mut make))
            .map_err(|_| SpawnError::Panicked { actor: name })?
            .map_err(SpawnError::NotBuilt)?;
        let arbiter = self.system.as_ref().map(|running| new_arbiter(&running.system, name)).transpose()?;
        let health = HealthCell::new(name, options.mailbox_capacity);
        let make: Factory<A> = Box::new(make);
        let (ready, is_ready) = mpsc::channel();
        let actor = SupervisedActor::new(name, options, make, inner, health.clone(), self.stop.clone(), ready);
        let address = match &arbiter {
            Some(arbiter) => {
                let address = actix::Supervisor::start_in_arbiter(&arbiter.handle(), move |_| actor);
                is_ready.recv().map_err(|_| SpawnError::NoSystem { actor: name })?;
                address
            }
            // Waiting for its start here would deadlock: the actor runs on this very task.
            None => actix::Supervisor::start(move |context: &mut actix::Context<SupervisedActor<A>>| {
                context.set_mailbox_capacity(options.mailbox_capacity);
                actor
            }),
        };
        let mailbox = Mailbox { name, recipient: address.recipient(), health: health.clone() };

        let recipient = mailbox.recipient.clone();
        let stop = Box::new(move || -> BoxFuture {
            Box::pin(async move {
                let (done, is_done) = oneshot::channel();
                if recipient.send(Envelope::Stop(done)).await.is_ok() {
                    // An error means that the actor is already gone.
                    let _ = is_done.await;
                }
            })
        });
        let Some(actors) = &mut *self.actors.lock() else {
            if let Some(arbiter) = arbiter {
                arbiter.stop();
            }
            return Err(SpawnError::NoSystem { actor: name });
        };
        actors.push(Supervised { health, arbiter, stop });
        Ok(mailbox)
    }

    /// The health of every actor, in order of start.
    pub fn health(&self) -> Vec<ActorHealth> {
        let actors = self.actors.lock();
        actors.iter().flatten().map(|actor| actor.health.get()).collect()
    }

    /// Stops one actor, if there is one of this name, while the others continue. It first handles the messages it has
    /// accepted, within `grace`. Returns false if it did not finish in time: it then continues until it has, and accepts
    /// nothing more.
    pub async fn stop_one(&self, name: &str, grace: Duration) -> bool {
        let actor = {
            let mut actors = self.actors.lock();
            let Some(actors) = &mut *actors else { return true };
            let Some(index) = actors.iter().position(|actor| actor.health.get().name == name) else { return true };
            actors.remove(index)
        };
        let is_finished = tokio::time::timeout(grace, (actor.stop)()).await.is_ok();
        if !is_finished {
            actor.health.update(|health| health.state = ActorState::Stopped);
        }
        if let Some(arbiter) = &actor.arbiter {
            arbiter.stop();
        }
        is_finished
    }

    /// Stops all actors in reverse order of start. Each first handles the messages it has accepted; `grace` is the time
    /// limit for all of them. Returns the names of actors that exceeded it. Later calls of [`Supervisor::spawn`] fail.
    pub async fn stop(&self, grace: Duration) -> Vec<&'static str> {
        self.stop.set();
        let deadline = tokio::time::Instant::now() + grace;
        let actors = self.actors.lock().take().unwrap_or_default();
        let mut unfinished = Vec::new();
        for actor in actors.into_iter().rev() {
            if tokio::time::timeout_at(deadline, (actor.stop)()).await.is_err() {
                unfinished.push(actor.health.get().name);
            }
            if let Some(arbiter) = &actor.arbiter {
                arbiter.stop();
            }
        }
        if let Some(RunningSystem { system, thread }) = &self.system {
            system.stop();
            let thread = thread.lock().take();
            if let Some(thread) = thread.filter(|_| unfinished.is_empty()) {
                // Joining takes as long as the last poll of an empty event loop.
                let _ = tokio::task::spawn_blocking(move || thread.join()).await;
            }
        }
        unfinished
    }
}

/// A thread with an event loop. Must be created on the system's own thread, where actix looks for its system.
fn new_arbiter(system: &System, name: &'static str) -> Result<Arbiter, SpawnError> {
    let (send, receive) = mpsc::channel();
    system.arbiter().spawn_fn(move || {
        // Cannot fail: the receiver waits below.
        let _ = send.send(Arbiter::try_new());
    });
    match receive.recv() {
        Ok(Ok(arbiter)) => Ok(arbiter),
        Ok(Err(error)) => Err(SpawnError::NoThread { actor: name, error }),
        Err(_) => Err(SpawnError::NoSystem { actor: name }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use tenon_api::ActorError;

    use super::*;
    use crate::RestartPolicy;

    enum Order {
        Add(u32),
        Ask(oneshot::Sender<u32>),
        Panic,
        /// Reports that it has started, then waits.
        Wait(oneshot::Sender<()>, std::sync::mpsc::Receiver<()>),
    }

    struct Counter {
        sum: u32,
        stopped: Arc<AtomicU32>,
    }

    impl Actor for Counter {
        type Message = Order;

        fn handle(&mut self, order: Order) {
            match order {
                Order::Add(number) => self.sum += number,
                Order::Ask(answer) => answer.send(self.sum).unwrap(),
                Order::Panic => panic!("on purpose"),
                Order::Wait(begun, release) => {
                    begun.send(()).unwrap();
                    release.recv().unwrap();
                }
            }
        }

        fn stopping(&mut self) {
            self.stopped.store(self.sum, Ordering::SeqCst);
        }
    }

    fn counter(supervisor: &Supervisor, options: ActorOptions) -> (Mailbox<Order>, Arc<AtomicU32>) {
        let stopped = Arc::new(AtomicU32::new(u32::MAX));
        let shared = Arc::clone(&stopped);
        let make = move || Ok(Counter { sum: 0, stopped: Arc::clone(&shared) });
        (supervisor.spawn("counter", options, make).unwrap(), stopped)
    }

    /// Makes the actor wait until the returned sender sends.
    async fn blocked(mailbox: &Mailbox<Order>) -> std::sync::mpsc::Sender<()> {
        let ((begun, has_begun), (release, wait)) = (oneshot::channel(), std::sync::mpsc::channel());
        mailbox.try_send(Order::Wait(begun, wait)).unwrap();
        has_begun.await.unwrap();
        release
    }

    async fn ask(mailbox: &Mailbox<Order>) -> u32 {
        let (answer, answered) = oneshot::channel();
        mailbox.try_send(Order::Ask(answer)).unwrap();
        answered.await.unwrap()
    }

    fn fast_restarts(ceiling: u32) -> ActorOptions {
        let first_pause = Duration::from_millis(1);
        ActorOptions { restart: RestartPolicy { first_pause, ceiling, ..Default::default() }, ..Default::default() }
    }

    #[tokio::test]
    async fn messages_are_handled_in_order_and_before_the_stop() {
        let supervisor = Supervisor::new().unwrap();
        let (mailbox, stopped) = counter(&supervisor, ActorOptions::default());
        for number in 1..=100 {
            mailbox.try_send(Order::Add(number)).unwrap();
        }

        let unfinished = supervisor.stop(Duration::from_secs(10)).await;

        assert!(unfinished.is_empty());
        assert_eq!(stopped.load(Ordering::SeqCst), 5050);
        let refused = mailbox.try_send(Order::Add(1)).map(|()| mailbox.health.get().state);
        assert!(matches!(refused, Err(_) | Ok(ActorState::Stopped)));
    }

    #[tokio::test(start_paused = true)]
    async fn without_threads_an_actor_runs_as_a_task_of_the_caller_and_has_its_capacity_at_once() {
        let supervisor = Supervisor::without_threads();
        let run = async {
            let options = ActorOptions { mailbox_capacity: 100, ..Default::default() };
            let (mailbox, stopped) = counter(&supervisor, options);
            for number in 1..=100 {
                mailbox.try_send(Order::Add(number)).unwrap();
            }
            assert_eq!(supervisor.health()[0].state, ActorState::Running);

            assert!(supervisor.stop_one("counter", Duration::from_secs(10)).await);

            assert_eq!(stopped.load(Ordering::SeqCst), 5050);
        };

        tokio::task::LocalSet::new().run_until(run).await;

        assert!(supervisor.stop(Duration::from_secs(10)).await.is_empty());
    }

    #[tokio::test]
    async fn a_panic_loses_one_message_and_the_actor_is_rebuilt() {
        let supervisor = Supervisor::new().unwrap();
        let (mailbox, _) = counter(&supervisor, fast_restarts(8));
        mailbox.try_send(Order::Add(5)).unwrap();
        assert_eq!(ask(&mailbox).await, 5);

        mailbox.try_send(Order::Panic).unwrap();
        mailbox.try_send(Order::Add(1)).unwrap();

        assert_eq!(ask(&mailbox).await, 1);
        let health = supervisor.health().remove(0);
        assert_eq!((health.restarts, health.last_panic.as_deref()), (1, Some("on purpose")));
        supervisor.stop(Duration::from_secs(10)).await;
    }

    #[tokio::test]
    async fn one_actor_can_be_stopped_and_started_while_others_continue() {
        let supervisor = Supervisor::new().unwrap();
        let (first, stopped) = counter(&supervisor, ActorOptions::default());
        let other = supervisor
            .spawn("other", ActorOptions::default(), || Ok(Counter { sum: 0, stopped: Arc::default() }))
            .unwrap();
        for number in 1..=100 {
            first.try_send(Order::Add(number)).unwrap();
        }

        assert!(supervisor.stop_one("counter", Duration::from_secs(10)).await);
        assert!(supervisor.stop_one("counter", Duration::from_secs(10)).await, "it has been stopped already");
        assert_eq!(stopped.load(Ordering::SeqCst), 5050);
        assert_eq!(first.try_send(Order::Add(1)), Err(ActorError::Stopped { actor: "counter" }));
        assert_eq!(ask(&other).await, 0);
        let (again, _) = counter(&supervisor, ActorOptions::default());
        assert_eq!(ask(&again).await, 0);
        let names: Vec<_> = supervisor.health().iter().map(|health| health.name).collect();
        assert_eq!(names, ["other", "counter"]);
        supervisor.stop(Duration::from_secs(10)).await;
    }

    #[tokio::test]
    async fn a_stopped_actor_has_released_what_it_was_built_from() {
        let supervisor = Supervisor::new().unwrap();
        let (_, stopped) = counter(&supervisor, ActorOptions::default());
        assert!(Arc::strong_count(&stopped) > 1);

        assert!(supervisor.stop_one("counter", Duration::from_secs(10)).await);

        assert_eq!(Arc::strong_count(&stopped), 1);
        supervisor.stop(Duration::from_secs(10)).await;
    }

    #[tokio::test]
    async fn no_actor_is_started_after_the_stop() {
        let supervisor = Supervisor::new().unwrap();
        let (_, stopped) = counter(&supervisor, ActorOptions::default());

        assert!(supervisor.stop(Duration::from_secs(10)).await.is_empty());

        assert_eq!(stopped.load(Ordering::SeqCst), 0);
        let refused =
            supervisor.spawn("late", ActorOptions::default(), || Ok(Counter { sum: 0, stopped: Arc::default() }));
        assert!(matches!(refused, Err(SpawnError::NoSystem { actor: "late" })));
        assert!(supervisor.health().is_empty());
    }

    #[tokio::test]
    async fn an_actor_that_fails_too_often_is_reported_by_name() {
        let supervisor = Supervisor::new().unwrap();
        let (mailbox, _) = counter(&supervisor, fast_restarts(2));

        for _ in 0..3 {
            mailbox.try_send(Order::Panic).unwrap();
        }
        while !matches!(supervisor.health()[0].state, ActorState::Failed { .. }) {
            tokio::task::yield_now().await;
        }

        let (answer, answered) = oneshot::channel();
        let failed = ActorError::Failed { actor: "counter", reason: "on purpose".to_owned() };
        assert_eq!(mailbox.try_send(Order::Ask(answer)), Err(failed));
        assert!(answered.await.is_err());
        supervisor.stop(Duration::from_secs(10)).await;
    }

    #[tokio::test]
    async fn a_full_mailbox_is_refused_at_once() {
        let supervisor = Supervisor::new().unwrap();
        let options = ActorOptions { mailbox_capacity: 2, ..Default::default() };
        let (mailbox, _) = counter(&supervisor, options);
        let release = blocked(&mailbox).await;

        let refused = std::iter::repeat_with(|| mailbox.try_send(Order::Add(1))).take(10).find_map(Result::err);

        assert_eq!(refused, Some(ActorError::MailboxFull { actor: "counter" }));
        release.send(()).unwrap();
        supervisor.stop(Duration::from_secs(10)).await;
    }

    #[tokio::test]
    async fn messages_in_the_mailbox_are_counted_until_they_are_handled_or_refused() {
        let supervisor = Supervisor::new().unwrap();
        let options = ActorOptions { mailbox_capacity: 4, ..Default::default() };
        let (mailbox, _) = counter(&supervisor, options);
        let release = blocked(&mailbox).await;
        let counted = || {
            let health = supervisor.health().remove(0);
            (health.waiting, health.capacity)
        };
        assert_eq!(counted(), (0, 4), "the running message does not wait");

        let accepted = std::iter::repeat_with(|| mailbox.try_send(Order::Add(1))).take_while(Result::is_ok).count();

        assert_eq!(counted(), (accepted, 4));
        release.send(()).unwrap();
        while counted().0 > 0 {
            tokio::task::yield_now().await;
        }
        supervisor.stop(Duration::from_secs(10)).await;
    }

    #[tokio::test]
    async fn a_message_that_must_not_be_lost_waits_while_the_mailbox_is_full() {
        let supervisor = Supervisor::new().unwrap();
        let options = ActorOptions { mailbox_capacity: 2, ..Default::default() };
        let (mailbox, _) = counter(&supervisor, options);
        let release = blocked(&mailbox).await;
        let filled = std::iter::repeat_with(|| mailbox.try_send(Order::Add(1))).take_while(Result::is_ok).count();

        let mut sending = Box::pin(mailbox.send(Order::Add(100)));
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut sending).await.is_err());
        release.send(()).unwrap();
        sending.await.unwrap();

        let sum = loop {
            // The mailbox may still be full.
            let (answer, answered) = oneshot::channel();
            if mailbox.try_send(Order::Ask(answer)).is_ok() {
                break answered.await.unwrap();
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(u64::from(sum), 100 + filled as u64);
        supervisor.stop(Duration::from_secs(10)).await;
        assert!(mailbox.send(Order::Add(1)).await.is_err());
    }

    #[tokio::test]
    async fn an_actor_that_cannot_be_built_fails_the_start() {
        let supervisor = Supervisor::new().unwrap();

        let refused = supervisor.spawn::<Counter>("counter", ActorOptions::default(), || Err("no key".into()));

        assert_eq!(refused.unwrap_err().to_string(), "no key");
        assert!(supervisor.health().is_empty());
        supervisor.stop(Duration::from_secs(10)).await;
    }
}
