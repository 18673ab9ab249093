// convoy db verify: does what was stored still hold?
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/clock.h"
#include "cli/db.h"
#include "report/format.h"
#include "report/progress.h"
#include "report/table.h"

namespace convoy::cli {
namespace {

// Another time of day, another neighbour in the caches: within this factor a time has not changed.
constexpr double kSameFactor = 1.5;

// One candidate of an engine, as if it were all the engine had.
class OneCandidate final : public Engine {
 public:
  OneCandidate(const Engine& engine, const Candidate& candidate) : engine_(engine), candidate_(candidate) {
    info_ = engine.info();
    info_.oracle = false;
  }
  const EngineInfo& info() const override { return info_; }
  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& request) const override {
    return engine_.check(problem, request);
  }
  std::vector<Knob> knobs(const ConvProblem&, const PlanRequest&) const override {
    std::vector<Knob> knobs;
    for (const KnobValue& value : candidate_.knobs) knobs.push_back({value.name, {value.value}, ""});
    return knobs;
  }
  double predict_seconds(const ConvProblem& problem, const KnobValues& knobs,
                         const PlanRequest& request) const override {
    return engine_.predict_seconds(problem, knobs, request);
  }
  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& knobs,
                                         const PlanRequest& request) const override {
    return make_plan(problem, {candidate_.engine, knobs}, all_engines(), request);
  }

 private:
  const Engine& engine_;
  Candidate candidate_;
  EngineInfo info_;
};

const Engine* find_engine(const std::string& name) {
  for (const Engine* engine : all_engines()) {
    if (engine->info().name == name) return engine;
  }
  return nullptr;
}

// What this process can measure again: not in a network, its device, instruction sets and engines, a time that could be
// chosen.
bool can_repeat(const TuningRecord& record, const PlanRequest& request) {
  auto problem = parse_problem(record.key.problem);
  if (!problem.ok() || record.key.caches == CacheState::network) return false;
  PlanRequest same = request;
  same.threads = record.key.threads;
  MeasurementKey here = measurement_key(*problem, same, record.key.caches);
  here.constant_weights = record.key.constant_weights;
  return here == record.key && record.key.threads <= request.cpu.logical_cpus && !record.measurement.failure &&
         record.measurement.state == MeasurementState::complete && is_current(record.measurement, all_engines());
}

Result<Measurement> measure_again(const TuningRecord& record, const PlanRequest& base, double budget) {
  CONVOY_TRY(const ConvProblem problem, parse_problem(record.key.problem));
  PlanRequest request = base;
  request.threads = record.key.threads;
  WeightedRequest weighted{request, {}};
  if (record.key.constant_weights) {
    CONVOY_TRY(weighted, with_constant_weights(problem, request));
  }
  const OneCandidate one(*find_engine(record.measurement.candidate.engine), record.measurement.candidate);
  const std::vector<const Engine*> engines = {&one};
  SelectionOptions options;
  options.mode = SelectionMode::measured;
  options.budget_seconds = budget;
  options.caches = record.key.caches;
  std::optional<Measurement> last;
  const auto selection = select(problem, engines, options, weighted.request, {}, [&](const Measurement& m, int, int) {
    last = m;
    return true;
  });
  if (last) return *last;
  if (!selection.ok()) return selection.error();
  return Error{ErrorCode::internal, "nothing was measured"};
}

}  // namespace

Result<int> verify_database(const Program& program, const VerifyFlags& flags) {
  CONVOY_CHECK(open_database(TuningDatabase::Access::read));
  CONVOY_TRY(const auto database,
             open_database(flags.update ? TuningDatabase::Access::write : TuningDatabase::Access::read));
  CONVOY_CHECK(database->check());
  CONVOY_TRY(auto all, database->records());
  const std::size_t count = all.size();
  std::vector<TuningRecord> records = matching(std::move(all), flags.filter);
  CONVOY_TRY(const PlanRequest request, program.plan_request());
  std::erase_if(records, [&](const TuningRecord& record) { return !can_repeat(record, request); });
  const std::size_t eligible = records.size();
  std::mt19937_64 random(flags.seed);
  for (std::size_t i = records.size(); i > 1; --i) std::swap(records[i - 1], records[random() % i]);
  records.resize(std::min(records.size(), static_cast<std::size_t>(flags.sample)));

  report::Table table;
  using report::Align;
  table.column("candidate")
      .column("stored", Align::right)
      .column("now", Align::right)
      .column("error/tol", Align::right, 1);
  table.column("").column("problem");
  Json json = Json::array();
  int wrong = 0, changed = 0, done = 0;
  report::Progress bar("verifying");
  const double start = monotonic_seconds();
  for (const TuningRecord& record : records) {
    const double left = flags.budget - (monotonic_seconds() - start);
    if (left <= 0) break;
    bar.update(static_cast<double>(done) / static_cast<double>(records.size()), print(record.measurement.candidate));
    CONVOY_TRY(
        const Measurement now,
        measure_again(record, request, left / static_cast<double>(records.size() - static_cast<std::size_t>(done))));
    ++done;
    const double factor = now.failure ? 0 : now.median_seconds / record.measurement.median_seconds;
    const std::string verdict = now.failure                ? now.failure->message
                                : factor > kSameFactor     ? "slower"
                                : factor < 1 / kSameFactor ? "faster"
                                                           : "holds";
    wrong += now.failure.has_value();
    changed += !now.failure && verdict != "holds";
    table.row({print(record.measurement.candidate), report::seconds(record.measurement.median_seconds),
               now.failure ? "-" : report::seconds(now.median_seconds), report::number(now.max_error), verdict,
               record.key.problem},
              now.failure          ? report::Style::bad
              : verdict == "holds" ? report::Style::plain
                                   : report::Style::warning);
    Json entry = {{"problem", record.key.problem},
                  {"candidate", print(record.measurement.candidate)},
                  {"threads", record.key.threads},
                  {"stored_seconds", record.measurement.median_seconds},
                  {"error", report::number_or_null(now.max_error)},
                  {"verdict", verdict}};
    if (!now.failure) entry["seconds"] = now.median_seconds;
    json.push_back(std::move(entry));
    if (flags.update) CONVOY_CHECK(database->store(record.key, now));
  }
  bar.finish();
  if (!table.empty()) program.say(table);
  program.say(
      fmt::format("\nchecked {} of {} measurements that this machine and build can repeat ({} in all): {} hold, "
                  "{} changed, {} failed",
                  done, eligible, count, done - changed - wrong, changed, wrong));
  program.document({{"records", count},
                    {"repeatable", eligible},
                    {"checked", done},
                    {"changed", changed},
                    {"failed", wrong},
                    {"measurements", std::move(json)}});
  return wrong > 0 ? kWrongResult : kDone;
}

}  // namespace convoy::cli
