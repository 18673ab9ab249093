# libconvoy: what include/convoy.h and include/convoy/ declare, as one shared library that can be installed and found with
# find_package(convoy). It carries its own copy of oneDNN beside it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY CONVOY_LIBRARIES)
list(REMOVE_ITEM libraries convoy_cli convoy_report convoy_io)
file(WRITE ${CMAKE_BINARY_DIR}/empty.cc "")
add_library(convoy_shared SHARED EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/empty.cc)
set_target_properties(convoy_shared PROPERTIES
  OUTPUT_NAME convoy EXPORT_NAME convoy VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  INSTALL_RPATH "$ORIGIN")
target_compile_features(convoy_shared INTERFACE cxx_std_20)
target_include_directories(convoy_shared PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
                                                $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(convoy_shared PRIVATE -Wl,--whole-archive ${libraries} -Wl,--no-whole-archive)

install(TARGETS convoy_shared EXPORT convoy LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL)
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY problems/ DESTINATION ${CMAKE_INSTALL_DATADIR}/convoy/problems FILES_MATCHING PATTERN "*.txt")
install(TARGETS convoy RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
set_target_properties(convoy PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
file(GLOB onednn_files ${CONVOY_PYPI}/lib/libdnnl.so*)
install(FILES ${onednn_files} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT convoy NAMESPACE convoy:: FILE convoy-targets.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/convoy)
file(WRITE ${CMAKE_BINARY_DIR}/convoy-config.cmake "include(\${CMAKE_CURRENT_LIST_DIR}/convoy-targets.cmake)\n")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/convoy-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/convoy-config.cmake ${CMAKE_BINARY_DIR}/convoy-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/convoy)
