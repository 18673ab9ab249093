// The C++ API in one page: describe a convolution, ask who can run it, choose, plan, execute.
//
//   example_first_convolution [PROBLEM]
#include <cstdio>
#include <cstring>

#include "convoy/host_tensor.h"
#include "convoy/selection.h"

namespace {

int fail(const convoy::Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace convoy;

  // 1. Describe. The string and the struct are two forms of one thing: parse(print(p)) == p.
  const char* text = argc > 1 ? argv[1] : "fprop:x=f32,1x64x28x28,nhwc:w=f32,96x64x3x3,nchw:pad=1x1:bias=1:act=relu";
  auto problem = parse_problem(text);
  if (!problem) return fail(problem.error());
  std::printf("problem  %s\n         %.3g GFLOP\n", print(*problem).c_str(), flops(*problem) * 1e-9);

  // 2. Data. Weights that are known now are packed once, into the plan.
  auto x = HostTensor::zeros(problem->x), w = HostTensor::zeros(problem->w), y = HostTensor::zeros(problem->y);
  auto bias = HostTensor::zeros(TensorDesc::packed(DataType::f32, {problem->out_channels()}));
  if (!x || !w || !y || !bias) return fail({ErrorCode::out_of_memory, "no memory for the tensors"});
  for (std::int64_t i = 0; i < problem->x.elements(); ++i) x->as<float>()[i] = static_cast<float>(i % 7) - 3;
  for (std::int64_t i = 0; i < problem->w.elements(); ++i) w->as<float>()[i] = static_cast<float>(i % 5) - 2;
  const PlanRequest request{.threads = 2, .constant_weights = w->data.get()};

  // 3. Ask: who can run it, and why can't the others.
  for (const EngineAnswer& answer : list_candidates(*problem, all_engines(), request)) {
    if (answer.refusal) {
      std::printf("can't    %-14s %s\n", answer.engine->info().name.c_str(), answer.refusal->reason.c_str());
    } else {
      std::printf("can      %s\n", print(answer.default_candidate).c_str());
    }
  }

  // 4. Choose. Heuristic by default; SelectionMode::measured times and verifies; rules choose by name.
  auto selection = select(*problem, all_engines(), {}, request);
  if (!selection) return fail(selection.error());
  std::printf("chosen   %s (%s)\n", print(selection->candidate).c_str(), selection->reason().c_str());

  // 5. Plan once, execute from any thread, each with its own workspace.
  auto plan = make_plan(*problem, selection->candidate, all_engines(), request);
  if (!plan) return fail(plan.error());
  auto team = make_cpu_team(request.threads);
  auto workspace = allocate_aligned((*plan)->workspace_bytes());
  ConvArgs args;
  args.x = x->data.get();
  args.out = y->data.get();
  args.bias = bias->data.get();
  auto done = (*plan)->execute(args, {*team, workspace.get(), (*plan)->workspace_bytes()});
  if (!done) return fail(done.error());
  std::printf("y[0..3]  %g %g %g %g\n", y->at(0), y->at(1), y->at(2), y->at(3));
  return 0;
}
