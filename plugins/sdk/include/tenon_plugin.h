/* The boundary between Tenon and its plugins, version 1.5.
 *
 * A plugin is a shared library that exports one function, tenon_plugin_v1. Rules:
 *
 *  - Only pointers, lengths and integers cross. A buffer is freed by the side that allocated it, through the
 *    function passed along with it.
 *  - Nothing unwinds across, either way: no C++ exception, no longjmp.
 *  - The host polls. A plugin starts no thread, opens no socket and never blocks; anything that takes
 *    time is requested from the host, which answers with a future.
 *  - New functions are appended to a table and announced by its `size`: never look beyond the size that the
 *    other side states.
 *
 * The Rust definitions in core/api/src/abi.rs say the same; a test compares sizes and offsets.
 * plugins/examples/c_hello is a whole plugin in C, plugins/examples/cpp_chain one in C++.
 */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_PLUGIN_MAGIC UINT64_C(0x54454e4f4e504c47) /* "TENONPLG" */
#define TENON_ABI_MAJOR 1
/* 1: TenonPlugin.run; 2: TenonCallContext.client, TenonHost.hold; 3: TenonHost.call_json; 4: TENON_CODE_CRASHED,
 * TENON_CODE_CALLEE_CRASHED; 5: positions of events and items (TenonReply); 6: TenonCallContext.deadline. */
#define TENON_ABI_MINOR 6
/* Since this minor number a plugin reads TenonCallContext.deadline. */
#define TENON_MINOR_OF_DEADLINES 6
/* Since this minor number a plugin marks the items of its subscriptions with positions. */
#define TENON_MINOR_OF_ITEM_POSITIONS 5
/* Feature bit: subscriptions depend only on their arguments, the chain and the events, so that the host may
 * reopen them in the instance that replaces this one. It does so if the instance that takes over has minor number 5 or
 * later. */
#define TENON_FEATURE_LASTING_SUBSCRIPTIONS 1

/* Borrowed bytes; valid for the duration of the call that they are passed to, or for ever in static tables. */
typedef struct TenonSlice {
    const uint8_t *data; /* may be null when len is 0 */
    size_t len;
} TenonSlice;

/* Owned bytes. The receiver calls free exactly once when it is done; null means nothing to free. It never writes to them,
 * because other receivers may share them. */
typedef struct TenonBuffer {
    uint8_t *data; /* may be null when len is 0 */
    size_t len;
    size_t capacity; /* passed back to free; has no meaning for the receiver */
    void (*free)(uint8_t *data, size_t len, size_t capacity); /* from any thread */
} TenonBuffer;

/* The answer of a call. code 0: body is finished JSON (from a plugin) or a reply frame (from the host).
 * Otherwise a JSON-RPC error code, or one of the codes below: body is the message in UTF-8, data the JSON text of `data`
 * or empty.
 *
 * Since minor number 5, with code 0: data of an event of TenonHost.subscribe is its position, 8 bytes, little-endian;
 * data of an item of TenonPlugin.subscribe is the position of the event that led to the item, or empty if no event did.
 * Items of one event are sent one after the other. When the plugin is replaced, items with a position
 * are neither lost nor repeated; items without one are never lost, but may be repeated. */
typedef struct TenonReply {
    int32_t code;
    TenonBuffer body;
    TenonBuffer data;
} TenonReply;

/* From a plugin, since minor number 4: its code panicked. The host counts the panic and sends the client -32000. */
#define TENON_CODE_CRASHED INT32_MIN
/* From the host, since minor number 4: the code that the plugin called panicked. If the plugin passes the failure on with
 * this code, the panic is not counted as its own; the client receives -32000. */
#define TENON_CODE_CALLEE_CRASHED (INT32_MIN + 1)

#define TENON_POLL_PENDING 0 /* the waker will be woken */
#define TENON_POLL_READY 1   /* the reply has been written */
#define TENON_POLL_END 2     /* streams only: there will be no further item */

struct TenonWakerVtable;

/* Wakes the task that polls. A poll borrows it: clone it to keep it. */
typedef struct TenonWaker {
    const void *data;
    const struct TenonWakerVtable *vtable;
} TenonWaker;

