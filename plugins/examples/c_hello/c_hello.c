/* A whole plugin in C. `chello_height` and `chello_balance` return chain data by calling methods of the namespace eth;
 * `chello_greet` answers at once, `chello_wait` after the host's timer, and the subscription `count` sends three numbers.
 *
 *     cc -shared -fPIC -I ../../sdk/include -o libc_hello.so c_hello.c
 */
#include <stdlib.h>
#include <string.h>
#include "tenon_plugin.h"

#define TEXT(literal) {(const uint8_t *)(literal), sizeof(literal) - 1}

typedef struct Instance {
    const TenonHost *host;
} Instance;

static void free_buffer(uint8_t *data, size_t len, size_t capacity) {
    (void)len, (void)capacity;
    free(data);
}

static TenonBuffer buffer(const char *text) {
    TenonBuffer result = {NULL, 0, 0, NULL};
    size_t len = strlen(text);
    if (len > 0 && (result.data = malloc(len)) != NULL) {
        memcpy(result.data, text, len);
        result.len = result.capacity = len;
        result.free = free_buffer;
    }
    return result;
}

static TenonReply answer(int32_t code, const char *body) {
    TenonReply reply = {code, buffer(body), buffer("")};
    return reply;
}

/* ---- chello_greet: ready on its first poll ---- */

static int32_t poll_greet(void *state, const TenonWaker *waker, TenonReply *reply) {
    (void)waker;
    *reply = state == NULL ? answer(0, "\"hello from C\"") : answer(-32602, state);
    return TENON_POLL_READY;
}

static TenonFuture greet(TenonSlice params) {
    int is_empty = params.len == 0 || (params.len == 2 && memcmp(params.data, "[]", 2) == 0);
    TenonFuture future = {is_empty ? NULL : "too many arguments, want at most 0", poll_greet, NULL};
    return future;
}

/* ---- chello_wait: forwards the host's timer ---- */

typedef struct Wait {
    TenonFuture timer;
} Wait;

static int32_t poll_wait(void *state, const TenonWaker *waker, TenonReply *reply) {
    Wait *wait = state;
    TenonReply rung = {0, {NULL, 0, 0, NULL}, {NULL, 0, 0, NULL}};
    if (wait->timer.poll(wait->timer.state, waker, &rung) == TENON_POLL_PENDING) {
        return TENON_POLL_PENDING;
    }
    if (rung.body.free != NULL) {
        rung.body.free(rung.body.data, rung.body.len, rung.body.capacity);
    }
    if (rung.data.free != NULL) {
        rung.data.free(rung.data.data, rung.data.len, rung.data.capacity);
    }
    *reply = answer(0, "\"waited\"");
    return TENON_POLL_READY;
}

static void drop_wait(void *state) {
    Wait *wait = state;
    wait->timer.drop(wait->timer.state);
    free(wait);
}

static int32_t poll_no_memory(void *state, const TenonWaker *waker, TenonReply *reply) {
    (void)state, (void)waker;
    *reply = answer(-32000, "out of memory");
    return TENON_POLL_READY;
}

static TenonFuture wait_a_little(const TenonHost *host) {
    Wait *wait = malloc(sizeof *wait);
    TenonFuture future = {wait, poll_wait, drop_wait};
    if (wait == NULL) {
        TenonFuture failed = {NULL, poll_no_memory, NULL};
        return failed;
    }
    wait->timer = host->sleep(host->state, 1000000);
    return future;
}

/* ---- chain data: returns the future of another namespace's method as its own ---- */

static int32_t poll_too_old(void *state, const TenonWaker *waker, TenonReply *reply) {
    (void)state, (void)waker;
    *reply = answer(-32000, "this host is older than call_json");
    return TENON_POLL_READY;
}

static TenonFuture ask(const TenonHost *host, const TenonCallContext *context, TenonSlice method, TenonSlice params) {
    if (host->size < offsetof(TenonHost, call_json) + sizeof host->call_json) {
        TenonFuture too_old = {NULL, poll_too_old, NULL};
        return too_old;
    }
    return host->call_json(host->state, context->call, method, params);
}

