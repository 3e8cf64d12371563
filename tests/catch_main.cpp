// main() of every unit test program.
#if ROLLCALL_CATCH_MAJOR < 3
#define CATCH_CONFIG_MAIN
#endif
#include "tests/catch.h"
