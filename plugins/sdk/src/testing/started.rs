//! A plugin that runs on a test chain as it does in a node.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context as TaskContext, Poll, Wake, Waker},
};

use crate::{Failure, FailureCode};
use tenon_api::EventPosition;

use super::{Chain, fake_host::text};
use crate::{
    Context, Exported,
    boundary::{ForeignFuture, ForeignStream, OwnedBytes, StreamItem},
    context::{Caller, Served},
};

/// Maximum number of times that background work may wake itself before the test fails.
const MAX_POLLS: usize = 100_000;

/// Records that a task was woken.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// The plugin's background work.
struct Background {
    work: ForeignFuture,
    woken: Arc<Flag>,
}

/// A plugin started on a [`Chain`]. Its background work runs only while the test calls a method or [`Started::settle`].
pub struct Started<P: Exported> {
    chain: Chain,
    plugin: Arc<P>,
    /// `None` if there is none, or it has ended.
    background: RefCell<Option<Background>>,
    failures: RefCell<Vec<Failure>>,
}

impl Chain {
    /// Starts a plugin. `settings` is the JSON text of its own settings.
    ///
    /// # Errors
    /// The plugin's reason for not starting.
    pub fn start<P: Exported>(&self, settings: &str) -> Result<Started<P>, Failure> {
        self.start_with(settings, &[])
    }

    /// Starts a plugin with the state of the previous version.
    ///
    /// # Errors
    /// The plugin's reason for not starting.
    pub fn start_with<P: Exported>(&self, settings: &str, handover: &[u8]) -> Result<Started<P>, Failure> {
        let plugin = Arc::new(P::start(self.host(), settings, handover)?);
        let started =
            Started { chain: self.clone(), plugin, background: RefCell::new(None), failures: RefCell::default() };
        started.begin_background();
        started.settle();
        Ok(started)
    }
}

impl<P: Exported> Started<P> {
    /// The plugin's state.
    pub fn plugin(&self) -> &Arc<P> {
        &self.plugin
    }

    /// Runs the plugin's background work until it waits for something that the test must provide. After an error it
    /// restarts as in a node, but only at the next call of this function.
    ///
    /// # Panics
    /// If it never waits.
    pub fn settle(&self) {
        let mut background = self.background.borrow_mut();
        let Some(running) = background.as_mut() else { return };
        let waker = Waker::from(Arc::clone(&running.woken));
        for _ in 0..MAX_POLLS {
            if !running.woken.0.swap(false, Ordering::AcqRel) {
                return;
            }
            match running.work.poll_reply(&TaskContext::from_waker(&waker)) {
                Poll::Pending => {}
                Poll::Ready(Ok(_)) => {
                    *background = None;
                    return;
                }
                Poll::Ready(Err(failure)) => {
                    self.failures.borrow_mut().push(failure);
                    drop(background);
                    self.begin_background();
                    return;
                }
            }
        }
        panic!("the plugin's background work wakes itself endlessly");
    }

    /// Errors with which the background work ended, in order.
    pub fn failures(&self) -> Vec<Failure> {
        self.failures.borrow().clone()
    }

    /// Runs the plugin's background work, then calls a method: raw JSON parameters in, JSON text out.
    ///
    /// # Errors
    /// The method's answer; `-32601` if the table does not have it.
    pub fn call_method(&self, method: &str, params: &str) -> Result<String, Failure> {
        self.settle();
        let found = P::table().methods.iter().find(|candidate| candidate.name == method);
        let found = found.ok_or_else(|| Failure::method_not_found(method))?;
        let future = (found.call)(self.context(), params.as_bytes());
        self.chain.run(ForeignFuture::from(future)).map(text).map_err(Failure::for_client)
    }

    /// Opens a subscription of the plugin.
    ///
    /// # Errors
    /// `-32601` if the table does not have the kind. The first item says whether the plugin accepts it.
    pub fn subscribe(&self, kind: &str, params: &str) -> Result<TestSubscription, Failure> {
        let found = P::table().subscriptions.iter().find(|candidate| candidate.name == kind);
        let found = found.ok_or_else(|| Failure {
            code: FailureCode::METHOD_NOT_FOUND,
            message: format!("no {kind:?} subscription"),
            data: None,
        })?;
        Ok(TestSubscription { stream: (found.open)(self.context(), params.as_bytes()).into() })
    }

    /// Stops it like a replacement, and returns its hand-over.
    pub fn stop(self) -> Vec<u8> {
        let state = self.plugin.export_state();
        self.background.borrow_mut().take();
        self.plugin.stop();
        state
    }

    /// Ends it like the death of its process: nothing runs any more, and its stored data remains.
    pub fn crash(self) {
        drop(self);
    }

    fn context(&self) -> Context<P> {
        self.chain.fake.context_of(Arc::clone(&self.plugin))
    }

    fn begin_background(&self) {
        let Some(begin) = &P::table().background else { return };
        let served = Arc::new(Served { plugin: Arc::clone(&self.plugin), host: self.chain.host() });
        let context = Context::new(served, Caller::NONE, "*", None);
        let work = ForeignFuture::from(begin(context));
        *self.background.borrow_mut() = Some(Background { work, woken: Arc::new(Flag(AtomicBool::new(true))) });
    }
}

/// An open subscription.
pub struct TestSubscription {
    stream: ForeignStream,
}

impl TestSubscription {
    /// Items sent since the last call; the very first item is empty: the acceptance.
    pub fn items(&mut self) -> Vec<Result<String, Failure>> {
        self.new_items().into_iter().map(|item| item.map(text).map_err(Failure::for_client)).collect()
    }

    /// The positions of the events that the items since the last call were made of.
    pub fn positions(&mut self) -> Vec<Option<EventPosition>> {
        self.new_items().into_iter().map(|item| item.ok().and_then(|item| item.position)).collect()
    }

    /// The bytes of the items since the last call, as the host receives them. Equal addresses show that subscriptions
    /// share a text.
    pub fn bodies(&mut self) -> Vec<Result<OwnedBytes, Failure>> {
        self.new_items().into_iter().map(|item| item.map(|item| item.body).map_err(Failure::for_client)).collect()
    }

    fn new_items(&mut self) -> Vec<Result<StreamItem, Failure>> {
        let task = TaskContext::from_waker(Waker::noop());
        let next = || match self.stream.poll_item(&task) {
            Poll::Ready(item) => item,
            Poll::Pending => None,
        };
        std::iter::from_fn(next).collect()
    }
}
