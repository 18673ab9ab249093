// convoy tune RECORD: the convolutions that a program asked of cuDNN (convoy exec --record), measured offline.
#pragma once

#include <string>

#include "cli/tune_network.h"
#include "report/record.h"

namespace convoy::cli {

struct RecordTuning {
  std::string name;       // of the record
  std::string plan_file;  // -o; empty: none
  double start = 0;       // since when a budget counts
};

// The largest shares of the calls' time first, and of each what ran before what may be faster. With --budget so long in
// all, else about two seconds a problem. f32 is measured for strict and for tf32 math, since a program never tells:
// first what it is inferred to allow. `options` have the store, filters and stop.
Result<int> tune_record(const Program& program, const report::Record& record, const RecordTuning& tuning,
                        const SelectionOptions& options, const PlanRequest& request, WatchedStore& store,
                        const TuningDatabase& database);

}  // namespace convoy::cli
