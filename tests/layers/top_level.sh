#!/usr/bin/env bash
# top_level.sh ROOT: fails if a checkout tracks anything at the top but what a reader expects there.
set -euo pipefail
cd "$1"

stray=$(git ls-files | cut -d/ -f1 | sort -u | grep -vxE \
  'CMakeLists\.txt|include|lib|cuda|examples|tests|benchmarks|cmake|docs|LICENSE|README\.md|\.[a-z-]+' || true)
[[ -z $stray ]] && exit 0
printf 'at the top, outside the layout: %s\n' "$stray"
exit 1
