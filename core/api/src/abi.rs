//! The C boundary between host and plugin: layouts only, no behaviour. Implemented here, because Rust has no stable
//! ABI, and libraries that make one (stabby, abi_stable) are for plugins in Rust only.
//!
//! `plugins/sdk/include/tenon_plugin.h` declares the same in C; a test of the SDK compiles it and compares sizes and
//! offsets. The rules:
//!
//! - Only pointers, lengths and integers cross. The side that allocated a buffer frees it, through the function that
//!   travels with the buffer.
//! - No unwinding crosses in either direction.
//! - The host polls; a plugin has no thread, no runtime and no socket.
//! - New functions are appended to a table and announced by its `size`; a reader never reads beyond the size that the
//!   other side states.

use std::ffi::c_void;

/// The one symbol that a plugin exports: `const TenonPlugin *tenon_plugin_v1(void)`.
pub const PLUGIN_SYMBOL: &[u8] = b"tenon_plugin_v1\0";
/// First field of [`TenonPlugin`]: `TENONPLG` read as a big-endian number.
pub const PLUGIN_MAGIC: u64 = 0x5445_4e4f_4e50_4c47;
/// A plugin with another major number is refused.
pub const ABI_MAJOR: u16 = 1;
/// Feature bit of [`TenonPlugin`]: its subscriptions depend only on their arguments, the chain and the events. The host
/// may therefore reopen them in the instance that replaces this one, unnoticed by the client. It does so if the new
/// instance has minor number [`MINOR_OF_ITEM_POSITIONS`] or later.
pub const FEATURE_LASTING_SUBSCRIPTIONS: u64 = 1;
/// Minor number. A plugin that needs functions of a newer minor number says so in `needs_minor`.
///
/// 1: [`TenonPlugin::run`]. 2: [`TenonCallContext::client`] and [`TenonHost::hold`]. 3: [`TenonHost::call_json`].
/// 4: [`CODE_CRASHED`] and [`CODE_CALLEE_CRASHED`]. 5: positions of events and items ([`TenonReply::data`]).
/// 6: [`TenonCallContext::deadline`].
pub const ABI_MINOR: u16 = 6;
/// Since this minor number a plugin reads [`TenonCallContext::deadline`].
pub const MINOR_OF_DEADLINES: u16 = 6;
/// Since this minor number a plugin marks the items of its subscriptions with positions.
pub const MINOR_OF_ITEM_POSITIONS: u16 = 5;

/// Borrowed bytes, valid for the duration of the call that they are passed to, or forever in static tables.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TenonSlice {
    /// First byte; may be null when `len` is 0.
    pub data: *const u8,
    /// Length.
    pub len: usize,
}

/// Owned bytes. The receiver calls `free` exactly once when it is done; null means nothing to free. It never writes to
/// them: other receivers may share them.
#[repr(C)]
#[derive(Debug)]
pub struct TenonBuffer {
    /// First byte; may be null when `len` is 0.
    pub data: *mut u8,
    /// Length of the filled part.
    pub len: usize,
    /// Allocated length.
    pub capacity: usize,
    /// Frees the allocation.
    pub free: Option<unsafe extern "C" fn(data: *mut u8, len: usize, capacity: usize)>,
}

/// The answer of a call. `code` 0: `body` is complete JSON (from a plugin) or a reply frame (from the host). Otherwise
/// a JSON-RPC error code, [`CODE_CRASHED`] or [`CODE_CALLEE_CRASHED`]: `body` is the message in UTF-8, `data` the JSON
/// text of `data` or empty.
#[repr(C)]
#[derive(Debug)]
pub struct TenonReply {
    /// 0, or the code of a failure.
    pub code: i32,
    /// Result or message.
    pub body: TenonBuffer,
    /// Error data; with code 0 and since minor number 5, a position of 8 bytes in little-endian order, which older
    /// readers ignore:
    ///
    /// - for an event of [`TenonHost::subscribe`] its own position;
    /// - for an item of [`TenonPlugin::subscribe`] the position of the event that caused it, or empty if no event did.
    ///
    /// Otherwise empty.
    ///
    /// Items of one event are sent one after the other. When the plugin is replaced, items with a position are neither
    /// lost nor repeated; items without one are never lost, but may be repeated.
    pub data: TenonBuffer,
}

