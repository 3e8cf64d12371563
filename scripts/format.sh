#!/usr/bin/env bash
# Lays out every tracked C and C++ file with clang-format 14 (.clang-format).
#   scripts/format.sh          rewrites files
#   scripts/format.sh --check  changes nothing, names the files that differ, exit status 1
# Version 14 on purpose: another version lays out some lines differently.
set -euo pipefail
cd "$(dirname "$0")/.."

formatter=${CLANG_FORMAT:-clang-format-14}
if ! command -v "$formatter" >/dev/null; then
  echo "format: $formatter was not found. Install it with scripts/setup.sh --lint, or name" \
    "another with CLANG_FORMAT=." >&2
  exit 2
fi

mapfile -d '' files < <(git ls-files -z '*.c' '*.h' '*.cpp')
[ ${#files[@]} -gt 0 ] || exit 0

if [ "${1:-}" != --check ]; then
  printf '%s\0' "${files[@]}" | xargs -0 -n 40 -P 2 "$formatter" -i --style=file
  exit 0
fi
differing=0
for file in "${files[@]}"; do
  [ -f "$file" ] || continue
  if ! "$formatter" --style=file "$file" | cmp -s - "$file"; then
    echo "format: $file"
    differing=$((differing + 1))
  fi
done
if [ "$differing" -gt 0 ]; then
  echo "format: $differing of ${#files[@]} files differ; \`make format\` lays them out." >&2
  exit 1
fi
