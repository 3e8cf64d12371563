#!/usr/bin/env bash
# `make bench`: what recording costs, as a table, and as bench.json in the build folder.
#   scripts/bench.sh BUILD_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
program=$build/bench/rollcall_bench
if [ ! -x "$program" ]; then
  echo "bench: $program is absent; run \`make build\` first" >&2
  exit 2
fi
"$program" --json "$build/bench.json"
