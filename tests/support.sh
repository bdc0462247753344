# shellcheck shell=bash
# Sourced by the scripts that build and test: packages, timed stages, the cache folder.

QUIRE_CACHE=${QUIRE_CACHE:-$HOME/.cache/quire}

# install_packages NAME...: Debian and Ubuntu packages, those that are missing only.
install_packages() {
  local missing=() package
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null) == *"ok installed" ]] ||
      missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  echo "installing ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

# stage NAME COMMAND...: runs it and prints its seconds; returns what it returned.
stage() {
  local name=$1 start=$SECONDS status=0
  shift
  echo "== $name"
  "$@" || status=$?
  if [[ $status -eq 0 ]]; then
    echo "== $name: ok, $((SECONDS - start)) s"
  else
    echo "== $name: FAILED (status $status), $((SECONDS - start)) s"
  fi
  return "$status"
}

# The CUDA backend takes minutes to build: only where there is a GPU to run it on.
cuda_options() {
  nvidia-smi -L >/dev/null 2>&1 || echo -DQUIRE_CUDA=OFF
}

# configure SOURCE BUILD [CMAKE ARGUMENTS]: with Ninja, and ccache if it is there.
configure() {
  local launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  cmake -S "$1" -B "$2" -G Ninja "${launcher[@]}" "${@:3}"
}

# shellcheck disable=SC2034
BUILD_PACKAGES=(build-essential cmake ninja-build ccache pkg-config libfmt-dev libsentencepiece-dev libprotobuf-dev
                libpcre2-dev libutf8proc-dev nlohmann-json3-dev)
# shellcheck disable=SC2034
FETCH_PACKAGES=(python3 python3-pip ca-certificates)
# shellcheck disable=SC2034
TEST_PACKAGES=(catch2 libbenchmark-dev)
