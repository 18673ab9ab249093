// Integer convolution: u8 activations with a zero point, s8 weights, 32-bit sums, requantized to u8 per output channel.
//   y = saturate(round_to_nearest_even((sum (x - x_zp)*w + bias) * scale[k]) + y_zp),  scale[k] = s_x*s_w[k]/s_y
// No channel multiple or layout is required; an engine that wants one says which.
#include <algorithm>

#include "example.h"

using namespace convoy;
using namespace example;

int main() {
  const ConvProblem problem = or_stop(
      parse_problem("fprop:x=u8,1x20x9x9,nhwc:w=s8,24x20x3x3:y=u8,1x24x9x9,nhwc:pad=1x1:compute=s32:bias=1:act=relu:"
                    "requant=channel:zp=7,0,3"));
  const HostTensor x = ramp(problem.x, 19, 0), w = ramp(problem.w, 13, -6), y = ramp(problem.y, 1, 0);
  const HostTensor bias = ramp(TensorDesc::packed(DataType::s32, {24}), 41, -20);
  float scales[24];
  for (int k = 0; k < 24; ++k) scales[k] = 0.002f * static_cast<float>(k + 1);

  const Candidate chosen = choose(problem);
  run(problem, chosen,
      {.x = x.data.get(), .w = w.data.get(), .out = y.data.get(), .bias = bias.data.get(), .scales = scales});

  for (std::int64_t k = 0; k < 24; ++k) {
    for (std::int64_t p = 0; p < 9; ++p) {
      for (std::int64_t q = 0; q < 9; ++q) {
        std::int64_t sum = static_cast<std::int64_t>(bias.at(k));
        for (std::int64_t c = 0; c < 20; ++c) {
          for (std::int64_t r = 0; r < 3; ++r) {
            for (std::int64_t s = 0; s < 3; ++s) {
              const std::int64_t h = p + r - 1, v = q + s - 1;
              if (h < 0 || h > 8 || v < 0 || v > 8) continue;  // padding is the zero point: it adds nothing
              sum += static_cast<std::int64_t>((x.at((c * 9 + h) * 9 + v) - 7) * w.at(((k * 20 + c) * 3 + r) * 3 + s));
            }
          }
        }
        const double scaled = std::nearbyint(static_cast<double>(std::max<std::int64_t>(sum, 0)) * scales[k]) + 3;
        if (std::fabs(y.at((k * 9 + p) * 9 + q) - std::clamp(scaled, 0.0, 255.0)) > 0) stop("an element differs");
      }
    }
  }
  std::printf("%s: exact\n", print(chosen).c_str());
  return 0;
}
