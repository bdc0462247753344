#!/usr/bin/env bash
# heavy_headers.sh ROOT: fails unless what takes longest to compile, the JSON library and Catch2's main, is
# in the files listed here and in no other: one in the library, one in the programs, one in the tests.
set -euo pipefail
export LC_ALL=C
cd "$1"

wrong=0
# only PATTERN FILE...: these files, in order, are all that have a line of the pattern.
only() {
  local pattern=$1 found
  shift
  found=$(grep -rlE "$pattern" include lib cuda examples tests benchmarks \
    --include='*.h' --include='*.cpp' --include='*.inc' --include='*.cu' --include='*.cuh' | sort || true)
  [[ $found == "$(printf '%s\n' "$@")" ]] && return
  printf '%s is in\n%s\nwanted\n%s\n' "$pattern" "$found" "$(printf '%s\n' "$@")"
  wrong=1
}

only '#[[:space:]]*include[[:space:]]*[<"]nlohmann/' examples/support/json.cpp lib/base/json.cpp
only 'CATCH_CONFIG_(MAIN|RUNNER)|Catch::Session' tests/catch_main.cpp
exit "$wrong"
