#include "engines/cpu/common/problem.h"

namespace convoy::cpu {

// seconds = cycles/hz + weights/bandwidth + activations/bandwidth, the engines counting cycles from ports,
// latencies, epilogue and copies (tile_design.cc, planar_design.cc). The constants are a robust least-squares fit of 75
// (AVX-512) and 81 (AVX2) timings of cpu.direct and cpu.gemm with one thread: ResNet-50's and SqueezeNet's layers in
// nhwc, nchw and nchw16c, 3D ones of five channels, transposed ones; weights outside L2, a Sapphire Rapids core that
// others loaded too (its FMA peak was 178 GFLOP/s, 92 with AVX2). Mean error 14% and 10%; the worst are 3D layers with
// wide dilation and few channels last (0.4 of the measured time) and transposed nchw ones (0.5).
double predict_seconds(const ConvProblem& problem, double cycles, int lanes) {
  const bool wide = lanes * static_cast<int>(size_of(problem.compute)) == 64;
  const double hz = wide ? 2.57e9 : 2.66e9;
  const double weight_bandwidth = wide ? 35e9 : 40e9;
  const double activation_bandwidth = wide ? 25e9 : 37e9;
  const double weights = static_cast<double>(problem.w.elements()) * static_cast<double>(size_of(problem.w.type));
  const double activations = bytes_moved(problem) - weights;
  return cycles / hz + weights / weight_bandwidth + activations / activation_bandwidth;
}

}  // namespace convoy::cpu
