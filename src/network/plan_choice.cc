// Which plan of a network is fastest: by running them.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "convoy/network_plan.h"
#include "convoy/network_tuning.h"
#include "network/kept_plan.h"
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

}  // namespace

Result<PlanChoice> choose_plan(const Network& network, std::span<const HostTensor> inputs,
                               const NetworkOptions& options, std::span<const std::string> hows,
                               const NetworkTuningProgress& progress) {
  const double start = monotonic_seconds(), budget = options.selection.budget_seconds;
  const auto spent = [&] { return monotonic_seconds() - start; };
  const auto stopped = [&] { return options.selection.stop != nullptr && *options.selection.stop; };
  const auto show = [&](std::string_view what) {
    if (progress) progress(budget > 0 ? std::min(1.0, spent() / budget) : 0, what);
  };
  std::vector<TensorDesc> descs;
  for (const HostTensor& input : inputs) descs.push_back(input.desc);
  PlanChoice result;
  std::vector<network::Contender> contenders;
  for (const std::string& how : hows) {
    NetworkOptions making = options;
    making.how = how;
    making.plan.clear();
    making.kept_plans.clear();
    making.selection.mode = SelectionMode::heuristic;
    CONVOY_TRY(std::string text, network.plan(descs, making));
    const auto same = [&](const TimedPlan& other) { return obeyed_lines(other.plan) == obeyed_lines(text); };
    if (std::ranges::any_of(result.plans, same)) continue;
    CONVOY_TRY(const NetworkPlanCost cost, read_plan_cost(text));
    making.plan = text;
    contenders.push_back({how, making});
    result.plans.push_back({.how = how,
                            .plan = std::move(text),
                            .predicted_seconds = cost.seconds,
                            .lines = cost.lines,
                            .measured = cost.measured});
  }
  CONVOY_TRY(const auto timed, network::time_side_by_side(
                                   network, descs, contenders, inputs, kMostRounds,
                                   [&] {
                                     show(fmt::format("{} plans in turns", contenders.size()));
                                     return !stopped() && (budget <= 0 || spent() < budget);
                                   },
                                   budget > 0 ? std::min(0.25, budget / 200) : 0.25));
  if (timed.front().seconds.samples < kFewestRounds) {
    return Error{ErrorCode::unsupported, fmt::format("the time ended after {} of {} rounds of {} plans",
                                                     timed.front().seconds.samples, kFewestRounds, contenders.size())};
  }
  for (std::size_t i = 0; i < timed.size(); ++i) {
    TimedPlan& plan = result.plans[i];
    plan.seconds = timed[i].seconds.median;
    plan.undisturbed_seconds = timed[i].undisturbed_seconds;
    plan.over_first = timed[i].over_first.median;
    plan.relative_uncertainty = timed[i].over_first.relative_uncertainty();
    if (plan.over_first < result.plans[result.fastest].over_first) result.fastest = i;
    const double off = plan.predicted_seconds / plan.undisturbed_seconds - 1;
    if (std::abs(off) > kFarOff) {
      result.remarks.push_back(
          fmt::format("{}: its lines cost {:.4g} us together, an undisturbed run takes {:.4g} us: {:+.0f}%", plan.how,
                      plan.predicted_seconds * 1e6, plan.undisturbed_seconds * 1e6, 100 * off));
    }
  }
  if (options.kept_plans.empty()) return result;
  const TimedPlan& best = result.plans[result.fastest];
  CONVOY_TRY(const NetworkPlanHeader header, read_plan_header(best.plan));
  result.kept = kept_plan_path(options.kept_plans, header, options.cpu);
  std::string text = best.plan + fmt::format("# {}, on {}; a run took, in turns:\n", best.how, options.cpu.brand);
  for (const TimedPlan& plan : result.plans) {
    text += fmt::format("#   {}: {:.4g} us, {:.3f} times {}'s +-{:.1f}%\n", plan.how, plan.seconds * 1e6,
                        plan.over_first, result.plans.front().how, 100 * plan.relative_uncertainty);
  }
  CONVOY_CHECK(network::keep_plan(result.kept, text));
  return result;
}

}  // namespace convoy
