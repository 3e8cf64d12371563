#!/usr/bin/env bash
# Fuzzes the readers of foreign bytes, the analysis behind them and the reports, each for a while.
# What crashes one is left in build/fuzz. With FUZZ_SEED set, other than 0, all runs try the same
# inputs, the slower machine fewer of them.
#   scripts/fuzz.sh BUILD [SECONDS]     BUILD: a build folder, from the root of the repository
set -euo pipefail
cd "$(dirname "$0")/.."
programs=${1:?usage: scripts/fuzz.sh BUILD [SECONDS]}/fuzz
seconds=${2:-30}
left=build/fuzz
mkdir -p "$left"

# fuzz_target PROGRAM: runs it on a corpus of its own.
fuzz_target() {
  local target=$1 name corpus
  name=$(basename "$target")
  corpus=$left/corpus/$name
  mkdir -p "$corpus"
  if [ "$name" = fuzz_import ]; then
    # Chance does not find these formats: real files to begin with.
    find tests/import/samples -type f -size -64k | while read -r sample; do
      cp "$sample" "$corpus/sample-$(echo "$sample" | tr -c 'a-zA-Z0-9\n' '-')"
    done
    scripts/fuzz_seeds.py "$corpus"
  fi
  if [ "$name" = fuzz_kineto ]; then
    find tests/import/samples/kineto -type f | while read -r sample; do
      cp "$sample" "$corpus/sample-$(echo "$sample" | tr -c 'a-zA-Z0-9\n' '-')"
    done
  fi
  local options=()
  if [ "$name" = fuzz_import ] || [ "$name" = fuzz_loader ] || [ "$name" = fuzz_kineto ]; then
    # The words that the readers look for stand in their sources.
    LC_ALL=C grep -ohE '"[^"]{4,60}"' trace/import/*.h trace/import/*.cpp \
      report/perfetto/kineto_events.cpp |
      LC_ALL=C grep -E '^"[ -~]+"$' | grep -vE '\\|\.h"$' | sort -u >"$left/$name.dict" || true
    options=("-dict=$left/$name.dict")
  fi
  if [ "$name" = fuzz_analysis ] || [ "$name" = fuzz_report ]; then
    # A list of patches to each of its runs may be long from the beginning.
    for run in 0 1 2 3 4; do printf "\\x0$run\\x00" >"$corpus/run-$run"; done
    options=(-len_control=0 -max_len=450 -entropic=0)
  fi
  echo "fuzz: $name for $seconds s"
  if ! "$target" -seed="${FUZZ_SEED:-0}" -max_total_time="$seconds" -timeout=10 \
    -rss_limit_mb=2048 -print_final_stats=0 "${options[@]}" \
    -artifact_prefix="$left/$name-" "$corpus" >"$left/$name.log" 2>&1; then
    tail -n 40 "$left/$name.log" >&2
    echo "fuzz: $name failed; the input is in $left/$name-*, run it with: $target FILE" >&2
    return 1
  fi
  echo "fuzz: $name: $(grep -E '^(Done|#[0-9]+.*DONE)' "$left/$name.log" | tail -n 1)"
}

# Side by side, one per core: a target uses one.
running=()
failed=0
for target in "$programs"/fuzz_*; do
  [ -f "$target" ] && [ -x "$target" ] || continue
  if [ ${#running[@]} -ge "$(nproc)" ]; then
    wait "${running[0]}" || failed=1
    running=("${running[@]:1}")
  fi
  fuzz_target "$target" &
  running+=($!)
done
if [ ${#running[@]} = 0 ]; then
  echo "fuzz: there is no fuzz target in $programs: make fuzz builds them" >&2
  exit 1
fi
for process in "${running[@]}"; do wait "$process" || failed=1; done
exit "$failed"