/// Code of a [`TenonReply`] of a plugin: its code panicked. The host counts the panic and sends the client -32000.
/// Since minor number 4; to an older host a plugin sends -32000.
pub const CODE_CRASHED: i32 = i32::MIN;
/// Code of a [`TenonReply`] of the host: the code that the plugin called panicked. A plugin that passes the failure on
/// leaves the code as it is, so that the panic is not counted as its own; the client receives -32000. Since minor
/// number 4.
pub const CODE_CALLEE_CRASHED: i32 = i32::MIN + 1;

/// Not ready: the waker will be called.
pub const POLL_PENDING: i32 = 0;
/// Ready: the reply has been written. A future must not be polled again, only dropped.
pub const POLL_READY: i32 = 1;
/// Only for streams: there are no further items.
pub const POLL_END: i32 = 2;

/// Wakes the polling task. Owned by the side that made it; `poll` borrows it: clone it to keep it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TenonWaker {
    /// Passed to each function.
    pub data: *const c_void,
    /// Its functions.
    pub vtable: *const TenonWakerVtable,
}

/// Functions of a waker; all may be called from any thread. `wake` and `wake_by_ref` only schedule the task: they neither
/// poll, nor call the host, nor block.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TenonWakerVtable {
    /// Returns a second handle to the same task.
    pub clone: unsafe extern "C" fn(data: *const c_void) -> TenonWaker,
    /// Wakes and releases the handle.
    pub wake: unsafe extern "C" fn(data: *const c_void),
    /// Wakes and keeps the handle.
    pub wake_by_ref: unsafe extern "C" fn(data: *const c_void),
    /// Releases the handle.
    pub drop: unsafe extern "C" fn(data: *const c_void),
}

/// Work that the other side polls: the answer of a call, or the successive items of a stream.
#[repr(C)]
#[derive(Debug)]
pub struct TenonFuture {
    /// Passed to each function.
    pub state: *mut c_void,
    /// Writes to `reply` exactly when it returns [`POLL_READY`].
    pub poll: Option<unsafe extern "C" fn(state: *mut c_void, waker: *const TenonWaker, reply: *mut TenonReply) -> i32>,
    /// Frees the state; called exactly once, at any point: dropping cancels the work.
    pub drop: Option<unsafe extern "C" fn(state: *mut c_void)>,
}

/// A stream is polled like a future: it returns items with [`POLL_READY`] until [`POLL_END`].
pub type TenonStream = TenonFuture;

/// Cheap: answers on its first poll, from memory or a few point reads.
pub const COST_FAST: u32 = 0;
/// Expensive: runs the EVM or scans; counted against the limit of slow calls.
pub const COST_SLOW: u32 = 1;

/// Flag of [`TenonMethod`]: the method changes nothing that another call could see. In a batch it runs concurrently
/// with its neighbours; methods without the flag run in order.
pub const METHOD_ONLY_READS: u32 = 1;

/// Flag of [`TenonMethod`]: clients cannot call the method, and no list names it. Its name is the name of another
/// method of the table plus [`AHEAD_SUFFIX`]. When a batch holds several calls of that other method, the host first
/// calls this one with a single parameter, the list of their parameters (`[[["0x01"], ["0x02"]]]`), so that the plugin
/// can do the work they share in one step. The answer is ignored. A host that does not know the flag serves the method
/// to clients, so calling it must be harmless.
pub const METHOD_AHEAD: u32 = 2;

/// Flag of [`TenonMethod`]: its parameters hold passwords or keys. The host wipes the buffers that held them and shows
/// them nowhere.
pub const METHOD_SECRET: u32 = 4;

/// Suffix of the names of methods with [`METHOD_AHEAD`].
pub const AHEAD_SUFFIX: &str = "Ahead";

