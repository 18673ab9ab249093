#include "network/graph/zoo/builder.h"
#include "network/graph/zoo/models.h"

namespace convoy::zoo {
namespace {

constexpr std::int64_t kGrowth = 32;

// BatchNormalization and relu come before the convolution here.
Value pre_activated(ModelBuilder& b, const std::string& name, const Value& x, const ConvSpec& spec) {
  const Value y = b.activation(name + ".act", b.batch_norm(name + ".bn", x), Activation::relu);
  return b.conv(name + ".conv", y, spec);
}

}  // namespace

// Huang et al., "Densely connected convolutional networks", 2016, table 1, DenseNet-121 (growth rate 32).
std::string densenet121() {
  ModelBuilder b("densenet121", 121);
  Value x =
      conv_bn(b, "stem", b.input(3, {224, 224}), {.out = 64, .kernel = 7, .stride = 2, .pad = 3}, Activation::relu);
  x = b.max_pool("maxpool", x, {.kernel = 3, .stride = 2, .pad = 1});
  constexpr int kLayers[] = {6, 12, 24, 16};
  for (int block = 0; block < 4; ++block) {
    if (block > 0) {
      const std::string name = "transition" + std::to_string(block);
      x = b.average_pool(name + ".pool", pre_activated(b, name, x, {.out = x.channels / 2}), {});
    }
    for (int layer = 0; layer < kLayers[block]; ++layer) {
      const std::string name = "dense" + std::to_string(block + 1) + "." + std::to_string(layer + 1);
      Value y = pre_activated(b, name + ".1", x, {.out = 4 * kGrowth});
      y = pre_activated(b, name + ".2", y, {.out = kGrowth, .kernel = 3, .pad = 1});
      x = b.concat(name + ".concat", {x, y});
    }
  }
  return classified(b, b.activation("last.act", b.batch_norm("last.bn", x), Activation::relu), false);
}

}  // namespace convoy::zoo
