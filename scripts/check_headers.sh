#!/usr/bin/env bash
# A header compiles alone: what it needs, it includes. Each that a change may have broken
# (scripts/affected.py).
#   scripts/check_headers.sh [BASE]
# BASE: a commit, or all.
set -euo pipefail
cd "$(dirname "$0")/.."
compiler=${CXX:-g++}

compile() {
  local header=$1 flags=()
  case $header in
    core/* | shim/* | profiler_plugin/*) flags=(-fno-exceptions -fno-rtti -DROLLCALL_INJECTED=1) ;;
    emulator/* | examples/* | tests/*) flags=(-Iemulator/include) ;;
  esac
  flags+=(-DROLLCALL_CATCH_MAJOR="$catch_major" "-DROLLCALL_VERSION=\"0\"")
  printf '#include "%s"\n' "$header" | "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Wshadow \
    -Werror -I. "${flags[@]}" -x c++ - || {
    echo "headers: $header does not compile alone" >&2
    return 1
  }
}
export -f compile
export compiler
catch_major=2
if [ -e /usr/include/catch2/catch_all.hpp ]; then catch_major=3; fi
export catch_major

scripts/affected.py headers "$@" --unless scripts/check_headers.sh |
  xargs -r -P "$(nproc)" -I{} bash -c 'compile {}'
