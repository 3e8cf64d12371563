#!/usr/bin/env bash
# On a machine with NVIDIA GPUs: builds, runs recorder, GPU timing, overhead and hang checks against
# the real CUDA and NCCL, and prints one table. Changes no setting of the machine.
#   scripts/gpu_check.sh [--output FILE]     NCCL from NCCL_HOME, a pip-installed PyTorch, or CUDA
#   scripts/gpu_check.sh --emulate           the same steps on the emulator: does this script work?
# Exit status: 0 every check holds, 1 one does not, 2 this machine cannot be checked.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${ROLLCALL_GPU_CHECK_BUILD:-}" ]; then
  make build
  ROLLCALL_GPU_CHECK_BUILD=build/release
fi
export ROLLCALL_GPU_CHECK_BUILD
exec python3 scripts/gpu_check.py "$@"
