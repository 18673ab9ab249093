# Convoy is for Linux on x86-64: elsewhere configuring ends with a sentence, rather than compiling with an error
# in every file. Checked before project(), too, which would look for the other system's compiler first; what is not said there is
# this machine's.
macro(convoy_check_platform)
  if(CMAKE_SYSTEM_NAME AND NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    message(FATAL_ERROR "Convoy is for Linux, not for ${CMAKE_SYSTEM_NAME} (CMAKE_SYSTEM_NAME)")
  endif()
  foreach(processor "${CMAKE_SYSTEM_PROCESSOR}" "$CACHE{CMAKE_SYSTEM_PROCESSOR}")
    if(processor AND NOT processor MATCHES "^(x86_64|amd64|AMD64)$")
      message(FATAL_ERROR "Convoy is for processors of the x86-64 kind, not for ${processor} (CMAKE_SYSTEM_PROCESSOR)")
    endif()
  endforeach()
endmacro()
