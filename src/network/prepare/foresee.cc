#include "network/prepare/foresee.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "core/compiles_ahead.h"
#include "network/graph/image_wise.h"
#include "network/prepare/decide.h"
#include "network/prepare/improve.h"

namespace convoy::network {
namespace {

constexpr std::array<std::int64_t, 4> kUsualBatches{32, 1, 8, 128};

// Of the convolutions at home, in their order: first layers take longest.
std::vector<CompilationJob> compilations_of(const Assignment& assignment, const PrepareSettings& settings,
                                            const Chooser& chooser) {
  const PlanRequest& request = chooser.places()[static_cast<std::size_t>(chooser.home())].request;
  std::vector<CompilationJob> all;
  for (const NodeAssignment& node : assignment.nodes) {
    if (node.place != chooser.home()) continue;
    const Candidate& candidate = node.selection.candidate;
    for (const Engine* engine : settings.engines) {
      if (engine->info().name != candidate.engine) continue;
      if (const auto* const compiles = dynamic_cast<const CompilesAhead*>(engine)) {
        std::ranges::move(compiles->compilations(node.problem, candidate.knobs, request), std::back_inserter(all));
      }
    }
  }
  return all;
}

}  // namespace

bool can_foresee(const Graph& graph, const NetworkOptions& options) {
  const bool by_predictions = !options.plan && options.selection.mode == SelectionMode::heuristic &&
                              options.how != "global" && options.how != "local";
  const auto is_free = [](const NetworkValue& input) { return !input.dims.empty() && input.dims[0] < 0; };
  const auto is_borrowed = [](const Value& value) { return value.constant && value.constant->data.use_count() == 0; };
  return options.cuda && by_predictions && !graph.input_info.empty() &&
         std::ranges::all_of(graph.input_info, is_free) && std::ranges::none_of(graph.values, is_borrowed);
}

void foresee_batches(const Graph& graph, const Assignment& own, PrepareSettings settings, const std::stop_token& stop,
                     const std::function<void(Background::Job)>& add) {
  // What belongs to who prepared the network may be gone.
  settings.options.team.reset();
  settings.options.selection.store = nullptr;
  settings.options.selection.stop = nullptr;
  settings.team = make_cpu_team(1);
  settings.candidates = {};
  settings.progress = {};
  std::set<std::string> known;
  {
    const Chooser chooser(settings.options, {}, {}, settings.engines, settings.places);
    for (CompilationJob& each : compilations_of(own, settings, chooser)) known.insert(std::move(each.what));
  }
  if (known.empty()) return;
  for (const std::int64_t images : kUsualBatches) {
    if (stop.stop_requested()) return;
    if (images == batch_of(graph)) continue;
    const double start = monotonic_seconds();
    auto improved = improve(with_batch(graph, images), settings);
    if (!improved.ok() || stop.stop_requested()) continue;
    Chooser chooser(improved->settings.options, {}, {}, settings.engines, settings.places);
    const auto decided = decide(std::move(improved->graph), improved->header, chooser);
    if (!decided.ok()) continue;
    int kernels = 0;
    for (CompilationJob& each : compilations_of(decided->assignment, settings, chooser)) {
      if (!known.insert(std::move(each.what)).second) continue;
      add(std::move(each.job));
      ++kernels;
    }
    log(LogLevel::info, "foresee",
        {{"batch", std::to_string(images)},
         {"kernels", std::to_string(kernels)},
         {"seconds", fmt::format("{:.3g}", monotonic_seconds() - start)}});
  }
}

}  // namespace convoy::network
