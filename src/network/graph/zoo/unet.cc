// Segmentation: U-Net in two and three dimensions, unpadded as published. A size is good where every pooled map is
// even: 12 more than a multiple of 16 and at least 188 in two dimensions, 4 more than a multiple of 8 and at least 92
// in three.
#include "network/graph/zoo/builder.h"
#include "network/graph/zoo/models.h"

namespace convoy::zoo {
namespace {

struct Level {
  std::int64_t first, second;  // channels of the two convolutions on the way down
};

// What a convolution and its activation are differs between the two papers.
using Convolution = Value (*)(ModelBuilder&, const std::string&, const Value&, std::int64_t);

Value unet_body(ModelBuilder& b, Value x, const std::vector<Level>& levels, bool halve_upsampled,
                Convolution convolution) {
  std::vector<Value> skips;
  const std::size_t depth = levels.size();
  for (std::size_t i = 0; i < depth; ++i) {
    const std::string name = "down" + std::to_string(i + 1);
    if (i > 0) {
      skips.push_back(x);
      x = b.max_pool(name + ".pool", x, {});
    }
    x = convolution(b, name + ".1", x, levels[i].first);
    x = convolution(b, name + ".2", x, levels[i].second);
  }
  // Two unpadded 3x3 convolutions take 2 positions from either side, on the way down and on the way up.
  std::int64_t margin = 4;
  for (std::size_t i = depth - 1; i-- > 0;) {
    const std::string name = "up" + std::to_string(i + 1);
    const std::int64_t channels = skips[i].channels;
    const Value up = b.conv_transpose(name + ".transposed", x, halve_upsampled ? x.channels / 2 : x.channels, 2);
    x = b.concat(name + ".concat", {b.crop(name + ".crop", skips[i], margin), up});
    x = convolution(b, name + ".1", x, channels);
    x = convolution(b, name + ".2", x, channels);
    margin = 2 * (margin + 2) + 4;
  }
  return x;
}

}  // namespace

// Ronneberger et al., "U-Net: convolutional networks for biomedical image segmentation", 2015, figure 1.
std::string unet() {
  ModelBuilder b("unet", 2015);
  const std::vector<Level> levels = {{64, 64}, {128, 128}, {256, 256}, {512, 512}, {1024, 1024}};
  const Value x = unet_body(b, b.input(1, {572, 572}), levels, true,
                            [](ModelBuilder& builder, const std::string& name, const Value& in, std::int64_t out) {
                              return conv_act(builder, name, in, {.out = out, .kernel = 3}, Activation::relu);
                            });
  b.output(b.conv("out", x, {.out = 2, .bias = true}), {"H_out", "W_out"});
  return b.serialized();
}

// Cicek et al., "3D U-Net: learning dense volumetric segmentation from sparse annotation", 2016, figure 2.
std::string unet3d() {
  ModelBuilder b("unet3d", 2016);
  const std::vector<Level> levels = {{32, 64}, {64, 128}, {128, 256}, {256, 512}};
  const Value x = unet_body(b, b.input(3, {116, 132, 132}), levels, false,
                            [](ModelBuilder& builder, const std::string& name, const Value& in, std::int64_t out) {
                              return conv_bn(builder, name, in, {.out = out, .kernel = 3}, Activation::relu);
                            });
  b.output(b.conv("out", x, {.out = 3, .bias = true}), {"D_out", "H_out", "W_out"});
  return b.serialized();
}

}  // namespace convoy::zoo
