// Classifiers of plain and branching convolutions: VGG, GoogLeNet, SqueezeNet.
#include "network/graph/zoo/builder.h"
#include "network/graph/zoo/models.h"

namespace convoy::zoo {

// Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2014, configuration D,
// in the fully convolutional form of section 3.2: the first fully connected layer is a 7x7 convolution, the others are
// 1x1, and the class scores are averaged over the positions. At 224x224 it is the network with the Flatten; larger
// pictures (any size from 224) run too.
std::string vgg16() {
  ModelBuilder b("vgg16", 16);
  Value x = b.input(3, {224, 224});
  struct Stage {
    std::int64_t channels;
    int convolutions;
  };
  constexpr Stage kStages[] = {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}};
  int index = 1;
  for (const Stage& stage : kStages) {
    for (int i = 1; i <= stage.convolutions; ++i) {
      const std::string name = "conv" + std::to_string(index) + "_" + std::to_string(i);
      x = conv_act(b, name, x, {.out = stage.channels, .kernel = 3, .pad = 1}, Activation::relu);
    }
    x = b.max_pool("pool" + std::to_string(index++), x, {});
  }
  x = b.dropout("drop6", conv_act(b, "fc6", x, {.out = 4096, .kernel = 7}, Activation::relu));
  x = b.dropout("drop7", conv_act(b, "fc7", x, {.out = 4096}, Activation::relu));
  x = b.conv("fc8", x, {.out = 1000, .bias = true});
  b.output(b.flatten("flatten", b.global_average_pool("average", x)));
  return b.serialized();
}

// Szegedy et al., "Going deeper with convolutions", 2014, table 1, without the auxiliary classifiers and with
// BatchNormalization (Ioffe and Szegedy, 2015) in the place of local response normalization, as it is run today.
std::string googlenet() {
  ModelBuilder b("googlenet", 2014);
  const auto relu = Activation::relu;
  const PoolSpec halve = {.kernel = 3, .stride = 2, .ceil_mode = true};
  Value x = conv_bn(b, "conv1", b.input(3, {224, 224}), {.out = 64, .kernel = 7, .stride = 2, .pad = 3}, relu);
  x = b.max_pool("pool1", x, halve);
  x = conv_bn(b, "conv2_reduce", x, {.out = 64}, relu);
  x = b.max_pool("pool2", conv_bn(b, "conv2", x, {.out = 192, .kernel = 3, .pad = 1}, relu), halve);
  struct Inception {
    const char* name;
    std::int64_t one, reduce3, three, reduce5, five, project;
    bool pool_behind;
  };
  constexpr Inception kTable[] = {{"3a", 64, 96, 128, 16, 32, 32},           {"3b", 128, 128, 192, 32, 96, 64, true},
                                  {"4a", 192, 96, 208, 16, 48, 64},          {"4b", 160, 112, 224, 24, 64, 64},
                                  {"4c", 128, 128, 256, 24, 64, 64},         {"4d", 112, 144, 288, 32, 64, 64},
                                  {"4e", 256, 160, 320, 32, 128, 128, true}, {"5a", 256, 160, 320, 32, 128, 128},
                                  {"5b", 384, 192, 384, 48, 128, 128}};
  for (const Inception& row : kTable) {
    const std::string name = row.name;
    const Value one = conv_bn(b, name + ".1x1", x, {.out = row.one}, relu);
    const Value reduce3 = conv_bn(b, name + ".3x3_reduce", x, {.out = row.reduce3}, relu);
    const Value three = conv_bn(b, name + ".3x3", reduce3, {.out = row.three, .kernel = 3, .pad = 1}, relu);
    const Value reduce5 = conv_bn(b, name + ".5x5_reduce", x, {.out = row.reduce5}, relu);
    const Value five = conv_bn(b, name + ".5x5", reduce5, {.out = row.five, .kernel = 5, .pad = 2}, relu);
    const Value pooled = b.max_pool(name + ".pool", x, {.kernel = 3, .stride = 1, .pad = 1});
    const Value project = conv_bn(b, name + ".pool_proj", pooled, {.out = row.project}, relu);
    x = b.concat(name + ".concat", {one, three, five, project});
    if (row.pool_behind) x = b.max_pool("pool" + name.substr(0, 1), x, halve);
  }
  return classified(b, x, true);
}

// Iandola et al., "SqueezeNet", 2016, in the 1.1 form of its repository.
std::string squeezenet1_1() {
  ModelBuilder b("squeezenet1_1", 11);
  const auto relu = Activation::relu;
  Value x = conv_act(b, "conv1", b.input(3, {224, 224}), {.out = 64, .kernel = 3, .stride = 2}, relu);
  struct Fire {
    std::int64_t squeeze, expand;
    bool pool_before;
  };
  constexpr Fire kFires[] = {{16, 64, true},  {16, 64},  {32, 128, true}, {32, 128},
                             {48, 192, true}, {48, 192}, {64, 256},       {64, 256}};
  int index = 2;
  for (const Fire& fire : kFires) {
    const std::string name = "fire" + std::to_string(index);
    if (fire.pool_before) {
      x = b.max_pool("maxpool" + std::to_string(index - 1), x, {.kernel = 3, .stride = 2, .ceil_mode = true});
    }
    const Value squeezed = conv_act(b, name + ".squeeze1x1", x, {.out = fire.squeeze}, relu);
    const Value one = conv_act(b, name + ".expand1x1", squeezed, {.out = fire.expand}, relu);
    const Value three = conv_act(b, name + ".expand3x3", squeezed, {.out = fire.expand, .kernel = 3, .pad = 1}, relu);
    x = b.concat(name + ".concat", {one, three});
    ++index;
  }
  x = conv_act(b, "conv10", b.dropout("dropout", x), {.out = 1000}, relu);
  b.output(b.flatten("flatten", b.global_average_pool("avgpool", x)));
  return b.serialized();
}

}  // namespace convoy::zoo
