// Operators whose outputs are as large as their values decide, so that only computing them says their dims
// (NonMaxSuppression, NonZero, Unique). Where the values come with a run, it computes once and neither infers nor
// plans.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ops/operator.h"

namespace convoy::ops {

class ComputedOperator : public Operator {
 public:
  using Allocate = std::function<Result<HostTensor>(TensorDesc)>;  // memory for an output

  // The outputs, packed nchw. Inputs are those that infer() gets, with the values of all that shape_inputs() names.
  virtual Result<std::vector<HostTensor>> compute(const NodeDesc& node, std::span<const Input> inputs,
                                                  const Allocate& allocate) const = 0;

  // The descriptions of what is computed. Error: unsupported where values are missing.
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const final;
  // Has the outputs: executing it copies them.
  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const final;

 protected:
  ~ComputedOperator() = default;
};

}  // namespace convoy::ops
