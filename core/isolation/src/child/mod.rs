//! The plugin's process: one thread that runs the plugin, one that watches it.
//!
//! It trusts the node and not the plugin. Invariants: the sandbox is closed before the library is mapped; every call is
//! answered exactly once and every subscription ended exactly once, even if cancelled.

mod cycles;
mod upstream;
mod watchdog;

use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::OsStr,
    future::poll_fn,
    io::{self, ErrorKind, Read},
    os::unix::{ffi::OsStrExt, net::UnixStream as BlockingSocket},
    path::PathBuf,
    rc::Rc,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use tenon_bus::{ClientId, Origin};
use tenon_host::{Caller, CheckedLibrary, Exposure, LocalPlugin, PluginInstance, context_within};
use tenon_sandbox::{MissingProtection, Stage};
use tenon_sdk::Failure;
use tokio::{
    net::UnixStream,
    sync::Semaphore,
    task::{AbortHandle, LocalSet, spawn_local},
};
use zeroize::Zeroizing;

use self::{
    upstream::{Upstream, UpstreamBackend},
    watchdog::Watch,
};
use crate::{
    BACKGROUND, WINDOW, manifest_frame,
    wire::{Frame, FrameBuffer, Kind, WireError, put_bytes, put_item, put_reply},
};

/// Maximum number of open descriptors of the process.
const DESCRIPTORS: u64 = 64;

