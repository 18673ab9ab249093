// Published architectures with seeded weights.
#include <functional>

#include "convoy/network.h"
#include "network/onnx/model_builder.h"

namespace convoy {
namespace {

using onnx_io::ConvSpec;
using onnx_io::ModelBuilder;

constexpr std::int64_t kClasses = 1000;

std::string begin(ModelBuilder& b) { return b.input("input", {3, 224, 224}); }

std::string finish(ModelBuilder& b, const std::string& logits) {
  b.output(logits, {kClasses});
  return b.serialized();
}

// He et al., "Deep residual learning for image recognition", 2015, table 1, 18 layers; stride in the first 3x3.
std::string resnet18() {
  ModelBuilder b("resnet18", 18);
  std::string x = b.conv("conv1", begin(b), {.in = 3, .out = 64, .kernel = 7, .stride = 2, .pad = 3, .gain = 1});
  x = b.relu("relu", b.batch_norm("bn1", x, 64));
  x = b.max_pool("maxpool", x, 3, 2, 1, false);
  std::int64_t channels = 64;
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t out = std::int64_t{64} << stage;
    for (int block = 0; block < 2; ++block) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      std::string shortcut = x;
      x = b.conv(name + ".conv1", x, {.in = channels, .out = out, .kernel = 3, .stride = stride, .pad = 1});
      x = b.relu(name + ".relu1", b.batch_norm(name + ".bn1", x, out));
      x = b.conv(name + ".conv2", x, {.in = out, .out = out, .kernel = 3, .pad = 1});
      // Half a gamma on the branch keeps the sum's variance from doubling at every block.
      x = b.batch_norm(name + ".bn2", x, out, 0.5F);
      if (stride != 1) {
        shortcut = b.conv(name + ".downsample.0", shortcut, {.in = channels, .out = out, .stride = stride});
        shortcut = b.batch_norm(name + ".downsample.1", shortcut, out, 0.7F);
      }
      x = b.relu(name + ".relu2", b.add(name + ".add", x, shortcut));
      channels = out;
    }
  }
  x = b.flatten("flatten", b.global_average_pool("avgpool", x));
  return finish(b, b.linear("fc", x, channels, kClasses));
}

// Iandola et al., "SqueezeNet", 2016, in the 1.1 form of its repository.
std::string squeezenet1_1() {
  ModelBuilder b("squeezenet1_1", 11);
  std::string x = b.conv("conv1", begin(b), {.in = 3, .out = 64, .kernel = 3, .stride = 2, .bias = true, .gain = 1});
  x = b.relu("relu1", x);
  struct Fire {
    std::int64_t squeeze, expand;
    bool pool_before;
  };
  constexpr Fire kFires[] = {{16, 64, true},  {16, 64, false},  {32, 128, true},  {32, 128, false},
                             {48, 192, true}, {48, 192, false}, {64, 256, false}, {64, 256, false}};
  std::int64_t channels = 64;
  int index = 2;
  for (const Fire& fire : kFires) {
    const std::string name = "fire" + std::to_string(index);
    if (fire.pool_before) x = b.max_pool("maxpool" + std::to_string(index - 1), x, 3, 2, 0, true);
    x = b.relu(name + ".squeeze_relu",
               b.conv(name + ".squeeze", x, {.in = channels, .out = fire.squeeze, .bias = true}));
    const std::string one =
        b.relu(name + ".expand1x1_relu",
               b.conv(name + ".expand1x1", x, {.in = fire.squeeze, .out = fire.expand, .bias = true}));
    const std::string three = b.relu(
        name + ".expand3x3_relu",
        b.conv(name + ".expand3x3", x, {.in = fire.squeeze, .out = fire.expand, .kernel = 3, .pad = 1, .bias = true}));
    x = b.concat(name + ".concat", {one, three});
    channels = 2 * fire.expand;
    ++index;
  }
  x = b.dropout("dropout", x);
  x = b.relu("relu10", b.conv("conv10", x, {.in = channels, .out = kClasses, .bias = true}));
  return finish(b, b.flatten("flatten", b.global_average_pool("avgpool", x)));
}

// Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018, table 2.
std::string mobilenet_v2() {
  ModelBuilder b("mobilenet_v2", 2);
  std::string x =
      b.conv("features.0.conv", begin(b), {.in = 3, .out = 32, .kernel = 3, .stride = 2, .pad = 1, .gain = 1});
  x = b.relu6("features.0.relu", b.batch_norm("features.0.bn", x, 32));
  struct Stage {
    std::int64_t expansion, channels, repeats, stride;
  };
  constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  std::int64_t channels = 32;
  int index = 1;
  bool after_relu = true;
  for (const Stage& stage : kStages) {
    for (std::int64_t repeat = 0; repeat < stage.repeats; ++repeat) {
      const std::string name = "features." + std::to_string(index++);
      const std::int64_t stride = repeat == 0 ? stage.stride : 1;
      const std::int64_t hidden = channels * stage.expansion;
      const std::string shortcut = x;
      if (stage.expansion != 1) {
        x = b.conv(name + ".expand", x, {.in = channels, .out = hidden, .gain = after_relu ? 2.0 : 1.0});
        x = b.relu6(name + ".expand_relu", b.batch_norm(name + ".expand_bn", x, hidden));
      }
      x = b.conv(name + ".depthwise", x,
                 {.in = hidden, .out = hidden, .kernel = 3, .stride = stride, .pad = 1, .groups = hidden});
      x = b.relu6(name + ".depthwise_relu", b.batch_norm(name + ".depthwise_bn", x, hidden));
      const bool residual = stride == 1 && channels == stage.channels;
      x = b.conv(name + ".project", x, {.in = hidden, .out = stage.channels});
      x = b.batch_norm(name + ".project_bn", x, stage.channels, residual ? 0.5F : 1.0F);
      if (residual) x = b.add(name + ".add", x, shortcut);
      channels = stage.channels;
      after_relu = false;
    }
  }
  x = b.conv("features.18.conv", x, {.in = channels, .out = 1280, .gain = 1});
  x = b.relu6("features.18.relu", b.batch_norm("features.18.bn", x, 1280));
  x = b.dropout("dropout", b.flatten("flatten", b.global_average_pool("avgpool", x)));
  return finish(b, b.linear("classifier", x, 1280, kClasses));
}

struct ZooModel {
  const char* name;
  std::string (*build)();
};
constexpr ZooModel kZoo[] = {{"mobilenet_v2", mobilenet_v2}, {"resnet18", resnet18}, {"squeezenet1_1", squeezenet1_1}};

}  // namespace

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  for (const ZooModel& model : kZoo) names.emplace_back(model.name);
  return names;
}

Result<std::string> zoo_model(const std::string& name) {
  std::string names;
  for (const ZooModel& model : kZoo) {
    if (name == model.name) return model.build();
    names += (names.empty() ? "" : ", ") + std::string(model.name);
  }
  return Error{ErrorCode::not_found, "the zoo has no model '" + name + "'; it has " + names};
}

}  // namespace convoy
