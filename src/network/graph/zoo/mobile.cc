// Inverted residuals with depthwise convolutions: MobileNetV2 and EfficientNet.
#include "network/graph/zoo/builder.h"
#include "network/graph/zoo/models.h"

namespace convoy::zoo {
namespace {

constexpr float kBranchScale = 0.6F;  // of a residual branch's last gamma

struct MobileStage {
  std::int64_t expansion, kernel, stride, out;
  int repeats;
};

// Hu et al., "Squeeze-and-excitation networks", 2017.
Value squeeze_excite(ModelBuilder& b, const std::string& name, const Value& x, std::int64_t squeezed) {
  Value gate = b.global_average_pool(name + ".avgpool", x);
  gate = conv_act(b, name + ".reduce", gate, {.out = squeezed}, Activation::silu);
  gate = conv_act(b, name + ".expand", gate, {.out = x.channels}, Activation::sigmoid);
  return b.gate(name + ".scale", x, gate);
}

// Expansion, depthwise convolution, squeeze and excitation where the network has it, linear projection.
Value inverted_residual(ModelBuilder& b, const std::string& name, const Value& x, const MobileStage& stage,
                        std::int64_t stride, Activation activation, bool excite) {
  Value y = x;
  if (stage.expansion != 1) {
    y = conv_bn(b, name + ".expand", x, {.out = x.channels * stage.expansion}, activation);
  }
  y = conv_bn(b, name + ".depthwise", y,
              {.kernel = stage.kernel, .stride = stride, .pad = stage.kernel / 2, .groups = y.channels}, activation);
  if (excite) y = squeeze_excite(b, name + ".se", y, x.channels / 4);
  const bool residual = stride == 1 && x.channels == stage.out;
  y = conv_bn(b, name + ".project", y, {.out = stage.out}, Activation::none, residual ? kBranchScale : 1);
  return residual ? b.add(name + ".add", y, x) : y;
}

template <std::size_t N>
std::string mobile(const char* name, std::uint64_t seed, const MobileStage (&stages)[N], Activation activation,
                   bool excite) {
  ModelBuilder b(name, seed);
  Value x = conv_bn(b, "stem", b.input(3, {224, 224}), {.out = 32, .kernel = 3, .stride = 2, .pad = 1}, activation);
  int index = 1;
  for (const MobileStage& stage : stages) {
    for (int repeat = 0; repeat < stage.repeats; ++repeat) {
      x = inverted_residual(b, "block" + std::to_string(index++), x, stage, repeat == 0 ? stage.stride : 1, activation,
                            excite);
    }
  }
  return classified(b, conv_bn(b, "last", x, {.out = 1280}, activation), true);
}

}  // namespace

// Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018, table 2.
std::string mobilenet_v2() {
  constexpr MobileStage kStages[] = {{1, 3, 1, 16, 1}, {6, 3, 2, 24, 2},  {6, 3, 2, 32, 3}, {6, 3, 2, 64, 4},
                                     {6, 3, 1, 96, 3}, {6, 3, 2, 160, 3}, {6, 3, 1, 320, 1}};
  return mobile("mobilenet_v2", 2, kStages, Activation::relu6, false);
}

// Tan and Le, "EfficientNet: rethinking model scaling for convolutional neural networks", 2019, table 1.
std::string efficientnet_b0() {
  constexpr MobileStage kStages[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                                     {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
  return mobile("efficientnet_b0", 2019, kStages, Activation::silu, true);
}

}  // namespace convoy::zoo
