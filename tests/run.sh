#!/usr/bin/env bash
# Builds quire and runs all of its tests, on Debian 12 or Ubuntu 24.04 with nothing prepared: installs
# the packages it needs (as root or with sudo), fetches the test models once, builds in build/ and
# runs ctest. What is done already is not done again.
#   tests/run.sh [ctest arguments]     QUIRE_CACHE: where models are kept (~/.cache/quire)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/support.sh
source "$root/tests/support.sh"
build=$root/build

configure_tests() {
  mkdir -p "$build"
  # Other compilers than the one that the project is kept free of warnings for know other false ones.
  local strict=OFF
  [[ $(c++ -dumpversion) == 12* ]] && strict=ON
  configure "$root" "$build" -DCMAKE_BUILD_TYPE=Release -DQUIRE_WARNINGS_AS_ERRORS=$strict \
    -DQUIRE_BUILD_TESTS=ON -DQUIRE_BUILD_EXAMPLES=ON -DQUIRE_BUILD_BENCHMARKS=ON $(cuda_options) \
    >"$build/configure.log" ||
    { cat "$build/configure.log"; return 1; }
}

finish() {
  local status=$?
  if [[ $status -eq 0 ]]; then
    echo "tests/run.sh: all passed, $SECONDS s"
  else
    echo "tests/run.sh: FAILED, $SECONDS s"
  fi
}
trap finish EXIT

stage packages install_packages "${BUILD_PACKAGES[@]}" "${FETCH_PACKAGES[@]}" \
  "${TEST_PACKAGES[@]}"
stage models bash "$root/tests/fetch_models.sh"
stage configure configure_tests
stage build cmake --build "$build" -j "$(nproc)"
export QUIRE_MODELS=$QUIRE_CACHE/models
export QUIRE_LLAMA_CPP_SOURCE=$QUIRE_CACHE/llama.cpp
stage ctest ctest --test-dir "$build" --output-on-failure -j "$(nproc)" "$@"