/// Why the process ends early. The node reports what it observed.
#[derive(Debug, thiserror::Error)]
enum ChildError {
    #[error("the socket to the node: {0}")]
    Socket(#[from] io::Error),
    #[error("the node: {0}")]
    Wire(#[from] WireError),
}

/// Runs as a plugin's process: standard input is the socket that [`IsolationOptions::program`] was started with.
/// Returns when the node requests it or has gone. Must be called before anything else opens a descriptor or starts a
/// thread.
///
/// # Errors
/// If standard input is no such socket, or the node breaks the wire protocol.
///
/// [`IsolationOptions::program`]: crate::IsolationOptions::program
pub fn run_plugin_child() -> io::Result<()> {
    run().map_err(|error| match error {
        ChildError::Socket(error) => error,
        ChildError::Wire(error) => io::Error::new(ErrorKind::InvalidData, error),
    })
}

fn run() -> Result<(), ChildError> {
    let mut socket = BlockingSocket::from(tenon_sandbox::take_inherited_socket()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let upstream = Upstream::new(socket.try_clone()?);
    let mut buffer = FrameBuffer::new();
    let opening = receive(&mut socket, &mut buffer, Kind::Open, Opening::read)?;
    let watch = Arc::new(Watch::default());
    let mut observer = if opening.cycles > 0 { Some(cycles::Observer::new()?) } else { None };
    let mut warnings = Vec::new();
    let gaps = restrict(&opening, &watch, &upstream, &mut warnings)?;
    let _runtime = runtime.enter();
    if !take_gaps(gaps, &opening, &upstream, &mut warnings) {
        return Ok(());
    }
    if let Some(observer) = &mut observer {
        let (settings, _) = receive(&mut socket, &mut buffer, Kind::Start, start_fields)?;
        return Ok(cycles::run(&opening, &settings, &watch, &upstream, observer)?);
    }
    let plugin = match LocalPlugin::open(&opening.library) {
        Ok(plugin) => plugin,
        Err(error) => {
            upstream.refuse(&error.to_string());
            return Ok(());
        }
    };
    // Remove the permissions that only mapping needs. If a library's initialisers prevent this, the first filter still
    // applies.
    let gap = tenon_sandbox::close_system_calls(Stage::Serving);
    if !take_gaps(gap, &opening, &upstream, &mut warnings) {
        return Ok(());
    }
    upstream.out.push(Kind::Manifest, 0, |out| {
        put_bytes(out, warnings.join("\n").as_bytes());
        manifest_frame::put_manifest(out, &plugin.manifest);
    });
    upstream.write_now();
    let (settings, handover) = receive(&mut socket, &mut buffer, Kind::Start, start_fields)?;
    let backend = UpstreamBackend { upstream: Arc::clone(&upstream), watch: Arc::clone(&watch) };
    let started = plugin.start_with(Box::new(backend), &settings, &handover);
    let outcome = started.as_ref().map(|_| &[][..]);
    upstream.out.push(Kind::Started, 0, |out| put_reply(out, Kind::Started, outcome));
    upstream.write_now();
    let Ok(instance) = started else { return Ok(()) };
    socket.set_nonblocking(true)?;
    let child = Rc::new(Child {
        upstream,
        instance: Arc::from(instance),
        watch,
        processor_time: opening.processor_time,
        work: RefCell::default(),
        exposure: RefCell::new(("*".to_owned(), Exposure::all())),
    });
    LocalSet::new().block_on(&runtime, serve(child, UnixStream::from_std(socket)?, buffer))
}

/// Restricts this process before it maps the library. Returns the sandbox's gaps.
fn restrict(
    opening: &Opening,
    watch: &Arc<Watch>,
    upstream: &Arc<Upstream>,
    warnings: &mut Vec<String>,
) -> Result<Vec<MissingProtection>, ChildError> {
    let unlimited = tenon_sandbox::limit_memory(opening.memory).err();
    warnings.extend(unlimited.map(|error| format!("memory is not limited: {error}")));
    let mut gaps = Vec::from_iter(tenon_sandbox::close_files(Some(&opening.library.copy)));
    watchdog::start(Arc::clone(watch), Arc::clone(upstream), opening.processor_time)?;
    // Once the filter is installed, no limit can be changed.
    tenon_sandbox::limit_descriptors(DESCRIPTORS)?;
    // Load cycles look for leftover threads; a serving plugin cannot start any.
    let stage = if opening.cycles > 0 { Stage::Living } else { Stage::Mapping };
    gaps.extend(tenon_sandbox::close_system_calls(stage));
    Ok(gaps)
}

/// Adds the sandbox's gaps to the warnings. Returns false, after notifying the node, if the library must not be started
/// with them.
fn take_gaps(
    gaps: impl IntoIterator<Item = MissingProtection>,
    opening: &Opening,
    upstream: &Upstream,
    warnings: &mut Vec<String>,
) -> bool {
    for gap in gaps {
        match gap {
            MissingProtection::Required(reason) if opening.needs_sandbox => {
                let library = opening.library.path.display();
                upstream.refuse(&format!(
                    "plugin {library}: a foreign plugin does not start without its sandbox: {reason}; to start it \
                     anyway, list its module under plugins.unsandboxed"
                ));
                return false;
            }
            MissingProtection::Required(reason) | MissingProtection::Newer(reason) => warnings.push(reason),
        }
    }
    true
}

/// Reads settings and hand-over.
fn start_fields(frame: Frame<'_>) -> Result<(String, Vec<u8>), WireError> {
    let mut fields = frame.fields();
    Ok((fields.text()?.to_owned(), fields.rest().to_vec()))
}

/// The node's first message.
struct Opening {
    memory: u64,
    processor_time: Duration,
    library: CheckedLibrary,
    /// Whether to refuse the library if the sandbox cannot be closed.
    needs_sandbox: bool,
    /// Number of load cycles; 0 to serve.
    cycles: u32,
    /// The methods to call in each cycle.
    methods: Vec<u32>,
}

impl Opening {
    fn read(frame: Frame<'_>) -> Result<Self, WireError> {
        let mut fields = frame.fields();
        let (memory, processor_time) = (fields.u64()?, Duration::from_nanos(fields.u64()?));
        let mut path = || Ok::<_, WireError>(PathBuf::from(OsStr::from_bytes(fields.bytes()?)));
        let (path, copy) = (path()?, path()?);
        let library = CheckedLibrary { path, copy, hash: fields.text()?.to_owned() };
        let needs_sandbox = fields.u8()? != 0;
        let cycles = fields.u32()?;
        let methods = fields.rest().chunks_exact(4).filter_map(|number| number.try_into().ok()).map(u32::from_le_bytes);
        Ok(Self { memory, processor_time, library, needs_sandbox, cycles, methods: methods.collect() })
    }
}

/// Waits for a frame of this kind.
fn receive<T>(
    socket: &mut BlockingSocket,
    buffer: &mut FrameBuffer,
    kind: Kind,
    read: impl Fn(Frame<'_>) -> Result<T, WireError>,
) -> Result<T, ChildError> {
    loop {
        if let Some(frame) = buffer.next()? {
            if frame.kind == kind {
                return Ok(read(frame)?);
            }
            return Err(frame.unexpected().into());
        }
        let count = socket.read(buffer.room())?;
        if count == 0 {
            return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        buffer.arrived(count);
    }
}

/// A running call or subscription.
enum Work {
    Call(AbortHandle),
    Subscription(AbortHandle, Arc<Semaphore>),
}

/// The plugin with its running work. Owned by one thread.
struct Child {
    upstream: Arc<Upstream>,
    instance: Arc<dyn PluginInstance>,
    watch: Arc<Watch>,
    processor_time: Duration,
    /// The code that removes an entry sends the last frame for it.
    work: RefCell<HashMap<u64, Work>>,
    /// The last list of namespaces, cached because most calls come from the same endpoint.
    exposure: RefCell<(String, Exposure)>,
}

/// Serves until the node requests the stop or has gone.
async fn serve(child: Rc<Child>, socket: UnixStream, mut buffer: FrameBuffer) -> Result<(), ChildError> {
    let read = async {
        loop {
            while let Some(frame) = buffer.next()? {
                if frame.kind == Kind::Stop {
                    return Ok(());
                }
                child.handle(frame)?;
            }
            match socket.try_read(buffer.room()) {
                Ok(0) => return Ok(()),
                Ok(count) => buffer.arrived(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => socket.readable().await?,
                Err(error) => return Err(error.into()),
            }
        }
    };
    let ended = tokio::select! {
        biased;
        ended = read => ended,
        error = child.upstream.out.pump_retaining_unwritten(&socket) => Err(error.into()),
    };
    // Drop running work before the plugin.
    for (_, work) in child.work.take() {
        let (Work::Call(task) | Work::Subscription(task, _)) = work;
        task.abort();
    }
    tokio::task::yield_now().await;
    ended
}

impl Child {
    fn handle(self: &Rc<Self>, frame: Frame<'_>) -> Result<(), WireError> {
        match frame.kind {
            Kind::Call => self.begin_call(frame)?,
            Kind::Subscribe => self.subscribe(frame)?,
            Kind::Cancel => self.cancel(frame.id),
            Kind::Credit => {
                let count = frame.fields().u32()?;
                if let Some(Work::Subscription(_, credit)) = self.work.borrow().get(&frame.id) {
                    credit.add_permits(count as usize);
                }
            }
            Kind::ExportState => {
                let state = self.watch.over(frame.id, || self.instance.export_state());
                self.reply(frame.id, state.as_deref());
            }
            Kind::BusReply | Kind::BusItem | Kind::BusEnd => self.upstream.take(frame)?,
            Kind::Ping => self.upstream.out.push(Kind::Pong, frame.id, |_| {}),
            _ => return Err(frame.unexpected()),
        }
        Ok(())
    }

    fn reply(&self, id: u64, result: Result<&[u8], &Failure>) {
        self.upstream.out.push(Kind::Reply, id, |out| put_reply(out, Kind::Reply, result));
    }

    fn end(&self, id: u64) {
        self.upstream.out.push(Kind::End, id, |_| {});
    }

    fn caller(&self, namespaces: &str, left: u64, client: u64) -> Caller {
        let mut last = self.exposure.borrow_mut();
        if last.0 != namespaces {
            *last = (namespaces.to_owned(), Exposure::from_text(namespaces));
        }
        let origin = Origin { client: ClientId::from_number(client), ..Origin::default() };
        Caller::new(last.1.clone(), context_within(left).with_origin(origin))
    }

    fn begin_call(self: &Rc<Self>, frame: Frame<'_>) -> Result<(), WireError> {
        let (id, mut fields) = (frame.id, frame.fields());
        let (method, left, client) = (fields.u32()?, fields.u64()?, fields.u64()?);
        let caller = self.caller(fields.text()?, left, client);
        let params = Zeroizing::new(fields.rest_text()?.to_owned());
        let child = Rc::clone(self);
        let mut run = Box::pin(async move { child.run_call(id, method, &params, &caller).await });
        // Most calls answer their first poll; they need no task.
        let mut first = std::task::Context::from_waker(std::task::Waker::noop());
        if let Poll::Ready(answer) = run.as_mut().poll(&mut first) {
            self.reply(id, answer.as_ref().map(AsRef::as_ref));
            return Ok(());
        }
        let child = Rc::clone(self);
        let task = spawn_local(async move {
            let answer = run.await;
            if child.work.borrow_mut().remove(&id).is_some() {
                child.reply(id, answer.as_ref().map(AsRef::as_ref));
            }
        });
        self.work.borrow_mut().insert(id, Work::Call(task.abort_handle()));
        Ok(())
    }

    async fn run_call(
        &self,
        id: u64,
        method: u32,
        params: &str,
        caller: &Caller,
    ) -> Result<tenon_sdk::boundary::OwnedBytes, Failure> {
        let params = (!params.is_empty()).then_some(params);
        let begun = Instant::now();
        let mut call = self.watch.over(id, || self.instance.call_plugin(method, params, caller));
        let mut used = begun.elapsed();
        poll_fn(|task| {
            let begun = Instant::now();
            let polled = self.watch.over(id, || call.poll_reply(task));
            used += begun.elapsed();
            if polled.is_pending() && used > self.processor_time {
                let text = format!("the call used more than {:?} of processor time", self.processor_time);
                return Poll::Ready(Err(Failure::limit(text)));
            }
            polled
        })
        .await
    }

    fn subscribe(self: &Rc<Self>, frame: Frame<'_>) -> Result<(), WireError> {
        let (id, mut fields) = (frame.id, frame.fields());
        let kind = fields.u32()?;
        let client = fields.u64()?;
        let caller = self.caller(fields.text()?, 0, client);
        let params = fields.rest_text()?.to_owned();
        let credit = Arc::new(Semaphore::new(WINDOW));
        let child = Rc::clone(self);
        let own_credit = Arc::clone(&credit);
        let task = spawn_local(async move {
            child.run_subscription(id, kind, &params, &caller, &own_credit).await;
            if child.work.borrow_mut().remove(&id).is_some() {
                child.end(id);
            }
        });
        self.work.borrow_mut().insert(id, Work::Subscription(task.abort_handle(), credit));
        Ok(())
    }

    async fn run_subscription(&self, id: u64, kind: u32, params: &str, caller: &Caller, credit: &Semaphore) {
        if kind == BACKGROUND {
            let mut work = self.watch.over(id, || self.instance.background());
            if let Err(failure) = poll_fn(|task| self.watch.over(id, || work.as_mut().poll(task))).await {
                self.upstream.out.push(Kind::Item, id, |out| put_reply(out, Kind::Item, Err(&failure)));
            }
            return;
        }
        let params = (!params.is_empty()).then_some(params);
        let mut items = self.watch.over(id, || self.instance.subscribe(kind, params, caller));
        loop {
            // Never closed: the node's credit is the only bound.
            let Ok(permit) = credit.acquire().await else { return };
            permit.forget();
            let Some(item) = poll_fn(|task| self.watch.over(id, || items.poll_item(task))).await else { return };
            let item = item.as_ref().map(|item| (item.as_ref(), item.position));
            self.upstream.out.push(Kind::Item, id, |out| put_item(out, Kind::Item, item));
            // A plugin that always has an item must not block others.
            tokio::task::yield_now().await;
        }
    }

    /// Ends a call or subscription whose caller has gone.
    fn cancel(&self, id: u64) {
        // Absent if it has been answered already.
        let work = self.work.borrow_mut().remove(&id);
        match work {
            Some(Work::Call(task)) => {
                task.abort();
                self.reply(id, Err(&Failure::server("call cancelled")));
            }
            Some(Work::Subscription(task, _)) => {
                task.abort();
                self.end(id);
            }
            None => {}
        }
    }
}
