#include "network/selector.h"

#include <algorithm>
#include <chrono>

namespace convoy::network {

Selector::Selector(const NetworkOptions& options, SelectionProgress progress)
    : options_(options), progress_(std::move(progress)) {
  request_.threads = options.threads;
  request_.cpu = options.cpu;
}

Result<Selection> Selector::choose(const ConvProblem& problem, const std::string& node_name) {
  const std::string key = print(problem) + (options_.selection.rules.empty() ? "" : " " + node_name);
  if (const auto found = chosen_.find(key); found != chosen_.end()) return found->second;
  const auto start = std::chrono::steady_clock::now();
  auto selection = select(problem, all_engines(), options_.selection, request_, node_name, progress_);
  if (!selection.ok()) return selection.error().within("node '" + node_name + "'");
  if (options_.selection.mode == SelectionMode::measured && options_.selection.budget_seconds > 0) {
    // The budget is the network's: what is left goes to the problems still to come. A spent budget is a tiny one, since
    // zero means none.
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    options_.selection.budget_seconds = std::max(options_.selection.budget_seconds - spent.count(), 1e-9);
  }
  chosen_.emplace(key, *selection);
  return selection;
}

Result<std::unique_ptr<ConvPlan>> Selector::plan(const ConvProblem& problem, const Selection& selection,
                                                 const void* weights) {
  PlanRequest request = request_;
  request.constant_weights = weights;
  return make_plan(problem, selection.candidate, all_engines(), request);
}

std::optional<double> Selector::predict(const ConvProblem& problem) {
  const std::string key = print(problem);
  if (const auto found = predicted_.find(key); found != predicted_.end()) return found->second;
  std::optional<double> seconds;
  const auto ranked = rank_by_heuristic(problem, all_engines(), options_.selection.filter, request_);
  for (const Engine* engine : all_engines()) {
    if (ranked.empty() || engine->info().name != ranked.front().engine || engine->info().oracle) continue;
    seconds = engine->predict_seconds(problem, ranked.front().knobs, request_);
  }
  predicted_.emplace(key, seconds);
  return seconds;
}

}  // namespace convoy::network
