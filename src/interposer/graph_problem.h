// An operation graph of cuDNN's as a convolution problem: the inverse of engines/cudnn/graph.h, over what other
// programs build.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "convoy/convolution.h"
#include "interposer/snapshot.h"

namespace convoy::interposer {

// The problem that a finalised operation graph computes, with the strides and alignments it was given and math=strict.
//   groups         implied by x.C / w.C, or written as a dimension: x [N,G,C,H,W] and w [G,K,C,R,S]
//   1D             cuDNN knows none: such a problem has a height of 1
//   epilogue       pointwise operations after the convolution: added tensors (gamma*z), a bias of one value per channel
//                  in the compute type, an activation, a multiplied scale (requantization)
// What is added at the end and is out itself (beta*out of an epilogue) is told from z only by its pointer at
// execution: here it is z. Error: what can't be expressed as a problem, naming the tensor or operation.
Result<ConvProblem> problem_of(const Snapshot& graph);

// The unique ids under which an execution's variant pack has the tensors of a problem; of x, w and y the one that the
// pass computes is `out` alone.
struct Operands {
  std::optional<std::int64_t> x, w, y, out, bias, z;
  friend bool operator==(const Operands&, const Operands&) = default;
};

struct GraphProblem {
  ConvProblem problem;
  Operands operands;
};

// The problem with what an execution of it needs.
Result<GraphProblem> graph_problem_of(const Snapshot& graph);

// Error: names the field.
Result<DataType> data_type_of(cudnnDataType_t type, std::string_view field);

// "CONVOLUTION_FORWARD + POINTWISE ADD + POINTWISE RELU_FWD"
std::string operations_of(const Snapshot& graph);

}  // namespace convoy::interposer
