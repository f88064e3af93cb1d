/* Answers how many nanoseconds of a call are left, or null: as a plugin of minor number 2, or as a current one. */
#ifdef OF_MINOR_2
#include "1.2/tenon_plugin.h"
#endif
#include "../ordinary.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const TenonHost *host;

static TenonReply start(const TenonHost *given, TenonSlice settings, TenonSlice handover, void **instance) {
    (void)settings, (void)handover;
    host = given;
    *instance = (void *)given;
    return ok("");
}

static int64_t time_left(const TenonCallContext *context) {
#ifdef OF_MINOR_2
    return (int64_t)context->deadline_nanos;
#else
    return context->deadline == 0 ? 0 : (int64_t)(context->deadline - host->now_nanos(host->state));
#endif
}

static void release(uint8_t *data, size_t len, size_t capacity) {
    (void)len, (void)capacity;
    free(data);
}

static int32_t poll_left(void *state, const TenonWaker *waker, TenonReply *reply) {
    int64_t left = *(int64_t *)state;
    char *text = malloc(24);
    (void)waker;
    if (text == NULL) abort();
    if (left == 0) strcpy(text, "null");
    else snprintf(text, 24, "%" PRId64, left);
    *reply = ok(text);
    reply->body.capacity = 24;
    reply->body.free = release;
    return TENON_POLL_READY;
}

static TenonFuture call(void *instance, const TenonCallContext *context, uint32_t method, TenonSlice params) {
    int64_t *left = malloc(sizeof *left);
    TenonFuture future = {left, poll_left, free};
    (void)instance, (void)method, (void)params;
    if (left == NULL) abort();
    *left = time_left(context);
    return future;
}

static const TenonMethod methods[] = {{TEXT("deadline_left"), TENON_COST_FAST, 1, {NULL, 0}}};

static const TenonPlugin plugin = {
    .magic = TENON_PLUGIN_MAGIC,
    .abi_major = TENON_ABI_MAJOR,
    .abi_minor = TENON_ABI_MINOR,
    .size = sizeof(TenonPlugin),
    .name = TEXT("deadline"),
    .namespace_ = TEXT("deadline"),
    .version = TEXT("1.0"),
    .methods = methods,
    .method_count = sizeof methods / sizeof methods[0],
    .start = start,
    .call = call,
    .subscribe = subscribe,
    .export_state = export_state,
    .stop = stop,
};

const TenonPlugin *tenon_plugin_v1(void);

const TenonPlugin *tenon_plugin_v1(void) { return &plugin; }
