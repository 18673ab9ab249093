#!/bin/sh
# scripts/check-exit finds a global in any library, and does not pass where it checked nothing.
# usage: check_exit_test.sh SCRIPT C++_COMPILER
set -eu
script=$1
compiler=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
expect() {  # expect STATUS WHAT FOLDER
  status=0
  "$script" "$3" >"$folder/log" 2>&1 || status=$?
  [ $status = "$1" ] || { echo "$2: exit status $status, not $1:"; cat "$folder/log"; exit 1; }
}
library() {  # library FOLDER CODE
  mkdir -p "$folder/built/src/$1"
  echo "$2" | "$compiler" -O2 -x c++ -c -o "$folder/object.o" -
  ar rc "$folder/built/src/$1/libconvoy_some.a" "$folder/object.o"
}
global='struct Global { Global(); ~Global(); }; Global global;'

expect 2 'no such folder' "$folder/none"
mkdir -p "$folder/built/src"
expect 1 'nothing built' "$folder/built"
library core 'int f() { return 1; }'
expect 0 'no globals' "$folder/built"
for path in engines/cudnn engines/cuda/layout device/cuda engines/cost select/tunedb capi ops network network/graph/zoo io report cli; do
  library $path "$global"
  expect 1 "a global in $path" "$folder/built"
  rm -r "$folder/built/src/$path"
done
library network '#include <iostream>'
expect 0 'the standard streams' "$folder/built"
library network '#include <iostream>
#include <string>
std::string text = std::string(100, *"x");'
expect 1 'a global beside the standard streams' "$folder/built"
library network '#include <map>
int f(int i) { static const std::map<int, int> all = {{1, 2}}; return all.at(i); }'
expect 1 'a static of a function' "$folder/built"
library network '#include <map>
int f(int i) { static const auto& all = *new std::map<int, int>{{1, 2}}; return all.at(i); }'
expect 0 'a static that is never destroyed' "$folder/built"
echo "check-exit finds what it should"
