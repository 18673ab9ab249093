// What the other headers here begin with: a compiler that was not asked for C++20 says so before all else.
#pragma once

#if __cplusplus <= 201703L
#error \
    "Convoy's C++ interface needs C++20: compile with -std=c++20 (CMake: target_compile_features(... cxx_std_20)), or use the C interface, <convoy.h>, which any C++ takes"
#endif
