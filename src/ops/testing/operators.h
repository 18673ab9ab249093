// For tests of operators: literal tensors in, every way to run the operator tried, values compared.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ops/operator.h"

namespace convoy::ops {

HostTensor tensor(DataType type, Dims dims, const std::vector<double>& values);
inline HostTensor floats(Dims dims, const std::vector<double>& values) {
  return tensor(DataType::f32, std::move(dims), values);
}
inline HostTensor longs(Dims dims, const std::vector<double>& values) {
  return tensor(DataType::s64, std::move(dims), values);
}
// An optional input left out.
inline HostTensor absent() { return {}; }
// count values spread over [low, high] in a scrambled, reproducible order.
std::vector<double> spread(std::int64_t count, double low, double high);

NodeDesc node_of(std::string op, std::map<std::string, Attribute> attributes = {}, int opset = 22, int outputs = 1);

struct OpRun {
  Layout layout = Layout::nchw;  // of all inputs and outputs of rank >= 3
  int threads = 1;
  bool in_place = false;  // where the operator allows it and the shapes fit
  bool constants = true;  // inputs are given to infer and plan as constants
  Isa isa = Isa::avx512;  // at most this instruction set
};
// Outputs come back packed nchw. Fails as infer, plan or execute do.
Result<std::vector<HostTensor>> run_op(const NodeDesc& node, const std::vector<HostTensor>& inputs,
                                       const OpRun& how = {});

// What copying by the row's index maps gives, element by element; nothing where it has none.
std::optional<std::vector<HostTensor>> by_map(const NodeDesc& node, const std::vector<HostTensor>& inputs);

// What its index maps give, and runs with 1 and 3 threads, in nchw and (where accepted) nhwc, in place where allowed,
// with constant inputs and, if there are no shape inputs, without; expects each output's type and dims, and values
// within absolute + relative * |expected| (NaN matches NaN).
void expect_op(const NodeDesc& node, const std::vector<HostTensor>& inputs, const std::vector<HostTensor>& expected,
               double absolute = 1e-6, double relative = 1e-5);

// Numbers of every size, both zeros, infinities, a NaN and halfway cases; of integer types only usual ones.
HostTensor varied(DataType type, Dims dims, std::mt19937& random);

// Runs with vectors of any width and without, with 1 and 3 threads, in nchw and (where accepted) nhwc, in place where
// allowed; expects of every output what plain loops on one thread give in nchw, within absolute + relative * |expected|
// (NaN matches NaN, -0 matches 0).
void expect_as_portable(const NodeDesc& node, const std::vector<HostTensor>& inputs, double relative = 0,
                        double absolute = 0);

// Expects inference to fail with a message that contains `text`.
void expect_refused(const NodeDesc& node, const std::vector<HostTensor>& inputs, const std::string& text);

}  // namespace convoy::ops
