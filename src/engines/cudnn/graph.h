// A convolution problem as cuDNN's operation graph.
//
// Without an epilogue it is one operation, conv (fprop, dgrad or wgrad) with alpha and beta, straight to out. With one,
// conv goes to a virtual tensor in the compute type and pointwise operations follow, in the order of the formula in
// convolution.h:
//   add      alpha*conv + gamma*z          (alpha1 and alpha2 of cuDNN's ADD; where nothing is added, alpha is conv's)
//   add      ... + beta*out                (out as an input of its own: a second unique id, the same pointer)
//   add      ... + bias                    (broadcast over all but the channel of out)
//   act      relu, clip and leaky_relu are cuDNN's RELU with its clips and slope
//   mul      ... * scale                   (requantization; the store rounds and saturates)
// 1D problems are 2D ones with a height of 1. Groups are what x.C / w.C implies: cuDNN has no field for them. alpha and
// beta are double for f64 and float for everything else.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "convoy/convolution.h"
#include "engines/cudnn/descriptor.h"

namespace convoy::cudnn {

// Unique ids: how a pointer finds its tensor at execution.
enum Uid : std::int64_t { kX = 1, kW, kY, kBias, kZ, kPrior, kScale, kFirstVirtual = 100 };

cudnnDataType_t type_of(DataType type);  // precondition: a type that convolutions take

// Sizes and strides as cuDNN is told: 4 or 5 of each. Where a tensor fits several layouts in memory (C = 1, 1x1
// filters), the strides of sizes that are 1 are chosen so that all tensors have one layout: cuDNN's engines look at
// them.
struct Shape {
  Dims dims, strides;
};
struct Shapes {
  Shape x, w, y;
};
Shapes shapes_of(const ConvProblem& problem);

// Whether the graph is the convolution alone.
bool is_plain(const ConvProblem& problem);

class Graph {
 public:
  // Of what a problem's graph is: plans that were kept of another one are not read.
  static constexpr int kRevision = 1;
  // Preconditions: the problem is valid and within_limits() (limits.h). `handle` may be null from cuDNN 9 on: then no
  // device is needed.
  Graph(const Api& api, const ConvProblem& problem, cudnnHandle_t handle);

  bool ok() const { return !failed_; }
  // Precondition: !ok(). What could not be made, in cuDNN's words.
  const Failure& failure() const { return failure_; }
  const std::string& failed_part() const { return failed_part_; }

  const Descriptor& descriptor() const { return graph_; }
  std::int64_t engine_count() const;
  const std::vector<Uid>& operands() const { return operands_; }  // whose pointers an execution needs
  const std::string& formula() const { return formula_; }         // "conv + gamma*z + bias + relu"

 private:
  Descriptor& make(cudnnBackendDescriptorType_t type);
  Descriptor& tensor(Uid uid, DataType type, const Shape& shape, std::int64_t alignment, bool is_virtual);
  Descriptor& operand(Uid uid, DataType type, const Shape& shape, std::int64_t alignment);
  Descriptor& link(DataType type, const Shape& shape);  // a virtual tensor
  void finish(Descriptor& descriptor, std::string_view part);
  void convolve(const ConvProblem& problem, const Shapes& shapes, Descriptor& out, double alpha, double beta);
  // One pointwise operation from `input` (and `other`) to `out`.
  struct Pointwise;
  void pointwise(const Pointwise& operation);
  void epilogue(const ConvProblem& problem, const Shapes& shapes);

  const Api* api_;
  std::vector<std::unique_ptr<Descriptor>> parts_;  // in the order they were made; the graph refers to all of them
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::vector<Uid> operands_;
  std::string formula_ = "conv";
  Descriptor graph_;
  bool failed_ = false;
  Failure failure_;
  std::string failed_part_;
  std::int64_t next_virtual_ = kFirstVirtual;
};

}  // namespace convoy::cudnn
