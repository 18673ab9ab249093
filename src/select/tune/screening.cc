#include "select/tune/screening.h"

#include <algorithm>
#include <limits>

#include "base/clock.h"
#include "select/choose/candidates.h"
#include "select/choose/filter.h"
#include "select/choose/remembered.h"
#include "select/evidence.h"
#include "select/measure/problem_data.h"
#include "select/measure/workbench.h"

namespace convoy::selection {
namespace {

constexpr double kLikely = 2;          // times the best prediction: an engine that may be the fastest
constexpr double kLikelyKnobs = 1.25;  // the same for knob values other than the default
constexpr std::size_t kMost = 16;      // candidates
constexpr int kAgain = 2;              // so many more times for short ones: the least counts
constexpr int kMostAgain = 10;         // where all of them seem disturbed; then the candidate takes that long
constexpr double kShortSeconds = 5e-3;
constexpr double kSecondsPerPackedByte = 4e-9;

struct Candidacy {
  Candidate candidate;
  const Engine* engine;
  double predicted;
};

// The heuristic's choice first, then best predicted first.
Result<std::vector<Candidacy>> list(const ConvProblem& problem, std::span<const Engine* const> engines,
                                    const SelectionOptions& options, const PlanRequest& request) {
  std::vector<Candidacy> listed;
  for (const Candidate& candidate : rank_by_heuristic(problem, engines, options.filter, request)) {
    CONVOY_TRY(const Engine* engine, runnable_engine(problem, candidate, engines, request));
    const double seconds = engine->predict_seconds(problem, candidate.knobs, request);
    const double best = listed.empty() ? seconds : listed.front().predicted;
    if (!options.all_knobs && seconds > kLikely * best) continue;
    listed.push_back({candidate, engine, seconds});
    for (const Candidate& other : all_configurations(*engine, problem, request)) {
      const double own = engine->predict_seconds(problem, other.knobs, request);
      if (other == candidate || (!options.all_knobs && own > kLikelyKnobs * best)) continue;
      if (!filtered(problem, *engine, other.knobs, options.filter, request)) listed.push_back({other, engine, own});
    }
  }
  if (listed.empty()) return listed;
  std::stable_sort(listed.begin() + 1, listed.end(),
                   [](const Candidacy& a, const Candidacy& b) { return a.predicted < b.predicted; });
  if (!options.all_knobs) listed.resize(std::min(listed.size(), kMost));
  return listed;
}

class Screener {
 public:
  Screener(const ConvProblem& problem, std::span<const Engine* const> engines, const SelectionOptions& options,
           const PlanRequest& request, const SelectionProgress& progress)
      : problem_(problem),
        engines_(engines),
        options_(options),
        request_(request),
        progress_(progress),
        key_(measurement_key(problem, request, options.caches)),
        start_(monotonic_seconds()) {}

  Result<Screening> run() {
    CONVOY_TRY(const std::vector<Candidacy> listed, list(problem_, engines_, options_, request_));
    CONVOY_TRY(std::vector<Measurement> known, options_.store->find(key_));
    std::vector<Candidacy> open;
    for (const Candidacy& each : listed) {
      const auto found = std::find_if(known.begin(), known.end(), [&](const Measurement& m) {
        return m.candidate == each.candidate && is_current(m, engines_);
      });
      const bool kAgain = found != known.end() && found->state == MeasurementState::partial && !found->failure &&
                          seems_disturbed(*found, each);
      if (found == known.end() || kAgain) {
        open.push_back(each);
      } else {
        note(*found);
      }
    }
    if (!open.empty()) CONVOY_CHECK(measure(open));
    arrange(listed);
    return std::move(result_);
  }

 private:
  double left() const {
    if (stopped_ || (options_.stop != nullptr && *options_.stop)) return 0;
    return options_.budget_seconds != 0 ? options_.budget_seconds - (monotonic_seconds() - start_)
                                        : std::numeric_limits<double>::infinity();
  }

  bool first_answer_by(double seconds) const {
    const bool stopped = stopped_ || (options_.stop != nullptr && *options_.stop);
    return !stopped && options_.budget_seconds > 0 && result_.right.empty() && left() + kOvertimeSeconds >= seconds;
  }

  void note(const Measurement& m) {
    if (m.failure) {
      result_.wrong.push_back(m);
    } else if (may_be_chosen(problem_, m, engines_, options_.filter, request_)) {
      result_.right.push_back(m);
    }
  }

  Result<void> measure(const std::vector<Candidacy>& open) {
    const std::int64_t terms = oracle_terms(options_, request_.threads);
    result_.partial = true;
    const double setup = Workbench::setup_seconds(problem_, request_, terms);
    if (setup > left() && !first_answer_by(setup)) return {};
    PlanRequest request = request_;
    HostTensor weights;
    if (request_.constant_weights != nullptr) {
      CONVOY_TRY(weights, random_weights(problem_, 0));
      request.constant_weights = weights.data.get();
    }
    CONVOY_TRY(Workbench bench, Workbench::make(problem_, engines_, request, options_.caches, terms));
    const double packing = static_cast<double>(problem_.w.bytes()) * kSecondsPerPackedByte;
    bool all = true;
    for (const Candidacy& each : open) {
      const double takes = 2 * each.predicted + packing;
      if ((left() <= 0 || left() < takes) && !first_answer_by(takes)) {
        all = false;  // and on: one behind it may be quicker
        continue;
      }
      Runner runner = bench.plan(each.candidate);
      if (runner.plan != nullptr &&
          filtered(problem_, *each.engine, each.candidate.knobs, options_.filter, request_, runner.plan.get())) {
        continue;
      }
      bench.screen(runner);
      time_again(bench, runner, each);
      ++result_.measured;
      CONVOY_CHECK(options_.store->store(key_, runner.measurement));
      note(runner.measurement);
      if (progress_ && !progress_(runner.measurement, result_.measured, static_cast<int>(open.size()))) stopped_ = true;
    }
    result_.partial = !all;
    return {};
  }

  bool seems_disturbed(const Measurement& m, const Candidacy& of) const {
    return selection::seems_disturbed(m, of.predicted, request_.kind());
  }

  void time_again(Workbench& bench, Runner& runner, const Candidacy& of) const {
    Measurement& m = runner.measurement;
    int i = 0;
    for (; i < kMostAgain && runner.plan != nullptr; ++i) {
      const bool rough = i < kAgain && m.median_seconds < kShortSeconds;
      if (!rough && (left() <= 0 || !seems_disturbed(m, of))) break;
      bench.time_again(runner);
    }
    if (i == kMostAgain && seems_disturbed(m, of)) m.samples = kMostAgain;
  }

  void arrange(const std::vector<Candidacy>& listed) {
    sort_measurements(result_.right);
    for (const Candidacy& each : listed) {
      const auto found = std::find_if(result_.right.begin(), result_.right.end(),
                                      [&](const Measurement& m) { return m.candidate == each.candidate; });
      if (found == result_.right.end()) continue;
      std::rotate(result_.right.begin(), found, found + 1);
      return;
    }
  }

  const ConvProblem& problem_;
  std::span<const Engine* const> engines_;
  const SelectionOptions& options_;
  const PlanRequest& request_;
  const SelectionProgress& progress_;
  const MeasurementKey key_;
  const double start_;
  bool stopped_ = false;
  Screening result_;
};

}  // namespace

Result<Screening> screen(const ConvProblem& problem, std::span<const Engine* const> engines,
                         const SelectionOptions& options, const PlanRequest& request,
                         const SelectionProgress& progress) {
  return Screener(problem, engines, options, request, progress).run();
}

}  // namespace convoy::selection
