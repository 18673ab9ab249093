#include "interposer/seen.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>

#include "base/environment.h"
#include "interposer/process.h"
#include "interposer/real.h"

namespace convoy::interposer {
namespace {

std::atomic<pid_t> called_in{0};  // a child of fork() has another

void leave(const std::string& line) {
  const auto folder = environment(Variable::seen);
  if (!folder) return;
  // (A process may have been another program before.)
  std::FILE* out = std::fopen(fmt::format("{}/{}", *folder, getpid()).c_str(), "ab");
  if (out == nullptr) return;  // `convoy exec` has ended before its program's children
  std::fwrite(line.data(), 1, line.size(), out);
  std::fclose(out);
}

}  // namespace

void leave_called(int version) {
  called_in = getpid();
  leave(fmt::format("called\t{}\n", version));
}

void leave_torch() {
  if (environment(Variable::python_hook) && dlopen("libtorch_python.so", RTLD_LAZY | RTLD_NOLOAD) != nullptr) {
    leave(fmt::format("torch\t{}\n", program()));
  }
}

void leave_loaded() {
  if (called_in == getpid()) return;
  if (const std::string file = loaded_file(); !file.empty()) leave(fmt::format("loaded\t{}\t{}\n", file, program()));
}

}  // namespace convoy::interposer
