/* The example in C as it was, against the header of minor number 2, whose include guard excludes the current one. */
#include "1.2/tenon_plugin.h"
#if TENON_ABI_MINOR != 2
#error "this is not the header of minor number 2"
#endif
#include "1.0/c_hello.c"
