#!/usr/bin/env bash
# Prints the path of a CUDA 13 compiler: the system's, or one fetched from PyPI into DIR (about 300 MB,
# once). Needs python3 with pip.
#   .ci/cuda_toolkit.sh DIR
set -euo pipefail
directory=$1
for nvcc in nvcc /usr/local/cuda/bin/nvcc; do
  if command -v "$nvcc" >/dev/null; then
    command -v "$nvcc"
    exit 0
  fi
done

toolkit=$directory/nvidia/cu13
if [[ ! -x $toolkit/bin/nvcc || ! -e $toolkit/lib/libcudart.so ]]; then
  rm -rf "$directory"
  for try in 1 2 3; do
    if python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$directory" \
      nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 \
      nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 >&2; then
      break
    fi
    rm -rf "$directory"
    if [[ $try -eq 3 ]]; then
      echo "cuda_toolkit.sh: the CUDA packages could not be fetched from PyPI in three tries" >&2
      exit 1
    fi
  done
  # Where CMake looks for them.
  ln -sfn lib "$toolkit/lib64"
  ln -sf libcudart.so.13 "$toolkit/lib/libcudart.so"
fi
echo "$toolkit/bin/nvcc"
