//! The definition of a plugin's namespace.

use std::future::Future;

use crate::Failure;
use serde::Serialize;
use tenon_api::{
    Capability,
    abi::{AHEAD_SUFFIX, COST_FAST, COST_SLOW, METHOD_AHEAD, METHOD_ONLY_READS, METHOD_SECRET},
};

use crate::{
    Context, Param, Sink,
    boundary::{ExportedFuture, ExportedStream},
    context::ScopeGuard,
    output,
    param::{Arguments, ParamDescription},
    sink::SubscriptionStream,
};

/// A plugin's namespace, methods and subscription kinds.
pub struct Table<S> {
    pub(crate) namespace: &'static str,
    pub(crate) version: &'static str,
    pub(crate) capabilities: Vec<Capability>,
    pub(crate) needs: &'static str,
    pub(crate) has_lasting_subscriptions: bool,
    pub(crate) background: Option<Background<S>>,
    pub(crate) methods: Vec<Method<S>>,
    pub(crate) subscriptions: Vec<Subscription<S>>,
}

pub(crate) struct Method<S> {
    pub(crate) name: &'static str,
    pub(crate) cost: u32,
    pub(crate) flags: u32,
    pub(crate) description: String,
    pub(crate) call: MethodCall<S>,
}

pub(crate) struct Subscription<S> {
    pub(crate) name: &'static str,
    pub(crate) open: SubscriptionOpen<S>,
}

/// Properties of a method that the host needs before it calls it.
struct Class {
    cost: u32,
    only_reads: bool,
}

type MethodCall<S> = Box<dyn Fn(Context<S>, &[u8]) -> ExportedFuture + Send + Sync>;
type Background<S> = Box<dyn Fn(Context<S>) -> ExportedFuture + Send + Sync>;
type SubscriptionOpen<S> = Box<dyn Fn(Context<S>, &[u8]) -> ExportedStream + Send + Sync>;