/* All may be called from any thread. `wake` and `wake_by_ref` only schedule the task: they neither poll, nor call the host,
 * nor block. */
typedef struct TenonWakerVtable {
    TenonWaker (*clone)(const void *data);    /* a second handle to the same task */
    void (*wake)(const void *data);           /* wakes and releases the handle */
    void (*wake_by_ref)(const void *data);    /* wakes and keeps the handle */
    void (*drop)(const void *data);           /* releases the handle */
} TenonWakerVtable;

/* Work that the other side polls. One thread polls at a time, not always the same. After TENON_POLL_READY a
 * future is not polled again, only dropped; dropping, exactly once and at any point, is how work is cancelled. */
typedef struct TenonFuture {
    void *state;
    int32_t (*poll)(void *state, const TenonWaker *waker, TenonReply *reply);
    void (*drop)(void *state);
} TenonFuture;

/* A stream has the form of a future: poll gives items with TENON_POLL_READY until TENON_POLL_END. */
typedef TenonFuture TenonStream;

#define TENON_COST_FAST 0 /* answers on its first poll, from memory or a few point reads */
#define TENON_COST_SLOW 1 /* runs the EVM or scans; the host bounds how many run at a time */

/* Flag of a method: it changes nothing that another call could observe. In a batch it runs concurrently with neighbouring
 * reads; a method without the flag keeps its place. */
#define TENON_METHOD_ONLY_READS 1
/* Flag of a method that clients cannot call. Its name is the name of another method plus "Ahead". When a batch holds
 * several calls of that other method, the host first calls this one with a single parameter, the list of their parameters.
 * Its answer is not read. */
#define TENON_METHOD_AHEAD 2

/* Flag of a method: its parameters contain passwords or keys. The host wipes their buffers and never shows them. */
#define TENON_METHOD_SECRET 4

typedef struct TenonMethod {
    TenonSlice name; /* full name, namespace_name */
    uint32_t cost;
    uint32_t flags;         /* TENON_METHOD_ bits, the others 0 */
    TenonSlice description; /* JSON text of an OpenRPC method object without `name`, or empty */
} TenonMethod;

typedef struct TenonSubscription {
    TenonSlice name; /* the kind, first argument of <namespace>_subscribe */
} TenonSubscription;

/* The caller and its deadline. Valid for the duration of the call that it is passed to. */
typedef struct TenonCallContext {
    const void *call; /* for TenonHost.call; valid until the returned future or stream has been dropped */
    TenonSlice namespaces;   /* what the caller's endpoint exposes, separated by commas; "*" means all;
                               an item that begins with "!" is a pattern of refused methods: "!eth_sign*" */
    uint64_t deadline_nanos; /* until the host gives up; 0 means no deadline. Always 0 for plugins that read deadline */
    /* Since minor number 2 of the host. The same number in all calls of one client, 0 if there is none. A plugin can use it
     * to divide what it keeps fairly among clients. */
    uint64_t client;
    /* Since minor number 6 of the host, for plugins of minor number 6 or later. When the host gives up, on the clock of
     * TenonHost.now_nanos; 0 means no deadline. */
    uint64_t deadline;
} TenonCallContext;

/* The host's functions; valid as long as the library is mapped. After stop they answer with
 * failures, until another instance of the same library is started, which may get the same table. */
