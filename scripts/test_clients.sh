#!/usr/bin/env bash
# Tests with real clients: PyTorch and others from PyPI, on the emulated GPUs.
#
#   scripts/test_clients.sh BUILD          builds virtual environments in BUILD/clients, then tests
#
# Needs about 12 GB there. ROLLCALL_TORCH_PYTHON and ROLLCALL_TORCH12_PYTHON name interpreters that
# have what requirements.txt and requirements-cuda12.txt list, instead; ROLLCALL_TORCH12_PYTHON=none
# leaves the older PyTorch out. What cannot be installed is skipped, and the last lines say so.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
clients=$build/clients
export ROLLCALL_E2E_BUILD=$PWD/$build PYTHONDONTWRITEBYTECODE=1
summary=()
failed=0

# environment NAME REQUIREMENTS: prints its interpreter; made once, and again when the list changes.
# "none" where it cannot be made, for want of a network or of space.
environment() {
  local folder=$clients/$1 list=tests/clients/$2
  if ! cmp -s "$list" "$folder/installed.txt"; then
    rm -rf "$folder"
    mkdir -p "$clients"
    echo "test-clients: installing $list into $folder" >&2
    if ! { python3 -m venv "$folder" && "$folder/bin/pip" install --quiet \
        --disable-pip-version-check --only-binary torch,numpy -r "$list"; } >&2; then
      rm -rf "$folder"
      echo none
      return
    fi
    cp "$list" "$folder/installed.txt"
  fi
  echo "$PWD/$folder/bin/python"
}

# part NAME COMMAND...: one test program; its end is in the summary.
part() {
  local name=$1 start=$SECONDS word=passed
  shift
  "$@" || { word=FAILED; failed=1; }
  summary+=("$(printf '%-8s %5d s  %s' "$word" $((SECONDS - start)) "$name")")
}

start=$SECONDS
torch=${ROLLCALL_TORCH_PYTHON:-$(environment torch requirements.txt)}
torch12=${ROLLCALL_TORCH12_PYTHON:-$(environment torch-cuda12 requirements-cuda12.txt)}
summary+=("$(printf '%-8s %5d s  installing' done $((SECONDS - start)))")
older=()
if [ "$torch12" != none ]; then older=(--torch-cuda12 "$torch12"); fi

if [ "$torch" = none ]; then
  summary+=("skipped           tests/clients/requirements.txt cannot be installed: nothing tested")
else
  part "ways into NCCL" python3 tests/clients/ways_in.py --torch "$torch" \
    ${older[@]+"${older[@]}"}
  for backend in nccl nccl-legacy; do
    part "faults on $backend" python3 tests/clients/pytorch_faults.py "$torch" "$backend"
  done
fi
echo
echo "=== test-clients"
printf '%s\n' "${summary[@]}"
exit "$failed"
