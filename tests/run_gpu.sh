#!/usr/bin/env bash
# Builds quire with CUDA and runs the tests that need an NVIDIA GPU; says so and skips them where there
# is none.
#   tests/run_gpu.sh [--models DIR] [--build DIR] [--sanitize]
# --models: folder with the real models (as tests/fetch_models.sh makes it), else the tiny models only;
# --build: a build folder whose programs are run as they are; --sanitize: a small set under
# compute-sanitizer too.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/support.sh
source "$root/tests/support.sh"
build=
sanitize=no
parts=(attention hopper_attention matmul operations sampling engine)
selection="~[real]"

while [[ $# -gt 0 ]]; do
  case $1 in
    --models) export QUIRE_MODELS=$(cd "$2" && pwd); selection=""; shift 2 ;;
    --build) build=$(cd "$2" && pwd); shift 2 ;;
    --sanitize) sanitize=yes; shift ;;
    *) echo "usage: tests/run_gpu.sh [--models DIR] [--build DIR] [--sanitize]" >&2; exit 2 ;;
  esac
done

if ! nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
  echo "run_gpu: skipped everything: nvidia-smi finds no GPU"
  exit 0
fi
nvidia-smi --query-gpu=name,driver_version,power.draw,clocks.sm --format=csv,noheader

if [[ -z $build ]]; then
  build=$root/build-gpu
  targets=()
  for part in "${parts[@]}"; do targets+=("cuda_${part}_tests"); done
  mkdir -p "$build"
  stage configure configure "$root" "$build" -DCMAKE_BUILD_TYPE=Release -DQUIRE_CUDA=ON \
    >"$build/configure.log" || { cat "$build/configure.log"; exit 1; }
  stage build cmake --build "$build" -j "$(nproc)" --target "${targets[@]}"
fi

program() { find "$build/tests/cuda" -name "cuda_$1_tests" -type f; }

failed=0
for part in "${parts[@]}"; do
  stage "$part" "$(program "$part")" ${selection:+"$selection"} || failed=$((failed + 1))
done
if [[ $selection == "~[real]" ]]; then echo "run_gpu: skipped the real models: no --models"; fi

if [[ $sanitize == yes ]]; then
  for tool in memcheck racecheck; do
    for part in operations sampling; do
      stage "$tool $part" compute-sanitizer --tool "$tool" --error-exitcode 9 \
        "$(program "$part")" || failed=$((failed + 1))
    done
    stage "$tool engine" compute-sanitizer --tool "$tool" --error-exitcode 9 \
      "$(program engine)" "*neighbours*" || failed=$((failed + 1))
  done
fi
if [[ $failed -gt 0 ]]; then echo "run_gpu: $failed programs FAILED"; exit 1; fi
echo "run_gpu: all passed, $SECONDS s"
