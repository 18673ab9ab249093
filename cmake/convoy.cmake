# The two ways a target is made here: convoy_library and convoy_test.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

option(CONVOY_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(CONVOY_BUILD_FUZZERS "Build the libFuzzer programs (needs clang)" OFF)
option(CONVOY_WERROR "Treat warnings as errors" OFF)
option(CONVOY_DEBUG_LINES "Functions and lines in the symbols that scripts/bundle keeps apart" OFF)
set(CONVOY_SANITIZE "" CACHE STRING "Sanitizers for every target, e.g. address,undefined")

if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
elseif(NOT CMAKE_BUILD_TYPE)  # Convoy's own targets only
  set(CMAKE_BUILD_TYPE Release)
endif()
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  option(CONVOY_UNITY "Compile files several at a time (convoy_unity)" OFF)
else()
  option(CONVOY_UNITY "Compile files several at a time (convoy_unity)" ON)
endif()

# A designated initialiser leaves the other members at their defaults on purpose.
add_compile_options(-Wall -Wextra -Wno-missing-field-initializers)
if(CONVOY_WERROR)
  add_compile_options(-Werror)
endif()
# g++ looks for garbage once it has half a gigabyte, which few files need, and not from 128 MiB on: a tenth less time.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(--param=ggc-min-heapsize=524288)
endif()
if(CONVOY_DEBUG_LINES)
  add_compile_options(-g1)
endif()
if(CONVOY_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(CONVOY_SANITIZE)
  add_compile_options(-fsanitize=${CONVOY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${CONVOY_SANITIZE})
endif()

# g++ 12's AVX-512 header initialises a variable with itself on purpose, which its own warning then finds.
set(CONVOY_FLAGS_avx2 -mavx2 -mfma -mf16c -O3 -ffp-contract=off)
set(CONVOY_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c -mprefer-vector-width=512 -O3 -ffp-contract=off -Wno-maybe-uninitialized -Wno-uninitialized)
set(CONVOY_FLAGS_avx512_vnni ${CONVOY_FLAGS_avx512} -mavx512vnni)
set(CONVOY_FLAGS_avx512_vbmi ${CONVOY_FLAGS_avx512} -mavx512vbmi)
set(CONVOY_FLAGS_avx512_bf16 ${CONVOY_FLAGS_avx512} -mavx512bf16)
set(CONVOY_FLAGS_amx ${CONVOY_FLAGS_avx512_vnni} -mamx-tile -mamx-int8)
set(CONVOY_FLAGS_amx_bf16 ${CONVOY_FLAGS_avx512_bf16} -mamx-tile -mamx-bf16)
if(CONVOY_SANITIZE)  # instrumented, the kernels take minutes to compile at -O3
  foreach(isa avx2 avx512 avx512_vnni avx512_vbmi avx512_bf16 amx amx_bf16)
    list(REMOVE_ITEM CONVOY_FLAGS_${isa} -O3)
  endforeach()
endif()


# For targets that need a source and have none; written only where it is not there: else it is compiled again.
set(CONVOY_EMPTY_SOURCE ${PROJECT_BINARY_DIR}/empty.cc)
file(CONFIGURE OUTPUT ${CONVOY_EMPTY_SOURCE} CONTENT "")

# convoy_precompile(target kind [options..]): the standard headers that most files include, and fmt's, are compiled once for all
# libraries with the same options, with GoogleTest's once for all tests (kind: library, test). The options are the header's as well:
# what a file's own say of optimisation and floating point g++ forgets where it reads a precompiled header. fmt's and OpenMP's flags
# must agree, too. Each file includes what it uses all the same: -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without. So does
# ccache, which by default keeps nothing of files with a precompiled header, and other compilers than g++.
function(convoy_precompile target kind)
  target_compile_options(${target} PRIVATE ${OpenMP_CXX_FLAGS} ${ARGN})
  target_compile_definitions(${target} PRIVATE $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
  if(CCACHE OR NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    return()
  endif()
  string(MAKE_C_IDENTIFIER "convoy_${kind}_headers${ARGN}" headers)
  if(NOT TARGET ${headers})
    add_library(${headers} OBJECT ${CONVOY_EMPTY_SOURCE})
    target_link_libraries(${headers} PRIVATE fmt::fmt OpenMP::OpenMP_CXX)
    target_compile_options(${headers} PRIVATE ${ARGN})
    target_precompile_headers(${headers} PRIVATE <algorithm> <array> <cmath> <cstdint> <cstring> <fstream> <functional>
      <limits> <map> <memory> <mutex> <optional> <set> <span> <string> <string_view> <thread> <variant> <vector>
      <fmt/format.h>)
    if(kind STREQUAL test)
      target_link_libraries(${headers} PRIVATE GTest::gtest_main)
      target_precompile_headers(${headers} PRIVATE <gtest/gtest.h>)
      set_target_properties(${headers} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${headers} PRIVATE -fPIE)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${headers})
  # Of strings that come precompiled g++ 12 no longer knows that what it finds in them is not ours (and not so).
  target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow
                         -Wno-stringop-overread)
endfunction()

# convoy_unity(target most): files are compiled up to so many at a time, so that the headers and templates that they share are compiled once.
# With ccache, which those have who change Convoy, each is compiled alone. So names in the anonymous namespaces of a target's
# files must differ. Files with options of their own (instruction sets) and LOOPS stay alone.
function(convoy_unity target most)
  if(CONVOY_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${most})
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # g++ takes them for headers, and warns
  endif()
endfunction()

# OPTIONS of libraries that decide and have no loops over a tensor's elements or over a run's steps but in a few files (LOOPS): the
# others compile in two thirds of the time. Sections of their own are for the libraries of `convoy exec`, which leave out what they don't use (src/interposer).
set(CONVOY_DECIDES -ffunction-sections -fdata-sections)
if(CMAKE_BUILD_TYPE STREQUAL Release)
  list(APPEND CONVOY_DECIDES -O1)
endif()

# convoy_library(name [UNITY] SOURCES a.cc.. [DEPENDS targets..] [OPTIONS of all units..] [LOOPS a.cc..] [AVX2 a.cc..] [AVX512 a.cc..]
#                [AVX512_VNNI a.cc..] [AVX512_VBMI a.cc..] [AVX512_BF16 a.cc..] [AMX a.cc..] [AMX_BF16 a.cc..])
# A static library convoy_<name>. The per-ISA sources are compiled with that instruction set's flags, LOOPS at -O3 whatever OPTIONS
# say. Libraries that decide are compiled several files at a time, others on request (UNITY).
function(convoy_library name)
  cmake_parse_arguments(ARG "UNITY" "" "SOURCES;DEPENDS;OPTIONS;LOOPS;AVX2;AVX512;AVX512_VNNI;AVX512_VBMI;AVX512_BF16;AMX;AMX_BF16" ${ARGN})
  set(units ${ARG_AVX2} ${ARG_AVX512} ${ARG_AVX512_VNNI} ${ARG_AVX512_VBMI} ${ARG_AVX512_BF16} ${ARG_AMX} ${ARG_AMX_BF16})
  add_library(convoy_${name} STATIC ${ARG_SOURCES} ${units})
  target_include_directories(convoy_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(convoy_${name} PUBLIC ${ARG_DEPENDS} OpenMP::OpenMP_CXX)
  convoy_precompile(convoy_${name} library ${ARG_OPTIONS})
  if(ARG_UNITY OR ARG_OPTIONS STREQUAL CONVOY_DECIDES)
    convoy_unity(convoy_${name} 64)
  endif()
  if(ARG_LOOPS)  # a target of their own, so that their precompiled header is compiled as they are
    list(REMOVE_ITEM ARG_OPTIONS -O1)
    add_library(convoy_${name}_loops OBJECT ${ARG_LOOPS})
    target_include_directories(convoy_${name}_loops PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(convoy_${name}_loops PRIVATE ${ARG_DEPENDS} OpenMP::OpenMP_CXX)
    convoy_precompile(convoy_${name}_loops library ${ARG_OPTIONS})
    target_sources(convoy_${name} PRIVATE $<TARGET_OBJECTS:convoy_${name}_loops>)
  endif()
  set_source_files_properties(${units} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  set_source_files_properties(${ARG_AVX2} PROPERTIES COMPILE_OPTIONS "${CONVOY_FLAGS_avx2}")
  set_source_files_properties(${ARG_AVX512} PROPERTIES COMPILE_OPTIONS "${CONVOY_FLAGS_avx512}")
  set_source_files_properties(${ARG_AVX512_VNNI} PROPERTIES COMPILE_OPTIONS "${CONVOY_FLAGS_avx512_vnni}")
  set_source_files_properties(${ARG_AVX512_VBMI} PROPERTIES COMPILE_OPTIONS "${CONVOY_FLAGS_avx512_vbmi}")
  set_source_files_properties(${ARG_AVX512_BF16} PROPERTIES COMPILE_OPTIONS "${CONVOY_FLAGS_avx512_bf16}")
  set_source_files_properties(${ARG_AMX} PROPERTIES COMPILE_OPTIONS "${CONVOY_FLAGS_amx}")
  set_source_files_properties(${ARG_AMX_BF16} PROPERTIES COMPILE_OPTIONS "${CONVOY_FLAGS_amx_bf16}")
  set_property(GLOBAL APPEND PROPERTY CONVOY_LIBRARIES convoy_${name})
endfunction()

# convoy_test(name SOURCES a_test.cc.. [DEPENDS targets..] [LABELS l..] [SERIAL] [LOOPS] [UNITY]): one GoogleTest program, one CTest
# entry a program (a program a folder keeps CTest's list short and links few binaries). What is tested is optimised; tests compile
# faster without, but for those whose own loops (LOOPS) then take longer than that saves; those of many files several at a time (UNITY).
function(convoy_test name)
  if(NOT CONVOY_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "SERIAL;LOOPS;UNITY" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  set(optimisation -O0)
  if(ARG_LOOPS AND NOT CONVOY_SANITIZE)
    set(optimisation -O1)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600)
  convoy_precompile(${name} test ${optimisation})
  if(ARG_UNITY)
    convoy_unity(${name} 16)
  endif()
  if(CONVOY_SANITIZE)
    # Tests ask for impossible allocations to see the error; by default the sanitizer aborts there.
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "ASAN_OPTIONS=allocator_may_return_null=1")
  endif()
  # Where scripts/setup put cuDNN and NVRTC, if this machine had none: the library looks into the active environment.
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT VIRTUAL_ENV=${CONVOY_PYPI}/../venv)
  # Test programs run beside each other, with more threads than cores: waiting must not burn the cores.
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT OMP_WAIT_POLICY=passive)
  if(ARG_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()
