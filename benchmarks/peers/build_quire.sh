# shellcheck shell=bash
# Sourced by the scripts that compare quire with other engines.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tests/support.sh
source "$root/tests/support.sh"
export QUIRE_CACHE

configure_and_build_quire() {
  local build=$root/build options=()
  mkdir -p "$build"
  # A build folder that is there keeps its options.
  if [[ ! -f $build/build.ninja ]]; then
    options=(-DCMAKE_BUILD_TYPE=Release -DQUIRE_BUILD_TESTS=OFF -DQUIRE_BUILD_EXAMPLES=OFF)
  fi
  configure "$root" "$build" -DQUIRE_BUILD_BENCHMARKS=ON "${options[@]}" >"$build/configure.log" ||
    { cat "$build/configure.log"; return 1; }
  cmake --build "$build" -j "$(nproc)" --target end_to_end read_bandwidth
}

# Installs packages and builds the programs that the comparison runs, unless only help is wanted.
build_quire_unless_help() {
  local argument
  for argument in "$@"; do
    case $argument in -h | --help | --no-build) return 0 ;; esac
  done
  install_packages "${BUILD_PACKAGES[@]}" "${FETCH_PACKAGES[@]}" "${TEST_PACKAGES[@]}" >&2
  configure_and_build_quire >&2
}
