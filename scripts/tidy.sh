#!/usr/bin/env bash
# clang-tidy 14 over what differs from a commit, or over everything.
#   scripts/tidy.sh BUILD_DIR [BASE]
# BASE: a commit; without it the merge base with origin/main, and the last commit where that is
# HEAD, or unknown. Everything is checked when nothing can be compared, when .clang-tidy itself
# changed, or with BASE = all.
# A changed header selects every source of its folder.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:?scripts/tidy.sh BUILD_DIR [BASE]}
base=${2:-}
tidy=${CLANG_TIDY:-clang-tidy-14}

if [ ! -f "$build/compile_commands.json" ]; then
  echo "tidy: $build/compile_commands.json is absent; configure with cmake --preset first" >&2
  exit 2
fi
if [ -z "$base" ]; then
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
    base=$(git rev-parse -q --verify HEAD~1 2>/dev/null || true)
  fi
fi

sources=$(git ls-files '*.cpp')
selected=$sources
if [ -n "$base" ] && [ "$base" != all ]; then
  changed=$(git diff --name-only "$base" --)
  if ! grep -qxF .clang-tidy <<<"$changed"; then
    folders=$(grep '\.h$' <<<"$changed" | xargs -r -n 1 dirname | sort -u || true)
    selected=$(while IFS= read -r source; do
      if grep -qxF -- "$source" <<<"$changed" ||
        grep -qxF -- "$(dirname "$source")" <<<"$folders"; then echo "$source"; fi
    done <<<"$sources")
  fi
fi

# Only what this build compiles; a generated or optional source has no command line to go by.
# Clang stops at options that only GCC has and at headers that GCC precompiled, so the command lines
# are copied without them.
database=$(mktemp -d)
trap 'rm -rf "$database"' EXIT
known=$(python3 - "$build" "$database" <<'PYTHON'
import json, os, re, sys
entries = json.load(open(os.path.join(sys.argv[1], "compile_commands.json")))
for entry in entries:
    print(os.path.relpath(os.path.join(entry["directory"], entry["file"])))
    entry["command"] = re.sub(
        r" -mmemset-strategy=\S+| -Winvalid-pch| -include \S*cmake_pch\S*", "", entry["command"])
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
xargs -n 1 -P "$(nproc)" "$tidy" -p "$database" --quiet --extra-arg=-Wno-unknown-warning-option \
  <<<"$selected" 2>&1 | grep -vE '^[0-9]+ warnings? generated|^Suppressed |^Use -header-filter' ||
  [ "${PIPESTATUS[0]}" = 0 ]
