// An exported database: whatever is read can be merged, is then there, and exports to text that reads as the same.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "convoy/tuning_database.h"
#include "fuzz/fuzz.h"

namespace {

// A folder of its own for each input, so that a finding repeats.
struct Folder {
  Folder() : path(std::filesystem::temp_directory_path() / ("convoy-fuzz-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

void convoy::fuzz::db_import(Bytes bytes) {
  const auto records = parse_lines({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "fuzz");
  if (!records.ok()) return;
  const std::string text = export_lines(*records);
  const auto again = parse_lines(text, "fuzz");
  require(again.ok() && export_lines(*again) == text);
  if (records->empty()) return;

  const Folder folder;
  const auto database = TuningDatabase::open(folder.path / "tuning.db", TuningDatabase::Access::write);
  require(database.ok());
  const auto merged = (*database)->merge(*records);
  require(merged.ok() && merged->added + merged->replaced + merged->kept == static_cast<std::int64_t>(records->size()));
  const auto stored = (*database)->records();
  require(stored.ok() && static_cast<std::int64_t>(stored->size()) == merged->added);
  const auto repeated = (*database)->merge(*stored);
  require(repeated.ok() && repeated->added == 0 && repeated->replaced == 0);
  for (const TuningRecord& record : *records) {
    const auto found = (*database)->find(record.key);
    // What an older rule found wrong is kept and does not count.
    require(found.ok() && (!found->empty() || is_outdated_verdict(record)));
  }
  require((*database)->check().ok());
}
