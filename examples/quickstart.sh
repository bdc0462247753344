#!/usr/bin/env bash
# From a fresh checkout on Debian 12 or Ubuntu 24.04 to a streamed answer: installs the packages it
# needs (as root or with sudo), builds the library and the examples in build/, fetches a small model
# (SmolLM2-135M, 98 MB) and asks it something. What is done already is not done again.
#   examples/quickstart.sh ["your question"]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/support.sh
source "$root/tests/support.sh"
build=$root/build
question=${1:-Name three rivers in Europe, and say one thing about each.}

build_examples() {
  mkdir -p "$build"
  # A build folder made by tests/run.sh keeps its options.
  local options=()
  if [[ ! -f $build/build.ninja ]]; then
    mapfile -t options < <(cuda_options)
    options+=(-DCMAKE_BUILD_TYPE=Release -DQUIRE_BUILD_TESTS=OFF -DQUIRE_BUILD_BENCHMARKS=OFF)
  fi
  configure "$root" "$build" -DQUIRE_BUILD_EXAMPLES=ON "${options[@]}" >"$build/configure.log" ||
    { cat "$build/configure.log"; return 1; }
  cmake --build "$build" -j "$(nproc)" --target examples/all
}

stage packages install_packages "${BUILD_PACKAGES[@]}" "${FETCH_PACKAGES[@]}"
stage build build_examples
stage model bash "$root/tests/fetch_models.sh" smollm2

model=$QUIRE_CACHE/models/SmolLM2-135M-Instruct.Q4_1.gguf
command=("$build/examples/generate" --model "$model" --prompt "$question" --max-tokens 200
         --temperature 0)
echo
echo "> $question"
echo
"${command[@]}"
echo
echo "That took $SECONDS s in all. To ask again:"
echo "  build/examples/generate --model $model --prompt \"...\""
echo "and to talk: build/examples/chat --model $model"
