// The tuning database in the C interface: in and out as text.
#include <string>
#include <string_view>
#include <vector>

#include "capi/calls.h"
#include "convoy/tuning_database.h"

using namespace convoy;
using namespace convoy::capi;

extern "C" {

convoy_status convoy_database_export(const char* path, convoy_text_callback callback, void* user) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(path, "path"));
    if (callback == nullptr) return invalid("callback is null");
    CONVOY_TRY(const auto database, TuningDatabase::open(path, TuningDatabase::Access::read));
    CONVOY_TRY(const std::vector<TuningRecord> records, database->records());
    const std::string lines = export_lines(records);
    callback(user, lines.c_str(), lines.size());
    return {};
  });
}

convoy_status convoy_database_import(const char* path, const char* text, size_t bytes, int64_t* taken) {
  return guarded([&]() -> Result<void> {
    if (taken != nullptr) *taken = 0;
    CONVOY_CHECK(present(path, "path"));
    CONVOY_CHECK(present(text, "text"));
    CONVOY_TRY(const std::vector<TuningRecord> records, parse_lines(std::string_view(text, bytes), "text"));
    CONVOY_TRY(const auto database, TuningDatabase::open(path, TuningDatabase::Access::write));
    CONVOY_TRY(const MergeReport report, database->merge(records));
    if (taken != nullptr) *taken = report.added + report.replaced;
    return {};
  });
}

}  // extern "C"
