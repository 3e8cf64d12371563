#!/usr/bin/env bash
# Tests with real clients: PyTorch and others from PyPI, on the emulated GPUs.
#
#   scripts/test_clients.sh BUILD          builds virtual environments in BUILD/clients, then tests
#
# Needs 16 GB there; where CI is set 12 GB, because an environment goes when its parts are through.
# Parts run side by side, one per core, and beside them the next environment is installed; each line
# of output begins with its part. The last lines say how every part ended, which sentences failed,
# and of each the first and the last that it said.
#
# ROLLCALL_TORCH_PYTHON, ROLLCALL_TORCH12_PYTHON and ROLLCALL_TORCH11_PYTHON name interpreters that
# have what requirements.txt, requirements-cuda12.txt and requirements-cuda11.txt list, instead;
# `none` for the second or third leaves that older PyTorch out, and the last lines say so. What
# cannot be installed fails.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
clients=$PWD/$build/clients
logs=$clients/logs
jobs_max=$(nproc)
export ROLLCALL_E2E_BUILD=$PWD/$build
# Compiled once for all of the processes that import PyTorch, and nothing of it in the sources.
export PYTHONPYCACHEPREFIX=$clients/bytecode
rm -rf "$logs"
mkdir -p "$logs"

# packages FOLDER LIST: by uv, in a third of the time that pip takes, or by pip where there is no uv
# or it fails. Without a cache, and with temporary files here, nothing is left elsewhere and a small
# /tmp is enough.
uv=$clients/installer/bin/uv
packages() {
  local python=$1/bin/python list=$2 index
  export TMPDIR=$clients/tmp
  # uv reads no settings of pip's.
  index=${PIP_INDEX_URL:-$("$python" -m pip config get global.index-url 2>/dev/null || true)}
  [ -z "$index" ] || export UV_DEFAULT_INDEX=$index
  [ -z "${PIP_CERT:-}" ] || export SSL_CERT_FILE=$PIP_CERT
  if [ -x "$uv" ] && "$uv" pip install --python "$python" --quiet --no-cache \
    --only-binary torch --only-binary numpy -r "$list"; then
    return 0
  fi
  "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile \
    --only-binary torch,numpy -r "$list"
}
get_uv() {
  [ ! -x "$uv" ] || return 0
  python3 -m venv "$clients/installer" &&
    TMPDIR=$clients/tmp "$clients/installer/bin/pip" install --quiet --disable-pip-version-check \
      --no-cache-dir uv==0.13.9 ||
    echo "test-clients: uv cannot be installed; pip takes its place" >&2
}

# install NAME REQUIREMENTS: made once, and again when the list changes.
install() {
  local folder=$clients/$1 list=tests/clients/$2
  if cmp -s "$list" "$folder/installed.txt"; then return 0; fi
  rm -rf "$folder"
  mkdir -p "$clients/tmp"
  get_uv
  python3 -m venv "$folder" && (packages "$folder" "$list") &&
    cp "$list" "$folder/installed.txt" && du -sh "$folder" && return 0
  rm -rf "$folder"
  return 1
}

# part NAME COMMAND...: one program, its lines marked and kept, its end in a file of its own.
part() {
  local name=$1 start=$SECONDS word=passed
  shift
  "$@" 2>&1 | tee "$logs/$name.log" | sed -u "s/^/[$name] /" || word=FAILED
  printf '%-8s %5d s  %s\n' "$word" $((SECONDS - start)) "$name" >"$logs/$name.end"
  [ "$word" = passed ]
}

