#!/bin/sh
# Which languages the public headers of folder $2 take, by the C++ compiler $1 and the C compiler $3: <convoy.h> any C and
# C++; those of convoy/ C++20, and in an older one each says first what to do.
set -eu
cxx=$1 include=$2 cc=$3
fail() { echo "FAILED: $*"; exit 1; }
# compile HEADER COMPILER FLAG..
compile() {
  included=$1
  shift
  printf '#include <%s>\n' "$included" | "$@" -I"$include" -Wall -Wextra -Werror -fsyntax-only - 2>&1
}
for standard in c99 c11; do compile convoy.h "$cc" -std=$standard -x c || fail "convoy.h as $standard"; done
for standard in c++11 c++17 c++20; do compile convoy.h "$cxx" -std=$standard -x c++ || fail "convoy.h as $standard"; done
compile convoy/all.h "$cxx" -std=c++20 -x c++ || fail "convoy/all.h as C++20"
checked=0
for path in "$include"/convoy/*.h; do
  header=convoy/${path##*/}
  [ "$header" = convoy/version.h ] && continue # C and C++
  said=$(compile "$header" "$cxx" -std=c++17 -x c++) && fail "$header compiles as C++17"
  first=$(echo "$said" | grep -m1 'error:')
  case $first in
    *"needs C++20: compile with -std=c++20"*) checked=$((checked + 1)) ;;
    *) fail "$header as C++17 says first: $first" ;;
  esac
done
[ $checked -gt 10 ] || fail "only $checked headers in $include"
echo "$checked headers"
