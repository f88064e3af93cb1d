/* A plugin that breaks the rules of the boundary in the way selected by its compiler flags. For core/modules'
 * tests. */
#include <stdlib.h>
#include <string.h>
#include "ordinary.h"

#ifndef MAGIC
#define MAGIC TENON_PLUGIN_MAGIC
#endif
#ifndef MAJOR
#define MAJOR TENON_ABI_MAJOR
#endif
#ifndef NEEDS_MINOR
#define NEEDS_MINOR 0
#endif
#ifndef SIZE
#define SIZE sizeof(TenonPlugin)
#endif
#ifndef SCHEMA
#define SCHEMA 0
#endif
#ifndef NAMESPACE
#define NAMESPACE "broken"
#endif
#ifndef VERSION
#define VERSION "1.0"
#endif
#ifndef NEEDS
#define NEEDS ""
#endif
#ifndef CAPABILITIES
#define CAPABILITIES ""
#endif
#ifndef NO_TABLE
#define NO_TABLE 0
#endif
#ifndef METHODS
#define METHODS 6
#endif

static TenonSlice text(const char *string) {
    TenonSlice slice = {(const uint8_t *)string, strlen(string)};
    return slice;
}

static const TenonHost *host;

/* `state` points to a static number that selects the behaviour of poll. */
static int32_t poll(void *state, const TenonWaker *waker, TenonReply *reply) {
    switch (*(const int *)state) {
    case 0: /* a code that does not exist */
        return 77;
    case 1: /* ready without an answer */
        return TENON_POLL_READY;
    case 2: /* the end of a stream, without a stream */
        return TENON_POLL_END;
    case 3: /* wakes itself and returns pending, forever */
        waker->vtable->wake_by_ref(waker->data);
        return TENON_POLL_PENDING;
    case 4: /* a length without bytes */
        *reply = ok("");
        reply->body.len = 1000;
        reply->body.data = NULL;
        return TENON_POLL_READY;
    default:
        *reply = ok("true");
        return TENON_POLL_READY;
    }
}

static const int numbers[] = {0, 1, 2, 3, 4, 5};

static TenonReply start(const TenonHost *given, TenonSlice settings, TenonSlice handover, void **instance) {
    (void)settings, (void)handover;
    host = given;
    *instance = NULL;
    return ok("");
}

static TenonFuture call(void *instance, const TenonCallContext *context, uint32_t method, TenonSlice params) {
    (void)instance, (void)params;
    if (method == 5) { /* a plugin without a schema hash must not reach the bus */
        TenonSlice frame = {NULL, 0};
        return host->call(host->state, context->call, 0x0600, 1, frame);
    }
    TenonFuture future = {(void *)&numbers[method], poll, NULL};
    return future;
}

static const TenonMethod methods[] = {
    {TEXT(NAMESPACE "_code"), 0, 0, TEXT("")},     {TEXT(NAMESPACE "_nothing"), 0, 0, TEXT("")},
    {TEXT(NAMESPACE "_end"), 0, 0, TEXT("")},      {TEXT(NAMESPACE "_spin"), 0, 0, TEXT("")},
    {TEXT(NAMESPACE "_length"), 0, 0, TEXT("")},   {TEXT(NAMESPACE "_bus"), 0, 0, TEXT("")},
};
static const TenonSubscription subscriptions[] = {{TEXT("nothing")}};

const TenonPlugin *tenon_plugin_v1(void) {
    static TenonPlugin plugin;
    plugin.magic = MAGIC;
    plugin.abi_major = MAJOR;
    plugin.needs_minor = NEEDS_MINOR;
    plugin.size = SIZE;
    memset(plugin.schema_hash, SCHEMA, sizeof plugin.schema_hash);
    plugin.name = text("broken plugin");
    plugin.namespace_ = text(NAMESPACE);
    plugin.version = text(VERSION);
    plugin.needs = text(NEEDS);
    plugin.built_with = text("cc");
    plugin.capabilities = text(CAPABILITIES);
    plugin.methods = methods;
    plugin.method_count = METHODS;
    plugin.subscriptions = subscriptions;
    plugin.subscription_count = 1;
    plugin.start = start;
    plugin.call = call;
    plugin.subscribe = subscribe;
    plugin.export_state = export_state;
    plugin.stop = stop;
    return NO_TABLE ? NULL : &plugin;
}
