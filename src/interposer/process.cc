#include "interposer/process.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <mutex>

#include "base/shared_library.h"

namespace convoy::interposer {
namespace {

using Current = int (*)(int*);
using Name = int (*)(char*, int, int);

// Held while the loader is asked: a child of fork() that is made meanwhile would find the loader's tables half written.
std::mutex& loading() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

// Of the driver that the program has loaded; null: it has loaded none so far.
template <class Function>
Function driver(const char* name, std::atomic<Function>& found) {
  if (const Function known = found.load(std::memory_order_relaxed)) return known;
  const std::lock_guard lock(loading());
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  found = reinterpret_cast<Function>(symbol_of(library, name));
  return found;
}

}  // namespace

void lock_loading() { loading().lock(); }

void unlock_loading() { loading().unlock(); }

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
  static std::atomic<Current> found{nullptr};
  const Current current = driver("cuCtxGetDevice", found);
  int device = 0;
  return current != nullptr && current(&device) == 0 ? device : -1;
}

std::string device_name() {
  static std::atomic<Name> found{nullptr};
  const Name name = driver("cuDeviceGetName", found);
  const int device = current_device();
  char text[256] = {};
  if (device < 0 || name == nullptr || name(text, sizeof text, device) != 0) return {};
  return text;
}

}  // namespace convoy::interposer
