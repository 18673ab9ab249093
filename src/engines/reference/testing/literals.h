// Running the oracle on literal numbers.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "convoy/host_tensor.h"
#include "engines/reference/reference.h"

namespace convoy::reference_testing {

// Values of the tensors in logical row-major order, converted to each tensor's type. `out` is its prior contents; empty
// leaves NaN there.
struct Literals {
  std::vector<double> x, w, y, out, z, gate;
  std::vector<double> bias;
  std::vector<float> slopes, scales;
  std::vector<std::int32_t> x_zero, w_zeros;
};

inline ConvProblem problem_of(const std::string& text) {
  Result<ConvProblem> problem = parse_problem(text);
  EXPECT_TRUE(problem.ok()) << text << ": " << (problem.ok() ? "" : problem.error().message);
  return problem.ok() ? *problem : ConvProblem{};
}

inline HostTensor tensor_of(const TensorDesc& desc, const std::vector<double>& values) {
  HostTensor tensor = *HostTensor::allocate(desc);
  std::memset(tensor.data.get(), 0xFF, desc.bytes());
  if (values.empty()) return tensor;
  EXPECT_EQ(static_cast<std::int64_t>(values.size()), desc.elements());
  TensorDesc plain = TensorDesc::packed(DataType::f64, desc.dims);
  copy_tensor(plain, values.data(), desc, tensor.data.get());
  return tensor;
}

// The outputs in logical row-major order.
inline std::vector<double> run(const ConvProblem& problem, const Literals& literals) {
  const HostTensor x = tensor_of(problem.x, literals.x);
  const HostTensor w = tensor_of(problem.w, literals.w);
  const HostTensor y = tensor_of(problem.y, literals.y);
  const HostTensor z = tensor_of(problem.out(), literals.z);
  HostTensor out = tensor_of(problem.out(), literals.out);
  const HostTensor bias = tensor_of(
      TensorDesc::packed(problem.bias_type(), {static_cast<std::int64_t>(literals.bias.size())}), literals.bias);
  ConvArgs args;
  args.x = x.data.get();
  args.w = w.data.get();
  args.y = y.data.get();
  args.z = z.data.get();
  args.out = out.data.get();
  args.bias = bias.data.get();
  args.slopes = literals.slopes.data();
  args.scales = literals.scales.data();
  args.x_zero_point = literals.x_zero.data();
  args.w_zero_points = literals.w_zeros.data();
  const HostTensor gate =
      tensor_of(TensorDesc::packed(problem.x.type, {problem.batch(), problem.in_channels()}), literals.gate);
  if (problem.gate) args.gate = gate.data.get();
  const auto team = make_cpu_team(2);
  const auto plan = reference_engine().plan(problem, {}, {});
  EXPECT_TRUE(plan.ok() && (*plan)->execute(args, {*team}).ok());
  std::vector<double> values;
  for (std::int64_t i = 0; i < out.desc.elements(); ++i) values.push_back(out.at(i));
  return values;
}

inline std::vector<double> run(const std::string& text, const Literals& literals) {
  return run(problem_of(text), literals);
}

using Values = std::vector<double>;

}  // namespace convoy::reference_testing
