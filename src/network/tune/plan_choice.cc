#include "network/tune/plan_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/clock.h"
#include "convoy/network_plan.h"
#include "network/assign/kept_plan.h"
#include "network/tune/seen_in_runs.h"

namespace convoy::network {
namespace {

constexpr int kMostRounds = 24, kFewestRounds = 3;
constexpr int kTellingRounds = 6;  // of fewer no difference is beyond doubt
constexpr double kFarOff = 0.15;   // a prediction that is reported

// A race of plans, and what it says.
class Choosing {
 public:
  Choosing(const Network& network, std::span<const HostTensor> inputs, const NetworkOptions& options,
           const NetworkTuningProgress& progress, const Race& race)
      : network_(network),
        inputs_(inputs),
        options_(options),
        progress_(progress),
        run_race_(race),
        seen_(options.selection.store, all_engines()) {
    for (const HostTensor& input : inputs) descs_.push_back(input.desc);
  }

  Result<PlanChoice> run(std::span<const std::string> hows) {
    const double share = std::ranges::find(hows, "global") == hows.end() ? 1 : kOfFirstRace;
    for (const std::string& how : hows) {
      if (!goes_on(share)) {
        const std::string ended =
            fmt::format("the time ended after {} of {} plans were made", result_.plans.size(), hows.size());
        if (result_.plans.size() < 2) return Error{ErrorCode::unsupported, ended};
        result_.remarks.push_back(ended);
        break;
      }
      CONVOY_CHECK(make_or_remark(how, options_.parts.value_or(BatchParts{})));
    }
    for (const std::string how : {"greedy", "global"}) {  // in parts, where those are predicted to take less
      if (options_.parts || std::ranges::find(hows, how) == hows.end() || !goes_on(share)) continue;
      CONVOY_CHECK(make_or_remark(how, std::nullopt));
    }
    if (auto raced = race(all_plans(), share); !raced.ok()) {
      if (!drop_what_cannot_be_prepared()) return raced.error();
      CONVOY_CHECK(race(all_plans(), share));
    }
    if (result_.solvers) CONVOY_CHECK(ask_again());
    CONVOY_CHECK(keep());
    return std::move(result_);
  }

 private:
  // Of the time: the first race ends then, where the solver is asked again with what the runs have shown. Each time
  // has an equal part of the rest, half of it at most for measuring what hasn't run.
  static constexpr double kOfFirstRace = 0.5;
  static constexpr int kMostAgain = 4;
  static constexpr double kOutOfTheRunning = 4;  // times as long

  // The solver, until what it finds has run. What hasn't is taken to be as far off as all that the solver chose first:
  // among many costs it prefers those that came out too low. If that doesn't end, it has to do with what has run.
  Result<void> ask_again() {
    const TimedPlan& chosen = result_.plans[result_.solvers->plan];
    seen_.set_over_alone(std::max(1.0, chosen.undisturbed_seconds / result_.solvers->predicted_seconds));
    const double part = (1 - kOfFirstRace) / kMostAgain;
    for (int again = 1; again <= kMostAgain && goes_on(1 - part / 2); ++again) {
      if (again == kMostAgain || !goes_on(1 - part)) seen_.set_over_alone(kOutOfTheRunning);
      const auto answer = result_.solvers;
      const std::size_t before = result_.plans.size();
      const BatchParts parts = result_.plans[result_.fastest].plan.header.parts;
      CONVOY_CHECK(make("global", fmt::format("global, seen {}", again), &seen_, parts, part / 2 * budget()));
      if (result_.plans.size() == before) break;
      if (auto raced = race({result_.fastest, before}, kOfFirstRace + again * part); !raced.ok()) {
        if (raced.error().code != ErrorCode::unsupported) result_.remarks.push_back(raced.error().message);
        result_.plans.pop_back();  // the time ended, or it can't run: what was known stands
        variants_.pop_back();
        result_.solvers = answer;
        break;
      }
    }
    return {};
  }

