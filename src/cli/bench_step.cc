#include "cli/bench_step.h"

#include <fmt/format.h>

#include "cli/tuning.h"
#include "network/cost/measure_step.h"
#include "report/format.h"
#include "report/listing.h"
#include "report/table.h"

namespace convoy::cli {

Result<int> bench_step(const Program& program, const std::string& text) {
  CONVOY_TRY(const PlanRequest request, program.plan_request());
  CONVOY_TRY(SelectionOptions options, program.selection(network::StepMeasuring{}.budget_seconds));
  CONVOY_TRY(const network::StepProblem problem, network::parse_step(text));
  CONVOY_TRY(
      const network::StepMeasurement measured,
      network::measure_step(problem, request,
                            {.caches = options.caches, .budget_seconds = options.budget_seconds, .beside_copy = true}));
  const Measurement& m = measured.measurement;
  const auto database = attach_database(program, options);
  if (options.store != nullptr && (m.failure || m.samples > 0)) {
    CONVOY_CHECK(options.store->store(measurement_key(problem, request, options.caches), m));
  }
  if (m.failure) return *m.failure;
  if (m.samples == 0) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--budget {}: too little for a sample", options.budget_seconds)};
  }
  const double moved = bytes_moved(problem), copy = measured.copy_seconds;
  const double predicted = predict_seconds(problem, request);
  program.say(fmt::format("{} on {}, {} caches", print(problem), place_of(request), name_of(options.caches)));
  using report::Align;
  report::Table table;
  table.column("").column("time", Align::right).column("spread", Align::right).column("GB/s", Align::right);
  table.column("of a copy", Align::right);
  table.row({measured.runs_on, report::seconds(m.median_seconds), report::spread_of(m),
             report::rate(moved / m.median_seconds), report::percent(copy / m.median_seconds)});
  table.row({"copy of as many bytes", report::seconds(copy), "", report::rate(moved / copy), ""});
  table.row({"predicted", report::seconds(predicted), "", report::rate(moved / predicted), ""});
  program.say(table, 2);
  program.document({{"target", print(problem)},
                    {"threads", request.threads},
                    {"caches", name_of(options.caches)},
                    {"runs_on", measured.runs_on},
                    {"samples", m.samples},
                    {"seconds", m.median_seconds},
                    {"spread", m.spread},
                    {"error", m.max_error},
                    {"bytes", moved},
                    {"bytes_per_second", moved / m.median_seconds},
                    {"copy_seconds", copy},
                    {"share_of_copy", copy / m.median_seconds},
                    {"predicted_seconds", predicted}});
  return kDone;
}

}  // namespace convoy::cli
