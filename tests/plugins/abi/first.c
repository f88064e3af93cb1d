/* The example in C against the header of minor number 0, whose include guard excludes the current one. */
#include "1.0/tenon_plugin.h"
#if TENON_ABI_MINOR != 0
#error "this is not the header of minor number 0"
#endif
#include "../../../plugins/examples/c_hello/c_hello.c"
