// Inverted residuals with depthwise convolutions: MobileNetV2, MobileNetV3 and EfficientNet.
#include "network/graph/zoo/builder.h"
#include "network/graph/zoo/models.h"

namespace convoy::zoo {
namespace {

constexpr float kBranchScale = 0.6F;  // of a residual branch's last gamma

// Hu et al., "Squeeze-and-excitation networks", 2017; none where `squeezed` is 0.
struct Excitation {
  std::int64_t squeezed = 0;
  Activation inner = Activation::none, gate = Activation::none;
};

struct MobileBlock {
  std::int64_t expanded, kernel, stride, out;
  Activation activation;
  Excitation excitation;
};

Value excited(ModelBuilder& b, const std::string& name, const Value& x, const Excitation& excitation) {
  Value gate = b.global_average_pool(name + ".avgpool", x);
  gate = conv_act(b, name + ".reduce", gate, {.out = excitation.squeezed}, excitation.inner);
  gate = conv_act(b, name + ".expand", gate, {.out = x.channels}, excitation.gate);
  return b.gate(name + ".scale", x, gate);
}

// Expansion, depthwise convolution, squeeze and excitation where the block has it, linear projection.
Value inverted_residual(ModelBuilder& b, const std::string& name, const Value& x, const MobileBlock& block) {
  Value y = x;
  if (block.expanded != x.channels) y = conv_bn(b, name + ".expand", x, {.out = block.expanded}, block.activation);
  const ConvSpec depthwise = {
      .kernel = block.kernel, .stride = block.stride, .pad = block.kernel / 2, .groups = y.channels};
  y = conv_bn(b, name + ".depthwise", y, depthwise, block.activation);
  if (block.excitation.squeezed != 0) y = excited(b, name + ".se", y, block.excitation);
  const bool residual = block.stride == 1 && x.channels == block.out;
  y = conv_bn(b, name + ".project", y, {.out = block.out}, Activation::none, residual ? kBranchScale : 1);
  return residual ? b.add(name + ".add", y, x) : y;
}

// Blocks of one width, the first of which has the stride. `expansion` multiplies what comes in.
struct MobileStage {
  std::int64_t expansion, kernel, stride, out;
  int repeats;
};

template <std::size_t N>
std::string mobile(const char* name, std::uint64_t seed, const MobileStage (&stages)[N], Activation activation,
                   bool excite) {
  ModelBuilder b(name, seed);
  Value x = conv_bn(b, "stem", b.input(3, {224, 224}), {.out = 32, .kernel = 3, .stride = 2, .pad = 1}, activation);
  int index = 1;
  for (const MobileStage& stage : stages) {
    for (int repeat = 0; repeat < stage.repeats; ++repeat) {
      const Excitation excitation =
          excite ? Excitation{x.channels / 4, Activation::silu, Activation::sigmoid} : Excitation{};
      x = inverted_residual(b, "block" + std::to_string(index++), x,
                            {x.channels * stage.expansion, stage.kernel, repeat == 0 ? stage.stride : 1, stage.out,
                             activation, excitation});
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

// Howard et al., "Searching for MobileNetV3", 2019, table 1, with the layers behind the pool linear as torchvision has
// them. A quarter of the expanded channels is squeezed to, in multiples of 8.
std::string mobilenet_v3_large() {
  constexpr auto kRelu = Activation::relu, kSwish = Activation::hard_swish;
  constexpr auto squeeze = [](std::int64_t squeezed) {
    return Excitation{squeezed, Activation::relu, Activation::hard_sigmoid};
  };
  constexpr MobileBlock kBlocks[] = {
      {16, 3, 1, 16, kRelu, {}},
      {64, 3, 2, 24, kRelu, {}},
      {72, 3, 1, 24, kRelu, {}},
      {72, 5, 2, 40, kRelu, squeeze(24)},
      {120, 5, 1, 40, kRelu, squeeze(32)},
      {120, 5, 1, 40, kRelu, squeeze(32)},
      {240, 3, 2, 80, kSwish, {}},
      {200, 3, 1, 80, kSwish, {}},
      {184, 3, 1, 80, kSwish, {}},
      {184, 3, 1, 80, kSwish, {}},
      {480, 3, 1, 112, kSwish, squeeze(120)},
      {672, 3, 1, 112, kSwish, squeeze(168)},
      {672, 5, 2, 160, kSwish, squeeze(168)},
      {960, 5, 1, 160, kSwish, squeeze(240)},
      {960, 5, 1, 160, kSwish, squeeze(240)},
  };
  ModelBuilder b("mobilenet_v3_large", 2020, 1e-3F);
  Value x = conv_bn(b, "stem", b.input(3, {224, 224}), {.out = 16, .kernel = 3, .stride = 2, .pad = 1}, kSwish);
  int index = 1;
  for (const MobileBlock& block : kBlocks) x = inverted_residual(b, "block" + std::to_string(index++), x, block);
  x = b.flatten("flatten", b.global_average_pool("avgpool", conv_bn(b, "last", x, {.out = 960}, kSwish)));
  x = b.activation("hidden.act", b.linear("hidden", x, 1280), kSwish);
  b.output(b.linear("classifier", b.dropout("dropout", x), 1000));
  return b.serialized();
}

// Tan and Le, "EfficientNet: rethinking model scaling for convolutional neural networks", 2019, table 1.
std::string efficientnet_b0() {
  constexpr MobileStage kStages[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                                     {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
  return mobile("efficientnet_b0", 2019, kStages, Activation::silu, true);
}

}  // namespace convoy::zoo
