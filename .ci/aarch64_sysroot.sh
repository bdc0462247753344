#!/usr/bin/env bash
# aarch64_sysroot.sh FOLDER: unpacks the AArch64 packages that quire links into FOLDER. Uses lists and
# a state of apt of its own, so that the system's architectures and packages stay as they are.
set -euo pipefail
sysroot=$1
packages=(libfmt-dev libfmt9 libsentencepiece-dev libsentencepiece0 libpcre2-dev libpcre2-8-0
          libutf8proc-dev nlohmann-json3-dev catch2)

if [[ -f $sysroot/.complete ]]; then exit 0; fi
rm -rf "$sysroot"
mkdir -p "$sysroot"/.apt/{lists/partial,cache/archives/partial,debs}
cd "$sysroot/.apt"
touch status

# shellcheck source=/dev/null
source /etc/os-release
options=(-o Dir::State="$PWD" -o Dir::State::Lists="$PWD/lists" -o Dir::State::status="$PWD/status"
         -o Dir::Cache="$PWD/cache" -o APT::Architecture=arm64 -o APT::Architectures::=arm64
         -o APT::Sandbox::User=root -o Acquire::Retries=3 -o Dir::Etc::SourceParts=/nonexistent
         -o Dir::Etc::SourceList="$PWD/sources.list")
if [[ $ID == ubuntu ]]; then
  packages+=(libutf8proc3)
  keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg
  for suite in "$VERSION_CODENAME" "$VERSION_CODENAME-updates"; do
    echo "deb [signed-by=$keyring] http://ports.ubuntu.com/ubuntu-ports $suite main universe"
  done >sources.list
else
  packages+=(libutf8proc2)
  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  echo "deb [signed-by=$keyring] http://deb.debian.org/debian $VERSION_CODENAME main" >sources.list
fi

apt-get "${options[@]}" -qq update
(cd debs && apt-get "${options[@]}" -qq download "${packages[@]}")
for package in debs/*.deb; do dpkg-deb -x "$package" "$sysroot"; done
rm -rf "$sysroot/.apt"
touch "$sysroot/.complete"
