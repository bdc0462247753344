#!/usr/bin/env bash
# openvino.sh [options]: times quire beside OpenVINO GenAI on the same GGUF files, threads and shapes, in
# turn, and prints medians and ratios; --help lists the options. Builds quire in build/, and installs
# OpenVINO once in ${QUIRE_CACHE:-~/.cache/quire}/peers from the package index that pip uses.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=benchmarks/peers/build_quire.sh
source "$root/benchmarks/peers/build_quire.sh"
build_quire_unless_help "$@"
exec python3 -B "$root/benchmarks/peers/compare_openvino.py" "$@"
