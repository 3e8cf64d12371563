#!/usr/bin/env bash
# Every check that needs no build. Runs all of them, then fails if one did.
set -uo pipefail
cd "$(dirname "$0")/.."

failed=()
check() {
  local name=$1
  shift
  if "$@"; then
    echo "check: $name holds"
  else
    echo "check: $name FAILED ($*)" >&2
    failed+=("$name")
  fi
}

check "layering, own test" scripts/check_layering.py --self-test
check "layering" scripts/check_layering.py
check "style, own test" scripts/check_style.py --self-test
check "style" scripts/check_style.py
check "comparison of verdicts, own test" scripts/compare_verdicts.py --self-test
check "licences of others" scripts/third_party.py --self-test
check "list of sentences, own test" scripts/list_sentences.py --self-test
check "generated documents, own test" scripts/generate_docs.py --self-test
check "generated documents" scripts/generate_docs.py --check
check "what a change affects, own test" scripts/affected.py --self-test
check "headers compile alone" scripts/check_headers.sh
check "format" scripts/format.sh --check

if [ ${#failed[@]} -gt 0 ]; then
  echo "check: ${#failed[@]} failed: ${failed[*]}" >&2
  exit 1
fi
