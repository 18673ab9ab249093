#!/bin/sh
# scripts/check-exit finds a global in any library of the convolution path, and does not pass where it checked nothing.
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
  echo "$2" | "$compiler" -x c++ -c -o "$folder/object.o" -
  ar rc "$folder/built/src/$1/libconvoy_some.a" "$folder/object.o"
}
global='struct Global { Global(); ~Global(); }; Global global;'

expect 2 'no such folder' "$folder/none"
mkdir -p "$folder/built/src"
expect 1 'nothing built' "$folder/built"
library core 'int f() { return 1; }'
expect 0 'no globals' "$folder/built"
library ops "$global"
expect 0 'a global in what runs networks' "$folder/built"
for path in engines/cudnn engines/cuda/layout device/cuda engines/cost select/tunedb capi; do
  library $path "$global"
  expect 1 "a global in $path" "$folder/built"
  rm -r "$folder/built/src/$path"
done
echo "check-exit finds what it should"
