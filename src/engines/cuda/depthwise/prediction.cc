#include "engines/cuda/depthwise/prediction.h"

#include <algorithm>
#include <cmath>

namespace convoy::cuda {
namespace {

// Of a thread that nothing else runs beside: its launch, each time that it waits for memory, a product. What an H200
// took for one image of ConvNeXt-T's and EfficientNet-B0's layers.
constexpr double kLaunchAlone = 2.3e-6, kWait = 0.46e-6, kProductAlone = 0.45e-9;

}  // namespace

double tensor_bytes(const DepthwiseShape& shape) {
  return (static_cast<double>(shape.outputs()) + static_cast<double>(shape.inputs())) * shape.element_bytes();
}

double fitted_seconds(const DepthwiseShape& shape, const Work& work, const Costs& costs, const DepthwiseBlocks& blocks,
                      const CudaDevice& device) {
  const auto sms = static_cast<double>(sms_of(device));
  const double threads = static_cast<double>(blocks.blocks_per_sm * blocks.threads) * work.in_flight;
  const double waves = static_cast<double>(blocks.grid) / (sms * static_cast<double>(blocks.blocks_per_sm));
  const double slots = costs.product * work.products + costs.load * work.loads + costs.convert * work.converts +
                       costs.store * work.stores + costs.tile * work.tiles + costs.weight * work.weights;
  double times[] = {slots * work.threads_tiles / (sms * 128 * kClock),
                    tensor_bytes(shape) / (costs.memory * 1e12) * (1 + costs.few_threads / threads),
                    costs.shared * work.shared * work.threads_tiles / (sms * 32 * kClock)};
  std::sort(times, times + 3);
  const double filled = waves / (waves + costs.tail * (std::ceil(waves) - waves)) * blocks.balance;
  const double alone = kLaunchAlone + kWait * work.waits + kProductAlone * work.products * work.channels;
  return std::max(costs.launch * 1e-6 + times[2] / filled + costs.unhidden * (times[0] + times[1]),
                  work.waits > 0 ? alone : 0);
}

}  // namespace convoy::cuda
