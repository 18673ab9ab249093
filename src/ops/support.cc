#include "ops/support.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace convoy::ops {

Error bad_node(const NodeDesc& node, const std::string& what) {
  return {ErrorCode::invalid_argument, node.op + ": " + what};
}

Result<void> check_counts(const NodeDesc& node, std::span<const Input> inputs, int least, int most, int outputs) {
  const int count = static_cast<int>(inputs.size());
  if (count < least || (most >= 0 && count > most)) {
    const std::string range = most < 0        ? fmt::format("at least {}", least)
                              : least == most ? fmt::format("{}", least)
                                              : fmt::format("{} to {}", least, most);
    return bad_node(node, fmt::format("has {} inputs, it takes {}", count, range));
  }
  for (int i = 0; i < least; ++i) {
    if (!inputs[i].present) return bad_node(node, fmt::format("input {} is absent, it is required", i));
  }
  if (node.output_count > outputs) {
    return bad_node(node, fmt::format("has {} outputs, it gives at most {}", node.output_count, outputs));
  }
  return {};
}

Result<void> check_type(const NodeDesc& node, std::span<const Input> inputs, int index, TypeSet types) {
  if (!is_present(inputs, index) || contains(types, inputs[index].desc.type)) return {};
  return bad_node(node, fmt::format("input {} has type {}, which the operator does not take", index,
                                    name_of(inputs[index].desc.type)));
}

Result<void> check_same_type(const NodeDesc& node, std::span<const Input> inputs, TypeSet types, int first) {
  int leader = -1;
  for (int i = first; i < static_cast<int>(inputs.size()); ++i) {
    if (!inputs[i].present) continue;
    CONVOY_CHECK(check_type(node, inputs, i, types));
    if (leader < 0) leader = i;
    if (inputs[i].desc.type != inputs[leader].desc.type) {
      return bad_node(node, fmt::format("input {} has type {}, input {} has type {}; they must be the same", leader,
                                        name_of(inputs[leader].desc.type), i, name_of(inputs[i].desc.type)));
    }
  }
  return {};
}

Result<int> normalize_axis(const NodeDesc& node, std::int64_t axis, int rank, std::string_view field, int past_end) {
  if (axis < -rank || axis >= rank + past_end) {
    return bad_node(node, fmt::format("{}={} is outside [{}, {}) for a tensor of rank {}", field, axis, -rank,
                                      rank + past_end, rank));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<std::vector<int>> normalize_axes(const NodeDesc& node, std::span<const std::int64_t> axes, int rank) {
  std::vector<int> result;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    CONVOY_TRY(const int axis, normalize_axis(node, axes[i], rank, fmt::format("axes[{}]", i)));
    if (std::find(result.begin(), result.end(), axis) != result.end()) {
      return bad_node(node, fmt::format("axes[{}]={} is given twice", i, axes[i]));
    }
    result.push_back(axis);
  }
  return result;
}

std::vector<std::int64_t> read_integers(const TensorDesc& desc, const void* data) {
  std::vector<std::int64_t> values(desc.elements());
  const BroadcastLoop loop({TensorDesc::packed(desc.type, desc.dims), desc});
  dispatch<kIntegers | only(DataType::boolean)>(desc.type, [&]<class T>(Tag<T>) {
    loop.run(0, loop.elements(), [&](const std::int64_t* at, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        values[at[0] + i * loop.inner_stride(0)] =
            static_cast<std::int64_t>(static_cast<const T*>(data)[at[1] + i * loop.inner_stride(1)]);
      }
    });
  });
  return values;
}

static Result<void> check_constant(const NodeDesc& node, std::span<const Input> inputs, int index) {
  if (!is_present(inputs, index)) return bad_node(node, fmt::format("input {} is absent, it is required", index));
  if (inputs[index].constant == nullptr && inputs[index].desc.elements() != 0) {
    return Error{ErrorCode::unsupported,
                 fmt::format("{}: input {} must be known before the node is planned", node.op, index)};
  }
  return {};
}

Result<std::vector<std::int64_t>> constant_integers(const NodeDesc& node, std::span<const Input> inputs, int index) {
  CONVOY_CHECK(check_constant(node, inputs, index));
  CONVOY_CHECK(check_type(node, inputs, index, kIntegers | only(DataType::boolean)));
  return read_integers(inputs[index].desc, inputs[index].constant);
}

Result<std::vector<double>> constant_reals(const NodeDesc& node, std::span<const Input> inputs, int index) {
  CONVOY_CHECK(check_constant(node, inputs, index));
  const TensorDesc& desc = inputs[index].desc;
  std::vector<double> values(desc.elements());
  const BroadcastLoop loop({TensorDesc::packed(desc.type, desc.dims), desc});
  loop.run(0, loop.elements(), [&](const std::int64_t* at, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      values[at[0] + i * loop.inner_stride(0)] =
          load_as_double(desc.type, inputs[index].constant, at[1] + i * loop.inner_stride(1));
    }
  });
  return values;
}

