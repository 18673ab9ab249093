#include "capi/calls.h"

namespace convoy::capi {
namespace {

thread_local std::string last_message;

convoy_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return CONVOY_INVALID_ARGUMENT;
    case ErrorCode::not_found:
      return CONVOY_NOT_FOUND;
    case ErrorCode::corrupt:
      return CONVOY_CORRUPT;
    case ErrorCode::unsupported:
      return CONVOY_UNSUPPORTED;
    case ErrorCode::out_of_memory:
      return CONVOY_OUT_OF_MEMORY;
    case ErrorCode::wrong_result:
      return CONVOY_WRONG_RESULT;
    case ErrorCode::device_failed:
      return CONVOY_DEVICE_FAILED;
    case ErrorCode::internal:
      break;
  }
  return CONVOY_INTERNAL;
}

}  // namespace

convoy_status fail(const Error& error) {
  last_message = error.message;
  return status_of(error.code);
}

const char* last_error() { return last_message.c_str(); }

std::string lines(const std::vector<std::string>& texts) { return fmt::format("{}", fmt::join(texts, "\n")); }

Result<void> present(const void* pointer, const char* name) {
  if (pointer == nullptr) return invalid(fmt::format("{} is null", name));
  return {};
}

Result<void> in_range(std::size_t index, std::size_t count, const char* what) {
  if (index >= count) return invalid(fmt::format("index={} of {} {}", index, count, what));
  return {};
}

}  // namespace convoy::capi
