#include "cli/offers.h"

#include <algorithm>

#include "base/spent.h"
#include "engines/cudnn/cudnn.h"
#include "select/choose/candidates.h"
#include "select/choose/remembered.h"

namespace convoy::cli {
namespace {

constexpr std::size_t kMostOffered = 12;  // of cuDNN's list: PyTorch's benchmark mode times ten
constexpr const char* kChannelsLast = "cudnn.nhwc";

}  // namespace

std::vector<Candidate> offers(const ConvProblem& problem, std::span<const Candidate> first,
                              std::span<const Engine* const> engines, const SelectionFilter& filter,
                              const PlanRequest& request) {
  const Spent spent("asking cuDNN's heuristics");
  std::vector<Candidate> candidates;
  const auto add = [&](const Candidate& candidate) {
    if (std::find(candidates.begin(), candidates.end(), candidate) != candidates.end()) return;
    const auto engine = selection::runnable_engine(problem, candidate, engines, request);
    if (engine.ok() && !filtered(problem, **engine, candidate.knobs, filter, request)) candidates.push_back(candidate);
  };
  std::for_each(first.begin(), first.end(), add);
  if (const auto listed = cudnn::heuristic_candidates(problem, request); listed.ok()) {
    const std::size_t most = candidates.size() + kMostOffered;
    for (std::size_t i = 0; i < listed->size() && candidates.size() < most; ++i) add((*listed)[i]);
  }
  return candidates;
}

std::vector<Candidate> stand_ins(const ConvProblem& problem, std::span<const Engine* const> engines,
                                 const SelectionFilter& filter, const PlanRequest& request) {
  std::vector<Candidate> candidates;
  for (const Engine* engine : engines) {
    const EngineInfo& info = engine->info();
    if ((!info.provider.empty() && info.name != kChannelsLast) || info.oracle || refuse(*engine, problem, request)) {
      continue;
    }
    Candidate candidate{info.name, default_knobs(engine->configurations(problem, request))};
    const bool forbidden = filtered(problem, *engine, candidate.knobs, filter, request).has_value();
    if (!forbidden) candidates.push_back(std::move(candidate));
  }
  return candidates;
}

std::vector<Candidate> unsettled(const ConvProblem& problem, std::vector<Candidate> candidates,
                                 std::span<const Engine* const> engines, const SelectionOptions& options,
                                 const PlanRequest& request) {
  if (options.store == nullptr || candidates.empty()) return candidates;
  auto known =
      selection::recall(*options.store, measurement_key(problem, request, options.caches), candidates, engines);
  return known.ok() ? std::move(known->open) : candidates;
}

}  // namespace convoy::cli
