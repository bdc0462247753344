#!/usr/bin/env bash
# include_order.sh ROOT: fails if a file of lib/ includes from a folder that its own does not stand on
# (docs/architecture.md, "Layers"; cuda/ is one layer, its folders have their own names or those of
# lib/), if an include is not written relative to lib/ or cuda/, or if a public
# header includes anything but quire's public headers and the standard library.
set -euo pipefail
export LC_ALL=C
cd "$1"

# layer: what it may include from besides itself; a name with a slash is that one header.
table='
base:
tensor:    base
attention: tensor base
sampling:  tensor base
device:    attention sampling tensor base
cpu:       device attention sampling tensor base
format:    tensor base
text:      format tensor base
paging:    base device/kv_cache.h
prefix:    paging base device/kv_cache.h
batching:  prefix paging base device/kv_cache.h
model:     device attention sampling tensor base format batching/plan.h
engine:    base tensor attention sampling device cpu format text paging prefix batching model
matmul:
operations:
cuda:      operations matmul device attention sampling tensor base
'

grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' lib cuda \
  --include='*.h' --include='*.cpp' --include='*.inc' --include='*.cu' --include='*.cuh' |
awk -v table="$table" '
  BEGIN {
    n = split(table, lines, "\n")
    for (i = 1; i <= n; ++i) {
      m = split(lines[i], word, /[: ]+/)
      if (word[1] == "") continue
      known[word[1]] = 1
      allowed[word[1], word[1]] = 1
      for (j = 2; j <= m; ++j) if (word[j] != "") allowed[word[1], word[j]] = 1
    }
  }
  {
    split($0, part, ":")
    split(part[1], path, "/")
    layer = path[1] == "cuda" ? "cuda" : path[2]
    split($0, quoted, "\"")
    header = quoted[2]
    slash = index(header, "/")
    from = slash ? substr(header, 1, slash - 1) : ""
    ++edges
    if (!(layer in known)) complain("the layer " layer " is not in the list")
    else if (!(from in known)) complain("is not relative to lib/ or cuda/: \"" header "\"")
    else if (!((layer, from) in allowed) && !((layer, header) in allowed))
      complain(layer " may not include \"" header "\"")
  }
  function complain(what) { print part[1] ":" part[2] ": " what; ++wrong }
  END { print edges " includes in lib/ and cuda/, " wrong + 0 " against the order"; exit wrong > 0 }
'

foreign=$(grep -rnE '^[[:space:]]*#[[:space:]]*include' include |
          grep -vE '<(quire/[a-z_]+\.h|[a-z_0-9]+)>' || true)
if [[ -n $foreign ]]; then
  echo "public headers include more than the standard library:"
  echo "$foreign"
  exit 1
fi
