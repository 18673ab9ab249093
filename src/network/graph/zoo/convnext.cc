#include "network/graph/zoo/builder.h"
#include "network/graph/zoo/models.h"

namespace convoy::zoo {
namespace {

// LayerNormalization over the channels, which ONNX has over the last axes only.
Value channel_norm(ModelBuilder& b, const std::string& name, const Value& x) {
  Value y = b.transpose(name + ".to_last", x, {0, 2, 3, 1});
  y = b.layer_norm(name, y);
  return b.transpose(name + ".to_first", y, {0, 3, 1, 2});
}

// Depthwise 7x7, LayerNormalization, an inverted bottleneck of 1x1 convolutions, a weight a channel (figure 4).
Value block(ModelBuilder& b, const std::string& name, const Value& x) {
  Value y = b.conv(name + ".depthwise", x, {.kernel = 7, .pad = 3, .groups = x.channels, .bias = true});
  y = channel_norm(b, name + ".norm", y);
  y = conv_act(b, name + ".expand", y, {.out = 4 * x.channels}, Activation::gelu);
  y = b.conv(name + ".project", y, {.out = x.channels, .bias = true});
  return b.add(name + ".add", x, b.layer_scale(name + ".layer_scale", y, 0.5F));
}

}  // namespace

// Liu et al., "A ConvNet for the 2020s", 2022, ConvNeXt-T.
std::string convnext_tiny() {
  ModelBuilder b("convnext_tiny", 2022);
  constexpr int kBlocks[] = {3, 3, 9, 3};
  Value x = b.input(3, {224, 224});
  for (int stage = 0; stage < 4; ++stage) {
    const std::string name = "stage" + std::to_string(stage + 1);
    const std::int64_t channels = std::int64_t{96} << stage;
    if (stage == 0) {
      x = b.conv("stem", x, {.out = channels, .kernel = 4, .stride = 4, .bias = true});
      x = channel_norm(b, "stem.norm", x);
    } else {
      x = channel_norm(b, name + ".downsample.norm", x);
      x = b.conv(name + ".downsample", x, {.out = channels, .kernel = 2, .stride = 2, .bias = true});
    }
    for (int i = 0; i < kBlocks[stage]; ++i) x = block(b, name + "." + std::to_string(i), x);
  }
  const Value features = b.flatten("flatten", b.global_average_pool("avgpool", x));
  b.output(b.linear("classifier", b.layer_norm("norm", features), 1000));
  return b.serialized();
}

}  // namespace convoy::zoo
