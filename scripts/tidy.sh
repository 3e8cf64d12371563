#!/usr/bin/env bash
# clang-tidy 14 over what differs from a commit, or over everything (scripts/affected.py).
#   scripts/tidy.sh BUILD_DIR [BASE]
# BASE: a commit, or all.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:?scripts/tidy.sh BUILD_DIR [BASE]}
base=${2:-}
tidy=${CLANG_TIDY:-clang-tidy-14}

if [ ! -f "$build/compile_commands.json" ]; then
  echo "tidy: $build/compile_commands.json is absent; configure with cmake --preset first" >&2
  exit 2
fi
selected=$(scripts/affected.py sources ${base:+"$base"} --unless .clang-tidy)

# Only what this build compiles; a generated or optional source has no command line to go by. Of a
# folder that is one source each part has that one's.
# Clang stops at options that only GCC has and at headers that GCC precompiled, so the command lines
# are copied without them.
database=$(mktemp -d)
trap 'rm -rf "$database"' EXIT
known=$(python3 - "$build" "$database" <<'PYTHON'
import json, os, re, sys
def parts_of(entry):
    if not re.search(r"/Unity/unity_\w+_cxx\.cxx$", entry["file"]):
        return [entry]
    with open(entry["file"]) as whole:
        files = re.findall(r'^#include "(.*)"$', whole.read(), re.MULTILINE)
    return [{**entry, "file": file, "command": entry["command"].replace(entry["file"], file)}
            for file in files]

entries = [part for entry in json.load(open(os.path.join(sys.argv[1], "compile_commands.json")))
           for part in parts_of(entry)]
for entry in entries:
    print(os.path.relpath(os.path.join(entry["directory"], entry["file"])))
    entry["command"] = re.sub(
        r" -mmemset-strategy=\S+| -Winvalid-pch| -include \S*cmake_pch\S*| -Wno-shadow", "",
        entry["command"])
json.dump(entries, open(os.path.join(sys.argv[2], "compile_commands.json"), "w"))
PYTHON
)
selected=$(grep -xF -f <(printf '%s\n' "$selected") <<<"$known" | sort -u || true)
if [ -z "$selected" ]; then
  echo "tidy: nothing to check"
  exit 0
fi
count=$(wc -l <<<"$selected")
echo "tidy: $count files"
# The analyzer gives a function of a tool up after fewer paths than its default of 225,000: half of
# all time was theirs. What is loaded into a job is gone through to the default.
tidy_one() {
  local limit=(--extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang
    --extra-arg=max-nodes=40000)
  case $1 in core/* | shim/* | profiler_plugin/*) limit=() ;; esac
  "$tidy" -p "$database" --quiet --extra-arg=-Wno-unknown-warning-option "${limit[@]}" "$1"
}
export -f tidy_one
export tidy database
xargs -P "$(nproc)" -I{} bash -c 'tidy_one {}' <<<"$selected" 2>&1 |
  grep -vE '^[0-9]+ warnings? generated|^Suppressed |^Use -header-filter' ||
  [ "${PIPESTATUS[0]}" = 0 ]
