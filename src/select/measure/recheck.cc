#include "select/measure/recheck.h"

#include <fmt/format.h>

#include <algorithm>

#include "convoy/host_tensor.h"
#include "core/text.h"
#include "select/measure/problem_data.h"
#include "select/measure/step_measurement.h"

namespace convoy::selection {
namespace {

// One candidate of an engine, as if it were all the engine had.
class OneCandidate final : public Engine {
 public:
  OneCandidate(const Engine& engine, const Candidate& candidate, std::span<const Engine* const> engines)
      : engine_(engine), candidate_(candidate), engines_(engines) {
    info_ = engine.info();
    info_.oracle = false;
  }
  const EngineInfo& info() const override { return info_; }
  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& request) const override {
    return engine_.check(problem, request);
  }
  Configurations configurations(const ConvProblem&, const PlanRequest&) const override {
    Configurations only;
    for (const KnobValue& value : candidate_.knobs) only.knobs.push_back({value.name, {value.value}, ""});
    return only;
  }
  std::vector<std::string> notes(const ConvProblem& problem, const KnobValues& knobs,
                                 const PlanRequest& request) const override {
    return engine_.notes(problem, knobs, request);
  }
  double predict_seconds(const ConvProblem& problem, const KnobValues& knobs,
                         const PlanRequest& request) const override {
    return engine_.predict_seconds(problem, knobs, request);
  }
  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& knobs,
                                         const PlanRequest& request) const override {
    return make_plan(problem, {candidate_.engine, knobs}, engines_, request);
  }

 private:
  const Engine& engine_;
  const Candidate& candidate_;
  std::span<const Engine* const> engines_;
  EngineInfo info_;
};

// The request that the key's measurement was made for, as far as this machine goes.
PlanRequest request_of(const MeasurementKey& key, PlanRequest request) {
  request.threads = key.threads;
  request.target_sms = 0;
  constexpr std::string_view carveout = "target_sms=";
  for (const std::string_view word : split(key.isa, ' ')) {
    if (!word.starts_with(carveout)) continue;
    if (const auto sms = parse_integer(word.substr(carveout.size())); sms.ok() && request.cuda) {
      request.target_sms = static_cast<int>(std::clamp<std::int64_t>(*sms, 0, request.cuda->sm_count));
    }
  }
  return request;
}

}  // namespace

std::optional<std::string> inapplicable(const MeasurementKey& key, const Measurement& measurement,
                                        const PlanRequest& request, std::span<const Engine* const> engines) {
  if (is_step_problem(key.problem)) return "an operator or conversion, which convoy plan --budget measures";
  const auto problem = parse_problem(key.problem);
  if (!problem.ok() || print(*problem) != key.problem) return "a problem that this build writes otherwise";
  const MeasurementKey here = measurement_key(*problem, request_of(key, request), key.caches);
  if (here.device != key.device) return std::string(kAnotherDevice);
  if (here.isa != key.isa) return "other instruction sets or variables";
  if (here.driver != key.driver) return "another driver";
  if (request.kind() == DeviceKind::cpu && key.threads > request.cpu.logical_cpus)
    return "more threads than processors";
  if (!is_current(measurement, engines)) return "an outdated engine or library";
  return std::nullopt;
}

Result<Measurement> measure_again(const MeasurementKey& key, const Candidate& candidate, const PlanRequest& base,
                                  std::span<const Engine* const> engines, double budget_seconds) {
  CONVOY_TRY(const ConvProblem problem, parse_problem(key.problem));
  PlanRequest request = request_of(key, base);
  HostTensor weights;
  if (key.constant_weights) {
    CONVOY_TRY(weights, random_weights(problem, 0));
    request.constant_weights = weights.data.get();
  }
  const auto engine = std::find_if(engines.begin(), engines.end(),
                                   [&](const Engine* each) { return each->info().name == candidate.engine; });
  if (engine == engines.end()) return Error{ErrorCode::not_found, candidate.engine + ": there is no such engine"};
  const OneCandidate one(**engine, candidate, engines);
  const std::vector<const Engine*> only = {&one};
  SelectionOptions options;
  options.mode = SelectionMode::measured;
  options.budget_seconds = budget_seconds;
  options.caches = key.caches == CacheState::network ? CacheState::cold : key.caches;
  std::optional<Measurement> last;
  const auto selection = select(problem, only, options, request, {}, [&](const Measurement& m, int, int) {
    last = m;
    return true;
  });
  if (last) return *last;
  if (!selection.ok()) return selection.error();
  return Error{ErrorCode::internal, "nothing was measured"};
}

}  // namespace convoy::selection
