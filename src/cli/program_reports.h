// Reports of recorded programs, as `convoy report` and `convoy exec --report` make them: from a record or, while the
// program runs, from what its processes have written so far.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/layouts.h"

namespace convoy::cli {

// What the processes of a running program have written of the record `file`: FILE.PID each.
std::vector<std::string> record_parts(const std::string& file);

struct RecordText {
  std::string text;
  bool unfinished = false;  // it is of parts
};
// Of the parts where there are some, since a program writes them now, else of the file.
Result<RecordText> read_record(const std::string& file);

struct ProgramReports {
  report::ProgramReport report;
  report::LayoutComparison layouts;
  std::vector<std::string> former_names;  // of the record's candidates (report/record.h)
};
// With the times of the tuning database; without one, or with one that can't be read, the report says so.
Result<ProgramReports> report_on(const RecordText& record, const std::string& file,
                                 std::optional<double> copy_bandwidth = std::nullopt);

}  // namespace convoy::cli
