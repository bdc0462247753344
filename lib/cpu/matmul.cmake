# Matrix multiplication: one file for each instruction set, with its own flags.
target_sources(quire_objects PRIVATE
  isa.cpp
  matmul.cpp
  matmul_scalar.cpp
  pack.cpp
  pack_buffer.cpp
  pack_expand.cpp
  pack_unpack.cpp)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(avx2 matmul_avx2.cpp matmul_avx2_float.cpp matmul_avx2_integer.cpp)
  set(avx512 matmul_avx512.cpp matmul_avx512_float.cpp matmul_avx512_integer.cpp)
  target_sources(quire_objects PRIVATE ${avx2} ${avx512})
  # GCC's own AVX-512 header makes "undefined" vectors from themselves and warns of it (GCC bug 105593).
  set_source_files_properties(${avx512} TARGET_DIRECTORY quire_objects PROPERTIES COMPILE_OPTIONS
    "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;-mfma;-mf16c;$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>;${QUIRE_UNSANITIZED}")
  set_source_files_properties(${avx2} TARGET_DIRECTORY quire_objects PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
else()
  target_sources(quire_objects PRIVATE matmul_no_x86.cpp)
endif()