namespace {

struct OnnxType {
  int number;
  std::string_view name;
  DataType type;
};
constexpr OnnxType kOnnxTypes[] = {
    {1, "FLOAT", DataType::f32},
    {2, "UINT8", DataType::u8},
    {3, "INT8", DataType::s8},
    {4, "UINT16", DataType::u16},
    {5, "INT16", DataType::s16},
    {6, "INT32", DataType::s32},
    {7, "INT64", DataType::s64},
    {9, "BOOL", DataType::boolean},
    {10, "FLOAT16", DataType::f16},
    {11, "DOUBLE", DataType::f64},
    {12, "UINT32", DataType::u32},
    {13, "UINT64", DataType::u64},
    {16, "BFLOAT16", DataType::bf16},
    {17, "FLOAT8E4M3FN", DataType::f8_e4m3},
    {18, "FLOAT8E4M3FNUZ", DataType::f8_e4m3fnuz},
    {19, "FLOAT8E5M2", DataType::f8_e5m2},
    {20, "FLOAT8E5M2FNUZ", DataType::f8_e5m2fnuz},
    {21, "UINT4", DataType::u4},
    {22, "INT4", DataType::s4},
    {23, "FLOAT4E2M1", DataType::f4_e2m1},
    {24, "FLOAT8E8M0", DataType::f8_e8m0},
    {25, "UINT2", DataType::u2},
    {26, "INT2", DataType::s2},
};

}  // namespace

Result<DataType> data_type_of_onnx(const NodeDesc& node, std::int64_t number, std::string_view field) {
  for (const OnnxType& each : kOnnxTypes) {
    if (each.number == number) return each.type;
  }
  return Error{ErrorCode::unsupported,
               fmt::format("{}: {}={} is not a data type there is here", node.op, field, number)};
}

std::int64_t onnx_number(DataType type) { return std::ranges::find(kOnnxTypes, type, &OnnxType::type)->number; }

Result<DataType> data_type_of_onnx_name(const NodeDesc& node, std::string_view name) {
  for (const OnnxType& each : kOnnxTypes) {
    if (each.name == name) return each.type;
  }
  return Error{ErrorCode::unsupported, fmt::format("{}: '{}' is not a data type there is here", node.op, name)};
}

Result<TensorDesc> make_output(const NodeDesc& node, DataType type, Dims dims) {
  for (const std::int64_t dim : dims) {
    if (dim < 0) return bad_node(node, fmt::format("an output would have dims {}", to_string(dims)));
  }
  if (auto count = checked_elements(dims, static_cast<std::int64_t>(size_of(type))); !count.ok()) {
    return count.error().within(node.op);
  }
  return TensorDesc::packed(type, std::move(dims));
}

Result<std::vector<TensorDesc>> one_output(const NodeDesc& node, DataType type, Dims dims) {
  CONVOY_TRY(TensorDesc desc, make_output(node, type, std::move(dims)));
  return std::vector<TensorDesc>{std::move(desc)};
}

Result<Dims> broadcast_dims(const NodeDesc& node, std::span<const Dims> shapes) {
  std::size_t rank = 0;
  for (const Dims& shape : shapes) rank = std::max(rank, shape.size());
  Dims result(rank, 1);
  for (const Dims& shape : shapes) {
    const std::size_t skip = rank - shape.size();
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::int64_t& dim = result[skip + d];
      if (shape[d] == 1 || shape[d] == dim) continue;
      if (dim != 1) {
        std::string all;
        for (const Dims& each : shapes) all += (all.empty() ? "[" : ", [") + to_string(each) + "]";
        return bad_node(node, fmt::format("input dims {} do not broadcast: {} against {}", all, shape[d], dim));
      }
      dim = shape[d];
    }
  }
  return result;
}

