# What `cmake --install` puts where, all of it relocatable:
#   bin/convoy, lib/libconvoy.so, include/    the command, the library, its headers
#   lib/convoy/                               the library's own oneDNN, where no other one is in the way
#   lib/cmake/convoy, lib/pkgconfig           for find_package(convoy) and pkg-config
#   share/convoy/                             problems/, examples/ and docs/, where the command finds them
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(exports)

# libconvoy: what include/convoy.h and include/convoy/ declare, as one shared library.
get_property(libraries GLOBAL PROPERTY CONVOY_LIBRARIES)
list(REMOVE_ITEM libraries convoy_cli convoy_report convoy_io convoy_core_testing convoy_testing)
add_library(convoy_shared SHARED ${CONVOY_EMPTY_SOURCE})
add_library(convoy::convoy ALIAS convoy_shared)
set(exports ${PROJECT_BINARY_DIR}/libconvoy.map)
write_exports(${exports})
# Versions that serve each other's programs (docs/stability.md): before 1.0 those of one minor version, then of one major version.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(soversion 0.${PROJECT_VERSION_MINOR})
  set(compatibility SameMinorVersion)
else()
  set(soversion ${PROJECT_VERSION_MAJOR})
  set(compatibility SameMajorVersion)
endif()
set_target_properties(convoy_shared PROPERTIES
  OUTPUT_NAME convoy EXPORT_NAME convoy VERSION ${PROJECT_VERSION} SOVERSION ${soversion}
  INSTALL_RPATH "$ORIGIN/convoy" LINK_DEPENDS ${exports})
target_compile_features(convoy_shared INTERFACE cxx_std_20)
target_include_directories(convoy_shared PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(convoy_shared PRIVATE -Wl,--whole-archive ${libraries} -Wl,--no-whole-archive)
target_link_options(convoy_shared PRIVATE -Wl,--version-script=${exports})

install(TARGETS convoy RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
file(RELATIVE_PATH library_from_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set_target_properties(convoy PROPERTIES INSTALL_RPATH "$ORIGIN/${library_from_bin}/convoy")
install(TARGETS convoy_shared EXPORT convoy LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
file(GLOB onednn_files ${CONVOY_PYPI}/lib/libdnnl.so.*)
install(FILES ${onednn_files} DESTINATION ${CMAKE_INSTALL_LIBDIR}/convoy)

set(share ${CMAKE_INSTALL_DATADIR}/convoy)
install(DIRECTORY problems/ DESTINATION ${share}/problems FILES_MATCHING PATTERN "*.txt")
# What `convoy exec` puts into PyTorch (src/cli/exec.cc).
install(DIRECTORY python/convoy DESTINATION ${share}/python FILES_MATCHING PATTERN "*.py")
install(DIRECTORY examples/ DESTINATION ${share}/examples)
install(DIRECTORY docs/ DESTINATION ${share}/docs FILES_MATCHING PATTERN "*.md" PATTERN "*.png")
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${share})

set(packages ${CMAKE_INSTALL_LIBDIR}/cmake/convoy)
install(EXPORT convoy NAMESPACE convoy:: FILE convoy-targets.cmake DESTINATION ${packages})
file(WRITE ${PROJECT_BINARY_DIR}/convoy-config.cmake "include(\${CMAKE_CURRENT_LIST_DIR}/convoy-targets.cmake)\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/convoy-config-version.cmake COMPATIBILITY ${compatibility})
install(FILES ${PROJECT_BINARY_DIR}/convoy-config.cmake ${PROJECT_BINARY_DIR}/convoy-config-version.cmake
        DESTINATION ${packages})
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/convoy.pc.in ${PROJECT_BINARY_DIR}/convoy.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/convoy.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
