# The libraries made of the objects, and the package: find_package(quire), or add_subdirectory, then
# link quire::quire. BUILD_SHARED_LIBS says which linkage that is; QUIRE_BOTH_LINKAGES makes both
# libraries from one compilation, and the installed package then has the components static and shared.
include(CMakePackageConfigHelpers)

option(QUIRE_BOTH_LINKAGES "Build the static and the shared library" ${QUIRE_TOP_LEVEL})
option(QUIRE_INSTALL "Install the library, its headers and its package" ${QUIRE_TOP_LEVEL})

function(quire_library linkage kind)
  set(target quire_${linkage})
  add_library(${target} ${kind} $<TARGET_OBJECTS:quire_objects>)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_link_libraries(${target} PRIVATE ${QUIRE_PRIVATE_LIBRARIES})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME quire EXPORT_NAME ${linkage}
                                             LINKER_LANGUAGE CXX)
  if(QUIRE_SANITIZE)
    target_link_options(${target} PUBLIC $<BUILD_INTERFACE:-fsanitize=${QUIRE_SANITIZE}>)
  endif()
  add_library(quire::${linkage} ALIAS ${target})
endfunction()

if(QUIRE_BOTH_LINKAGES OR NOT BUILD_SHARED_LIBS)
  quire_library(static STATIC)
  target_compile_definitions(quire_static INTERFACE QUIRE_STATIC)
endif()
if(QUIRE_BOTH_LINKAGES OR BUILD_SHARED_LIBS)
  quire_library(shared SHARED)
  # Before 1.0 a minor version may change the binary interface.
  set_target_properties(quire_shared PROPERTIES
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
  # Only quire:: leaves the library: not the templates of std:: that it instantiates, which have
  # default visibility, and nothing of a static library linked into it.
  target_link_options(quire_shared PRIVATE
    LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map
    LINKER:--exclude-libs,ALL LINKER:--as-needed)
endif()

if(BUILD_SHARED_LIBS)
  add_library(quire::quire ALIAS quire_shared)
else()
  add_library(quire::quire ALIAS quire_static)
endif()

if(NOT QUIRE_INSTALL)
  return()
endif()

set(QUIRE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/quire)
foreach(linkage static shared)
  if(TARGET quire_${linkage})
    install(TARGETS quire_${linkage} EXPORT quire-${linkage}-targets
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
            RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    install(EXPORT quire-${linkage}-targets NAMESPACE quire:: DESTINATION ${QUIRE_PACKAGE_DIR})
  endif()
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/quire DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/quire-config.cmake.in
  ${PROJECT_BINARY_DIR}/quire-config.cmake INSTALL_DESTINATION ${QUIRE_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/quire-config-version.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/quire-config.cmake
              ${PROJECT_BINARY_DIR}/quire-config-version.cmake
        DESTINATION ${QUIRE_PACKAGE_DIR})
