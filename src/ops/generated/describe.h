// Operators as generated kernels (generate/kernel.h): what of a network's nodes a GPU runs by them. A rule says of a
// node which elements belong to a position and what is made of them; docs/design.md says how an operator gets one.
#pragma once

#include "generate/kernel.h"
#include "ops/operator.h"

namespace convoy::ops {

// A node to be described: outputs as inferred, everything in the layout that it will have.
struct Described {
  const Operator& op;
  const NodeDesc& node;
  std::span<const Input> inputs;
  std::span<const TensorDesc> outputs;
};

// The kernel, a function of that name, for GPUs of an architecture (CudaDevice::architecture) and newer ones. Error:
// unsupported says what there is none for.
Result<generate::Kernel> describe(const Described& described, const std::string& name, int architecture);

// From one tensor to another of the same dims, with other strides, another type, or both.
Result<generate::Kernel> describe_conversion(const TensorDesc& from, const TensorDesc& to, const std::string& name);

// For tests: every operator that has a rule.
std::vector<std::string> described_operators();

}  // namespace convoy::ops
