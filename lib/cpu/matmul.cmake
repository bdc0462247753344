# Matrix multiplication: one file for each instruction set, with its own flags.
target_sources(quire_objects PRIVATE
  isa.cpp
  matmul.cpp
  pack.cpp
  pack_buffer.cpp)

quire_kernels("" matmul_scalar.cpp matmul_scalar_bfloat.cpp pack_expand.cpp pack_unpack.cpp)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_sources(quire_objects PRIVATE isa_x86.cpp matmul_no_neon.cpp)
  # GCC's own AVX-512 header makes "undefined" vectors from themselves and warns of it (GCC bug 105593).
  set(avx2 -mavx2 -mfma -mf16c)
  set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
      $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
      ${QUIRE_UNSANITIZED})
  set(amx ${avx512} -mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16)
  quire_kernels("${avx2}" matmul_avx2.cpp matmul_avx2_float.cpp matmul_avx2_integer.cpp)
  quire_kernels("${avx2};-mavxvnni" matmul_avx_vnni.cpp)
  quire_kernels("${avx512}" matmul_avx512.cpp matmul_avx512_float.cpp matmul_avx512_integer.cpp)
  quire_kernels("${avx512};-mavx512bf16" matmul_avx512_bf16.cpp)
  quire_kernels("${amx}" matmul_amx.cpp matmul_amx_bfloat.cpp matmul_amx_integer.cpp)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
  target_sources(quire_objects PRIVATE isa_aarch64.cpp matmul_no_x86.cpp)
  # GCC would move loads up before it knows which registers are left, and push the tile's sums out to the stack.
  set(neon $<$<CXX_COMPILER_ID:GNU>:-fno-schedule-insns>)
  quire_kernels("${neon}" matmul_neon.cpp matmul_neon_float.cpp matmul_neon_integer.cpp)
  quire_kernels("${neon};-march=armv8.2-a+dotprod" matmul_neon_dotprod.cpp)
  quire_kernels("${neon};-march=armv8.2-a+dotprod+i8mm" matmul_neon_i8mm.cpp)
else()
  target_sources(quire_objects PRIVATE isa_generic.cpp matmul_no_neon.cpp matmul_no_x86.cpp)
endif()