namespace {

class BodyPlan final : public OpPlan {
 public:
  BodyPlan(std::string name, OpBody body, std::size_t workspace_bytes)
      : name_(std::move(name)), body_(std::move(body)), workspace_bytes_(workspace_bytes) {}
  Candidate candidate() const override { return {name_, {}}; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  Result<void> execute(std::span<const void* const> inputs, std::span<void* const> outputs,
                       const ExecContext& context) const override {
    return body_(inputs, outputs, context);
  }

 private:
  std::string name_;
  OpBody body_;
  std::size_t workspace_bytes_;
};

}  // namespace

std::unique_ptr<OpPlan> make_plan(std::string name, OpBody body, std::size_t workspace_bytes) {
  return std::make_unique<BodyPlan>(std::move(name), std::move(body), workspace_bytes);
}

std::unique_ptr<OpPlan> make_plan(const NodeDesc& node, OpBody body, std::size_t workspace_bytes) {
  std::string name = "ops.";
  for (std::size_t i = 0; i < node.op.size(); ++i) {
    const auto is_upper = [&](std::size_t at) { return node.op[at] >= 'A' && node.op[at] <= 'Z'; };
    if (i > 0 && is_upper(i) && !is_upper(i - 1)) name += '_';
    name += is_upper(i) ? static_cast<char>(node.op[i] - 'A' + 'a') : node.op[i];
  }
  return make_plan(std::move(name), std::move(body), workspace_bytes);
}

void parallel_for_thread(const ExecContext& context, std::int64_t count, std::int64_t cost,
                         FunctionRef<void(std::int64_t begin, std::int64_t end, int thread)> body) {
  // Waking a team costs a few microseconds: about what one thread needs for this many simple element visits.
  constexpr std::int64_t kWorthIt = 16384;
  if (count <= 0) return;
  if (context.team().size() == 1 || count == 1 || count < kWorthIt / std::max<std::int64_t>(cost, 1)) {
    body(0, count, 0);
    return;
  }
  parallel_ranges(context.team(), count, body);
}

void parallel_for(const ExecContext& context, std::int64_t count, std::int64_t cost,
                  FunctionRef<void(std::int64_t begin, std::int64_t end)> body) {
  parallel_for_thread(context, count, cost, [&](std::int64_t begin, std::int64_t end, int) { body(begin, end); });
}

BroadcastLoop::BroadcastLoop(std::span<const TensorDesc> operands) : strides_(operands.size()) {
  const TensorDesc& first = operands[0];
  std::vector<int> order(first.dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return first.strides[a] > first.strides[b]; });
  for (const int d : order) {
    if (first.dims[d] == 1) continue;
    elements_ *= first.dims[d];
    Dims steps;
    for (const TensorDesc& operand : operands) {
      const int own = d - (first.rank() - operand.rank());
      steps.push_back(own < 0 || operand.dims[own] == 1 ? 0 : operand.strides[own]);
    }
    bool merges = !dims_.empty();
    for (std::size_t i = 0; merges && i < operands.size(); ++i) {
      merges = strides_[i].back() == steps[i] * first.dims[d];
    }
    if (merges) {
      dims_.back() *= first.dims[d];
      for (std::size_t i = 0; i < operands.size(); ++i) strides_[i].back() = steps[i];
    } else {
      dims_.push_back(first.dims[d]);
      for (std::size_t i = 0; i < operands.size(); ++i) strides_[i].push_back(steps[i]);
    }
  }
  if (dims_.empty()) {
    dims_.push_back(1);
    for (Dims& strides : strides_) strides.push_back(0);
  }
}

void BroadcastLoop::run(std::int64_t begin, std::int64_t end,
                        FunctionRef<void(const std::int64_t* offsets, std::int64_t count)> body) const {
  if (begin >= end) return;
  const int last = static_cast<int>(dims_.size()) - 1;
  const std::size_t operands = strides_.size();
  const std::size_t room = (operands + 3) / 4 * 4;  // offsets are moved four at a time
  // Of coordinates, offsets and steps; tensors may be tiny, so of few dims nothing is allocated.
  std::array<std::int64_t, 64> few;
  Dims many;
  const std::size_t needed = dims_.size() + room + dims_.size() * room;
  if (needed > few.size()) many.resize(needed);
  std::int64_t *const coords = needed > few.size() ? many.data() : few.data(), *const offsets = coords + dims_.size();
  std::fill_n(coords, needed, 0);
  // What operands' offsets change by where d's coordinate is one more and those behind it are 0 again.
  std::int64_t* const steps = offsets + room;
  const auto move = [&](const std::int64_t* step) {
    for (std::size_t i = 0; i < room; i += 4) {
      for (int k = 0; k < 4; ++k) offsets[i + k] += step[i + k];
    }
  };
  std::int64_t rest = begin;
  for (int d = last; d >= 0; --d) {
    coords[d] = rest % dims_[d];
    rest /= dims_[d];
    for (std::size_t i = 0; i < operands; ++i) {
      offsets[i] += coords[d] * strides_[i][d];
      steps[d * room + i] = strides_[i][d];
      for (int inner = d + 1; inner < last; ++inner) steps[d * room + i] -= (dims_[inner] - 1) * strides_[i][inner];
    }
  }
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t first = std::exchange(coords[last], 0);
    if (first == 0 && last > 0) {  // whole runs, but for the last one before another coordinate changes
      const std::int64_t runs = std::min(dims_[last - 1] - coords[last - 1], (end - at) / dims_[last]) - 1;
      for (std::int64_t r = 0; r < runs; ++r, at += dims_[last]) {
        body(offsets, dims_[last]);
        move(steps + (last - 1) * room);
      }
      coords[last - 1] += std::max<std::int64_t>(runs, 0);
    }
    const std::int64_t count = std::min(dims_[last] - first, end - at);
    body(offsets, count);
    at += count;
    if (first != 0) {
      for (std::size_t i = 0; i < operands; ++i) offsets[i] -= first * steps[last * room + i];
    }
    int d = last - 1;
    while (d >= 0 && ++coords[d] == dims_[d]) coords[d--] = 0;
    if (d < 0) return;
    move(steps + d * room);
  }
}

}  // namespace convoy::ops
