// A tuning database of your own: what was measured once is not measured again, by this process or any other that opens
// the file; its text form is lines that can be read, diffed and merged.
//
//   example_own_database [FILE]     (a new file in the working directory without it, removed at the end)
#include <cstring>

#include "convoy/tuning_database.h"
#include "example.h"

using namespace convoy;
using namespace example;

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "example_own_database.db";
  if (argc == 1) std::remove(path);
  const ConvProblem problem = or_stop(parse_problem("fprop:x=f32,1x32x28x28,nhwc:w=f32,32x32x3x3:pad=1x1"));
  const PlanRequest request{.threads = 1};
  std::string lines;
  {
    const auto database = or_stop(TuningDatabase::open(path, TuningDatabase::Access::write));
    SelectionOptions options;
    options.mode = SelectionMode::measured;
    options.filter.engines = "cpu.*";
    options.store = database.get();  // anything that implements MeasurementStore does

    const Selection first = or_stop(select(problem, all_engines(), options, request));
    std::printf("first   %s (%s)\n", print(first.candidate).c_str(), first.reason().c_str());
    const Selection second = or_stop(select(problem, all_engines(), options, request));
    std::printf("second  %s (%s)\n", print(second.candidate).c_str(), second.reason().c_str());
    if (second.by != SelectedBy::stored || !(second.candidate == first.candidate)) stop("it was measured again");

    // Filters say what may win, never what is stored: what the database holds serves every filter.
    options.filter.engines = "cpu.direct";
    const Selection filtered = or_stop(select(problem, all_engines(), options, request));
    std::printf("of one  %s (%s)\n", print(filtered.candidate).c_str(), filtered.reason().c_str());
    if (filtered.by != SelectedBy::stored) stop("a filter made it measure again");
    lines = export_lines(or_stop(database->records()));
  }
  std::printf("%s", lines.c_str());
  if (argc == 1) std::remove(path);

  // The text, read back into another database, is the same text again.
  const char* copy_path = "example_own_database_copy.db";
  std::remove(copy_path);
  {
    const auto copy = or_stop(TuningDatabase::open(copy_path, TuningDatabase::Access::write));
    or_stop(copy->merge(or_stop(parse_lines(lines, "the export"))));
    if (export_lines(or_stop(copy->records())) != lines) stop("the copy differs");
  }
  std::remove(copy_path);
  return 0;
}
