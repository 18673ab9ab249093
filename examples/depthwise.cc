// Depthwise convolution: groups = C. With a channel multiplier m the weights are (C*m) x 1 x R x S. Channels-last is
// the layout where it is fastest; both are shown with their predicted times.
#include "example.h"

using namespace convoy;
using namespace example;

namespace {

ConvProblem depthwise(std::int64_t channels, std::int64_t multiplier, Layout layout) {
  ConvProblem problem;
  problem.groups = channels;
  problem.x = TensorDesc::packed(DataType::f32, {1, channels, 28, 28}, layout);
  problem.w = TensorDesc::packed(DataType::f32, {channels * multiplier, 1, 3, 3});
  problem.pre_padding = problem.post_padding = {1, 1};
  problem.stride = {2, 2};
  or_stop(infer(problem));
  return problem;
}

}  // namespace

int main() {
  const PlanRequest request{.threads = 2};
  for (const std::int64_t multiplier : {1, 2}) {
    for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
      const ConvProblem problem = depthwise(96, multiplier, layout);
      std::printf("multiplier %d, %s\n", static_cast<int>(multiplier), std::string(name_of(layout, 2)).c_str());
      for (const EngineAnswer& answer : list_candidates(problem, all_engines(), request)) {
        if (!answer.refusal) {
          std::printf("  %-28s %8.1f us predicted\n", print(answer.default_candidate).c_str(),
                      answer.predicted_seconds * 1e6);
        }
      }
      // Each candidate against the oracle, which computes every problem there is with plain loops.
      const HostTensor x = ramp(problem.x), w = ramp(problem.w, 5, -2), y = ramp(problem.y), expected = ramp(problem.y);
      run(problem, choose(problem), {.x = x.data.get(), .w = w.data.get(), .out = y.data.get()});
      run(problem, {"reference", {}}, {.x = x.data.get(), .w = w.data.get(), .out = expected.data.get()});
      agree(y, expected, 0, print(choose(problem)).c_str());
    }
  }
  return 0;
}
