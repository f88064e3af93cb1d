/* The example in C as it was, against the header of minor number 0, whose include guard excludes the current one. */
#include "1.0/tenon_plugin.h"
#if TENON_ABI_MINOR != 0
#error "this is not the header of minor number 0"
#endif
#include "1.0/c_hello.c"