  std::vector<std::size_t> all_plans() const {
    std::vector<std::size_t> all(result_.plans.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  // A plan that can't be made is a remark, but the first, which all others are compared with.
  Result<void> make_or_remark(const std::string& how, const std::optional<BatchParts>& parts) {
    auto made = make(how, how, options_.selection.store, parts);
    if (made.ok() || result_.plans.empty() || made.error().code == ErrorCode::invalid_argument) return made;
    result_.remarks.push_back(fmt::format("{}: {}", how, made.error().message));
    return {};
  }

  // Whether there was any, besides the first; each is a remark.
  bool drop_what_cannot_be_prepared() {
    bool dropped = false;
    for (std::size_t i = result_.plans.size(); i-- > 1;) {
      const auto session = network_.prepare(descs_, variants_[i].options);
      if (session.ok()) continue;
      dropped = true;
      result_.remarks.push_back(fmt::format("{}: {}", variants_[i].name, session.error().message));
      result_.plans.erase(result_.plans.begin() + static_cast<std::ptrdiff_t>(i));
      variants_.erase(variants_.begin() + static_cast<std::ptrdiff_t>(i));
      if (!result_.solvers) continue;
      if (result_.solvers->plan == i)
        result_.solvers.reset();
      else if (result_.solvers->plan > i)
        --result_.solvers->plan;
    }
    return dropped;
  }

  double budget() const { return options_.selection.budget_seconds; }
  double spent() const { return monotonic_seconds() - start_; }
  bool goes_on(double share) const {
    const bool stopped = options_.selection.stop != nullptr && *options_.selection.stop;
    return !stopped && (budget() <= 0 || spent() < share * budget());
  }

  // The plan that a way makes by these costs, unless there is the same already. The solver's is remembered.
  // With a budget what it goes by is measured first, so that it isn't chosen for being unknown.
  Result<void> make(const std::string& how, std::string name, MeasurementStore* costs,
                    const std::optional<BatchParts>& parts, std::optional<double> budget_seconds = {}) {
    NetworkOptions making = options_;
    making.how = how;
    making.parts = parts;
    making.plan.reset();
    making.kept_plans.clear();
    making.selection.mode = budget_seconds ? SelectionMode::measured : SelectionMode::heuristic;
    making.selection.budget_seconds = budget_seconds.value_or(0);
    making.selection.store = costs;
    CONVOY_TRY(NetworkPlan plan, network_.plan(descs_, making));
    const NetworkPlanCost cost = plan.cost();
    making.parts = plan.header.parts;
    if (*making.parts != BatchParts{}) name += fmt::format(", parts {}", print(*making.parts));
    const auto same = [&](const TimedPlan& other) { return same_choices(other.plan, plan); };
    const auto known = std::ranges::find_if(result_.plans, same);
    if (how == "global") {
      const auto number = static_cast<std::size_t>(known - result_.plans.begin());
      result_.solvers = {number, cost.seconds, cost.lines, cost.measured};
    }
    if (known != result_.plans.end()) return {};
    making.plan = plan;
    making.selection = options_.selection;
    making.selection.mode = SelectionMode::heuristic;
    variants_.push_back({name, making});
    result_.plans.push_back({.how = name,
                             .plan = std::move(plan),
                             .predicted_seconds = cost.seconds,
                             .lines = cost.lines,
                             .measured = cost.measured});
    return {};
  }

  // What times of a race count, to stand for those of runs that nobody disturbs, as costs measured alone do. Of a later
  // race by what its first plan took in the first one, since a few runs of it don't say how much they were disturbed.
  double to_undisturbed(std::span<const Timed> timed, std::optional<double> seconds_in_first_race) {
    if (seconds_in_first_race) return undisturbed_share_ * *seconds_in_first_race / timed.front().seconds.median;
    double seconds = 0, undisturbed = 0;
    for (const Timed& each : timed) {
      seconds += each.turns * std::accumulate(each.step_seconds.begin(), each.step_seconds.end(), 0.0);
      undisturbed += each.undisturbed_seconds;
    }
    undisturbed_share_ = undisturbed / seconds;
    return undisturbed_share_;
  }

  // Times these plans interleaved; the first of them was timed before, or is the first of all.
  Result<void> race(const std::vector<std::size_t>& which, double share) {
    std::vector<Variant> variants;
    for (const std::size_t i : which) variants.push_back(variants_[i]);
    // A race that has begun has rounds enough for a verdict, as long as there is any time.
    const std::size_t enough = (1 + kTellingRounds) * which.size();  // preparing, and those rounds
    std::size_t asked = 0;
    const auto go_on = [&] {
      if (progress_) {
        progress_(budget() > 0 ? std::min(1.0, spent() / budget()) : 0,
                  fmt::format("{} plans, interleaved", variants.size()));
      }
      return goes_on(++asked <= enough ? 1 : share);
    };
    const double patience = budget() > 0 ? std::min(0.25, budget() / 200) : 0.25;
    CONVOY_TRY(const auto timed, run_race_(network_, descs_, variants, inputs_, kMostRounds, go_on, patience));
    if (timed.front().seconds.samples < kFewestRounds) {
      return Error{ErrorCode::unsupported, fmt::format("the time ended after {} of {} rounds of {} plans",
                                                       timed.front().seconds.samples, kFewestRounds, which.size())};
    }
    const bool later = result_.plans.front().seconds > 0;
    const double first = result_.plans[which.front()].over_first;
    const double firsts_uncertainty = result_.plans[which.front()].relative_uncertainty;
    const double scale =
        to_undisturbed(timed, later ? std::optional(first * result_.plans.front().seconds) : std::nullopt);
    for (std::size_t i = 0; i < which.size(); ++i) {
      seen_.add(timed[i], scale);
      if (i == 0 && later) continue;  // it has its times
      TimedPlan& plan = result_.plans[which[i]];
      const selection::Summary& ratio = timed[i].over_first;
      plan.seconds = timed[i].seconds.median;
      plan.undisturbed_seconds = timed[i].undisturbed_seconds;
      plan.over_first = first * ratio.median;
      plan.relative_uncertainty = std::hypot(firsts_uncertainty, ratio.relative_uncertainty());
      // Beyond doubt, as whatever takes another's place.
      if (ratio.is_below(1) && plan.over_first < result_.plans[result_.fastest].over_first) result_.fastest = which[i];
      const double off = plan.predicted_seconds / plan.undisturbed_seconds - 1;
      if (std::abs(off) > kFarOff) {
        result_.remarks.push_back(
            fmt::format("{}: the costs of its lines add up to {:.4g} us, an undisturbed run takes {:.4g} us: {:+.0f}%",
                        plan.how, plan.predicted_seconds * 1e6, plan.undisturbed_seconds * 1e6, 100 * off));
      }
    }
    return {};
  }

  Result<void> keep() {
    if (options_.kept_plans.empty()) return {};
    const TimedPlan& best = result_.plans[result_.fastest];
    result_.kept = kept_plan_path(options_.kept_plans, best.plan.header, options_.cpu);
    NetworkPlan kept = best.plan;
    kept.remarks.push_back(fmt::format("{}, on {}; a run took, interleaved:", best.how,
                                       options_.cuda ? options_.cuda->name : options_.cpu.brand));
    for (const TimedPlan& plan : result_.plans) {
      kept.remarks.push_back(fmt::format("  {}: {:.4g} us, {:.3f} times {}'s +-{:.1f}%", plan.how, plan.seconds * 1e6,
                                         plan.over_first, result_.plans.front().how, 100 * plan.relative_uncertainty));
    }
    return keep_plan(result_.kept, kept);
  }

  const Network& network_;
  std::span<const HostTensor> inputs_;
  const NetworkOptions& options_;
  const NetworkTuningProgress& progress_;
  const Race& run_race_;
  const double start_ = monotonic_seconds();
  std::vector<TensorDesc> descs_;
  SeenInRuns seen_;
  double undisturbed_share_ = 1;   // of what steps took in the first race
  std::vector<Variant> variants_;  // as result_.plans
  PlanChoice result_;
};

}  // namespace

Result<PlanChoice> choose_plan(const Network& network, std::span<const HostTensor> inputs,
                               const NetworkOptions& options, std::span<const std::string> hows,
                               const NetworkTuningProgress& progress, const Race& race) {
  return Choosing(network, inputs, options, progress, race).run(hows);
}

}  // namespace convoy::network

namespace convoy {

Result<PlanChoice> choose_plan(const Network& network, std::span<const HostTensor> inputs,
                               const NetworkOptions& options, std::span<const std::string> hows,
                               const NetworkTuningProgress& progress) {
  return network::choose_plan(network, inputs, options, hows, progress, network::time_side_by_side);
}

}  // namespace convoy
