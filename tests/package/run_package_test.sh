#!/bin/sh
# Installs the build folder $1 and uses what was installed, moved elsewhere first, as people do: the command and its
# problem lists, find_package from C++, pkg-config from C, the installed examples.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run() { "$@" >"$work/log" 2>&1 || { echo "FAILED: $*"; cat "$work/log"; exit 1; }; }
fail() { echo "FAILED: $*"; cat "$work/log"; exit 1; }
run cmake --install "$1" --prefix "$work/installed"
mv "$work/installed" "$work/moved"
prefix=$work/moved
cd "$work"

# Nothing but public names is exported, and nothing names the folder it was built in.
run python3 "$here/exports.py" "$prefix/lib/libconvoy.so" "$prefix/include"
cat "$work/log"
grep -rIl "$work/installed\|$(cd "$1" && pwd)" "$prefix" >"$work/log" && fail "a build folder's name was installed"

# The command, from any folder, without what it was built with.
"$prefix/bin/convoy" --version
run "$prefix/bin/convoy" list problems
grep -q 'problems/resnet50.txt' "$work/log" || fail "the installed problem lists are not listed"
run "$prefix/bin/convoy" explain problems/resnet50.txt --engines reference
run "$prefix/bin/convoy" doctor
grep -q "$prefix/share/convoy" "$work/log" || fail "doctor does not say where the files are"
for file in README.md LICENSE docs/design.md examples/network.cc; do
  [ -s "$prefix/share/convoy/$file" ] || fail "share/convoy/$file is not installed"
done

# C++ by find_package.
run cmake -S "$here" -B "$work/cpp" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix"
run cmake --build "$work/cpp"
run "$work/cpp/uses_convoy"
# A wrong version must not be found.
sed 's/convoy 0.1 /convoy 99.0 /' "$here/CMakeLists.txt" >"$work/CMakeLists.txt"
cp "$here/uses_convoy.cc" "$work"
cmake -S "$work" -B "$work/refused" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 && fail "convoy 99.0 was found"
grep -q "considered but not accepted" "$work/log" || fail "convoy 99.0 failed for another reason"
# Before 1.0 a minor version is another library, for CMake and for the loader.
version=$("$prefix/bin/convoy" --version | cut -d' ' -f2)
minor=${version%.*}
readelf -d "$work/cpp/uses_convoy" | grep -q "NEEDED.*\[libconvoy\.so\.$minor\]" || fail "the library's name is not libconvoy.so.$minor"
cp -r "$prefix/lib/cmake/convoy" "$work/newer"
sed -i "s/$version/0.9.0/g" "$work/newer/convoy-config-version.cmake"
cmake -S "$here" -B "$work/refused-newer" -Dconvoy_DIR="$work/newer" >"$work/log" 2>&1 && fail "convoy 0.9.0 was taken for 0.1"
grep -q "0.9.0" "$work/log" || fail "convoy 0.9.0 failed for another reason"

# C by pkg-config.
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
[ "$(pkg-config --modversion convoy)" = "$version" ] || fail "the version of convoy.pc"
for example in c_interface c_network; do
  # shellcheck disable=SC2046
  run ${CC:-cc} -std=c11 -Wall -Wextra -Werror "$prefix/share/convoy/examples/$example.c" -o "$work/$example" \
    $(pkg-config --cflags --libs convoy) -Wl,-rpath,"$(pkg-config --variable=libdir convoy)" -lm
  run "$work/$example"
done

# The installed examples are a project of their own.
cuda=$(sed -n 's/^CUDA_INCLUDE:[A-Z]*=//p' "$1/CMakeCache.txt")
run cmake -S "$prefix/share/convoy/examples" -B "$work/examples" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS=-O0 -DCMAKE_PREFIX_PATH="$prefix" \
  -DCUDNN_INCLUDE="$cuda" -DCUDA_INCLUDE="$cuda"
run cmake --build "$work/examples"
[ -x "$work/examples/example_cudnn_backend" ] || fail "the installed cudnn_backend.cpp was not built"
run ctest --test-dir "$work/examples" --output-on-failure
grep '% tests passed' "$work/log"
