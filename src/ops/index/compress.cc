// Compress and ReverseSequence: slices along an axis dropped, or the head of a sequence turned round.
#include <fmt/format.h>

#include <cstring>

#include "ops/indexing.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

class Compress final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {1}; }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    CONVOY_CHECK(check_type(node, inputs, 1, only(DataType::boolean)));
    if (inputs[1].desc.rank() != 1) return bad_node(node, "input 1 (condition) must have rank 1");
    CONVOY_TRY(const int axis, axis_of(node, inputs));
    CONVOY_TRY(const Dims picked, picked_of(node, inputs, axis));
    Dims dims = axis < 0 ? Dims{0} : inputs[0].desc.dims;
    dims[std::max(axis, 0)] = static_cast<std::int64_t>(picked.size());
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs, std::span<const TensorDesc>,
                                       const PlanRequest&) const override {
    CONVOY_TRY(const int axis, axis_of(node, inputs));
    CONVOY_TRY(const Dims picked, picked_of(node, inputs, axis));
    const TensorDesc& x = inputs[0].desc;
    const std::int64_t dim = axis < 0 ? x.elements() : x.dims[axis];
    const std::int64_t outer = axis < 0 ? 1 : product(x.dims, 0, axis);
    const std::int64_t block =
        (axis < 0 ? 1 : product(x.dims, axis + 1, x.rank())) * static_cast<std::int64_t>(size_of(x.type));
    return make_plan(node, [=](auto in, auto out, const ExecContext& context) -> Result<void> {
      const std::int64_t count = static_cast<std::int64_t>(picked.size());
      parallel_for(context, outer * count, block / 4 + 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          std::memcpy(static_cast<char*>(out[0]) + i * block,
                      static_cast<const char*>(in[0]) + (i / count * dim + picked[i % count]) * block, block);
        }
      });
      return {};
    });
  }

 private:
  // -1 where there is none: the elements are taken in row-major order.
  static Result<int> axis_of(const NodeDesc& node, std::span<const Input> inputs) {
    if (!node.has("axis")) return -1;
    CONVOY_TRY(const std::int64_t axis, node.integer("axis", 0));
    return normalize_axis(node, axis, inputs[0].desc.rank(), "axis");
  }

  static Result<Dims> picked_of(const NodeDesc& node, std::span<const Input> inputs, int axis) {
    CONVOY_TRY(const Dims condition, constant_integers(node, inputs, 1));
    const std::int64_t dim = axis < 0 ? inputs[0].desc.elements() : inputs[0].desc.dims[axis];
    if (static_cast<std::int64_t>(condition.size()) > dim) {
      return bad_node(node, fmt::format("input 1 (condition) has {} entries for {} slices", condition.size(), dim));
    }
    Dims picked;
    for (std::size_t i = 0; i < condition.size(); ++i) {
      if (condition[i] != 0) picked.push_back(static_cast<std::int64_t>(i));
    }
    return picked;
  }
};

class ReverseSequence final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    CONVOY_CHECK(check_type(node, inputs, 1, only(DataType::s64)));
    CONVOY_TRY(const std::int64_t batch, node.integer("batch_axis", 1));
    CONVOY_TRY(const std::int64_t time, node.integer("time_axis", 0));
    const Dims& dims = inputs[0].desc.dims;
    if (dims.size() < 2 || batch + time != 1 || (batch != 0 && batch != 1)) {
      return bad_node(node,
                      fmt::format("batch_axis={} and time_axis={} for an input of rank {}", batch, time, dims.size()));
    }
    if (inputs[1].desc.dims != Dims{dims[batch]}) {
      return bad_node(node, fmt::format("input 1 (sequence_lens) has dims [{}], a batch of {} needs as many",
                                        to_string(inputs[1].desc.dims), dims[batch]));
    }
    return one_output(node, inputs[0].desc.type, dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs, std::span<const TensorDesc>,
                                       const PlanRequest&) const override {
    CONVOY_TRY(const std::int64_t batch, node.integer("batch_axis", 1));
    const TensorDesc& x = inputs[0].desc;
    const std::int64_t batches = x.dims[batch], times = x.dims[1 - batch];
    const std::int64_t block = product(x.dims, 2, x.rank()) * static_cast<std::int64_t>(size_of(x.type));
    return make_plan(node, [=, op = node.op](auto in, auto out, const ExecContext& context) -> Result<void> {
      const std::int64_t* lengths = static_cast<const std::int64_t*>(in[1]);
      for (std::int64_t b = 0; b < batches; ++b) {
        if (lengths[b] < 0 || lengths[b] > times) {
          return Error{
              ErrorCode::invalid_argument,
              fmt::format("{}: input 1 (sequence_lens) has {} at {}, outside [0, {}]", op, lengths[b], b, times)};
        }
      }
      parallel_for(context, batches * times, block / 4 + 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t b = i / times, t = i % times;
          const std::int64_t from = t < lengths[b] ? lengths[b] - 1 - t : t;
          const auto place = [&](std::int64_t time) {
            return (batch == 0 ? b * times + time : time * batches + b) * block;
          };
          std::memcpy(static_cast<char*>(out[0]) + place(t), static_cast<const char*>(in[0]) + place(from), block);
        }
      });
      return {};
    });
  }
};

const Compress compress;
const ReverseSequence reverse_sequence;

}  // namespace

std::vector<OperatorRow> compress_rows() {
  return {{"Compress", &compress, images::mixed, Rate::moves, values::mixed, in_place::never, layouts::row_major,
           kEveryType},
          {"ReverseSequence", &reverse_sequence, images::mixed, Rate::moves, values::mixed, in_place::never,
           layouts::row_major, kEveryType}};
}

}  // namespace convoy::ops
