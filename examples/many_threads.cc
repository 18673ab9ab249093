// A plan is immutable: one plan serves any number of threads at once. What a run changes belongs to the caller: the
// team it runs on, its workspace, its tensors. Each thread below has its own.
#include <thread>
#include <vector>

#include "example.h"

using namespace convoy;
using namespace example;

int main() {
  constexpr int kThreads = 8, kRuns = 20;
  const ConvProblem problem = or_stop(parse_problem("fprop:x=f32,1x32x14x14,nhwc:w=f32,32x32x3x3:pad=1x1"));
  const HostTensor w = ramp(problem.w, 5, -2);
  // Each caller computes on one thread of its own; the weights are packed once, in the plan.
  const PlanRequest request{.threads = 1, .constant_weights = w.data.get()};
  const Selection chosen = or_stop(select(problem, all_engines(), {}, request));
  const auto plan = or_stop(make_plan(problem, chosen.candidate, all_engines(), request));
  std::printf("%s: %zu bytes of packed weights shared, %zu of workspace a thread\n", print(chosen.candidate).c_str(),
              plan->retained_bytes(), plan->workspace_bytes());

  std::vector<HostTensor> inputs, outputs;
  for (int t = 0; t < kThreads; ++t) {
    inputs.push_back(ramp(problem.x, 7 + t));
    outputs.push_back(ramp(problem.y));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto team = make_cpu_team(request.threads);
      const auto workspace = allocate_aligned(plan->workspace_bytes());
      for (int i = 0; i < kRuns; ++i) {
        or_stop(plan->execute({.x = inputs[t].data.get(), .out = outputs[t].data.get()},
                              {*team, workspace.get(), plan->workspace_bytes()}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  for (int t = 0; t < kThreads; ++t) {
    const HostTensor expected = ramp(problem.y);
    run(problem, {"reference", {}}, {.x = inputs[t].data.get(), .w = w.data.get(), .out = expected.data.get()});
    agree(outputs[t], expected, kLessThanOne, "a thread's output");
  }
  return 0;
}
