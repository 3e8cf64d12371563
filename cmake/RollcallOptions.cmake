# Compiler settings that every target shares, and the two kinds of target there are:
#   rollcall_library / rollcall_program   tools, tests, emulator: assertions abort
#   rollcall_injected_library             lives in somebody else's process: see design rules below
option(ROLLCALL_WERROR "Warnings are errors" ON)
set(ROLLCALL_SANITIZE "" CACHE STRING "-fsanitize= list, for example address,undefined or thread")

# Lines and functions, which a stack trace needs, and no variables: those are a third of the time
# that a build takes. What is injected into a job keeps them, for a debugger there (below).
string(REGEX REPLACE "-g( |$)" "-g1\\1" CMAKE_CXX_FLAGS_RELWITHDEBINFO
  "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")

# What runs once, or only where ranks differ, is compiled for size: a wheel has a limit. Not so for
# a sanitizer, which nobody packs.
set(rollcall_for_size $<$<NOT:$<CONFIG:Debug>>:-Os>)
if(ROLLCALL_SANITIZE)
  set(rollcall_for_size "")
endif()

add_library(rollcall_flags INTERFACE)
target_compile_options(rollcall_flags INTERFACE -Wall -Wextra -Wshadow
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> $<$<BOOL:${ROLLCALL_WERROR}>:-Werror>
  -fno-omit-frame-pointer)
target_include_directories(rollcall_flags INTERFACE ${PROJECT_SOURCE_DIR})
if(ROLLCALL_SANITIZE)
  target_compile_options(rollcall_flags INTERFACE -fsanitize=${ROLLCALL_SANITIZE})
  target_link_options(rollcall_flags INTERFACE -fsanitize=${ROLLCALL_SANITIZE})
  string(REPLACE "," ";" rollcall_sanitizers "${ROLLCALL_SANITIZE}")
  if("thread" IN_LIST rollcall_sanitizers)
    # GCC says at every fence that its thread sanitizer does not model it. What the fences order is
    # atomic too, so that nothing rests on them alone.
    target_compile_options(rollcall_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
  # Half to two thirds of the time to compile at -O2, and a fifth more to run.
  target_compile_options(rollcall_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Og>)
  if("address" IN_LIST rollcall_sanitizers)
    # GCC's own <regex>, which Catch2 includes, is reported when instrumented.
    target_compile_options(rollcall_flags INTERFACE
      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    # As GCC defines it.
    target_compile_definitions(rollcall_flags INTERFACE
      $<$<CXX_COMPILER_ID:Clang>:__SANITIZE_ADDRESS__=1>)
  endif()
  if("undefined" IN_LIST rollcall_sanitizers)
    # Left out: the sizes of objects, which the address sanitizer sees.
    target_compile_options(rollcall_flags INTERFACE -fno-sanitize-recover=undefined
      -fno-sanitize=object-size)
  endif()
endif()
# What fuzzing is guided by. It needs clang.
option(ROLLCALL_FUZZ "Build the fuzz targets" OFF)
add_library(rollcall_fuzzed INTERFACE)
if(ROLLCALL_FUZZ)
  target_compile_options(rollcall_fuzzed INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_compile_definitions(rollcall_flags INTERFACE ROLLCALL_VERSION="${PROJECT_VERSION}")

# Flags of objects that end up in an injected library: hidden symbols, no exceptions across the
# boundary, assertions latch instead of abort.
add_library(rollcall_injected_flags INTERFACE)
target_link_libraries(rollcall_injected_flags INTERFACE rollcall_flags)
target_compile_definitions(rollcall_injected_flags INTERFACE ROLLCALL_INJECTED=1)
# A thread of the job may have 16 KiB of stack in all. Sanitizers make frames of their own size.
# (Their list has commas, which no generator expression takes.)
if(NOT ROLLCALL_SANITIZE)
  target_compile_options(rollcall_injected_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-Wframe-larger-than=2560>)
endif()
# Failed assertions name their file: without the folder of whoever built the library.
target_compile_options(rollcall_injected_flags INTERFACE -g2 -fvisibility=hidden
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
  $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden -fno-exceptions -fno-rtti>
  # One instruction to reach a thread's state, and no call into the loader, which may allocate.
  $<$<COMPILE_LANGUAGE:C,CXX>:-ftls-model=initial-exec>
  $<$<COMPILE_LANGUAGE:C,CXX>:SHELL:-include ${PROJECT_SOURCE_DIR}/cmake/glibc_compat.h>)
