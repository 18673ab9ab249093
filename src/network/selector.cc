#include "network/selector.h"

#include <algorithm>

#include "base/clock.h"

namespace convoy::network {
namespace {

// Part of the keys: weights that come with each execution are packed every time, which changes who is fastest.
constexpr const char* variable_weights = " weights=variable";

}  // namespace

Selector::Selector(const NetworkOptions& options, SelectionProgress progress,
                   std::span<const ConvolutionCandidates> candidates, std::span<const Engine* const> engines)
    : options_(options), progress_(std::move(progress)), candidates_(candidates), engines_(engines) {
  request_.threads = options.threads;
  request_.cpu = options.cpu;
}

ConvProblem Selector::allowed(ConvProblem problem) const {
  if (problem.compute == DataType::f32) problem.math = options_.math;
  return problem;
}

void Selector::announce(const ConvProblem& problem) { announced_.insert(print(problem)); }

Result<Selection> Selector::choose(const ConvProblem& problem, const std::string& node_name, const void* weights) {
  const std::string problem_string = print(problem);
  const std::string key = problem_string + (options_.selection.rules.empty() ? "" : " " + node_name) +
                          (weights == nullptr ? variable_weights : "");
  if (const auto found = chosen_.find(key); found != chosen_.end()) return found->second;

  SelectionOptions options = options_.selection;
  double& left = options_.selection.budget_seconds;  // of the whole network; 0: no limit
  if (left > 0) options.budget_seconds = left / static_cast<double>(std::max<std::size_t>(announced_.size(), 1));
  announced_.erase(problem_string);
  PlanRequest request = request_;
  request.constant_weights = weights;

  const double start = monotonic_seconds();
  auto selection = select(problem, engines_, options, request, node_name, progress_);
  if (!selection.ok()) return selection.error().within("node '" + node_name + "'");
  // A spent budget is a tiny one: the first candidate of each problem still gets its turn.
  if (left > 0) left = std::max(left - (monotonic_seconds() - start), 1e-9);
  chosen_.emplace(key, *selection);
  return selection;
}

Result<std::unique_ptr<ConvPlan>> Selector::plan(const ConvProblem& problem, const Candidate& candidate,
                                                 const void* weights) const {
  PlanRequest request = request_;
  request.constant_weights = weights;
  return make_plan(problem, candidate, engines_, request);
}

int Selector::switchable(const ConvProblem& problem) const {
  const auto found = std::find_if(candidates_.begin(), candidates_.end(),
                                  [&](const ConvolutionCandidates& each) { return each.problem == problem; });
  return found == candidates_.end() ? -1 : static_cast<int>(found - candidates_.begin());
}

Result<std::vector<std::unique_ptr<ConvPlan>>> Selector::plans(int switchable, const void* weights) const {
  const ConvolutionCandidates& convolution = candidates_[static_cast<std::size_t>(switchable)];
  PlanRequest request = request_;
  request.constant_weights = weights;
  std::vector<std::unique_ptr<ConvPlan>> plans;
  for (const Candidate& candidate : convolution.candidates) {
    CONVOY_TRY(auto plan, make_plan(convolution.problem, candidate, engines_, request));
    plans.push_back(std::move(plan));
  }
  return plans;
}

std::optional<double> Selector::predict(const ConvProblem& problem, const void* weights) {
  const std::string key = print(problem) + (weights == nullptr ? variable_weights : "");
  if (const auto found = predicted_.find(key); found != predicted_.end()) return found->second;
  PlanRequest request = request_;
  request.constant_weights = weights;
  const auto best = predict_best(problem, engines_, options_.selection.filter, request);
  const std::optional<double> seconds = best ? std::optional(best->seconds) : std::nullopt;
  predicted_.emplace(key, seconds);
  return seconds;
}

}  // namespace convoy::network
