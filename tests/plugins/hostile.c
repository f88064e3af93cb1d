/* A plugin that attacks its process and the node. Load it only in its own process; for core/modules' tests. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>
#include "ordinary.h"

static const TenonHost *host;

static TenonReply number(int value) {
    static char text[16];
    snprintf(text, sizeof text, "%d", value);
    return ok(text);
}

/* Writes to every open descriptor that accepts it, including the socket to the node. */
static void write_to_the_node(const void *bytes, size_t length) {
    for (int descriptor = 3; descriptor < 64; descriptor++) {
        if (write(descriptor, bytes, length) < 0)
            continue;
    }
    /* The following must run before the call ends. */
    usleep(200000);
}

static int attempt(int outcome) { return outcome < 0 ? errno : 0; }

static TenonReply crash(void) {
    volatile int *nowhere = (volatile int *)8;
    *nowhere = 1;
    return ok("true");
}
static TenonReply do_abort(void) { abort(); }
static TenonReply do_exit(void) { _exit(7); }
static TenonReply loop(void) {
    volatile unsigned long turns = 1;
    while (turns)
        turns |= 1;
    return ok("true");
}
static TenonReply block(void) {
    volatile int is_asleep = 1;
    while (is_asleep)
        sleep(1000);
    return ok("true");
}
static TenonReply leak(void) {
    for (;;) {
        char *more = malloc(1 << 20);
        if (more == NULL)
            abort();
        memset(more, 1, 1 << 20);
    }
}
static TenonReply lie(void) {
    write_to_the_node("\xff\xff\xff\xff", 4);
    return ok("true");
}
static TenonReply too_short(void) {
    write_to_the_node("\3\0\0\0abc", 7);
    return ok("true");
}
static TenonReply kind(void) {
    write_to_the_node("\x09\0\0\0\x7f\0\0\0\0\0\0\0\0", 13);
    return ok("true");
}
static TenonReply twice(void) {
    write_to_the_node("\x15\0\0\0\x84\x3f\x42\x0f\0\0\0\0\0\0\0\0\0\0\0\0\0true", 25);
    return ok("true");
}
static TenonReply garbage(void) { return ok("{\"half\":"); }
static TenonReply not_utf8(void) { return ok("\"\xff\xfe\""); }
static TenonReply do_open(void) { return number(attempt(open("/etc/hostname", O_RDONLY))); }
static TenonReply create(void) { return number(attempt(open("/tmp/tenon-hostile", O_CREAT | O_WRONLY, 0600))); }
static TenonReply do_socket(void) { return number(attempt(socket(AF_INET, SOCK_STREAM, 0))); }
static TenonReply do_fork(void) {
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    return number(attempt(child));
}
static TenonReply kill_node(void) { return number(attempt(kill(getppid(), SIGTERM))); }
/* Counts foreign descriptors: the process may have only sockets and events, no file and no folder. */
static TenonReply descriptors(void) {
    int foreign = 0;
    for (int descriptor = 3; descriptor < 1024; descriptor++) {
        char byte;
        if (pread(descriptor, &byte, 1, 0) >= 0)
            foreign++;
    }
    return number(foreign);
}
static TenonReply flood(void) {
    TenonSlice line = TEXT("all work and no play makes a plugin a dull one");
    for (int count = 0; count < 100000; count++)
        host->log(host->state, 3, line);
    return ok("true");
}
static TenonReply print(void) {
    for (int count = 0; count < 100; count++)
        fprintf(stderr, "printed %d\x1b[31m\n", count);
    return ok("true");
}
static TenonReply yes(void) { return ok("true"); }

typedef TenonReply (*Deed)(void);
static const Deed deeds[] = {crash,   do_abort, do_exit, loop,      block,   leak,      lie,         too_short, kind,
                             twice,   garbage,  not_utf8, do_open,  create,  do_socket, do_fork,     kill_node, descriptors,
                             flood,   print,    yes};
#define METHOD(name) {TEXT("hostile_" name), 0, 0, TEXT("")}
static const TenonMethod methods[] = {
    METHOD("crash"),   METHOD("abort"),   METHOD("exit"),     METHOD("loop"),   METHOD("block"),  METHOD("leak"),
    METHOD("lie"),     METHOD("short"),   METHOD("kind"),     METHOD("twice"),  METHOD("garbage"), METHOD("notUtf8"),
    METHOD("open"),    METHOD("create"),  METHOD("socket"),   METHOD("fork"),   METHOD("killNode"),
    METHOD("descriptors"), METHOD("flood"), METHOD("print"), METHOD("true"),
};
static const size_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};

static int32_t poll(void *state, const TenonWaker *waker, TenonReply *reply) {
    (void)waker;
    *reply = deeds[*(const size_t *)state]();
    return TENON_POLL_READY;
}

static TenonReply start(const TenonHost *given, TenonSlice settings, TenonSlice handover, void **instance) {
    (void)settings, (void)handover;
    host = given;
    *instance = NULL;
    return ok("");
}

static TenonFuture call(void *instance, const TenonCallContext *context, uint32_t method, TenonSlice params) {
    (void)instance, (void)params, (void)context;
    TenonFuture future = {(void *)&numbers[method], poll, NULL};
    return future;
}

static const TenonPlugin plugin = {
    .magic = TENON_PLUGIN_MAGIC,
    .abi_major = TENON_ABI_MAJOR,
    .size = sizeof(TenonPlugin),
    .name = TEXT("hostile"),
    .namespace_ = TEXT("hostile"),
    .version = TEXT("1.0"),
    .built_with = TEXT("cc"),
    .methods = methods,
    .method_count = sizeof methods / sizeof *methods,
    .start = start,
    .call = call,
    .subscribe = subscribe,
    .export_state = export_state,
    .stop = stop,
};

const TenonPlugin *tenon_plugin_v1(void) { return &plugin; }
