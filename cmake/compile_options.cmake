# quire_options: what every target of the project is compiled with. Never installed.
add_library(quire_options INTERFACE)
target_compile_features(quire_options INTERFACE cxx_std_20)
# No contraction: a product and a sum are fused only where the code says fma, so that every
# instruction set rounds alike.
target_compile_options(quire_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-missing-field-initializers;-ffp-contract=off>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 warns of overlaps inside std::string that cannot be (GCC bug 105651).
  target_compile_options(quire_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(QUIRE_WARNINGS_AS_ERRORS)
  target_compile_options(quire_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(QUIRE_SANITIZE)
  target_compile_options(quire_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${QUIRE_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>")
  target_link_options(quire_options INTERFACE -fsanitize=${QUIRE_SANITIZE})
endif()
