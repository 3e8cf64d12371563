// Catch2 2 (one header) and 3 (a library) under one name.
#pragma once
#if ROLLCALL_CATCH_MAJOR >= 3
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
