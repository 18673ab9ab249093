// What the tuning database knows of a program's convolutions: for each, the times of its candidates that may be
// compared with each other.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/tuning_database.h"

namespace convoy::report {

// The candidate as it is written today, without the knobs that are left to cuDNN (-1), which the database has without
// them. What can't be read stays as it is.
std::string canonical(std::string_view candidate);

// "NVIDIA H200" of "cuda NVIDIA H200 sms=132 l2=60M mem=139G"; empty where the class is no GPU's.
std::string gpu_of_class(std::string_view device_class);

struct KnownTime {
  std::string candidate;  // canonical
  double seconds = 0;
  double spread = 0;
  MeasurementState state = MeasurementState::partial;
  std::size_t workspace_bytes = 0;
  std::optional<double> joules;
  std::string failure;  // it could not be planned or run, or was wrong: there is no time
};

// Measured alike, so that the times may be compared.
struct KnownProblem {
  CacheState caches = CacheState::cold;
  std::vector<KnownTime> times;  // fastest first, failures last; each candidate once
};

class KnownTimes {
 public:
  KnownTimes() = default;
  // Of GPUs, by the version of cuDNN that ran ("9.19.0") where an engine is cuDNN's. Outdated verdicts and measurements
  // with some SMs left free are not taken.
  KnownTimes(std::span<const TuningRecord> records, std::string_view cudnn);

  // Rows of any math mode, and of alignments that the problem's are at least as high as. Of several ways of measuring
  // the one that knows `wanted` (a candidate; empty: none) and the most candidates is taken, then cold caches before
  // others. Null: nothing is known.
  std::optional<KnownProblem> find(const std::string& device, const ConvProblem& problem,
                                   std::string_view wanted) const;
  bool empty() const { return rows_.empty(); }

 private:
  struct Row {
    ConvProblem problem;   // with its alignments
    std::string measured;  // what must be the same in rows that are compared: caches, driver
    CacheState caches;
    KnownTime time;
  };
  std::multimap<std::string, Row> rows_;  // by device and problem, without alignments and math
};

}  // namespace convoy::report
