// Parts of convoy db that have a file of their own.
#pragma once

#include <cstdint>
#include <string>

#include "cli/tuning.h"

namespace convoy::cli {

// The records whose problem string and engine match the glob lists.
struct RecordFilter {
  std::string problems = "*";
  std::string engines = "*";
};
std::vector<TuningRecord> matching(std::vector<TuningRecord> records, const RecordFilter& filter);

struct VerifyFlags {
  RecordFilter filter;
  int sample = 20;
  std::uint64_t seed = 1;
  double budget = 60;
  bool update = false;
};
// Measures and checks a sample of what this machine measured once more.
Result<int> verify_database(const Program& program, const VerifyFlags& flags);

}  // namespace convoy::cli
