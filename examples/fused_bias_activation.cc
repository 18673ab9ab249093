// Bias, residual add and activation in the same pass over the output: out = act(alpha*conv + beta*out + bias +
// gamma*z). They are part of the problem, so an engine that can't fuse them says so instead of running a second kernel
// unseen.
#include "example.h"

using namespace convoy;
using namespace example;

int main() {
  const ConvProblem plain = or_stop(parse_problem("fprop:x=f32,2x32x28x28,nhwc:w=f32,64x32x3x3:pad=1x1"));
  ConvProblem fused = plain;
  fused.epilogue.bias = true;
  fused.epilogue.gamma = 1;
  fused.epilogue.activation = {ActivationKind::relu};
  std::printf("%s\n", print(fused).c_str());

  const HostTensor x = ramp(plain.x), w = ramp(plain.w, 5, -2), z = ramp(plain.y, 11, -5);
  const HostTensor bias = ramp(TensorDesc::packed(DataType::f32, {64}), 9, -4);
  const HostTensor one_pass = ramp(plain.y), steps = ramp(plain.y);

  const Candidate chosen = choose(fused);
  run(fused, chosen,
      {.x = x.data.get(), .w = w.data.get(), .out = one_pass.data.get(), .bias = bias.data.get(), .z = z.data.get()});

  // The same by hand: convolution, then a pass over y. (nhwc: the channel is the innermost index.)
  run(plain, choose(plain), {.x = x.data.get(), .w = w.data.get(), .out = steps.data.get()});
  auto* y = reinterpret_cast<float*>(steps.data.get());
  for (std::int64_t i = 0; i < plain.y.elements(); ++i) {
    y[i] = std::fmax(y[i] + bias.as<float>()[i % 64] + z.as<float>()[i], 0.0f);
  }
  agree(one_pass, steps, kLessThanOne, ("one pass of " + print(chosen)).c_str());

  // beta reads the output that is there: out = conv + out.
  ConvProblem accumulate = plain;
  accumulate.beta = 1;
  const HostTensor sum = ramp(plain.y), once = ramp(plain.y), before = ramp(plain.y);
  run(accumulate, choose(accumulate), {.x = x.data.get(), .w = w.data.get(), .out = sum.data.get()});
  run(plain, choose(plain), {.x = x.data.get(), .w = w.data.get(), .out = once.data.get()});
  for (std::int64_t i = 0; i < plain.y.elements(); ++i) {
    reinterpret_cast<float*>(once.data.get())[i] += before.as<float>()[i];
  }
  agree(sum, once, kLessThanOne, "beta=1");
  return 0;
}
