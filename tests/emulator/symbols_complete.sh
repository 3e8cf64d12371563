#!/bin/sh
# symbols_complete.sh LIBRARY LIST [REAL]: LIBRARY exports exactly the names in LIST under the
# version that is its
# own name, and, where NVIDIA's library is installed, LIST lacks none of its names.
set -eu
library=$1 list=$2 real=${3-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(basename "$library")
names() { nm -D --defined-only "$1" | awk '$2 != "A" {print $3}' | grep -F "@@$version" |
  sed 's/@.*//' | sort -u; }
names "$library" >"$work/ours"
sort -u "$list" >"$work/list"
[ -s "$work/ours" ] || { echo "$library exports nothing under $version" >&2; exit 1; }
if ! diff "$work/list" "$work/ours"; then
  echo "$library does not export what $list says (<: missing, >: too many)" >&2
  exit 1
fi
if [ -n "$real" ] && [ -e "$real" ]; then
  names "$real" >"$work/real"
  [ -s "$work/real" ] || { echo "nothing found in $real" >&2; exit 1; }
  missing=$(comm -13 "$work/list" "$work/real")
  [ -z "$missing" ] || { echo "$real has names that $list lacks: $missing" >&2; exit 1; }
fi
