/* A plugin of a later minor number: its table is longer than the one that this host knows. */
#define tenon_plugin_v1 tenon_plugin_of_today
#include "../../../plugins/examples/c_hello/c_hello.c"
#undef tenon_plugin_v1

#ifndef NEEDS_MINOR
#define NEEDS_MINOR 0
#endif

typedef struct FuturePlugin {
    TenonPlugin known;
    void (*not_invented_yet)(void *instance);
    uint64_t neither[4];
} FuturePlugin;

static FuturePlugin future;

const FuturePlugin *tenon_plugin_v1(void);

const FuturePlugin *tenon_plugin_v1(void) {
    future.known = *tenon_plugin_of_today();
    future.known.abi_minor = TENON_ABI_MINOR + 7;
    future.known.needs_minor = NEEDS_MINOR;
    future.known.size = sizeof future;
    return &future;
}
