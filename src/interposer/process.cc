#include "interposer/process.h"

#include <dlfcn.h>

#include <cstdio>

namespace convoy::interposer {
namespace {

using Current = int (*)(int*);
using Name = int (*)(char*, int, int);

// Of the driver that the program has loaded; null: it has loaded none.
template <class Function>
Function driver(const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

std::string program() {
  std::string text;
  if (std::FILE* file = std::fopen("/proc/self/cmdline", "rb")) {
    for (int c = std::fgetc(file); c != EOF && text.size() < 1000; c = std::fgetc(file)) text += c == 0 ? ' ' : char(c);
    std::fclose(file);
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

int current_device() {
  static const auto current = driver<Current>("cuCtxGetDevice");
  int device = 0;
  return current != nullptr && current(&device) == 0 ? device : -1;
}

std::string device_name() {
  static const auto name = driver<Name>("cuDeviceGetName");
  const int device = current_device();
  char text[256] = {};
  if (device < 0 || name == nullptr || name(text, sizeof text, device) != 0) return {};
  return text;
}

}  // namespace convoy::interposer
