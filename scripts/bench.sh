#!/usr/bin/env bash
# `make bench`: what recording costs, as tables, and as bench*.json in the build folder. A real
# NCCL's host path is measured where ROLLCALL_REAL_NCCL names one (bench/real_nccl.py). The step of
# PyTorch's DDP is measured where `make test-clients` has installed PyTorch, or with the interpreter
# that ROLLCALL_TORCH_PYTHON names; elsewhere it is skipped, and said to be.
#   scripts/bench.sh BUILD_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
program=$build/bench/rollcall_bench
rollcall=$PWD/$build/tools/rollcall
if [ ! -x "$program" ]; then
  echo "bench: $program is absent; run \`make build\` first" >&2
  exit 2
fi
"$program" --json "$build/bench.json"

for part in real_nccl:bench_nccl python_frames:bench_frames; do
  echo
  table=$build/${part#*:}.json
  status=0
  python3 "bench/${part%:*}.py" "$build" "$table" || status=$?
  case $status in
    0) scripts/bench_table.py "$table" ;;
    77) ;;
    *) exit "$status" ;;
  esac
done

echo
python=${ROLLCALL_TORCH_PYTHON:-$build/clients/torch/bin/python}
if [ ! -x "$python" ]; then
  echo "bench: the step of DDP is skipped: there is no $python; \`make test-clients\` installs it"
  exit 0
fi
folder=$(mktemp -d -t rollcall-bench-XXXXXX)
trap 'rm -rf "$folder"' EXIT
# An emulated GPU's events cost what the emulator costs: the host side alone is measured here, and
# events on a GPU by scripts/gpu_check.sh.
ROLLCALL_GPU_TIMING=off OMP_NUM_THREADS=1 "$rollcall" run -q -n 2 --emulate=2 -d "$folder/run" -- \
  "$python" bench/ddp_step.py "$build/bench_step.json"
scripts/bench_table.py "$build/bench_step.json"
