// What libconvoy-engines.so exports: engines that a program's cuDNN does not have, for one execution at a time. The
// interposer opens it where a choice file names such an engine; plain C types, for each library has its own C++
// runtime.
#pragma once

#include <cstddef>

namespace convoy::interposer {

// Device pointers, and the stream that everything is enqueued on. The tensor that the pass computes is `out`.
struct EngineArguments {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* y = nullptr;
  void* out = nullptr;
  const void* bias = nullptr;
  const void* z = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  void* stream = nullptr;
};

struct EngineLibrary {
  // A candidate made ready for a problem on the calling thread's current device: compiled and loaded. It stays until
  // the process ends, for captured graphs name its code. Null: `error` says why. `target_sms` 0: all.
  const void* (*prepare)(const char* problem, const char* candidate, int target_sms, char* error, std::size_t size);
  const char* (*notes)(const void* plan);  // with a space after each: "TENSOR_CORE RUNTIME_COMPILATION "
  std::size_t (*workspace_bytes)(const void* plan);
  // Only enqueues. False: `error` says why; nothing was enqueued, or it does not matter.
  bool (*execute)(const void* plan, const EngineArguments* arguments, char* error, std::size_t size);
};

inline constexpr const char* kEngineLibrary = "libconvoy-engines.so";
inline constexpr const char* kEngineLibraryEntry = "convoy_engine_library";
using EngineLibraryEntry = const EngineLibrary* (*)();

}  // namespace convoy::interposer
