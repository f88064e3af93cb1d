/* A plugin that calls methods of other namespaces. Its method number i is `caller_<name>`, and calls what the table says:
 * on behalf of its caller, or on its own account. */
#include <stdlib.h>
#include <string.h>
#include "tenon_plugin.h"

#define TEXT(literal) {(const uint8_t *)(literal), sizeof(literal) - 1}

static const TenonHost *host;

/* What each method calls: an empty name passes the parameters on as they are, with the method's own answer. */
static const struct Asked {
    TenonSlice method, params;
    int own_account;
} asked[] = {
    {TEXT("web3_clientVersion"), TEXT("[]"), 0},
    {TEXT("web3_clientVersion"), TEXT(""), 1},
    {TEXT("web3_sha3"), TEXT(""), 0}, /* with the caller's parameters */
    {TEXT("caller_again"), TEXT("[]"), 0},
    {TEXT("web3_sha3"), TEXT("[\"0x\""), 0},
    {TEXT("eth_noSuchMethod"), TEXT("[]"), 0},
    {TEXT("web3_sha3"), TEXT("\xff"), 0},
    {TEXT("caller_ownAgain"), TEXT(""), 1},
    {TEXT("bad_panic"), TEXT("[]"), 0},
};

static TenonReply nothing(void) {
    TenonReply reply = {0, {NULL, 0, 0, NULL}, {NULL, 0, 0, NULL}};
    return reply;
}

static TenonReply start(const TenonHost *given, TenonSlice settings, TenonSlice handover, void **instance) {
    (void)settings, (void)handover;
    host = given;
    *instance = (void *)given;
    return nothing();
}

static TenonFuture call(void *instance, const TenonCallContext *context, uint32_t method, TenonSlice params) {
    const struct Asked *what = &asked[method];
    (void)instance;
    return host->call_json(host->state, what->own_account ? NULL : context->call, what->method,
                           method == 2 ? params : what->params);
}

static int32_t poll_end(void *state, const TenonWaker *waker, TenonReply *reply) {
    (void)state, (void)waker, (void)reply;
    return TENON_POLL_END;
}

static TenonStream subscribe(void *instance, const TenonCallContext *context, uint32_t kind, TenonSlice params) {
    TenonStream stream = {NULL, poll_end, NULL};
    (void)instance, (void)context, (void)kind, (void)params;
    return stream;
}

static TenonReply export_state(void *instance) {
    (void)instance;
    return nothing();
}

static void stop(void *instance) { (void)instance; }

#define METHOD(name) {TEXT("caller_" name), TENON_COST_FAST, 0, TEXT("")}

static const TenonMethod methods[] = {
    METHOD("version"), METHOD("ownVersion"), METHOD("hash"), METHOD("again"), METHOD("cut"), METHOD("missing"), METHOD("binary"),
    METHOD("ownAgain"), METHOD("panic"),
};

static const TenonPlugin plugin = {
    .magic = TENON_PLUGIN_MAGIC,
    .abi_major = TENON_ABI_MAJOR,
    .abi_minor = TENON_ABI_MINOR,
    .needs_minor = 3,
    .size = sizeof(TenonPlugin),
    .name = TEXT("caller"),
    .namespace_ = TEXT("caller"),
    .version = TEXT("1.0"),
    .built_with = TEXT("C"),
    .capabilities = TEXT("ReadNode"),
    .methods = methods,
    .method_count = sizeof methods / sizeof *methods,
    .start = start,
    .call = call,
    .subscribe = subscribe,
    .export_state = export_state,
    .stop = stop,
};

const TenonPlugin *tenon_plugin_v1(void) { return &plugin; }
