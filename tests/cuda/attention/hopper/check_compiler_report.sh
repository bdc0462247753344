#!/bin/sh
# check_compiler_report.sh NVCC ROOT FILE...: fails if ptxas serialises products, ignores the division
# of registers (C7508 ... C7519) or uses local memory in a kernel of the files. All are silent losses
# of speed otherwise.
nvcc=$1
root=$2
shift 2
report=$(mktemp)
trap 'rm -f "$report" "$report.cubin"' EXIT
status=0
for file; do
  if ! "$nvcc" -std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a --expt-relaxed-constexpr \
      -I"$root/include" -I"$root/lib" -I"$root/cuda" -diag-suppress=2810 -Xptxas=-v -cubin \
      -o "$report.cubin" "$file" >"$report" 2>&1; then
    cat "$report"
    exit 1
  fi
  if ! grep -q 'bytes stack frame' "$report"; then
    echo "$file: no report of a kernel"
    status=1
  fi
  if grep -E '\(C75[01][0-9]\)|[1-9][0-9]* bytes (stack frame|spill)' "$report"; then
    echo "$file: see above"
    status=1
  fi
done
exit $status
