// Grouped convolutions: the weights' shape, what every engine says, and the numbers.
//
// A group sees C/groups of the channels and makes K/groups of the outputs, so w is K x C/groups x R x S: its second dim
// is not C. That is the commonest mistake, and the error for it names the fields.
#include "example.h"

using namespace convoy;
using namespace example;

int main() {
  ConvProblem problem;
  problem.groups = 32;
  problem.x = TensorDesc::packed(DataType::f32, {1, 128, 14, 14}, Layout::nhwc);
  problem.w = TensorDesc::packed(DataType::f32, {128, 128, 3, 3});  // wrong: C, not C/groups
  problem.pre_padding = problem.post_padding = {1, 1};
  or_stop(infer(problem));  // fills y
  const auto wrong = validate(problem);
  if (wrong) stop("a wrong shape was taken");
  std::printf("with C instead of C/groups: %s\n\n", wrong.error().message.c_str());

  problem.w = TensorDesc::packed(DataType::f32, {128, 128 / 32, 3, 3});
  or_stop(validate(problem));
  std::printf("%s\n", print(problem).c_str());
  const PlanRequest request{.threads = 2};
  for (const EngineAnswer& answer : list_candidates(problem, all_engines(), request)) {
    std::printf("  %-16s %s\n", answer.engine->info().name.c_str(),
                answer.refusal ? answer.refusal->reason.c_str() : "can");
  }

  const HostTensor x = ramp(problem.x), w = ramp(problem.w, 5, -2), y = ramp(problem.y);
  const Candidate chosen = choose(problem);
  run(problem, chosen, {.x = x.data.get(), .w = w.data.get(), .out = y.data.get()});

  // y[0,k,5,6] by the definition: group k/4 reads channels 4*(k/4) to 4*(k/4)+3.
  for (std::int64_t k = 0; k < 128; ++k) {
    double sum = 0;
    for (std::int64_t c = 0; c < 4; ++c) {
      for (std::int64_t r = 0; r < 3; ++r) {
        for (std::int64_t s = 0; s < 3; ++s) {
          sum += x.at(((4 * (k / 4) + c) * 14 + 5 + r - 1) * 14 + 6 + s - 1) * w.at(((k * 4 + c) * 3 + r) * 3 + s);
        }
      }
    }
    if (std::fabs(y.at((k * 14 + 5) * 14 + 6) - sum) > kLessThanOne) stop("a channel differs from the definition");
  }
  std::printf("\n%s: every channel agrees with the definition\n", print(chosen).c_str());
  return 0;
}
