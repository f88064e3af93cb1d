//! Runs one script over one trace: its limits, its functions, and its error texts.

use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    time::{Duration, Instant},
};

use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Function, Object, Runtime, Value, function::This};

use crate::{
    link::Link,
    natives::{self, Shared},
    protocol::{Event, Failed, Opening, Reply, Request, RunFacts},
    session::Session,
};

const PRELUDE: &str = include_str!("prelude.js");

/// Stack of a script, bytes. The thread that runs it has eight times as much.
const MAX_STACK: usize = 1 << 20;

/// Maximum length in characters of an error text chosen by a script.
const MAX_ERROR: usize = 4096;

/// Serves one trace. Returns when the script has failed or its result was sent.
///
/// # Errors
/// The socket failed.
pub(crate) fn trace(link: &Rc<RefCell<Link>>, opening: Opening) -> io::Result<()> {
    let limits = Limits::new(&opening);
    let broken = |error: rquickjs::Error| io::Error::other(error.to_string());
    let runtime = Runtime::new().map_err(broken)?;
    runtime.set_memory_limit(usize::try_from(opening.memory).unwrap_or(usize::MAX));
    runtime.set_max_stack_size(MAX_STACK);
    let clock = Rc::clone(&limits);
    // A killed node cannot end its scripts, so a script's process ends itself when its parent process changes.
    let parent = std::os::unix::process::parent_id();
    let is_orphan = move || std::os::unix::process::parent_id() != parent;
    runtime.set_interrupt_handler(Some(Box::new(move || clock.is_over() || is_orphan())));
    let context = Context::full(&runtime).map_err(broken)?;
    context.with(|ctx| serve(&ctx, link, opening, &limits))
}

/// Time and memory of a trace.
struct Limits {
    deadline: Instant,
    memory: u64,
    has_timed_out: Cell<bool>,
}

impl Limits {
    fn new(opening: &Opening) -> Rc<Self> {
        let deadline = Instant::now() + Duration::from_millis(opening.millis.min(86_400_000));
        Rc::new(Self { deadline, memory: opening.memory, has_timed_out: Cell::new(false) })
    }

    fn is_over(&self) -> bool {
        let is_over = Instant::now() >= self.deadline;
        if is_over {
            self.has_timed_out.set(true);
        }
        is_over
    }

    /// The failure for an error of the engine or of the script.
    fn failed(&self, error: CaughtError<'_>, function: Option<&str>) -> Failed {
        let text = self.text(error);
        if self.has_timed_out.get() {
            return Failed::TimedOut;
        }
        Failed::Message(match function {
            Some(function) => format!("{text}    in server-side tracer function '{function}'"),
            None => text,
        })
    }

    fn text(&self, error: CaughtError<'_>) -> String {
        let text = match &error {
            CaughtError::Exception(exception) => {
                let name = exception.as_object().get::<_, String>("name").unwrap_or_else(|_| "Error".to_owned());
                let message = exception.message().unwrap_or_default();
                if message == "out of memory" {
                    return format!("the script needs more than {} MiB of memory", self.memory >> 20);
                }
                if message.is_empty() { name } else { format!("{name}: {message}") }
            }
            CaughtError::Value(value) => thrown(value),
            CaughtError::Error(error) => error.to_string(),
        };
        text.chars().take(MAX_ERROR).collect()
    }
}

/// The text of a thrown value that is not an error.
fn thrown(value: &Value<'_>) -> String {
    let text = value.get::<rquickjs::Coerced<String>>();
    text.map_or_else(|_| "a value without text was thrown".to_owned(), |text| text.0)
}

/// A compiled script.
struct Tracer<'js> {
    object: Object<'js>,
    log: Object<'js>,
    db: Object<'js>,
    frame: Object<'js>,
    frame_result: Object<'js>,
    context: Function<'js>,
    step: Option<Function<'js>>,
    fault: Function<'js>,
    result: Function<'js>,
    enter: Option<Function<'js>>,
    exit: Option<Function<'js>>,
}

