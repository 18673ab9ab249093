#include "select/choose/memory_advice.h"

#include <fmt/format.h>

#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "select/choose/candidates.h"

namespace convoy::selection {
namespace {

constexpr int kMostPlans = 32;  // some are compiled for it

}  // namespace

std::string memory_advice(const ConvProblem& problem, const Candidate& candidate,
                          std::span<const Engine* const> engines, const SelectionFilter& filter,
                          const PlanRequest& request) {
  const auto memory = cuda::memory_info(request.cuda->ordinal);
  if (!memory.ok()) return {};
  const auto predicted = [&](const Candidate& each) {
    const auto engine = runnable_engine(problem, each, engines, request);
    return engine.ok() ? (*engine)->predict_seconds(problem, each.knobs, request) : 0;
  };
  SelectionFilter wider = filter;
  wider.workspace_limit.reset();
  int planned = 0;
  for (const Candidate& other : rank_by_heuristic(problem, engines, wider, request)) {
    if (other == candidate) continue;
    if (planned++ == kMostPlans) break;
    const auto plan = make_plan(problem, other, engines, request);
    const auto engine = runnable_engine(problem, other, engines, request);
    if (!plan.ok() || filtered(problem, **engine, other.knobs, wider, request, plan->get())) continue;
    const auto bytes = static_cast<std::int64_t>((*plan)->workspace_bytes());
    if (bytes > memory->free_bytes) continue;
    const double before = predicted(candidate);
    return fmt::format(
        "{} would fit: {}{}; a workspace limit of {} bytes keeps to such candidates", print(other),
        cuda::memory_text(bytes),
        before > 0 ? fmt::format(", predicted to take {:.2f} times as long", predicted(other) / before) : "",
        memory->free_bytes);
  }
  return planned == 0 ? "no other candidate can run it"
                      : fmt::format("none of the {} other candidates would fit", planned);
}

}  // namespace convoy::selection
