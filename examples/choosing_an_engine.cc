// Three ways to choose: by heuristic, by measurement, by name; and what is said when a name can't run.
#include "example.h"

using namespace convoy;
using namespace example;

int main() {
  const ConvProblem problem = or_stop(parse_problem("fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3:pad=1x1"));
  const HostTensor w = ramp(problem.w, 5, -2);
  const PlanRequest request{.threads = 2, .constant_weights = w.data.get()};

  // By heuristic: cost models, nothing is run.
  const Selection quick = or_stop(select(problem, all_engines(), {}, request));
  std::printf("%-10s %s\n", quick.reason().c_str(), print(quick.candidate).c_str());

  // By measurement: every candidate is compared with the oracle before its time counts. The filter says what may win.
  SelectionOptions measured;
  measured.mode = SelectionMode::measured;
  measured.budget_seconds = 2;
  measured.filter.engines = "cpu.*";
  const Selection best = or_stop(select(problem, all_engines(), measured, request));
  std::printf("%-10s %s\n", best.reason().c_str(), print(best.candidate).c_str());
  for (const Measurement& m : best.measurements) {
    if (m.failure) stop(m.failure->message.c_str());
    std::printf("           %-28s %8.1f us, error %.2f of the tolerance\n", print(m.candidate).c_str(),
                m.median_seconds * 1e6, m.max_error);
  }
  if (best.measurements.empty()) stop("nothing was measured");

  // By name: one problem, or a rules file for many.
  SelectionOptions named;
  named.rules = or_stop(parse_rules("fprop:*w=f32,64x64x3x3* -> cpu.direct\n"));
  const Selection pinned = or_stop(select(problem, all_engines(), named, request));
  std::printf("%-10s %s\n", pinned.reason().c_str(), print(pinned.candidate).c_str());
  if (pinned.candidate.engine != "cpu.direct") stop("the rule was not followed");

  // A rule that can't be followed is an error with the reason; with fallback it is a warning.
  named.rules = or_stop(parse_rules("* -> cpu.depthwise\n"));
  const auto refused = select(problem, all_engines(), named, request);
  if (refused) stop("a dense convolution ran on the depthwise engine");
  std::printf("strict     %s\n", refused.error().message.c_str());
  named.strict_rules = false;
  const Selection fallback = or_stop(select(problem, all_engines(), named, request));
  std::printf("fallback   %s\n", print(fallback.candidate).c_str());
  for (const std::string& warning : fallback.warnings) std::printf("           warning: %s\n", warning.c_str());
  if (fallback.warnings.empty()) stop("a fallback without a warning");
  return 0;
}
