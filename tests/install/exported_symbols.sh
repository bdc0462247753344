#!/usr/bin/env bash
# exported_symbols.sh LIBRARY: fails if the shared library exports anything but what is in quire::.
set -euo pipefail
export LC_ALL=C

names=$(nm -D --defined-only --demangle "$1" | sed -E 's/^[0-9a-f]* +[A-Za-z] //')
leaked=$(grep -vE '^((typeinfo|typeinfo name|vtable) for )?quire::' <<<"$names" || true)
if [[ -n $leaked ]]; then
  echo "$1 exports symbols outside quire::"
  head -n 40 <<<"$leaked"
  exit 1
fi
# Nothing of the library's inside either: what is exported is declared in a public header.
headers=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/include/quire
public() { grep -rqE "(class|struct)( \[\[nodiscard\]\])?( QUIRE_EXPORT)? $1\b|\b$1\(" "$headers"; }
inner=$({
  sed -E 's/^(typeinfo for |typeinfo name for |vtable for )?quire::([A-Za-z0-9_]+).*/\2/' <<<"$names" |
    sort -u | while read -r name; do public "$name" || echo "quire::$name"; done
  grep '::Impl::' <<<"$names" || true
})
if [[ -n $inner ]]; then
  echo "$1 exports symbols of the library's inside"
  head -n 40 <<<"$inner"
  exit 1
fi
for needed in 'quire::Engine::open(' 'quire::version()' 'quire::Tokenizer::open('; do
  if ! grep -qF "$needed" <<<"$names"; then
    echo "$1 does not export $needed...)"
    exit 1
  fi
done
echo "$(wc -l <<<"$names") exported symbols, all in quire::"
