#!/bin/sh
# Convoy's sources $2 in another project, by add_subdirectory. Convoy is not compiled a second time: its targets are there and build what it
# links, the project's own file is compiled as they say and linked with the library of the build folder $1.
# And where configuring ends with a sentence.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
built=$(cd "$1" && pwd)
sources=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; cat "$work/log"; exit 1; }
run() { "$@" >"$work/log" 2>&1 || fail "$*"; }
cached() { sed -n "s/^$1:[A-Z]*=//p" "$built/CMakeCache.txt"; }

mkdir "$work/parent" "$work/parent/cmake"
cp "$here/uses_convoy.cc" "$work/parent"
# A module of the same name as one of Convoy's, which is not Convoy's affair.
echo 'message(FATAL_ERROR "the parent project'\''s own module")' >"$work/parent/cmake/dependencies.cmake"
cat >"$work/parent/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(parent VERSION 7.0 LANGUAGES C CXX)
list(APPEND CMAKE_MODULE_PATH \${CMAKE_SOURCE_DIR}/cmake)
add_subdirectory($sources convoy)
add_executable(uses_convoy uses_convoy.cc)
target_link_libraries(uses_convoy PRIVATE convoy::convoy)
END
run cmake -G Ninja -S "$work/parent" -B "$work/build" -DCONVOY_PYPI="$(cached CONVOY_PYPI)" -DCONVOY_JS="$(cached CONVOY_JS)"
run cmake --build "$work/build" -- -t commands uses_convoy
cp "$work/log" "$work/commands"
grep -q 'soname,libconvoy\.so\.0\.[0-9]* -o convoy/lib/libconvoy\.so\.0\.' "$work/log" || fail "libconvoy.so is not what is linked"
run cmake --build "$work/build" -- -t commands all
grep -q '_test\.cc' "$work/log" && fail "Convoy's tests are built with the project"
command=$(grep -- '-c .*/uses_convoy\.cc$' "$work/commands") || fail "no command compiles the project's file"
mkdir -p "$work/build/CMakeFiles/uses_convoy.dir"
(cd "$work/build" && run sh -c "$command")
run "$(cached CMAKE_CXX_COMPILER)" "$work/build/CMakeFiles/uses_convoy.dir/uses_convoy.cc.o" -L"$built/lib" -lconvoy -o "$work/uses_convoy"
run ctest --test-dir "$work/build" -N
grep -q 'Total Tests: 0' "$work/log" || fail "Convoy's tests are the project's"
grep -qx 'CMAKE_BUILD_TYPE:STRING=' "$work/build/CMakeCache.txt" || fail "Convoy decides the project's build type"

refused() {  # refused SENTENCE FLAG..
  sentence=$1
  shift
  cmake -S "$sources" -B "$work/refused" "$@" >"$work/log" 2>&1 && fail "configured: $*"
  tr -s ' \n' '  ' <"$work/log" | grep -q "$sentence" || fail "$* is refused for another reason"
  rm -r "$work/refused"
}
refused 'processors of the x86-64 kind, not for aarch64 (CMAKE_SYSTEM_PROCESSOR)' -DCMAKE_SYSTEM_PROCESSOR=aarch64
refused 'for Linux, not for Windows (CMAKE_SYSTEM_NAME)' -DCMAKE_SYSTEM_NAME=Windows
refused 'for Linux, not for Darwin (CMAKE_SYSTEM_NAME)' -DCMAKE_SYSTEM_NAME=Darwin -DCMAKE_SYSTEM_PROCESSOR=arm64
refused 'none is missing: .*scripts/setup build fetches' -DCONVOY_PYPI="$work/none"
