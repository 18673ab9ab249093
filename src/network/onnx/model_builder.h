// Writes ONNX models node by node, with seeded weights that are the same on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "onnx.pb.h"

namespace convoy::onnx_io {

// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014): integers only, so that
// every machine and library draws the same numbers.
class SeededGenerator {
 public:
  explicit SeededGenerator(std::uint64_t seed) : state_(seed) {}
  // Uniform in [low, high), 24 bits of it.
  float uniform(float low, float high);

 private:
  std::uint64_t state_;
};

struct ConvSpec {
  std::int64_t in = 0, out = 0, kernel = 1, stride = 1, pad = 0, groups = 1;
  bool bias = false;
  double gain = 2;  // of He's initialisation: 2 behind a relu, 1 behind a linear layer
};

// Every function adds a node and returns the name of its output; `name` becomes the node's name.
class ModelBuilder {
 public:
  ModelBuilder(const std::string& graph_name, std::uint64_t seed);

  std::string input(const std::string& name, const std::vector<std::int64_t>& dims);  // behind a free batch dim "N"
  std::string conv(const std::string& name, const std::string& x, const ConvSpec& spec);
  // `scale`: of gamma; the rest are plausible statistics near 0 and 1.
  std::string batch_norm(const std::string& name, const std::string& x, std::int64_t channels, float scale = 1);
  std::string relu(const std::string& name, const std::string& x);
  std::string relu6(const std::string& name, const std::string& x);
  std::string add(const std::string& name, const std::string& a, const std::string& b);
  std::string max_pool(const std::string& name, const std::string& x, std::int64_t kernel, std::int64_t stride,
                       std::int64_t pad, bool ceil_mode);
  std::string global_average_pool(const std::string& name, const std::string& x);
  std::string concat(const std::string& name, const std::vector<std::string>& parts);
  std::string dropout(const std::string& name, const std::string& x);
  std::string flatten(const std::string& name, const std::string& x);
  std::string linear(const std::string& name, const std::string& x, std::int64_t in, std::int64_t out);
  void output(const std::string& value, const std::vector<std::int64_t>& dims);

  std::string serialized() const;

 private:
  ::onnx::NodeProto& node(const std::string& op, const std::string& name, const std::vector<std::string>& inputs);
  std::string constant(const std::string& name, const std::vector<std::int64_t>& dims, float low, float high);
  std::string scalar(const std::string& name, float value);

  ::onnx::ModelProto model_;
  SeededGenerator generator_;
};

}  // namespace convoy::onnx_io