typedef struct TenonHost {
    size_t size; /* sizeof(TenonHost) as the host knows it */
    uint16_t abi_minor;
    uint16_t reserved[3]; /* 0 */
    const void *state;    /* passed to every function below */
    /* Sends a request frame; the reply's body is a reply frame. `call` is the context's, or null for the
     * plugin's own account. Needs a schema hash. */
    TenonFuture (*call)(const void *state, const void *call, uint32_t topic, uint32_t schema, TenonSlice frame);
    /* Subscribes to an event topic; items are event frames. An item with code -32005 says in its body how many
     * events were missed, as decimal text. data is an event's position (TenonReply). */
    TenonStream (*subscribe)(const void *state, uint32_t topic, uint32_t schema);
    /* Ready after this many nanoseconds, with an empty body. */
    TenonFuture (*sleep)(const void *state, uint64_t nanos);
    /* Writes to the node's log. Levels: 1 error, 2 warn, 3 info, 4 debug, 5 trace. */
    void (*log)(const void *state, uint32_t level, TenonSlice message);
    /* Nanoseconds of a monotonic clock. */
    uint64_t (*now_nanos)(const void *state);
    /* Since minor number 2; check size first. Counts memory that the plugin keeps for a client beyond its calls: this
     * many bytes more, or fewer if negative. Returns 1 if they are counted; 0 if the client or the node has no memory left,
     * and then the plugin must not keep them. A decrease is always counted. The counts end when the instance stops. */
    int32_t (*hold)(const void *state, uint64_t client, int64_t bytes);
    /* Since minor number 3; check size first. Calls a method of any namespace by its full name, as clients do: params is the
     * JSON text of its params (an array), or empty. The reply's body is the JSON text of the result. `call` as for call above;
     * no schema hash is needed. The method can do only what this plugin was granted. A method may return this future
     * as its own. */
    TenonFuture (*call_json)(const void *state, const void *call, TenonSlice method, TenonSlice params);
} TenonHost;

/* The description of a plugin. Static. Every function may be called from any thread; call and subscribe also from several
 * at a time. */
typedef struct TenonPlugin {
    uint64_t magic; /* TENON_PLUGIN_MAGIC */
    uint16_t abi_major;
    uint16_t abi_minor;
    uint16_t needs_minor; /* the lowest minor number of the host that it supports */
    uint16_t reserved;    /* 0 */
    size_t size;          /* sizeof(TenonPlugin) */
    uint64_t features;    /* TENON_FEATURE_ bits, the others 0 */
    uint8_t schema_hash[32]; /* of the messages it was built with; all zero when it sends no frames */
    TenonSlice name;         /* for display */
    TenonSlice namespace_;   /* a letter, then letters and digits */
    TenonSlice version;      /* "<major>.<minor>", for rpc_modules */
    TenonSlice built_with;   /* for display */
    TenonSlice capabilities; /* requested capabilities, separated by commas */
    TenonSlice needs;        /* plugins that it needs, such as "eth >= 1", separated by commas */
    const TenonMethod *methods;
    size_t method_count;
    const TenonSubscription *subscriptions;
    size_t subscription_count;
    /* Starts an instance. `settings` is JSON text; `handover` what export_state of the previous version returned, or
     * empty. Writes the instance and returns a reply with code 0, or the reason for refusing. */
    TenonReply (*start)(const TenonHost *host, TenonSlice settings, TenonSlice handover, void **instance);
    /* Calls a method by its position; `params` is the raw JSON of the request's params, or empty. It is valid until this
     * function returns: the host frees it then, even though the future is still running. */
    TenonFuture (*call)(void *instance, const TenonCallContext *context, uint32_t method, TenonSlice params);
    /* Opens a subscription by its kind's position; `params` is the raw JSON array of the arguments after the
     * kind, or empty. The first item answers whether it was opened: code 0 and an empty body, or the error. The
     * items after it are finished JSON, the `result` of a notification each, with the position of their event in data
     * (TenonReply); an error ends the stream. */
    TenonStream (*subscribe)(void *instance, const TenonCallContext *context, uint32_t kind, TenonSlice params);
    /* State for the version that replaces this one: code 0 and a blob in the body (may be empty). */
    TenonReply (*export_state)(void *instance);
    /* Ends the instance. All futures and streams have been dropped before. The library may be unloaded after. */
    void (*stop)(void *instance);
    /* Since minor number 1. The plugin's background work, independent of calls: polled from the
     * moment its methods are routed until the plugin is disabled. Ready with code 0 when there is nothing more to do;
     * after an error the host restarts it, after a pause. Null if there is none. */
    TenonFuture (*run)(void *instance);
} TenonPlugin;

/* The one symbol that a plugin exports. */
const TenonPlugin *tenon_plugin_v1(void);

#ifdef __cplusplus
}
#endif

#endif