/* The number of the newest block. */
static TenonFuture height(const TenonHost *host, const TenonCallContext *context) {
    TenonSlice method = TEXT("eth_blockNumber"), params = TEXT("[]");
    return ask(host, context, method, params);
}

/* The balance of the address in the first parameter, at the block in the second one, or at the head without it. */
static TenonFuture balance(const TenonHost *host, const TenonCallContext *context, TenonSlice params) {
    TenonSlice method = TEXT("eth_getBalance");
    return ask(host, context, method, params);
}

/* ---- count: the acceptance, then 1, 2, 3 ---- */

static int32_t poll_count(void *state, const TenonWaker *waker, TenonReply *reply) {
    int *next = state;
    static const char *const items[] = {"", "1", "2", "3"};
    (void)waker;
    if (*next == 4) {
        return TENON_POLL_END;
    }
    *reply = answer(0, items[(*next)++]);
    return TENON_POLL_READY;
}

/* ---- the table ---- */

static TenonReply start(const TenonHost *host, TenonSlice settings, TenonSlice handover, void **instance) {
    static const char message[] = "hello from C starts";
    TenonSlice line = TEXT(message);
    Instance *own = malloc(sizeof *own);
    (void)settings, (void)handover;
    if (own == NULL) {
        return answer(-32000, "out of memory");
    }
    own->host = host;
    host->log(host->state, 3, line);
    *instance = own;
    return answer(0, "");
}

static TenonFuture call(void *instance, const TenonCallContext *context, uint32_t method, TenonSlice params) {
    const TenonHost *host = ((Instance *)instance)->host;
    switch (method) {
    case 0: return greet(params);
    case 1: return wait_a_little(host);
    case 2: return height(host, context);
    default: return balance(host, context, params);
    }
}

static TenonStream subscribe(void *instance, const TenonCallContext *context, uint32_t kind, TenonSlice params) {
    TenonStream stream = {calloc(1, sizeof(int)), poll_count, free};
    (void)instance, (void)context, (void)kind, (void)params;
    if (stream.state == NULL) {
        stream.poll = poll_no_memory;
        stream.drop = NULL;
    }
    return stream;
}

static TenonReply export_state(void *instance) {
    (void)instance;
    return answer(0, "");
}

static void stop(void *instance) { free(instance); }

static const TenonMethod methods[] = {
    {TEXT("chello_greet"), TENON_COST_FAST, 0, TEXT("{\"summary\":\"Greets.\",\"params\":[]}")},
    {TEXT("chello_wait"), TENON_COST_FAST, 0, TEXT("{\"summary\":\"Waits a millisecond.\",\"params\":[]}")},
    {TEXT("chello_height"), TENON_COST_FAST, TENON_METHOD_ONLY_READS,
     TEXT("{\"summary\":\"The number of the newest block.\",\"params\":[]}")},
    {TEXT("chello_balance"), TENON_COST_FAST, TENON_METHOD_ONLY_READS,
     TEXT("{\"summary\":\"An account's balance, wei.\",\"params\":["
          "{\"name\":\"address\",\"required\":true,\"schema\":{\"type\":\"string\"}},"
          "{\"name\":\"block\",\"schema\":{\"type\":\"string\"}}]}")},
};
static const TenonSubscription subscriptions[] = {{TEXT("count")}};

static const TenonPlugin plugin = {
    .magic = TENON_PLUGIN_MAGIC,
    .abi_major = TENON_ABI_MAJOR,
    .abi_minor = TENON_ABI_MINOR,
    .size = sizeof(TenonPlugin),
    .name = TEXT("hello in C"),
    .namespace_ = TEXT("chello"),
    .version = TEXT("1.0"),
    .built_with = TEXT("C"),
    .capabilities = TEXT("ReadChain"),
    .methods = methods,
    .method_count = sizeof methods / sizeof *methods,
    .subscriptions = subscriptions,
    .subscription_count = 1,
    .start = start,
    .call = call,
    .subscribe = subscribe,
    .export_state = export_state,
    .stop = stop,
};

const TenonPlugin *tenon_plugin_v1(void) { return &plugin; }
