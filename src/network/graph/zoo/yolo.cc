// Detectors of the YOLO kind: YOLOv8n, and a smaller head of our own on the same backbone and neck.
#include <array>

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
  std::vector<Value> parts =
      b.split(name + ".split", conv_bn(b, name + ".in", x, {.out = out}, kSilu), {out / 2, out / 2});
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
  const Value all = b.concat(name + ".concat", {box, object, classes});
  return b.reshape(name + ".flatten", all, {0, all.channels, -1});
}

// Backbone with maps at 1/8, 1/16 and 1/32; Lin et al., "Feature pyramid networks", 2016, on the way up and Liu et al.,
// "Path aggregation network", 2018, on the way down. Sizes are multiples of 32.
std::array<Value, 3> feature_maps(ModelBuilder& b) {
  Value x = down(b, "stem", b.input(3, {640, 640}), 16);
  x = csp(b, "backbone1", down(b, "down1", x, 32), 32, 1, true);
  const Value p3 = csp(b, "backbone2", down(b, "down2", x, 64), 64, 2, true);
  const Value p4 = csp(b, "backbone3", down(b, "down3", p3, 128), 128, 2, true);
  const Value p5 = pyramid_pooling(b, csp(b, "backbone4", down(b, "down4", p4, 256), 256, 1, true));

  const Value up4 = b.concat("fpn4.join", {b.enlarge("fpn4.resize", p5, {2, 2}), p4});
  const Value n4 = csp(b, "fpn4", up4, 128, 1, false);
  const Value up3 = b.concat("fpn3.join", {b.enlarge("fpn3.resize", n4, {2, 2}), p3});
  const Value out3 = csp(b, "fpn3", up3, 64, 1, false);
  const Value out4 = csp(b, "pan4", b.concat("pan4.join", {down(b, "pan4.down", out3, 64), n4}), 128, 1, false);
  const Value out5 = csp(b, "pan5", b.concat("pan5.join", {down(b, "pan5.down", out4, 128), p5}), 256, 1, false);
  return {out3, out4, out5};
}

// Li et al., "Generalized focal loss", 2020: each side of a box as a distribution over 16 distances.
constexpr std::int64_t kSides = 4, kDistances = 16;

// N x (4 * 16 + classes) x positions, before the sigmoid.
Value distribution_head(ModelBuilder& b, const std::string& name, const Value& x) {
  const auto branch = [&](const std::string& of, std::int64_t width, std::int64_t out) {
    Value y = conv_bn(b, of + ".1", x, {.out = width, .kernel = 3, .pad = 1}, kSilu);
    y = conv_bn(b, of + ".2", y, {.kernel = 3, .pad = 1}, kSilu);
    return b.conv(of + ".out", y, {.out = out, .bias = true});
  };
  const Value box = branch(name + ".box", 64, kSides * kDistances);
  const Value classes = branch(name + ".class", kObjectClasses, kObjectClasses);
  const Value all = b.concat(name + ".concat", {box, classes});
  return b.reshape(name + ".flatten", all, {0, all.channels, -1});
}

// Of each position of a map x and y of its centre, 2 x positions, and the pixels between neighbours, 1 x positions.
struct Anchors {
  Value centres, strides;
};

Anchors anchors(ModelBuilder& b, const std::string& name, const Value& map, float stride) {
  const Value size = b.apply("Shape", name + ".size", {map}, {{"start", 2}});
  const auto row = [&](const std::string& of, const Value& values) {
    return b.reshape(of + ".row", b.apply("Expand", of + ".expand", {values, size}), {1, -1});
  };
  const auto centres = [&](const std::string& of, std::int64_t axis) {
    const Value count = b.apply("Gather", of + ".count", {size, b.scalar(of + ".axis", axis)});
    const Value steps =
        b.apply("Range", of + ".range",
                {b.scalar(of + ".first", std::int64_t{0}), count, b.scalar(of + ".step", std::int64_t{1})});
    const Value reals = b.apply("Cast", of + ".cast", {steps}, {{"to", ::onnx::TensorProto::FLOAT}});
    return b.apply("Add", of, {reals, b.scalar(of + ".half", 0.5F)});
  };
  const Value x = row(name + ".x", centres(name + ".x", 1));
  const Value y = row(name + ".y", b.reshape(name + ".y.column", centres(name + ".y", 0), {-1, 1}));
  return {b.concat(name + ".centres", {x, y}, 0), row(name + ".stride", b.scalar(name + ".pixels", stride))};
}

}  // namespace

// A head of our own. Output: N x positions x (box, object, classes).
std::string yolo_tiny() {
  ModelBuilder b("yolo_tiny", 640);
  const auto [out3, out4, out5] = feature_maps(b);
  const std::vector<Value> maps = {head(b, "head3", out3), head(b, "head4", out4), head(b, "head5", out5)};
  const Value all = b.concat("predictions", maps, 2);
  b.output_positions(b.transpose("transpose", all, {0, 2, 1}));
  return b.serialized();
}

// Jocher et al., "Ultralytics YOLOv8", 2023, the nano model with its tail as it is exported. Output: N x (x and y of
// the centre, width, height in pixels, classes) x positions.
std::string yolov8n() {
  ModelBuilder b("yolov8n", 8, 1e-3F);
  const std::array<Value, 3> maps = feature_maps(b);
  std::vector<Value> predictions, centres, strides;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const std::string level = std::to_string(i + 3);
    predictions.push_back(distribution_head(b, "head" + level, maps[i]));
    const Anchors of_map = anchors(b, "anchors" + level, maps[i], static_cast<float>(8 << i));
    centres.push_back(of_map.centres);
    strides.push_back(of_map.strides);
  }
  const std::vector<Value> parts =
      b.split("split", b.concat("predictions", predictions, 2), {kSides * kDistances, kObjectClasses});

  Value sides = b.reshape("dfl.sides", parts[0], {0, kSides, kDistances, -1});
  sides = b.transpose("dfl.transpose", sides, {0, 2, 1, 3});
  sides.channels = kDistances;
  sides = b.expectation("dfl", b.apply("Softmax", "dfl.softmax", {sides}, {{"axis", 1}}));
  const std::vector<Value> corners = b.split("box.corners", b.reshape("dfl.flatten", sides, {0, kSides, -1}), {2, 2});
  const Value centre = b.concat("centres", centres, 1);
  const Value low = b.apply("Sub", "box.low", {centre, corners[0]});
  const Value high = b.apply("Add", "box.high", {centre, corners[1]});
  const Value middle =
      b.apply("Div", "box.middle", {b.apply("Add", "box.sum", {low, high}), b.scalar("box.two", 2.0F)});
  const Value size = b.apply("Sub", "box.size", {high, low});
  Value box = b.apply("Mul", "box", {b.concat("box.concat", {middle, size}), b.concat("strides", strides, 1)});
  box.channels = kSides;
  b.output(b.concat("output", {box, b.activation("classes", parts[1], Activation::sigmoid)}), {"positions"});
  return b.serialized();
}

}  // namespace convoy::zoo
