// Plans, and before that what their lines cost, where a budget is given.
#include <algorithm>

#include "base/clock.h"
#include "core/text.h"
#include "network/assign/plan.h"
#include "network/assign/threads.h"
#include "network/cost/measure_step.h"
#include "network/prepare/decide.h"
#include "network/prepare/improve.h"
#include "network/prepare/session.h"
#include "select/tune/rounds.h"

namespace convoy::network {
namespace {

// The share of a budget that convolutions get first; operators and conversions, which take fewer samples and have no
// candidates, get what is left.
constexpr double kOfConvolutions = 0.8;

constexpr int kMostPasses = 8;  // of measuring what takes least by the costs that are known

// What runs besides convolutions, and tiny steps on one thread, too.
Result<void> measure_on_threads(const Decided& decided, const NetworkOptions& options, double budget_seconds) {
  const SelectionOptions& selection = options.selection;
  const double end = monotonic_seconds() + budget_seconds;
  PlanRequest request{.threads = options.threads, .cpu = options.cpu};
  const std::vector<StepProblem> on_all = step_problems(decided.graph, decided.assignment, Threads::all);
  const bool energy = selection.objective.energy > 0;
  CONVOY_CHECK(measure_steps(on_all, request, selection.caches, budget_seconds, *selection.store, energy));
  if (options.threads == 1) return {};
  std::vector<StepProblem> on_one = step_problems(decided.graph, decided.assignment, Threads::one);
  CostTable costs(selection, all_engines(), {{&processor(), request}});
  std::ranges::copy_if(on_all, std::back_inserter(on_one), [&](const StepProblem& problem) {
    return may_be_better_on_one(costs.of(problem, Threads::one).seconds, costs.of(problem).seconds);
  });
  request.threads = 1;
  const double left = budget_seconds > 0 ? std::max(1e-3, end - monotonic_seconds()) : 0;
  return measure_steps(on_one, request, selection.caches, left, *selection.store, energy);
}

bool is_alike(const NodeAssignment& a, const NodeAssignment& b) {
  return a.formats == b.formats && a.problem == b.problem;
}

}  // namespace

Result<NetworkPlan> plan_of(Graph graph, const PrepareSettings& given) {
  CONVOY_TRY(Improved improved, improve(std::move(graph), given));
  PrepareSettings& settings = improved.settings;
  SelectionOptions& selection = settings.options.selection;
  const bool measures = selection.mode == SelectionMode::measured;
  const double budget = selection.budget_seconds;
  const double end = monotonic_seconds() + budget;
  selection::RoundStore here;  // what is measured is what the lines say, with a database or without
  if (measures && selection.store == nullptr) selection.store = &here;
  const auto pass = [&]() -> Result<Decided> {
    // At least a moment: a budget of which nothing is left must not become one without an end.
    const auto left = [&] { return budget > 0 ? std::max(1e-3, end - monotonic_seconds()) : 0; };
    if (measures) selection.budget_seconds = (settings.options.cuda ? 1 : kOfConvolutions) * left();
    Chooser chooser(settings.options, settings.progress, settings.candidates, settings.engines, settings.places);
    CONVOY_TRY(Decided decided, decide(improved.graph, improved.header, chooser));
    // On a GPU operators and conversions are predicted.
    if (measures && !settings.options.cuda) CONVOY_CHECK(measure_on_threads(decided, settings.options, left()));
    return decided;
  };
  // What takes least by predictions may not once it is measured, and then something else is looked at. Where the same
  // is best again, every cost of it has been measured that could be.
  const bool again = measures && !settings.options.plan && settings.options.how == "global";
  selection.likely_only = again;
  CONVOY_TRY(Decided decided, pass());
  for (int passes = 1; again && passes < kMostPasses && (budget <= 0 || monotonic_seconds() < end); ++passes) {
    CONVOY_TRY(Decided next, pass());
    const bool same = std::ranges::equal(decided.assignment.nodes, next.assignment.nodes, is_alike);
    decided = std::move(next);
    if (same) break;
  }
  Chooser knows(settings.options, {}, {}, settings.engines, settings.places);
  NetworkPlan plan = plan_of(decided.graph, decided.assignment, improved.header, knows);
  for (const std::string& remark : decided.remarks) {
    for (const std::string_view line : split(remark, '\n')) plan.remarks.emplace_back(line);
  }
  return plan;
}

}  // namespace convoy::network
