// dgrad and wgrad: the gradients of a convolution in its input and in its weights, checked by what defines them: with
// y = conv(x, w), for any dy:  <dy, conv(x, w)> = <dgrad(dy, w), x> = <wgrad(dy, x), w>.
// One description serves all three passes; only `pass` and which tensor is `out` change.
#include "example.h"

using namespace convoy;
using namespace example;

namespace {

double dot(const HostTensor& a, const HostTensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.desc.elements(); ++i) sum += a.at(i) * b.at(i);
  return sum;
}

}  // namespace

int main() {
  ConvProblem problem =
      or_stop(parse_problem("fprop:x=f32,2x16x15x15,nhwc:w=f32,24x8x3x3:pad=1x1/0x1:stride=2x2:groups=2"));
  const HostTensor x = ramp(problem.x), w = ramp(problem.w, 5, -2), dy = ramp(problem.y, 11, -5);
  const HostTensor y = ramp(problem.y), dx = ramp(problem.x), dw = ramp(problem.w);

  run(problem, choose(problem), {.x = x.data.get(), .w = w.data.get(), .out = y.data.get()});
  problem.pass = Pass::dgrad;
  const Candidate data = choose(problem);
  run(problem, data, {.w = w.data.get(), .y = dy.data.get(), .out = dx.data.get()});
  problem.pass = Pass::wgrad;
  const Candidate weights = choose(problem);
  run(problem, weights, {.x = x.data.get(), .y = dy.data.get(), .out = dw.data.get()});

  std::printf("fprop %.0f, dgrad %.0f (%s), wgrad %.0f (%s)\n", dot(dy, y), dot(dx, x), print(data).c_str(), dot(dw, w),
              print(weights).c_str());
  // Every value is a small integer, so f32 holds each sum exactly.
  return dot(dy, y) == dot(dx, x) && dot(dy, y) == dot(dw, w) ? 0 : 1;
}
