// The library itself in the C interface: its version, its errors, its log, the place of its database.
#include "capi/calls.h"
#include "convoy/log.h"
#include "convoy/tuning_database.h"
#include "convoy/version.h"

using namespace convoy;
using namespace convoy::capi;

static_assert(CONVOY_LOG_OFF == static_cast<int>(LogLevel::off) &&
              CONVOY_LOG_DEBUG == static_cast<int>(LogLevel::debug));

extern "C" {

const char* convoy_error(void) { return last_error(); }
const char* convoy_version_text(void) { return version(); }
int convoy_version_number(void) { return version_number(); }

const char* convoy_status_name(convoy_status status) {
#define CONVOY_NAME(name) \
  case name:              \
    return #name
  switch (number_of(status)) {
    CONVOY_NAME(CONVOY_OK);
    CONVOY_NAME(CONVOY_INVALID_ARGUMENT);
    CONVOY_NAME(CONVOY_NOT_FOUND);
    CONVOY_NAME(CONVOY_CORRUPT);
    CONVOY_NAME(CONVOY_UNSUPPORTED);
    CONVOY_NAME(CONVOY_OUT_OF_MEMORY);
    CONVOY_NAME(CONVOY_WRONG_RESULT);
    CONVOY_NAME(CONVOY_INTERNAL);
    CONVOY_NAME(CONVOY_DEVICE_FAILED);
  }
#undef CONVOY_NAME
  return "unknown";
}

convoy_status convoy_set_log(convoy_log_level level, convoy_log_callback callback, void* user) {
  return guarded([&]() -> Result<void> {
    const int given = number_of(level);
    if (given < CONVOY_LOG_OFF || given > CONVOY_LOG_DEBUG) {
      return invalid(fmt::format("level={} is not a convoy_log_level", given));
    }
    if (callback == nullptr) return set_log(LogLevel::off, {});
    return set_log(static_cast<LogLevel>(level), [callback, user](LogLevel of_event, std::string_view message) {
      callback(user, static_cast<convoy_log_level>(of_event), std::string(message).c_str());
    });
  });
}

const char* convoy_default_database(void) {
  thread_local std::string path;
  const convoy_status status = guarded([&]() -> Result<void> {
    CONVOY_TRY(path, TuningDatabase::default_path());
    return {};
  });
  return status == CONVOY_OK ? path.c_str() : nullptr;
}

}  // extern "C"
