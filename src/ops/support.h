// What every operator is written with: checks that name the operator and the input at fault, readers of constant
// inputs, joint iteration over tensors that broadcast, and a plan made of a lambda.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/element.h"
#include "ops/operator.h"

namespace convoy::ops {

// An invalid_argument error "<op>: <what>".
Error bad_node(const NodeDesc& node, const std::string& what);

// Between `least` and `most` inputs (most < 0: any number), of which the first `least` are present, and no more than
// `outputs` outputs.
Result<void> check_counts(const NodeDesc& node, std::span<const Input> inputs, int least, int most, int outputs = 1);

// Input `index` (if present) has a type of the set.
Result<void> check_type(const NodeDesc& node, std::span<const Input> inputs, int index, TypeSet types);
// All present inputs from `first` on have the same type, which is of the set.
Result<void> check_same_type(const NodeDesc& node, std::span<const Input> inputs, TypeSet types = kEveryType,
                             int first = 0);

inline bool is_present(std::span<const Input> inputs, int index) {
  return index < static_cast<int>(inputs.size()) && inputs[index].present;
}

// An axis in [-rank, rank) made non-negative, or an error; `field` as in "axis" or "axes[1]". For operators whose axis
// may be one past the end (Flatten), `past_end` is 1.
Result<int> normalize_axis(const NodeDesc& node, std::int64_t axis, int rank, std::string_view field, int past_end = 0);
// Each made non-negative, no repeats.
Result<std::vector<int>> normalize_axes(const NodeDesc& node, std::span<const std::int64_t> axes, int rank);

// Values of a constant input as integers (any integer type, or bool) or reals (any type), in row-major order. Errors
// where the input is absent, of another kind, or not constant (unsupported).
Result<std::vector<std::int64_t>> constant_integers(const NodeDesc& node, std::span<const Input> inputs, int index);
Result<std::vector<double>> constant_reals(const NodeDesc& node, std::span<const Input> inputs, int index);
// The same for values at hand at run time.
std::vector<std::int64_t> read_integers(const TensorDesc& desc, const void* data);

// The type that ONNX's TensorProto.DataType numbers `number`; an error naming `field` where it is none of ours.
Result<DataType> data_type_of_onnx(const NodeDesc& node, std::int64_t number, std::string_view field);
std::int64_t onnx_number(DataType type);
// The same by name ("FLOAT"), as attributes had it before opset 6.
Result<DataType> data_type_of_onnx_name(const NodeDesc& node, std::string_view name);

// A packed nchw tensor, refused where its bytes overflow 63 bits or a dim is negative.
Result<TensorDesc> make_output(const NodeDesc& node, DataType type, Dims dims);
// The same as a list of one, as infer returns it.
Result<std::vector<TensorDesc>> one_output(const NodeDesc& node, DataType type, Dims dims);

// numpy's multidirectional broadcasting.
Result<Dims> broadcast_dims(const NodeDesc& node, std::span<const Dims> shapes);

// Whether a layout has one stride per dim (everything but the blocked ones): enough for code driven by strides.
inline bool is_plain(Layout layout) { return layout == Layout::nchw || layout == Layout::nhwc; }

// A plan whose execution is `body`; its candidate is "ops.leaky_relu" for LeakyRelu (or `name` where given). The body
// must be callable from several threads at once.
using OpBody = std::function<Result<void>(std::span<const void* const> inputs, std::span<void* const> outputs,
                                          const ExecContext& context)>;
std::unique_ptr<OpPlan> make_plan(const NodeDesc& node, OpBody body, std::size_t workspace_bytes = 0);
std::unique_ptr<OpPlan> make_plan(std::string name, OpBody body, std::size_t workspace_bytes = 0);

// parallel_ranges, but on the calling thread alone where count * cost (roughly element visits a unit) is too small to
// be worth waking the team.
void parallel_for(const ExecContext& context, std::int64_t count, std::int64_t cost,
                  FunctionRef<void(std::int64_t begin, std::int64_t end)> body);

// The same with the thread's number: each has a part of the workspace.
void parallel_for_thread(const ExecContext& context, std::int64_t count, std::int64_t cost,
                         FunctionRef<void(std::int64_t begin, std::int64_t end, int thread)> body);

// Joint iteration over operand 0 (in which every element is visited once) and others that broadcast to its dims
// (right-aligned). Dims are ordered by operand 0's strides, outermost first, and merged where all operands allow, so
// any plain layout runs at the speed of its memory order. Blocked tensors are not taken.
class BroadcastLoop {
 public:
  explicit BroadcastLoop(std::span<const TensorDesc> operands);
  BroadcastLoop(std::initializer_list<TensorDesc> operands)
      : BroadcastLoop(std::span<const TensorDesc>(operands.begin(), operands.size())) {}

  std::int64_t elements() const { return elements_; }
  std::int64_t inner_size() const { return dims_.back(); }
  std::int64_t inner_stride(int operand) const { return strides_[operand].back(); }

  // Calls body(offsets, count) for the runs along the innermost dim that make up elements [begin, end) of the visiting
  // order; offsets[i] is the first element of operand i, its next ones are inner_stride(i) apart.
  void run(std::int64_t begin, std::int64_t end,
           FunctionRef<void(const std::int64_t* offsets, std::int64_t count)> body) const;

 private:
  Dims dims_;                  // at least one
  std::vector<Dims> strides_;  // [operand][dim]
  std::int64_t elements_ = 1;
};

}  // namespace convoy::ops
