// Residual networks: ResNet and ResNeXt.
#include "network/graph/zoo/builder.h"
#include "network/graph/zoo/models.h"

namespace convoy::zoo {
namespace {

// Gammas of the branches and the projections that keep the sums' variance from growing with the depth.
constexpr float kResidualScale = 0.4F, kProjectionScale = 0.8F;

struct ResidualStage {
  std::int64_t width, out, stride;
  int blocks;
};

Value stem(ModelBuilder& b) {
  const Value x =
      conv_bn(b, "stem", b.input(3, {224, 224}), {.out = 64, .kernel = 7, .stride = 2, .pad = 3}, Activation::relu);
  return b.max_pool("maxpool", x, {.kernel = 3, .stride = 2, .pad = 1});
}

Value joined(ModelBuilder& b, const std::string& name, const Value& branch, Value shortcut, std::int64_t stride) {
  if (stride != 1 || shortcut.channels != branch.channels) {
    shortcut = conv_bn(b, name + ".downsample", shortcut, {.out = branch.channels, .stride = stride}, Activation::none,
                       kProjectionScale);
  }
  return b.activation(name + ".relu", b.add(name + ".add", branch, shortcut), Activation::relu);
}

// Two 3x3 convolutions; the first has the stride.
Value basic_block(ModelBuilder& b, const std::string& name, const Value& x, std::int64_t out, std::int64_t stride) {
  Value y = conv_bn(b, name + ".1", x, {.out = out, .kernel = 3, .stride = stride, .pad = 1}, Activation::relu);
  y = conv_bn(b, name + ".2", y, {.kernel = 3, .pad = 1}, Activation::none, kResidualScale);
  return joined(b, name, y, x, stride);
}

// 1x1, 3x3 with the stride and the groups, 1x1.
Value bottleneck(ModelBuilder& b, const std::string& name, const Value& x, const ResidualStage& stage,
                 std::int64_t stride, std::int64_t groups) {
  Value y = conv_bn(b, name + ".1", x, {.out = stage.width}, Activation::relu);
  y = conv_bn(b, name + ".2", y, {.kernel = 3, .stride = stride, .pad = 1, .groups = groups}, Activation::relu);
  y = conv_bn(b, name + ".3", y, {.out = stage.out}, Activation::none, kResidualScale);
  return joined(b, name, y, x, stride);
}

std::string block_name(int stage, int block) {
  return "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
}

std::string bottlenecks(const char* name, std::uint64_t seed, std::int64_t groups, std::int64_t group_width) {
  ModelBuilder b(name, seed);
  Value x = stem(b);
  constexpr int kBlocks[] = {3, 4, 6, 3};
  for (int i = 0; i < 4; ++i) {
    const ResidualStage stage = {(groups * group_width) << i, std::int64_t{256} << i, i > 0 ? 2 : 1, kBlocks[i]};
    for (int block = 0; block < stage.blocks; ++block) {
      x = bottleneck(b, block_name(i, block), x, stage, block == 0 ? stage.stride : 1, groups);
    }
  }
  return classified(b, x, false);
}

}  // namespace

// He et al., "Deep residual learning for image recognition", 2015, table 1, 18 layers.
std::string resnet18() {
  ModelBuilder b("resnet18", 18);
  Value x = stem(b);
  for (int stage = 0; stage < 4; ++stage) {
    for (int block = 0; block < 2; ++block) {
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      x = basic_block(b, block_name(stage, block), x, std::int64_t{64} << stage, stride);
    }
  }
  return classified(b, x, false);
}

// The same table, 50 layers, with the stride in the 3x3 convolution, as everyone runs it ("v1.5").
std::string resnet50() { return bottlenecks("resnet50", 50, 1, 64); }

// Xie et al., "Aggregated residual transformations for deep neural networks", 2016, table 1.
std::string resnext50_32x4d() { return bottlenecks("resnext50_32x4d", 3250, 32, 4); }

}  // namespace convoy::zoo
