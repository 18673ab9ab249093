// A detector of the YOLO kind, small: the parts that such networks are made of today, in an arrangement of our own.
#include "network/graph/zoo/builder.h"
#include "network/graph/zoo/models.h"

namespace convoy::zoo {
namespace {

constexpr auto kSilu = Activation::silu;
constexpr std::int64_t kObjectClasses = 80;
constexpr float kBottleneckScale = 0.6F;

// Wang et al., "CSPNet", 2019, in the form of "Designing network design strategies through gradient path analysis"
// (ELAN, 2022): half of the channels goes through the blocks, and every block's output is kept.
Value csp(ModelBuilder& b, const std::string& name, const Value& x, std::int64_t out, int blocks, bool shortcut) {
  std::vector<Value> parts = b.split_in_two(name + ".split", conv_bn(b, name + ".in", x, {.out = out}, kSilu));
  for (int i = 0; i < blocks; ++i) {
    const std::string block = name + "." + std::to_string(i);
    const Value before = parts.back();
    Value y = conv_bn(b, block + ".1", before, {.kernel = 3, .pad = 1}, kSilu);
    y = conv_bn(b, block + ".2", y, {.kernel = 3, .pad = 1}, kSilu, kBottleneckScale);
    parts.push_back(shortcut ? b.add(block + ".add", before, y) : y);
  }
  return conv_bn(b, name + ".out", b.concat(name + ".concat", parts), {.out = out}, kSilu);
}

Value down(ModelBuilder& b, const std::string& name, const Value& x, std::int64_t out) {
  return conv_bn(b, name, x, {.out = out, .kernel = 3, .stride = 2, .pad = 1}, kSilu);
}

// He et al., "Spatial pyramid pooling", 2014, as three pools in a row.
Value pyramid_pooling(ModelBuilder& b, const Value& x) {
  std::vector<Value> parts = {conv_bn(b, "spp.in", x, {.out = x.channels / 2}, kSilu)};
  for (int i = 1; i <= 3; ++i) {
    parts.push_back(b.max_pool("spp.pool" + std::to_string(i), parts.back(), {.kernel = 5, .stride = 1, .pad = 2}));
  }
  return conv_bn(b, "spp.out", b.concat("spp.concat", parts), {.out = x.channels}, kSilu);
}

// Ge et al., "YOLOX", 2021: boxes and classes in branches of their own. N x (4 + 1 + classes) x positions.
Value head(ModelBuilder& b, const std::string& name, const Value& x) {
  const auto branch = [&](const std::string& of, const Value& in) {
    const Value y = conv_bn(b, of + ".1", in, {.out = 64, .kernel = 3, .pad = 1}, kSilu);
    return conv_bn(b, of + ".2", y, {.kernel = 3, .pad = 1}, kSilu);
  };
  const Value stem = conv_bn(b, name + ".stem", x, {.out = 64}, kSilu);
  const Value of_box = branch(name + ".box", stem);
  const Value of_class = branch(name + ".class", stem);
  const Value box = b.conv(name + ".box.out", of_box, {.out = 4, .bias = true});
  const Value object = conv_act(b, name + ".object", of_box, {.out = 1}, Activation::sigmoid);
  const Value classes = conv_act(b, name + ".class.out", of_class, {.out = kObjectClasses}, Activation::sigmoid);
  return b.flatten_positions(name + ".flatten", b.concat(name + ".concat", {box, object, classes}));
}

}  // namespace

// Backbone with maps at 1/8, 1/16 and 1/32; Lin et al., "Feature pyramid networks", 2016, on the way up and Liu et al.,
// "Path aggregation network", 2018, on the way down; a head a map. Output: N x positions x (box, object, classes).
// Sizes are multiples of 32.
std::string yolo_tiny() {
  ModelBuilder b("yolo_tiny", 640);
  Value x = down(b, "stem", b.input(3, {640, 640}), 16);
  x = csp(b, "backbone1", down(b, "down1", x, 32), 32, 1, true);
  const Value p3 = csp(b, "backbone2", down(b, "down2", x, 64), 64, 2, true);
  const Value p4 = csp(b, "backbone3", down(b, "down3", p3, 128), 128, 2, true);
  const Value p5 = pyramid_pooling(b, csp(b, "backbone4", down(b, "down4", p4, 256), 256, 1, true));

  const Value up4 = b.concat("fpn4.join", {b.double_size("fpn4.resize", p5), p4});
  const Value n4 = csp(b, "fpn4", up4, 128, 1, false);
  const Value up3 = b.concat("fpn3.join", {b.double_size("fpn3.resize", n4), p3});
  const Value out3 = csp(b, "fpn3", up3, 64, 1, false);
  const Value out4 = csp(b, "pan4", b.concat("pan4.join", {down(b, "pan4.down", out3, 64), n4}), 128, 1, false);
  const Value out5 = csp(b, "pan5", b.concat("pan5.join", {down(b, "pan5.down", out4, 128), p5}), 256, 1, false);

  const std::vector<Value> maps = {head(b, "head3", out3), head(b, "head4", out4), head(b, "head5", out5)};
  const Value all = b.concat("predictions", maps, 2);
  b.output_positions(b.transpose("transpose", all, {0, 2, 1}));
  return b.serialized();
}

}  // namespace convoy::zoo
