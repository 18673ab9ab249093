// Decoders of latent video.
#include <cmath>
#include <limits>

#include "network/graph/zoo/builder.h"
#include "network/graph/zoo/models.h"

namespace convoy::zoo {
namespace {

constexpr std::int64_t kGroups = 32;

// Yu et al., "MAGVIT-v2", 2024: 3x3x3 that sees no later frame, the edges of its input repeated.
Value causal_conv(ModelBuilder& b, const std::string& name, const Value& x, std::int64_t out = 0) {
  const Value padded = b.pad_by_edge(name + ".pad", x, {2, 1, 1}, {0, 1, 1});
  return b.conv(name, padded, {.out = out, .kernel = 3, .bias = true});
}

Value norm_act(ModelBuilder& b, const std::string& name, const Value& x) {
  return b.activation(name + ".act", b.group_norm(name, x, kGroups), Activation::silu);
}

Value residual(ModelBuilder& b, const std::string& name, const Value& x, std::int64_t out) {
  Value y = causal_conv(b, name + ".conv1", norm_act(b, name + ".norm1", x), out);
  y = causal_conv(b, name + ".conv2", norm_act(b, name + ".norm2", y));
  const Value shortcut = x.channels == out ? x : b.conv(name + ".shortcut", x, {.out = out, .bias = true});
  return b.add(name + ".add", y, shortcut);
}

// Positions x positions: 0 where the second's frame is not later than the first's, else minus infinity.
Value causal_mask(ModelBuilder& b, const std::string& name, const Value& x) {
  const Value size = b.apply("Shape", name + ".size", {x}, {{"start", 2}});
  const Value count = b.apply("Gather", name + ".count", {size, b.scalar(name + ".axis", std::int64_t{0})});
  const Value frames =
      b.apply("Range", name + ".frames",
              {b.scalar(name + ".first", std::int64_t{0}), count, b.scalar(name + ".step", std::int64_t{1})});
  const Value volume = b.apply("Expand", name + ".expand", {b.reshape(name + ".thick", frames, {-1, 1, 1}), size});
  const Value later =
      b.apply("Less", name + ".later",
              {b.reshape(name + ".column", volume, {-1, 1}), b.reshape(name + ".row", volume, {1, -1})});
  return b.apply(
      "Where", name,
      {later, b.scalar(name + ".never", -std::numeric_limits<float>::infinity()), b.scalar(name + ".none", 0.0F)});
}

// One head over all positions of all frames.
Value attention(ModelBuilder& b, const std::string& name, const Value& x) {
  const Value columns = b.reshape(name + ".flatten", b.group_norm(name + ".norm", x, kGroups), {0, x.channels, -1});
  const Value rows = b.transpose(name + ".rows", columns, {0, 2, 1});
  const Value query = b.linear_of_last(name + ".query", rows, x.channels);
  const Value key = b.transpose(name + ".key_columns", b.linear_of_last(name + ".key", rows, x.channels), {0, 2, 1});
  const Value value = b.linear_of_last(name + ".value", rows, x.channels);
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(x.channels)));
  Value scores = b.apply("MatMul", name + ".scores", {query, key});
  scores = b.apply("Mul", name + ".scaled", {scores, b.scalar(name + ".scale", scale)});
  scores = b.apply("Add", name + ".masked", {scores, causal_mask(b, name + ".mask", x)});
  Value y = b.apply("MatMul", name + ".mean", {b.apply("Softmax", name + ".softmax", {scores}, {{"axis", -1}}), value});
  y.channels = x.channels;
  y = b.transpose(name + ".columns", b.linear_of_last(name + ".out", y, x.channels), {0, 2, 1});
  y = b.apply("Reshape", name + ".volume", {y, b.apply("Shape", name + ".size", {x})});
  return b.add(name + ".add", y, x);
}

// The first frame stays one: it is a picture of its own, each later one stands for several.
Value enlarged(ModelBuilder& b, const std::string& name, const Value& x, bool in_time) {
  Value y = b.enlarge(name + ".resize", x, {in_time ? 2.0F : 1.0F, 2, 2});
  if (in_time) {
    y = b.apply("Slice", name + ".slice",
                {y, b.indices(name + ".start", {1}),
                 b.indices(name + ".end", {std::numeric_limits<std::int64_t>::max()}), b.indices(name + ".axis", {2})});
  }
  return causal_conv(b, name, y);
}

}  // namespace

// Kong et al., "HunyuanVideo", 2024: the decoder of its VAE. 16 channels of D x H x W become 3 of (4 * D - 3) x 8 * H x
// 8 * W.
std::string hunyuan_video_decoder() {
  ModelBuilder b("hunyuan_video_decoder", 2024, 1e-6F);
  constexpr std::int64_t kChannels[] = {512, 512, 256, 128};
  Value x = b.conv("post_quant", b.input(16, {3, 8, 8}), {.bias = true});
  x = causal_conv(b, "in", x, kChannels[0]);
  x = residual(b, "middle.1", x, kChannels[0]);
  x = attention(b, "middle.attention", x);
  x = residual(b, "middle.2", x, kChannels[0]);
  for (int stage = 0; stage < 4; ++stage) {
    const std::string name = "up" + std::to_string(stage + 1);
    for (int i = 1; i <= 3; ++i) x = residual(b, name + "." + std::to_string(i), x, kChannels[stage]);
    if (stage < 3) x = enlarged(b, name + ".enlarge", x, stage > 0);
  }
  b.output(causal_conv(b, "out", norm_act(b, "norm", x), 3), {"D_out", "H_out", "W_out"});
  return b.serialized();
}

}  // namespace convoy::zoo
