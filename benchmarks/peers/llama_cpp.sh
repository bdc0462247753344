#!/usr/bin/env bash
# llama_cpp.sh [options]: times quire beside llama.cpp on the same files, threads and shapes, in turn, and
# prints medians and ratios; --help lists the options. Builds quire in build/, and llama.cpp once in
# ${QUIRE_CACHE:-~/.cache/quire}/peers from the source package of llama-cpp-python.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=benchmarks/peers/build_quire.sh
source "$root/benchmarks/peers/build_quire.sh"
build_quire_unless_help "$@"
exec python3 -B "$root/benchmarks/peers/compare_llama_cpp.py" "$@"
