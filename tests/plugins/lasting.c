/* The example in C with subscriptions that last, as a build of the minor number MINOR. */
#define tenon_plugin_v1 tenon_plugin_of_example
#include "../../plugins/examples/c_hello/c_hello.c"
#undef tenon_plugin_v1

static TenonPlugin lasting;

const TenonPlugin *tenon_plugin_v1(void);

const TenonPlugin *tenon_plugin_v1(void) {
    lasting = *tenon_plugin_of_example();
    lasting.abi_minor = MINOR;
    lasting.features = TENON_FEATURE_LASTING_SUBSCRIPTIONS;
    return &lasting;
}
