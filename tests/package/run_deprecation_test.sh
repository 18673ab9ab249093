#!/bin/sh
# A deprecated name warns exactly where the program asked for it (docs/stability.md), in C and in C++.
#   run_deprecation_test.sh CXX CC INCLUDE_FOLDER
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#include "convoy/version.h"\nCONVOY_DEPRECATED("use g instead") int f(void);\nint h(void) { return f(); }\n' >"$work/use.c"
cp "$work/use.c" "$work/use.cc"
for pair in "$1 -std=c++20 $work/use.cc" "$2 -std=c11 $work/use.c"; do
  $pair -I "$3" -Wall -Werror -c -o "$work/silent.o"
  if $pair -I "$3" -Wall -Werror -DCONVOY_WARN_DEPRECATED -c -o "$work/warned.o" 2>"$work/log"; then
    echo "no warning from: $pair"
    exit 1
  fi
  grep -q 'use g instead' "$work/log" || { cat "$work/log"; exit 1; }
done