/// A method of a plugin. All slices are static.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TenonMethod {
    /// Full name, `namespace_name`.
    pub name: TenonSlice,
    /// [`COST_FAST`] or [`COST_SLOW`].
    pub cost: u32,
    /// Flag bits: [`METHOD_ONLY_READS`], [`METHOD_AHEAD`], [`METHOD_SECRET`]. The others are 0; a host ignores those
    /// that it does not know.
    pub flags: u32,
    /// JSON text of an OpenRPC method object without `name`.
    pub description: TenonSlice,
}

/// A kind of subscription of a plugin, `<namespace>_subscribe(["kind", …])`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TenonSubscription {
    /// The kind.
    pub name: TenonSlice,
}

/// The caller and the deadline of a call. Valid for the duration of the call that it is passed to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TenonCallContext {
    /// Passed back to [`TenonHost::call`]: identifies the caller to the host. Stays valid until the future or
    /// stream that the call returned has been dropped.
    pub call: *const c_void,
    /// Namespaces that the caller's endpoint exposes, separated by commas; `*` means all. An item that begins with `!`
    /// is a pattern of refused methods: `!eth_sign*`.
    pub namespaces: TenonSlice,
    /// Nanoseconds until the host gives up; 0 means no deadline. Always 0 for plugins that read [`Self::deadline`].
    pub deadline_nanos: u64,
    /// Since minor number 2. The same number in all calls of one client, 0 if there is no client: a plugin can use it
    /// to share its resources among clients.
    pub client: u64,
    /// Since minor number 6. When the host gives up, on the clock of [`TenonHost::now_nanos`]; 0 means no deadline. In
    /// place of [`Self::deadline_nanos`], so that neither side reads the clock for a call. Set only for plugins of minor
    /// number 6 or later.
    pub deadline: u64,
}

/// The host's functions for a plugin. Valid from `start` until the library is unmapped: a panic hook or a kept context
/// may still use it after `stop`. Its functions then return failures until another instance of the same library is
/// started, which may get the same table.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TenonHost {
    /// `sizeof(TenonHost)` in the host's build.
    pub size: usize,
    /// The host's ABI minor number.
    pub abi_minor: u16,
    /// 0.
    pub reserved: [u16; 3],
    /// Passed to every function below.
    pub state: *const c_void,
    /// Sends a request frame; the reply's body is a reply frame. `call` is the context's, or null for calls on the
    /// plugin's own behalf.
    pub call: unsafe extern "C" fn(
        state: *const c_void,
        call: *const c_void,
        topic: u32,
        schema: u32,
        frame: TenonSlice,
    ) -> TenonFuture,
    /// Subscribes to an event topic; items are event frames. An item with code `-32005` says in its body how many
    /// events were missed, as decimal text. [`TenonReply::data`] is an event's position.
    pub subscribe: unsafe extern "C" fn(state: *const c_void, topic: u32, schema: u32) -> TenonStream,
    /// Ready after this many nanoseconds, with an empty body.
    pub sleep: unsafe extern "C" fn(state: *const c_void, nanos: u64) -> TenonFuture,
    /// Writes to the node's log. Levels: 1 error, 2 warn, 3 info, 4 debug, 5 trace.
    pub log: unsafe extern "C" fn(state: *const c_void, level: u32, message: TenonSlice),
    /// Nanoseconds of a monotonic clock.
    pub now_nanos: unsafe extern "C" fn(state: *const c_void) -> u64,
    /// Since minor number 2. Changes the memory counted for a client beyond its calls by this many bytes, which may be
    /// negative. Returns 1 if it was counted; 0 if it would exceed the limit of the client or the node, and the plugin
    /// must then not keep it. A decrease is always counted. Everything is released when the instance stops.
    pub hold: unsafe extern "C" fn(state: *const c_void, client: u64, bytes: i64) -> i32,
    /// Since minor number 3. Calls a method of any namespace by its full name, with the JSON text of its `params`, or
    /// none; the reply's body is the JSON text of its result. `call` as in [`TenonHost::call`]. The requests of the
    /// called method need the capabilities of the calling plugin too.
    pub call_json: unsafe extern "C" fn(
        state: *const c_void,
        call: *const c_void,
        method: TenonSlice,
        params: TenonSlice,
    ) -> TenonFuture,
}

