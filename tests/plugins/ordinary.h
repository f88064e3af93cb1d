/* The default behaviour of the tests' C plugins: they answer, have no subscriptions, keep no state, and stop without
 * work. */
#pragma once
#include <string.h>
#include "tenon_plugin.h"

#define TEXT(literal) {(const uint8_t *)(literal), sizeof(literal) - 1}

static inline TenonReply ok(const char *body) {
    /* A static body: nothing to free. */
    TenonReply reply = {0, {(uint8_t *)body, strlen(body), 0, NULL}, {NULL, 0, 0, NULL}};
    return reply;
}

static inline TenonStream subscribe(void *instance, const TenonCallContext *context, uint32_t kind, TenonSlice params) {
    (void)instance, (void)context, (void)kind, (void)params;
    TenonStream stream = {NULL, NULL, NULL};
    return stream;
}

static inline TenonReply export_state(void *instance) {
    (void)instance;
    return ok("");
}

static inline void stop(void *instance) { (void)instance; }
