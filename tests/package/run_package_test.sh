#!/bin/sh
# Installs the build folder $1 and builds tests/package against what was installed, moved elsewhere first.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$1" --prefix "$work/installed" >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/installed" "$work/moved"
cmake -S "$here" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/moved" >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/build" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/build/uses_convoy" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/build/uses_convoy_c" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/moved/bin/convoy" --version
# A wrong version must not be found.
sed 's/convoy 0.1 /convoy 99.0 /' "$here/CMakeLists.txt" >"$work/CMakeLists.txt"
! cmake -S "$work" -B "$work/refused" -DCMAKE_PREFIX_PATH="$work/moved" >"$work/log" 2>&1 || { echo "convoy 99.0 was found"; exit 1; }
grep -q "considered but not accepted" "$work/log" || { cat "$work/log"; exit 1; }
