#!/usr/bin/env bash
# `make hang`: a small training job of four ranks on emulated GPUs, in which one rank skips one
# collective. The job hangs, and Rollcall says who broke step. Exit status 0 when it said so.
#   scripts/hang.sh BUILD_DIR
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
rollcall=$build/tools/rollcall
job=$build/examples/mini_train
expected=RC-MISSING-CALL
limit_s=120

for program in "$rollcall" "$job"; do
  if [ ! -x "$program" ]; then
    echo "hang: $program is absent; run \`make build\` first" >&2
    exit 2
  fi
done

directory=$(mktemp -d "${TMPDIR:-/tmp}/rollcall-hang.XXXXXX")
output=$(mktemp)
trap 'rm -rf "$directory" "$output"' EXIT

command=("$rollcall" run -n 4 --emulate --watch 3 --kill-on-hang -d "$directory" --
  "$job" --fault missing-call@2:3)

cat <<TEXT
Four processes train together, each on a GPU of its own. The GPUs are emulated, so that this works
on any machine; NCCL's calls, streams and waiting are as on real ones. In step 3, rank 2 leaves out
one collective. The other ranks wait for it in their next call, for ever: nothing is printed, no
error appears. On a cluster this is the job that burns its hours until somebody kills it.

Rollcall records every NCCL call of every rank and looks on. When a communicator has not advanced
for 3 seconds, it says what it sees:

  ${command[*]}

TEXT

timeout --kill-after=10 "$limit_s" "${command[@]}" 2>&1 </dev/null | tee "$output"
status=${PIPESTATUS[0]}

echo
if grep -q "$expected" "$output"; then
  cat <<TEXT
That is the verdict to expect: $expected names the rank and the position. Rollcall then ended
the job (exit status $status). Try another defect, for example:

  $build/tools/rollcall run -n 4 --emulate --watch 3 --kill-on-hang -- \\
      $build/examples/mini_train --fault comm-order@1:2

  \`… mini_train --list-faults\` lists them. README.md says how to put Rollcall on your own job.
TEXT
  exit 0
fi
if [ "$status" = 124 ] || [ "$status" = 137 ]; then
  echo "hang: no verdict within $limit_s s. This is a defect of Rollcall: please report the" \
    "output above." >&2
else
  echo "hang: the output above does not say $expected (exit status $status). This is a defect of" \
    "Rollcall: please report it." >&2
fi
exit 1
