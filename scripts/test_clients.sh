#!/usr/bin/env bash
# Tests with real clients: PyTorch and others from PyPI, on the emulated GPUs.
#
#   scripts/test_clients.sh BUILD          builds virtual environments in BUILD/clients, then tests
#
# Needs about 12 GB there. ROLLCALL_TORCH_PYTHON and ROLLCALL_TORCH12_PYTHON name interpreters that
# have what requirements.txt and requirements-cuda12.txt list, instead; ROLLCALL_TORCH12_PYTHON=none
# leaves the older PyTorch out.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
clients=$build/clients
export ROLLCALL_E2E_BUILD=$PWD/$build PYTHONDONTWRITEBYTECODE=1

# environment NAME REQUIREMENTS: prints its interpreter; made once, and again when the list changes.
environment() {
  local folder=$clients/$1 list=tests/clients/$2
  if ! cmp -s "$list" "$folder/installed.txt"; then
    rm -rf "$folder"
    mkdir -p "$clients"
    echo "test-clients: installing $list into $folder" >&2
    python3 -m venv "$folder" >&2
    "$folder/bin/pip" install --quiet --disable-pip-version-check --only-binary torch,numpy \
      -r "$list" >&2
    cp "$list" "$folder/installed.txt"
  fi
  echo "$PWD/$folder/bin/python"
}

torch=${ROLLCALL_TORCH_PYTHON:-$(environment torch requirements.txt)}
torch12=${ROLLCALL_TORCH12_PYTHON:-$(environment torch-cuda12 requirements-cuda12.txt)}
older=()
if [ "$torch12" != none ]; then older=(--torch-cuda12 "$torch12"); fi

failed=0
python3 tests/clients/ways_in.py --torch "$torch" ${older[@]+"${older[@]}"} || failed=1
for backend in nccl nccl-legacy; do
  python3 tests/clients/pytorch_faults.py "$torch" "$backend" || failed=1
done
exit "$failed"
