# Precompiled headers: a fifth to a third of the time that these files take is spent on the standard
# library. What a source includes it still names: clang-tidy and scripts/check_headers.sh read the
# sources without. CMAKE_DISABLE_PRECOMPILE_HEADERS turns them off, as the Makefile does under
# ccache, which keeps nothing that was compiled with one.

# rollcall_precompile(TARGET headers...): these, and what nearly every file of the tools includes.
# All sources of a target share its flags; one with optimisation of its own goes without.
function(rollcall_precompile target)
  target_precompile_headers(${target} PRIVATE ${ARGN}
    <algorithm> <cstdint> <map> <optional> <string> <string_view> <utility> <vector>)
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    # GCC forgets which lines of a precompiled header are the system's, and warns of those.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overread>)
  endif()
endfunction()
