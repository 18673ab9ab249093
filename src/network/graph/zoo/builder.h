// Writes ONNX models layer by layer, with seeded weights that are the same on every machine and keep activations of
// order 1 through any depth.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "onnx.pb.h"

namespace convoy::zoo {

// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014): integers only, so that
// every machine and library draws the same numbers.
class SeededGenerator {
 public:
  explicit SeededGenerator(std::uint64_t seed) : state_(seed) {}
  float uniform(float low, float high) {  // in [low, high), 24 bits of it
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    z ^= z >> 31;
    return low + (high - low) * (static_cast<float>(z >> 40) * 0x1p-24F);
  }

 private:
  std::uint64_t state_;
};

enum class Activation { none, relu, relu6, silu, gelu, sigmoid, hard_swish, hard_sigmoid };

// An activation N x channels x positions. `power` is the mean of squares that it should have for an input of variance
// 1; weights behind it are scaled by it (He et al., "Delving deep into rectifiers", 2015, for any activation).
struct Value {
  std::string name;
  std::int64_t channels = 0;
  double power = 1;
  bool positive = false;  // a relu's output, which another relu leaves as it is
};

// Square filters; `out` 0 keeps the channels.
struct ConvSpec {
  std::int64_t out = 0, kernel = 1, stride = 1, pad = 0, groups = 1;
  bool bias = false;
};

struct PoolSpec {
  std::int64_t kernel = 2, stride = 2, pad = 0;
  bool ceil_mode = false;
};

// Every function adds a layer; `name` becomes the name of its node.
class ModelBuilder {
 public:
  // `epsilon` is BatchNormalization's and GroupNormalization's.
  ModelBuilder(const std::string& graph_name, std::uint64_t seed, float epsilon = 1e-5F);

  // N x channels x one dim a size, all free but the channels and named N, (D,) H, W. `sizes` is what the network was
  // published for; the model's metadata says it ("convoy.size.H": "224").
  Value input(std::int64_t channels, const std::vector<std::int64_t>& sizes);
  // N x channels x the free dims; positions: N x positions x channels.
  void output(const Value& value, const std::vector<std::string>& free_dims = {});
  void output_positions(const Value& value);
  std::string serialized() const;

  // Convolutions give power 1.
  Value conv(const std::string& name, const Value& x, const ConvSpec& spec);
  Value conv_transpose(const std::string& name, const Value& x, std::int64_t out, std::int64_t kernel_and_stride);
  // Gamma is near `scale`, the rest are plausible statistics near 0 and 1.
  Value batch_norm(const std::string& name, const Value& x, float scale = 1);
  Value layer_norm(const std::string& name, const Value& x);  // over the channels
  Value group_norm(const std::string& name, const Value& x, std::int64_t groups);
  Value linear(const std::string& name, const Value& x, std::int64_t out);
  Value linear_of_last(const std::string& name, const Value& x, std::int64_t out);  // of N x positions x channels

  Value activation(const std::string& name, const Value& x, Activation kind);
  Value add(const std::string& name, const Value& a, const Value& b);
  Value gate(const std::string& name, const Value& x, const Value& gate);   // x * gate
  Value layer_scale(const std::string& name, const Value& x, float scale);  // x * a weight a channel
  Value dropout(const std::string& name, const Value& x);

  Value max_pool(const std::string& name, const Value& x, const PoolSpec& spec);
  Value average_pool(const std::string& name, const Value& x, const PoolSpec& spec);
  Value global_average_pool(const std::string& name, const Value& x);

  Value concat(const std::string& name, const std::vector<Value>& parts, std::int64_t axis = 1);
  std::vector<Value> split(const std::string& name, const Value& x, const std::vector<std::int64_t>& channels);
  Value crop(const std::string& name, const Value& x, std::int64_t margin);  // margin positions from every side
  // Each position as often as `factors` say, an axis each; nearest neighbour.
  Value enlarge(const std::string& name, const Value& x, const std::vector<float>& factors);
  // The spatial dims' edges repeated before and behind.
  Value pad_by_edge(const std::string& name, const Value& x, const std::vector<std::int64_t>& before,
                    const std::vector<std::int64_t>& behind);
  Value flatten(const std::string& name, const Value& x);
  Value reshape(const std::string& name, const Value& x, const std::vector<std::int64_t>& shape);
  Value transpose(const std::string& name, const Value& x, const std::vector<std::int64_t>& permutation);

  // Any operator, for what is no layer: sizes, grids, arithmetic. The channels are the first input's.
  using Attributes = std::vector<std::pair<const char*, std::int64_t>>;
  Value apply(const std::string& op, const std::string& name, const std::vector<Value>& inputs,
              const Attributes& attributes = {});
  Value scalar(const std::string& name, float value);
  Value scalar(const std::string& name, std::int64_t value);
  Value indices(const std::string& name, const std::vector<std::int64_t>& values);
  // A 1x1 convolution to one channel with weights 0, 1, 2 ...: the mean of a distribution over the channels.
  Value expectation(const std::string& name, const Value& x);

 private:
  ::onnx::NodeProto& node(const std::string& op, const std::string& name, const std::vector<std::string>& inputs);
  Value conv_node(const std::string& name, const std::vector<std::string>& inputs, std::int64_t out,
                  const ConvSpec& spec);
  Value unary(const std::string& op, const std::string& name, const Value& x);
  Value pool(const std::string& op, const std::string& name, const Value& x, const PoolSpec& spec);
  std::string weights(const std::string& name, const std::vector<std::int64_t>& dims, float low, float high);
  std::string he_weights(const std::string& name, const std::vector<std::int64_t>& dims, double fan_in, double power);
  ::onnx::TensorProto& tensor(const std::string& name, ::onnx::TensorProto::DataType type,
                              const std::vector<std::int64_t>& dims);
  std::vector<std::int64_t> everywhere(std::int64_t value, std::size_t times = 1) const;

  ::onnx::ModelProto model_;
  SeededGenerator generator_;
  float epsilon_;
  std::size_t rank_ = 2;  // spatial dims
};

// A convolution without bias, its BatchNormalization and its activation: nodes NAME.conv, NAME.bn, NAME.act.
Value conv_bn(ModelBuilder& b, const std::string& name, const Value& x, const ConvSpec& spec, Activation activation,
              float scale = 1);
// A convolution with bias and its activation.
Value conv_act(ModelBuilder& b, const std::string& name, const Value& x, ConvSpec spec, Activation activation);
// GlobalAveragePool, Flatten and a linear layer to 1000 classes, which become the output.
std::string classified(ModelBuilder& b, const Value& x, bool dropout);

}  // namespace convoy::zoo