/// The description of a plugin. Static; returned by [`PLUGIN_SYMBOL`].
///
/// Every function catches panics inside and may be called from any thread; `call` and `subscribe` also concurrently.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TenonPlugin {
    /// [`PLUGIN_MAGIC`].
    pub magic: u64,
    /// [`ABI_MAJOR`] that the plugin was built for.
    pub abi_major: u16,
    /// [`ABI_MINOR`] that the plugin was built for.
    pub abi_minor: u16,
    /// The smallest minor number of a host that it can run on.
    pub needs_minor: u16,
    /// 0.
    pub reserved: u16,
    /// `sizeof(TenonPlugin)` in the plugin's build.
    pub size: usize,
    /// Feature bits: [`FEATURE_LASTING_SUBSCRIPTIONS`]. The others are 0.
    pub features: u64,
    /// [`schema_hash`](crate::schema_hash) that the plugin was built with; all zero if it sends no frames.
    pub schema_hash: [u8; 32],
    /// Name of the plugin, for display.
    pub name: TenonSlice,
    /// The namespace that it serves.
    pub namespace: TenonSlice,
    /// `<major>.<minor>` of the namespace, for `rpc_modules`.
    pub version: TenonSlice,
    /// Compiler and build, for display.
    pub built_with: TenonSlice,
    /// Capabilities that it asks for: names of `Capability`, separated by commas.
    pub capabilities: TenonSlice,
    /// Plugins that it needs, such as `eth >= 1`, separated by commas.
    pub needs: TenonSlice,
    /// Its methods.
    pub methods: *const TenonMethod,
    /// Length of `methods`.
    pub method_count: usize,
    /// Its subscription kinds.
    pub subscriptions: *const TenonSubscription,
    /// Length of `subscriptions`.
    pub subscription_count: usize,
    /// Starts an instance. `settings` is the JSON text of the plugin's own settings table; `handover` is what
    /// `export_state` of the previous version returned, or empty. Writes the instance and returns a reply with code 0,
    /// or the reason for the failure.
    pub start: unsafe extern "C" fn(
        host: *const TenonHost,
        settings: TenonSlice,
        handover: TenonSlice,
        instance: *mut *mut c_void,
    ) -> TenonReply,
    /// Calls a method by its position; `params` is the raw JSON of the request's `params`, or empty. It is borrowed
    /// until this function returns: the host then frees it, although the future is still pending.
    pub call: unsafe extern "C" fn(
        instance: *mut c_void,
        context: *const TenonCallContext,
        method: u32,
        params: TenonSlice,
    ) -> TenonFuture,
    /// Opens a subscription by its kind's position; `params` is the raw JSON array of the arguments after the kind. The
    /// first item says whether it was opened: code 0 and an empty body, or the error. Each later item is complete JSON,
    /// the `result` of a notification, with the position of its event in [`TenonReply::data`].
    pub subscribe: unsafe extern "C" fn(
        instance: *mut c_void,
        context: *const TenonCallContext,
        kind: u32,
        params: TenonSlice,
    ) -> TenonStream,
    /// State for the version that replaces this one: code 0 and a blob in the body (may be empty).
    pub export_state: unsafe extern "C" fn(instance: *mut c_void) -> TenonReply,
    /// Ends the instance. All futures and streams have been dropped before. The library may be unloaded afterwards.
    pub stop: unsafe extern "C" fn(instance: *mut c_void),
    /// Since minor number 1. The plugin's background work, independent of calls: polled while its methods are routed.
    /// Ready with code 0 when there is nothing more to do; after an error the host starts it again after a pause. Null
    /// if there is none.
    pub run: Option<unsafe extern "C" fn(instance: *mut c_void) -> TenonFuture>,
}
