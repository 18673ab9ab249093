// ONNX Runtime's interface as the rest of the provider calls it: Results in place of statuses.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "convoy.h"
#include "convoy/result.h"
#include "ort/interface.h"

namespace convoy::ort {

// Its status as a Result, which frees it.
Result<void> done(const Api& api, OrtStatus* status);
// The other way round. `kind`: of its error codes.
OrtStatus* status_of(const Api& api, const Error& error);

// A status of Convoy's C interface as a Result, with convoy_error().
Result<void> done(convoy_status status);

// Runs `body`, which returns Result<void>, for ONNX Runtime: nothing is thrown into it.
template <class Body>
OrtStatus* guarded(const Api& api, Body body) {
  try {
    const Result<void> ran = body();
    return ran.ok() ? nullptr : status_of(api, ran.error());
  } catch (const std::bad_alloc&) {
    return status_of(api, {ErrorCode::out_of_memory, "out of memory"});
  } catch (const std::exception& e) {
    return status_of(api, {ErrorCode::internal, e.what()});
  }
}

// What a list function gives that is asked for its length first.
template <class T, class Owner>
Result<std::vector<T>> list_of(const Api& api, OrtStatus* (*count)(const Owner*, std::size_t*),
                               OrtStatus* (*get)(const Owner*, T*, std::size_t), const Owner* owner) {
  std::size_t size = 0;
  CONVOY_CHECK(done(api, count(owner, &size)));
  std::vector<T> all(size);
  CONVOY_CHECK(done(api, get(owner, all.data(), size)));
  return all;
}

// A tensor's element type, as ONNX numbers it, and its sizes: -1 where one is free.
struct TensorInfo {
  int type = 0;
  std::vector<std::int64_t> dims;
};
Result<TensorInfo> info_of(const Api& api, const OrtTensorTypeAndShapeInfo* info);
Result<TensorInfo> info_of(const Api& api, const OrtValue* tensor);

// Its log, at the level that the provider's lines of this kind have.
class Logger {
 public:
  Logger(const Api& api, const OrtLogger* logger) : api_(&api), logger_(logger) {}
  void operator()(LogLevel level, const std::string& message) const;

 private:
  const Api* api_;
  const OrtLogger* logger_;
};

}  // namespace convoy::ort
