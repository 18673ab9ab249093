# What a Python wheel has of the build, in convoy/_native of the package: program, libraries, problem lists, licences. `make wheel`
# installs this component alone (pyproject.toml).
set(parts COMPONENT wheel EXCLUDE_FROM_ALL)
install(TARGETS convoy RUNTIME DESTINATION bin ${parts})
install(TARGETS convoy_shared LIBRARY DESTINATION lib ${parts} NAMELINK_SKIP)
install(TARGETS convoy_interposer convoy_engine_library convoy_ort LIBRARY DESTINATION lib ${parts})
install(FILES ${onednn_files} DESTINATION lib/convoy ${parts})
install(DIRECTORY problems/ DESTINATION share/convoy/problems ${parts} FILES_MATCHING PATTERN "*.txt")
# Stripped first: strip breaks what patchelf has moved in oneDNN's library. What is taken away is kept in build/wheel-debug.
install(CODE "
  set(native \"\${CMAKE_INSTALL_PREFIX}\")
  file(GLOB files \"\${native}/bin/*\" \"\${native}/lib/*.so*\" \"\${native}/lib/convoy/*.so*\")
  foreach(command \"${PROJECT_SOURCE_DIR}/scripts/strip-apart;${PROJECT_BINARY_DIR}/wheel-debug;\${files}\"
                  \"${PROJECT_SOURCE_DIR}/scripts/relocate;\${native};wheel\"
                  \"${PROJECT_SOURCE_DIR}/scripts/licences;\${native};\${native}/share/convoy/licenses\")
    execute_process(COMMAND \${command} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()" ${parts})