fn serve(ctx: &Ctx<'_>, link: &Rc<RefCell<Link>>, opening: Opening, limits: &Rc<Limits>) -> io::Result<()> {
    let session = Rc::new(RefCell::new(Session::default()));
    let shared = Shared {
        session: Rc::clone(&session),
        link: Rc::clone(link),
        precompiles: Rc::new(opening.precompiles),
        interface: opening.interface,
    };
    let compiled = Tracer::compile(ctx, &shared, &opening.source, &opening.config, limits);
    let tracer = match compiled {
        Ok(tracer) => tracer,
        Err(failed) => return link.borrow_mut().send(&Reply::Failed(failed)),
    };
    let (wants_steps, wants_frames) = (tracer.step.is_some(), tracer.enter.is_some());
    link.borrow_mut().send(&Reply::Ready { wants_steps, wants_frames })?;
    loop {
        let request = link.borrow_mut().receive::<Request>()?;
        let reply = match request {
            Request::Events(events) => match tracer.handle_all(ctx, &session, events, limits) {
                Ok(()) => Reply::Done,
                Err(failed) => Reply::Failed(failed),
            },
            Request::Finish(run) => match tracer.finish(ctx, &run, limits) {
                Ok(json) => Reply::Result(json.into_bytes().into()),
                Err(failed) => Reply::Failed(failed),
            },
            Request::Start(_) | Request::Answer(_) => return Err(io::ErrorKind::InvalidData.into()),
        };
        let is_last = !matches!(reply, Reply::Done);
        link.borrow_mut().send(&reply)?;
        if is_last {
            return Ok(());
        }
    }
}

