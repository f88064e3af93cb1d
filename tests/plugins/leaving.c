/* A plugin that leaves resources behind when it is stopped, selected by its compiler flags. For the tests of `tenon module
 * check`, which unloads it a hundred times. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "ordinary.h"

#if LEAVES_A_THREAD || LEAVES_A_THREAD_THAT_WAKES
typedef void *(*Routine)(void *);
#if LEAVES_A_THREAD_THAT_WAKES
/* Its code is unloaded before it wakes. */
static void *routine(void *nothing) {
    const struct timespec moment = {0, 1000000};
    for (;;)
        nanosleep(&moment, NULL);
    return nothing;
}
#else
/* Its code is in the C library, which stays loaded. */
static const Routine routine = (Routine)(void (*)(void))sleep;
#endif

static void leave_a_thread(void) {
    pthread_attr_t small;
    pthread_t started;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    if (pthread_create(&started, &small, routine, (void *)100000) == 0)
        pthread_detach(started);
    pthread_attr_destroy(&small);
}
#endif

#if STAYS
/* Other languages' compilers do this for a thread-local with a destructor: it keeps the library loaded. */
extern int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *library);
extern void *__dso_handle __attribute__((visibility("hidden")));
static void destructor(void *object) { (void)object; }
#endif

#if CRASHES_AT_UNLOAD
__attribute__((destructor)) static void crash(void) {
    volatile int *nowhere = (volatile int *)8;
    *nowhere = 1;
}
#endif

static TenonReply start(const TenonHost *host, TenonSlice settings, TenonSlice handover, void **instance) {
    (void)host, (void)settings, (void)handover;
    *instance = NULL;
#if LEAKS
    char *kept = malloc(LEAKS);
    if (kept != NULL)
        memset(kept, 1, LEAKS);
    *instance = kept;
#endif
#if LEAVES_A_THREAD || LEAVES_A_THREAD_THAT_WAKES
    leave_a_thread();
#endif
#if STAYS
    static char object;
    __cxa_thread_atexit_impl(destructor, &object, &__dso_handle);
#endif
    return ok("");
}

static int32_t poll(void *state, const TenonWaker *waker, TenonReply *reply) {
    (void)state, (void)waker;
    *reply = ok("true");
    return TENON_POLL_READY;
}

static TenonFuture call(void *instance, const TenonCallContext *context, uint32_t method, TenonSlice params) {
    (void)instance, (void)context, (void)method, (void)params;
    TenonFuture future = {NULL, poll, NULL};
    return future;
}

static const TenonMethod methods[] = {{TEXT("leaving_true"), 0, 0, TEXT("")}};

static const TenonPlugin plugin = {
    .magic = TENON_PLUGIN_MAGIC,
    .abi_major = TENON_ABI_MAJOR,
    .size = sizeof(TenonPlugin),
    .name = TEXT("leaving"),
    .namespace_ = TEXT("leaving"),
    .version = TEXT("1.0"),
    .built_with = TEXT("cc"),
    .methods = methods,
    .method_count = 1,
    .start = start,
    .call = call,
    .subscribe = subscribe,
    .export_state = export_state,
    .stop = stop,
};

const TenonPlugin *tenon_plugin_v1(void) { return &plugin; }
