# The libraries beneath quire. All are private: no public header includes them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(QUIRE_SENTENCEPIECE REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(QUIRE_PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(QUIRE_UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