impl<'js> Tracer<'js> {
    fn compile(ctx: &Ctx<'js>, shared: &Shared, source: &str, config: &str, limits: &Limits) -> Result<Self, Failed> {
        let failed = |error| limits.failed(error, None);
        let host = natives::host(ctx, shared).catch(ctx).map_err(failed)?;
        let prelude: Function<'js> = ctx.eval_with_options(PRELUDE, natives::options()).catch(ctx).map_err(failed)?;
        let objects: Object<'js> = prelude.call((host,)).catch(ctx).map_err(failed)?;
        let script = format!("({source})");
        let value: Value<'js> = ctx.eval_with_options(script, natives::options()).catch(ctx).map_err(failed)?;
        let message = |name: &str| Failed::Message(format!("trace object must expose a function {name}()"));
        let first = if shared.interface.checks_result_first { "result" } else { "fault" };
        let object = value.into_object().ok_or_else(|| message(first))?;
        let function = |name: &str| -> Result<Option<Function<'js>>, Failed> {
            let member: Value<'js> = object.get(name).catch(ctx).map_err(failed)?;
            Ok(member.into_function())
        };
        let needed = |name: &str| function(name)?.ok_or_else(|| message(name));
        // If several functions are missing, each client names the one that it checks first.
        needed(first)?;
        let (fault, result) = (needed("fault")?, needed("result")?);
        let (step, enter, exit) = (function("step")?, function("enter")?, function("exit")?);
        if enter.is_some() != exit.is_some() {
            let text = "trace object must expose either both or none of enter() and exit()";
            return Err(Failed::Message(text.to_owned()));
        }
        if shared.interface.calls_setup
            && let Some(setup) = function("setup")?
        {
            let _: Value<'js> = setup.call((This(object.clone()), config)).catch(ctx).map_err(failed)?;
        }
        let part = |name: &str| objects.get::<_, Object<'js>>(name).catch(ctx).map_err(failed);
        let context = objects.get("context").catch(ctx).map_err(failed)?;
        let (log, db, frame, frame_result) = (part("log")?, part("db")?, part("frame")?, part("frameResult")?);
        Ok(Self { object, log, db, frame, frame_result, context, step, fault, result, enter, exit })
    }

    fn handle_all(
        &self,
        ctx: &Ctx<'js>,
        session: &RefCell<Session>,
        events: Vec<Event>,
        limits: &Limits,
    ) -> Result<(), Failed> {
        for event in events {
            // The engine calls its interrupt handler only after some work, so a script that does little is checked
            // here.
            if limits.is_over() {
                return Err(Failed::TimedOut);
            }
            self.handle(ctx, session, event, limits)?;
        }
        Ok(())
    }

    fn handle(&self, ctx: &Ctx<'js>, session: &RefCell<Session>, event: Event, limits: &Limits) -> Result<(), Failed> {
        match event {
            Event::Call(call) => {
                session.borrow_mut().begin_frame(call);
                Ok(())
            }
            Event::Step(step) => {
                session.borrow_mut().step(step).map_err(|error| Failed::Message(error.to_string()))?;
                let arguments = (&self.log, &self.db);
                self.step.as_ref().map_or(Ok(()), |step| self.call_with_log(ctx, step, "step", arguments, limits))
            }
            Event::Fault { error } => {
                session.borrow_mut().error = Some(error);
                self.call_with_log(ctx, &self.fault, "fault", (&self.log, &self.db), limits)
            }
            Event::Enter(frame) => {
                session.borrow_mut().frame = frame;
                self.enter
                    .as_ref()
                    .map_or(Ok(()), |enter| self.call_with_object(ctx, enter, "enter", &self.frame, limits))
            }
            Event::Exit(result) => {
                session.borrow_mut().result = result;
                self.exit
                    .as_ref()
                    .map_or(Ok(()), |exit| self.call_with_object(ctx, exit, "exit", &self.frame_result, limits))
            }
        }
    }

    /// Calls a function that gets the step and the state: `step` or `fault`.
    fn call_with_log(
        &self,
        ctx: &Ctx<'js>,
        function: &Function<'js>,
        name: &str,
        (log, db): (&Object<'js>, &Object<'js>),
        limits: &Limits,
    ) -> Result<(), Failed> {
        let arguments = (This(self.object.clone()), log.clone(), db.clone());
        let called = function.call::<_, Value<'js>>(arguments).catch(ctx);
        called.map(drop).map_err(|error| limits.failed(error, Some(name)))
    }

    /// Calls a function that gets one object: `enter` or `exit`.
    fn call_with_object(
        &self,
        ctx: &Ctx<'js>,
        function: &Function<'js>,
        name: &str,
        argument: &Object<'js>,
        limits: &Limits,
    ) -> Result<(), Failed> {
        let called = function.call::<_, Value<'js>>((This(self.object.clone()), argument.clone())).catch(ctx);
        called.map(drop).map_err(|error| limits.failed(error, Some(name)))
    }

    /// JSON text of the result.
    fn finish(&self, ctx: &Ctx<'js>, run: &RunFacts, limits: &Limits) -> Result<String, Failed> {
        let failed = |error| limits.failed(error, Some("result"));
        let facts = natives::run_object(ctx, run).catch(ctx).map_err(failed)?;
        let context: Value<'js> = self.context.call((facts,)).catch(ctx).map_err(failed)?;
        let arguments = (This(self.object.clone()), context, self.db.clone());
        let result: Value<'js> = self.result.call(arguments).catch(ctx).map_err(failed)?;
        let json = ctx.json_stringify(result).catch(ctx).map_err(failed)?;
        let Some(json) = json else { return Ok("null".to_owned()) };
        Ok(escaped(&json.to_string().catch(ctx).map_err(failed)?))
    }
}

/// JSON text with the escapes of Go's encoder (`docs/spec/rpc-node.md` 1.3). The escaped characters occur only inside
/// JSON strings.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => text.push_str("\\u003c"),
            '>' => text.push_str("\\u003e"),
            '&' => text.push_str("\\u0026"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            other => text.push(other),
        }
    }
    text
}
