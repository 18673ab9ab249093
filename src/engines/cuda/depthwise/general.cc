// Any problem: a thread an output (depthwise_general.cu).
#include <algorithm>

#include "engines/cuda/depthwise/prediction.h"

namespace convoy::cuda {
namespace {

struct General {
  static constexpr const char* word = "general";
  static constexpr std::array<DepthwiseKnob, 0> knobs{};

  static std::vector<General> configurations(const DepthwiseShape&, const CudaDevice&) { return {General{}}; }

  double seconds(const DepthwiseShape& shape, const CudaDevice& device) const {
    const auto sms = static_cast<double>(sms_of(device));
    const auto products = static_cast<double>(shape.taps() * shape.fan_in);
    return 5e-6 + static_cast<double>(shape.outputs()) * products * 60 / (sms * 128 * kClock) +
           tensor_bytes(shape) / 3e12;
  }

  DepthwiseKernel kernel(const DepthwiseShape& shape, const CudaDevice& device) const {
    DepthwiseBlocks blocks;
    blocks.grid = wgrad(shape) ? shape.out_channels * shape.taps()
                               : std::clamp<std::int64_t>(ceil_div(shape.outputs(), 256), 1, sms_of(device) * 64);
    DepthwiseKernel kernel("depthwise_general.cu", shape, blocks);
    kernel.constants.set("CHANNELS_INNERMOST", shape.channels_innermost());
    kernel.adds_shares = false;
    return kernel;
  }
};

}  // namespace

extern constinit const DepthwiseFamily general_family = family_of<General>();

}  // namespace convoy::cuda
