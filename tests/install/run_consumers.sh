#!/usr/bin/env bash
# run_consumers.sh BUILD: installs a build tree of quire into a temporary prefix, and builds and runs
# programs outside the tree against it: find_package with the static and with the shared library, the
# examples, and add_subdirectory at -O0. All must print the same tokens.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "${1:?usage: run_consumers.sh BUILD}" && pwd)
model=$root/tests/data/tiny/llama/model.gguf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
jobs=$(nproc)
passed=0

fail() { echo "run_consumers: $*" >&2; exit 1; }
quiet() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "failed: $*"; }; }
launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi

# build_consumer NAME SOURCE [CMAKE ARGUMENTS]: configures and builds.
build_consumer() {
  quiet cmake -S "$2" -B "$work/$1" "${launcher[@]}" "${@:3}"
  quiet cmake --build "$work/$1" -j "$jobs"
}
# check NAME: runs the consumer; its tokens must be those of the ones before.
check() {
  local tokens
  tokens=$("$work/$1/consumer" "$model") || fail "$1 does not run"
  [[ -z ${expected:-} || $tokens == "$expected" ]] || fail "$1 printed '$tokens', not '$expected'"
  expected=$tokens
  passed=$((passed + 1))
  echo "consumer $1: $tokens"
}
links() { ldd "$1" | grep -q "libquire\.so"; }

quiet cmake --install "$build" --prefix "$work/prefix"
[[ -n $(find "$work/prefix" -name LICENSE) ]] || fail "no LICENSE was installed"
# The package must work where it is moved to.
mv "$work/prefix" "$work/moved"
prefix=-DCMAKE_PREFIX_PATH=$work/moved

build_consumer static "$root/tests/consumers/find_package" "$prefix" -DCMAKE_BUILD_TYPE=Release
links "$work/static/consumer" && fail "the static consumer needs libquire.so"
check static

build_consumer shared "$root/tests/consumers/find_package" "$prefix" -DCMAKE_BUILD_TYPE=Release \
  -DBUILD_SHARED_LIBS=ON
links "$work/shared/consumer" || fail "the shared consumer does not need libquire.so"
check shared

build_consumer examples "$root/examples" "$prefix" -DCMAKE_BUILD_TYPE=Release
passed=$((passed + 1))
echo "consumer examples: built against the installed package"

build_consumer add_subdirectory "$root/tests/consumers/add_subdirectory" \
  -DQUIRE_SOURCE_DIR="$root" -DCMAKE_CXX_FLAGS=-O0 -DQUIRE_CUDA=OFF
check add_subdirectory

echo "$passed passed, 0 failed"
