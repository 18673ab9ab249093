// Parts of convoy db that have a file of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cli/tuning.h"

namespace convoy::cli {

// The records whose problem string and engine match the glob lists.
struct RecordFilter {
  std::string problems = "*";
  std::string engines = "*";
};
bool matches(const TuningRecord& record, const RecordFilter& filter);
// Those of the records that match. The error: none does, since an entry of filter.engines is the name of no engine,
// here or among the records.
Result<std::vector<TuningRecord>> matching(std::vector<TuningRecord> records, const RecordFilter& filter);
// Whether filter.engines names engines of this build.
Result<void> check_matching(const RecordFilter& filter);

struct VerifyFlags {
  RecordFilter filter;
  int sample = 20;
  std::uint64_t seed = 1;
  double budget = 60;
  bool update = false;
};
// Measures and checks a sample of what --device measured once more.
Result<int> verify_database(const Program& program, const VerifyFlags& flags);

struct ForgetFlags {
  RecordFilter filter;
  bool dry_run = false;
  bool yes = false;
};
Result<int> forget_records(const Program& program, const ForgetFlags& flags);
Result<int> clear_records(const Program& program, const ForgetFlags& flags);

// The files of plans that convoy tune kept beside the database.
std::vector<std::filesystem::path> kept_plan_files();

// How many of the records speak for this machine and build, on its processor or a GPU of it, and of what the others
// are.
struct Applicable {
  std::int64_t count = 0;
  std::map<std::string, std::int64_t> others;  // "another device: cpu Intel .."
};
Applicable applicable(std::span<const TuningRecord> records);

// "3 of another device, 2 of an outdated engine or library".
std::string listed(const std::map<std::string, std::int64_t>& counts);

}  // namespace convoy::cli