# beside NAME COMMAND...: a part, as soon as a core is free.
parts=()
beside() {
  while [ "$(jobs -rp | grep -cxF -f <(printf '%s\n' "${parts[@]:-none}"))" -ge "$jobs_max" ]; do
    wait -n || true
  done
  part "$@" &
  parts+=($!)
}
# parts_end: waits for them, and not for an environment that is being installed.
parts_end() {
  [ ${#parts[@]} = 0 ] || wait "${parts[@]}" || true
  parts=()
}

# install_ahead ENVIRONMENT: in the background, as a part of its own; needed ENVIRONMENT waits for
# it.
declare -A installer_of
install_ahead() {
  local words="PyTorch" list=requirements.txt
  case $1 in
    torch-cuda*)
      words="PyTorch for CUDA ${1#torch-cuda}"
      list=requirements-cuda${1#torch-cuda}.txt
      ;;
    views) words=viewers list=requirements-views.txt ;;
  esac
  part "installing $words" install "$1" "$list" &
  installer_of[$1]=$!
}
needed() {
  [ -z "${installer_of[$1]:-}" ] || wait "${installer_of[$1]}" || true
}

# failures_of LOG: what failed or was skipped there, and why: the first lines of what is said about
# a failure, and the last, where tracebacks end.
failures_of() {
  awk -v indent=22 '
    function finish(  i) {
      for (i = 1; i <= count; i++)
        if (i <= 3 || i > count - 15) printf "%*s%.300s\n", indent, "", lines[i]
      count = 0
    }
    /^(FAILED|holds|skipped)/ { finish(); inside = /^FAILED/ }
    /^skipped/ { printf "%*s%s\n", indent - 4, "", $0 }
    inside { lines[++count] = $0 }
    END { finish() }' "$1"
}

# done_with NAME: its parts are through. A machine that was lent for one run has no use for it.
done_with() {
  [ -z "${CI:-}" ] || rm -rf "${clients:?}/$1"
}

# interpreter NAME: that of an environment, where it was made.
interpreter() {
  echo "$clients/$1/bin/python"
}

torch=${ROLLCALL_TORCH_PYTHON:-$(interpreter torch)}
older_left_out=""
# In the order of their use.
environments=()
for cuda in 11 12; do
  chosen=ROLLCALL_TORCH${cuda}_PYTHON
  [ "${!chosen:-}" != none ] || older_left_out+=" $cuda"
  [ -n "${!chosen:-}" ] || environments+=("torch-cuda$cuda")
done
[ -n "${ROLLCALL_TORCH_PYTHON:-}" ] || environments+=(torch)
environments+=(views)

# Two of them and what pip unpacks, in KiB.
room_for_two=$((16 << 20))
has_room() {
  [ "$(df --output=avail -k "$clients" | tail -n 1)" -gt "$room_for_two" ]
}

# ready ENVIRONMENT: it is installed, or could not be; the next one begins to be, if it has room.
ready() {
  [ "${environments[0]:-}" = "$1" ] || return 0
  [ -n "${installer_of[$1]:-}" ] || install_ahead "$1"
  needed "$1"
  environments=("${environments[@]:1}")
  if [ ${#environments[@]} != 0 ] && has_room; then install_ahead "${environments[0]}"; fi
}

# Of an older PyTorch CI checks the row in which steps are eager first and then a graph, timed by
# events: that every call of these runtimes is recorded is checked without PyTorch, too
# (e2e.gpu_check.cuda11, .cuda12). Without CI the GPU is timed in every other way as well.
rows_of_older=${CI:+a CUDA graph}
for cuda in 11 12; do
  chosen=ROLLCALL_TORCH${cuda}_PYTHON
  older=${!chosen:-$(interpreter "torch-cuda$cuda")}
  ready "torch-cuda$cuda"
  if [ -x "$older" ]; then
    beside "PyTorch for CUDA $cuda" \
      python3 tests/clients/ways_in.py "--torch-cuda$cuda" "$older"
    beside "GPU check for CUDA $cuda" env ROLLCALL_GPU_CHECK_BUILD="$build" \
      "$older" scripts/gpu_check.py --emulate=1 --cuda="$cuda" --strict \
      --only "${rows_of_older:-PyTorch}"
    parts_end
  fi
  done_with "torch-cuda$cuda"
done

ready torch
if [ -x "$torch" ]; then
  beside "ways into NCCL" python3 tests/clients/ways_in.py --torch "$torch"
  for backend in nccl nccl-legacy; do
    beside "faults on $backend" python3 tests/clients/pytorch_faults.py "$torch" "$backend"
  done
  for backend in nccl nccl-legacy; do
    beside "profiles on $backend" python3 tests/clients/profiler_merges.py "$torch" "$backend"
  done
  beside "non-blocking" python3 tests/clients/pytorch_faults.py --non-blocking "$torch" nccl
  beside "GPU check" env ROLLCALL_GPU_CHECK_BUILD="$build" \
    "$torch" scripts/gpu_check.py --emulate=1 --strict --only PyTorch
  parts_end
  # Many short jobs: beside them steps take longer than the check of GPUs waits for them.
  beside "reported hangs" python3 tests/clients/reported_hangs.py "$torch"
fi
parts_end
done_with torch
ready views
if [ -x "$(interpreter views)" ]; then
  part "Perfetto reads a trace" "$(interpreter views)" tests/clients/perfetto_reads.py || true
  part "Parquet is read" "$(interpreter views)" tests/clients/parquet_reads.py || true
  part "axe-core reads a page" "$(interpreter views)" tests/clients/page_axe.py || true
fi
done_with views
rm -rf "$clients/tmp"

echo
echo "=== test-clients"
failed=0
for name in "installing PyTorch" "installing PyTorch for CUDA 11" \
  "installing PyTorch for CUDA 12" "ways into NCCL" "reported hangs" "faults on nccl" \
  "faults on nccl-legacy" "profiles on nccl" "profiles on nccl-legacy" "non-blocking" \
  "GPU check" "PyTorch for CUDA 11" "GPU check for CUDA 11" "PyTorch for CUDA 12" \
  "GPU check for CUDA 12" "installing viewers" "Perfetto reads a trace" "Parquet is read" \
  "axe-core reads a page"; do
  if [ -e "$logs/$name.end" ]; then
    cat "$logs/$name.end"
    grep -q '^passed' "$logs/$name.end" || failed=1
    failures_of "$logs/$name.log"
  elif [[ "$name" == [PG]*" for CUDA "* && "$older_left_out" == *" ${name##* }"* ]]; then
    echo "left out          $name (ROLLCALL_TORCH${name##* }_PYTHON=none)"
  elif [ "${name#installing}" = "$name" ]; then
    echo "FAILED            $name: not tested, for want of its packages"
    failed=1
  fi
done
printf '%-8s %5d s  in all\n' '' "$SECONDS"
exit "$failed"
