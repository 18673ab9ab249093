// Which plan of a network is fastest: by running them.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "convoy/network_plan.h"
#include "convoy/network_tuning.h"
#include "network/kept_plan.h"
#include "network/seen_in_runs.h"
#include "network/side_by_side.h"

namespace convoy {
namespace {

constexpr int kMostRounds = 24, kFewestRounds = 3;
constexpr double kFarOff = 0.15;  // a prediction that is reported

// What is left in a plan of a way to make it and of its lines' costs: the lines that are obeyed.
std::string obeyed_lines(const std::string& text) {
  std::string lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line(text.data() + at, end - at);
    at = end + 1;
    if (line.starts_with('#')) continue;
    lines += line.substr(0, line.find("  ", std::min(line.find(" -> "), line.size())));
    lines += '\n';
  }
  return lines;
}

// A race of plans, and what it says.
class Choosing {
 public:
  Choosing(const Network& network, std::span<const HostTensor> inputs, const NetworkOptions& options,
           const NetworkTuningProgress& progress)
      : network_(network),
        inputs_(inputs),
        options_(options),
        progress_(progress),
        seen_(options.selection.store, all_engines()) {
    for (const HostTensor& input : inputs) descs_.push_back(input.desc);
  }

  Result<PlanChoice> run(std::span<const std::string> hows) {
    for (const std::string& how : hows) CONVOY_CHECK(make(how, how, options_.selection.store));
    const bool asks_again = std::ranges::find(hows, "global") != hows.end();
    std::vector<std::size_t> all(result_.plans.size());
    std::iota(all.begin(), all.end(), 0);
    CONVOY_CHECK(race(all, asks_again ? kOfFirstRace : 1));
    for (int again = 0; asks_again && again < kMostAgain && goes_on(kOfFirstRace); ++again) {
      const std::size_t before = result_.plans.size();
      CONVOY_CHECK(make("global", fmt::format("global, seen {}", again + 1), &seen_));
      if (result_.plans.size() == before) break;
      const std::size_t best = result_.fastest;
      if (auto raced = race({best, before}, 1); !raced.ok()) {  // the time ended: what was known stands
        if (raced.error().code != ErrorCode::unsupported) return raced.error();
        result_.plans.pop_back();
        contenders_.pop_back();
        break;
      }
    }
    CONVOY_CHECK(keep());
    return std::move(result_);
  }

 private:
  // Of the time: the first race ends then, where the solver is asked again with what the runs have shown.
  static constexpr double kOfFirstRace = 0.6;
  static constexpr int kMostAgain = 2;

  double budget() const { return options_.selection.budget_seconds; }
  double spent() const { return monotonic_seconds() - start_; }
  bool goes_on(double share) const {
    const bool stopped = options_.selection.stop != nullptr && *options_.selection.stop;
    return !stopped && (budget() <= 0 || spent() < share * budget());
  }

  // The plan that a way makes by these costs, unless there is the same already.
  Result<void> make(const std::string& how, const std::string& name, MeasurementStore* costs) {
    NetworkOptions making = options_;
    making.how = how;
    making.plan.clear();
    making.kept_plans.clear();
    making.selection.mode = SelectionMode::heuristic;
    making.selection.store = costs;
    CONVOY_TRY(std::string text, network_.plan(descs_, making));
    const auto same = [&](const TimedPlan& other) { return obeyed_lines(other.plan) == obeyed_lines(text); };
    if (std::ranges::any_of(result_.plans, same)) return {};
    CONVOY_TRY(const NetworkPlanCost cost, read_plan_cost(text));
    making.plan = text;
    making.selection.store = options_.selection.store;
    contenders_.push_back({name, making});
    result_.plans.push_back({.how = name,
                             .plan = std::move(text),
                             .predicted_seconds = cost.seconds,
                             .lines = cost.lines,
                             .measured = cost.measured});
    return {};
  }

  // Times these plans in turns; the first of them was timed before, or is the first of all.
  Result<void> race(const std::vector<std::size_t>& which, double share) {
    std::vector<network::Contender> contenders;
    for (const std::size_t i : which) contenders.push_back(contenders_[i]);
    const auto go_on = [&] {
      if (progress_) {
        progress_(budget() > 0 ? std::min(1.0, spent() / budget()) : 0,
                  fmt::format("{} plans in turns", contenders.size()));
      }
      return goes_on(share);
    };
    const double patience = budget() > 0 ? std::min(0.25, budget() / 200) : 0.25;
    CONVOY_TRY(const auto timed,
               network::time_side_by_side(network_, descs_, contenders, inputs_, kMostRounds, go_on, patience));
    if (timed.front().seconds.samples < kFewestRounds) {
      return Error{ErrorCode::unsupported, fmt::format("the time ended after {} of {} rounds of {} plans",
                                                       timed.front().seconds.samples, kFewestRounds, which.size())};
    }
    const double first = result_.plans[which.front()].over_first;
    for (std::size_t i = 0; i < which.size(); ++i) {
      seen_.add(timed[i]);
      if (i == 0 && which.size() < result_.plans.size()) continue;  // it has its times
      TimedPlan& plan = result_.plans[which[i]];
      plan.seconds = timed[i].seconds.median;
      plan.undisturbed_seconds = timed[i].undisturbed_seconds;
      plan.over_first = first * timed[i].over_first.median;
      plan.relative_uncertainty = timed[i].over_first.relative_uncertainty();
      if (plan.over_first < result_.plans[result_.fastest].over_first) result_.fastest = which[i];
      const double off = plan.predicted_seconds / plan.undisturbed_seconds - 1;
      if (std::abs(off) > kFarOff) {
        result_.remarks.push_back(
            fmt::format("{}: its lines cost {:.4g} us together, an undisturbed run takes {:.4g} us: {:+.0f}%", plan.how,
                        plan.predicted_seconds * 1e6, plan.undisturbed_seconds * 1e6, 100 * off));
      }
    }
    return {};
  }

  Result<void> keep() {
    if (options_.kept_plans.empty()) return {};
    const TimedPlan& best = result_.plans[result_.fastest];
    CONVOY_TRY(const NetworkPlanHeader header, read_plan_header(best.plan));
    result_.kept = kept_plan_path(options_.kept_plans, header, options_.cpu);
    std::string text = best.plan + fmt::format("# {}, on {}; a run took, in turns:\n", best.how, options_.cpu.brand);
    for (const TimedPlan& plan : result_.plans) {
      text += fmt::format("#   {}: {:.4g} us, {:.3f} times {}'s +-{:.1f}%\n", plan.how, plan.seconds * 1e6,
                          plan.over_first, result_.plans.front().how, 100 * plan.relative_uncertainty);
    }
    return network::keep_plan(result_.kept, text);
  }

  const Network& network_;
  std::span<const HostTensor> inputs_;
  const NetworkOptions& options_;
  const NetworkTuningProgress& progress_;
  const double start_ = monotonic_seconds();
  std::vector<TensorDesc> descs_;
  network::SeenInRuns seen_;
  std::vector<network::Contender> contenders_;  // as result_.plans
  PlanChoice result_;
};

}  // namespace

Result<PlanChoice> choose_plan(const Network& network, std::span<const HostTensor> inputs,
                               const NetworkOptions& options, std::span<const std::string> hows,
                               const NetworkTuningProgress& progress) {
  return Choosing(network, inputs, options, progress).run(hows);
}

}  // namespace convoy
