#!/usr/bin/env bash
# On a machine with NVIDIA GPUs: runs recorder, plugin, GPU timing, graphs, overhead and hang checks
# against the real CUDA and NCCL, and prints one table. Changes no setting of the machine.
#   scripts/gpu_check.sh [--output FILE]     NCCL from NCCL_HOME, a pip-installed PyTorch, or CUDA
#   scripts/gpu_check.sh --emulate[=GPUS]    the same steps on the emulator: does this script work?
#   scripts/gpu_check.sh --pack DIR          puts what is needed into DIR, for a machine without
#                                            compiler or network; there: DIR/gpu_check.sh
# Builds first, unless ROLLCALL_GPU_CHECK_BUILD names a build folder. --help lists other options.
# Exit status: 0 every check holds, 1 one does not, 2 this machine cannot be checked.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

if [ -d "$here/bin" ]; then # a packed folder
  export ROLLCALL_GPU_CHECK_BUILD="$here/bin"
  export LD_LIBRARY_PATH="$here/bin/tools${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  exec python3 "$here/gpu_check.py" "$@"
fi

cd "$here/.."
if [ -z "${ROLLCALL_GPU_CHECK_BUILD:-}" ]; then
  if ! make build; then
    echo "gpu_check: this machine cannot build it; scripts/gpu_check.sh --pack DIR on one that" \
      "can, and DIR/gpu_check.sh here" >&2
    exit 2
  fi
  ROLLCALL_GPU_CHECK_BUILD=build/release
fi
export ROLLCALL_GPU_CHECK_BUILD
if [ "${1:-}" != --pack ]; then
  exec python3 scripts/gpu_check.py "$@"
fi

to=${2:?gpu_check: --pack needs a folder}
mkdir -p "$to/bin"
cp scripts/gpu_{check,machine,facts}.py bench/{paired,ddp_step,latency_pairs,recorder_switch}.py \
  "$to/"
cp "$0" "$to/gpu_check.sh"
for file in tools/rollcall shim/librollcall.so profiler_plugin/libnccl-profiler-rollcall.so \
  examples/{mini_train,collective_loop}{,_cuda12,_cuda11}; do
  mkdir -p "$to/bin/$(dirname "$file")"
  strip --strip-unneeded -o "$to/bin/$file" "$ROLLCALL_GPU_CHECK_BUILD/$file"
done
# Libraries of the command that another machine may not have.
ldd "$ROLLCALL_GPU_CHECK_BUILD/tools/rollcall" | awk '$3 ~ /lib(fmt|zstd|z|lzma)\./ { print $3 }' |
  xargs -r cp -L -t "$to/bin/tools"
echo "gpu_check: packed $(du -sh "$to" | cut -f1) into $to"