impl<S: Send + Sync + 'static> Table<S> {
    /// An empty table. `version` is `<major>.<minor>`, as `rpc_modules` gives it.
    pub fn new(namespace: &'static str, version: &'static str) -> Self {
        Self {
            namespace,
            version,
            capabilities: Vec::new(),
            needs: "",
            has_lasting_subscriptions: false,
            background: None,
            methods: Vec::new(),
            subscriptions: Vec::new(),
        }
    }

    /// Capabilities that the plugin requests. The host refuses messages whose capability is not in the list.
    #[must_use]
    pub fn capabilities(mut self, wanted: &[Capability]) -> Self {
        self.capabilities = wanted.to_vec();
        self
    }

    /// Plugins that this one needs, such as `eth >= 1`, separated by commas.
    #[must_use]
    pub fn needs(mut self, plugins: &'static str) -> Self {
        self.needs = plugins;
        self
    }

    /// Declares that subscriptions depend only on their arguments, the chain and the events: a restarted function sends
    /// what the previous one would have sent. When the plugin is replaced, the host then reopens them in the new
    /// instance without the client noticing; otherwise they are closed with a notice. The new instance continues after
    /// the old one's last event: see [`Sink::made_of`](crate::Sink::made_of) for items that are not made of the event
    /// that was received last.
    #[must_use]
    pub const fn lasting_subscriptions(mut self) -> Self {
        self.has_lasting_subscriptions = true;
        self
    }

    /// Sets the plugin's background work, which is independent of calls: following the chain, for instance. The host
    /// runs it once the methods are served, and drops it at its next `await` when the plugin is disabled or replaced.
    /// It may return when it has nothing more to do; after an error or a panic the host restarts it after a pause of
    /// 0.2 s, which doubles up to 30 s.
    #[must_use]
    pub fn background<Work>(mut self, function: impl Fn(Context<S>) -> Work + Send + Sync + 'static) -> Self
    where
        Work: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let begin = move |context| {
            let work = function(context);
            ExportedFuture::new(async move { work.await.map(|()| Vec::new()) })
        };
        self.background = Some(Box::new(begin));
        self
    }

    /// Adds a cheap method: one that answers from memory or with a few point reads.
    ///
    /// It may change something, so it keeps its place in a batch: it starts after the calls before it have finished,
    /// and those after it start when it has finished. Use [`Table::read`] for a method that changes nothing.
    ///
    /// `parameters` names its positional parameters (as many as `function` takes after the context) and `summary`
    /// describes its result in one sentence; both appear in the OpenRPC document.
    #[must_use]
    pub fn method<A, const N: usize>(
        self,
        name: &'static str,
        parameters: &[&'static str; N],
        summary: &'static str,
        function: impl MethodFunction<S, A, N>,
    ) -> Self {
        self.add_method(name, Class { cost: COST_FAST, only_reads: false }, parameters, summary, function)
    }

    /// Adds a cheap method, as [`Table::method`] does, that changes nothing another call could observe: neither the
    /// chain, the pool or the node, nor the plugin's own state. In a batch it runs concurrently with neighbouring
    /// reads.
    #[must_use]
    pub fn read<A, const N: usize>(
        self,
        name: &'static str,
        parameters: &[&'static str; N],
        summary: &'static str,
        function: impl MethodFunction<S, A, N>,
    ) -> Self {
        self.add_method(name, Class { cost: COST_FAST, only_reads: true }, parameters, summary, function)
    }

    /// Adds an expensive method: one that runs the EVM or scans. The host limits how many run at a time. Like a
    /// [`Table::method`], it keeps its place in a batch.
    #[must_use]
    pub fn slow_method<A, const N: usize>(
        self,
        name: &'static str,
        parameters: &[&'static str; N],
        summary: &'static str,
        function: impl MethodFunction<S, A, N>,
    ) -> Self {
        self.add_method(name, Class { cost: COST_SLOW, only_reads: false }, parameters, summary, function)
    }

    /// Adds an expensive method that changes nothing: a [`Table::slow_method`] with the properties of a
    /// [`Table::read`].
    #[must_use]
    pub fn slow_read<A, const N: usize>(
        self,
        name: &'static str,
        parameters: &[&'static str; N],
        summary: &'static str,
        function: impl MethodFunction<S, A, N>,
    ) -> Self {
        self.add_method(name, Class { cost: COST_SLOW, only_reads: true }, parameters, summary, function)
    }

    /// Registers a function that runs before the calls of one method in a batch. It gets the parameters of all of them,
    /// so that work that they share is done once. The calls must not depend on it. `name` is the method's name followed
    /// by `Ahead`; clients cannot call it.
    #[must_use]
    pub fn ahead<A>(mut self, name: &'static str, function: impl MethodFunction<S, A, 1>) -> Self {
        debug_assert!(name.ends_with(AHEAD_SUFFIX), "{name} does not end with {AHEAD_SUFFIX}");
        let call = Box::new(move |context, params: &[u8]| function.call_function(context, params));
        let description = "{}".to_owned();
        self.methods.push(Method { name, cost: COST_FAST, flags: METHOD_AHEAD, description, call });
        self
    }

    /// Adds a subscription kind, the first argument of `<namespace>_subscribe`.
    #[must_use]
    pub fn subscription<A>(mut self, kind: &'static str, function: impl SubscriptionFunction<S, A>) -> Self {
        let open = Box::new(move |context, params: &[u8]| function.open(context, params));
        self.subscriptions.push(Subscription { name: kind, open });
        self
    }

    /// Sets the JSON schemas of results by method ([`shapes::schema`](crate::shapes::schema)): needed where a
    /// function's result type does not define one.
    #[must_use]
    pub fn results(mut self, schemas: &[(&str, &str)]) -> Self {
        for method in &mut self.methods {
            if let Some((_, schema)) = schemas.iter().find(|(name, _)| *name == method.name) {
                method.description = output::with_result(&method.description, schema);
            }
        }
        self
    }

    /// Sets the JSON schemas of parameters by method and parameter: needed where a parameter's type does not define
    /// one, such as [`Json`](crate::Json).
    #[must_use]
    pub fn parameters(mut self, schemas: &[(&str, &str, &str)]) -> Self {
        for (name, parameter, schema) in schemas {
            for method in self.methods.iter_mut().filter(|method| method.name == *name) {
                method.description = output::with_parameter(&method.description, parameter, schema);
            }
        }
        self
    }

    fn add_method<A, F: MethodFunction<S, A, N>, const N: usize>(
        mut self,
        name: &'static str,
        Class { cost, only_reads }: Class,
        parameters: &[&'static str; N],
        summary: &'static str,
        function: F,
    ) -> Self {
        let described = F::parameters();
        let description = output::describe_method(summary, parameters, &described, F::result());
        let call = Box::new(move |context, params: &[u8]| function.call_function(context, params));
        let has_secrets = described.iter().any(|parameter| parameter.is_secret);
        let flags = if only_reads { METHOD_ONLY_READS } else { 0 } | if has_secrets { METHOD_SECRET } else { 0 };
        self.methods.push(Method { name, cost, flags, description, call });
        self
    }
}

/// An `async fn(Context<S>, A, B, …) -> Result<impl Serialize, Failure>` with `N` parameters after the context,
/// at most six. `A` is the tuple of their types.
pub trait MethodFunction<S, A, const N: usize>: Send + Sync + 'static {
    /// Types of the parameters.
    fn parameters() -> [ParamDescription; N];
    /// JSON schema of the result.
    fn result() -> &'static str;
    /// Decodes `params`, the raw JSON of the request, and starts the function.
    fn call_function(&self, context: Context<S>, params: &[u8]) -> ExportedFuture;
}

/// An `async fn(Context<S>, Sink, A, B, …) -> Result<(), Failure>`, with at most six parameters after the sink.
pub trait SubscriptionFunction<S, A>: Send + Sync + 'static {
    /// Decodes `params`, the raw JSON array of the arguments after the kind, and starts the function. Errors
    /// count the kind as argument 0, as the reference does.
    fn open(&self, context: Context<S>, params: &[u8]) -> ExportedStream;
}

macro_rules! implement_functions {
    ($count:literal $(, $type:ident $value:ident)*) => {
        impl<S, F, Fut, R, $($type),*> MethodFunction<S, ($($type,)*), $count> for F
        where
            S: Send + Sync + 'static,
            F: Fn(Context<S>, $($type),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<R, Failure>> + Send + 'static,
            R: Serialize + Send + 'static,
            $($type: Param,)*
        {
            fn parameters() -> [ParamDescription; $count] {
                [$($type::description()),*]
            }

            fn result() -> &'static str {
                output::schema_of::<R>()
            }

            fn call_function(&self, context: Context<S>, params: &[u8]) -> ExportedFuture {
                #[allow(unused_mut, reason = "not changed where there are no parameters")]
                let mut arguments = match Arguments::new(params, $count) {
                    Ok(arguments) => arguments,
                    Err(failure) => return ExportedFuture::ready(Err(failure)),
                };
                $(let $value = match arguments.next::<$type>() {
                    Ok(value) => value,
                    Err(failure) => return ExportedFuture::ready(Err(failure)),
                };)*
                if let Err(failure) = arguments.finish() {
                    return ExportedFuture::ready(Err(failure));
                }
                let guard = ScopeGuard::new(&context);
                let future = self(context, $($value),*);
                ExportedFuture::new(async move {
                    let _guard = guard;
                    output::finished(future.await?)
                })
            }
        }

        impl<S, F, Fut, $($type),*> SubscriptionFunction<S, ($($type,)*)> for F
        where
            S: Send + Sync + 'static,
            F: Fn(Context<S>, Sink, $($type),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<(), Failure>> + Send + 'static,
            $($type: Param,)*
        {
            fn open(&self, context: Context<S>, params: &[u8]) -> ExportedStream {
                #[allow(unused_mut, reason = "not changed where there are no parameters")]
                let mut arguments = match Arguments::after_kind(params, $count) {
                    Ok(arguments) => arguments,
                    Err(failure) => return ExportedStream::refused(failure),
                };
                $(let $value = match arguments.next::<$type>() {
                    Ok(value) => value,
                    Err(failure) => return ExportedStream::refused(failure),
                };)*
                if let Err(failure) = arguments.finish() {
                    return ExportedStream::refused(failure);
                }
                let guard = ScopeGuard::new(&context);
                let sink = Sink::of(&context);
                let stream = SubscriptionStream::new(sink.clone(), self(context, sink, $($value),*), guard);
                ExportedStream::new(stream)
            }
        }
    };
}

implement_functions!(0);
implement_functions!(1, A a);
implement_functions!(2, A a, B b);
implement_functions!(3, A a, B b, C c);
implement_functions!(4, A a, B b, C c, D d);
implement_functions!(5, A a, B b, C c, D d, E e);
implement_functions!(6, A a, B b, C c, D d, E e, G g);
