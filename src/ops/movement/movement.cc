// Operators that are one strided copy: Transpose, Slice, Expand, Concat and Split.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>

#include "ops/blocks.h"
#include "ops/movement/strided_copy.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

// Where the whole is in blocks of channels, so are the parts (a constant may be without): whole blocks are moved.
TensorDesc as_in(const TensorDesc& desc, const TensorDesc& whole) {
  return whole.channel_block == 1 ? desc : blocks_as_dim(desc, whole.channel_block);
}

class Transpose final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    const Dims& from = inputs[0].desc.dims;
    CONVOY_TRY(const std::vector<int> order, permutation(node, static_cast<int>(from.size())));
    Dims to;
    for (const int d : order) to.push_back(from[d]);
    return one_output(node, inputs[0].desc.type, std::move(to));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const std::vector<int> order, permutation(node, inputs[0].desc.rank()));
    Dims strides;
    for (const int d : order) strides.push_back(inputs[0].desc.strides[d]);
    const StridedCopy copy(size_of(outputs[0].type), outputs[0].dims, strides, outputs[0].strides);
    return make_plan(node, [copy](auto in, auto out, const ExecContext& context) -> Result<void> {
      copy.run(in[0], out[0], context);
      return {};
    });
  }

 private:
  static Result<std::vector<int>> permutation(const NodeDesc& node, int rank) {
    Dims reversed(rank);
    for (int d = 0; d < rank; ++d) reversed[d] = rank - 1 - d;
    CONVOY_TRY(const Dims perm, node.integers("perm", reversed));
    if (static_cast<int>(perm.size()) != rank) {
      return bad_node(node, fmt::format("perm has {} entries for an input of rank {}", perm.size(), rank));
    }
    std::vector<bool> seen(rank);
    for (const std::int64_t d : perm) {
      if (d < 0 || d >= rank || seen[d]) {
        return bad_node(node, fmt::format("perm=[{}] is no permutation", fmt::join(perm, ",")));
      }
      seen[d] = true;
    }
    return std::vector<int>(perm.begin(), perm.end());
  }
};

class Slice final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc& node) const override {
    return node.opset >= 10 ? std::vector<int>{1, 2, 3, 4} : std::vector<int>{};
  }
  // Blocks where it takes whole ones.
  bool accepts(const NodeDesc& node, std::span<const Input> inputs, Layout layout) const override {
    if (is_plain(layout)) return true;
    const std::int64_t block = channel_block(layout);
    const auto ranges = read(node, inputs);
    return ranges.ok() && fills_blocks(inputs[0].desc, block) && ranges->count[1] > 0 &&
           ranges->count[1] % block == 0 && ranges->start[1] % block == 0 && ranges->step[1] == 1;
  }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(node.opset >= 10 ? check_counts(node, inputs, 3, 5) : check_counts(node, inputs, 1, 1));
    CONVOY_TRY(Ranges ranges, read(node, inputs));
    return one_output(node, inputs[0].desc.type, std::move(ranges.count));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(Ranges ranges, read(node, inputs));
    if (const std::int64_t block = inputs[0].desc.channel_block;
        block > 1) {  // the channels of a block are its last dim
      ranges.start[1] /= block;
      ranges.start.push_back(0);
      ranges.step.push_back(1);
      ranges.count[1] /= block;
      ranges.count.push_back(block);
    }
    const TensorDesc y = as_in(outputs[0], inputs[0].desc);
    std::int64_t offset = 0;
    Dims strides = as_in(inputs[0].desc, inputs[0].desc).strides;
    for (std::size_t d = 0; d < strides.size(); ++d) {
      offset += ranges.start[d] * strides[d];
      strides[d] = ranges.count[d] > 1 ? strides[d] * ranges.step[d] : 0;
    }
    const std::size_t size = size_of(y.type);
    if (y.elements() == 0) offset = 0;
    const StridedCopy copy(size, y.dims, strides, y.strides);
    return make_plan(node, [copy, size, offset](auto in, auto out, const ExecContext& context) -> Result<void> {
      copy.run(at_element(in[0], offset, size), out[0], context);
      return {};
    });
  }

 private:
  struct Ranges {  // one entry per dim of the data
    Dims start, step, count;
  };

  static Result<Dims> list(const NodeDesc& node, std::span<const Input> inputs, int index, const char* name,
                           Dims fallback) {
    if (node.opset < 10) return node.integers(name, std::move(fallback));
    if (!is_present(inputs, index)) return fallback;
    return constant_integers(node, inputs, index);
  }

  static Result<Ranges> read(const NodeDesc& node, std::span<const Input> inputs) {
    const Dims& dims = inputs[0].desc.dims;
    const int rank = static_cast<int>(dims.size());
    CONVOY_TRY(const Dims starts, list(node, inputs, 1, "starts", {}));
    CONVOY_TRY(const Dims ends, list(node, inputs, 2, "ends", {}));
    Dims first(starts.size());
    std::iota(first.begin(), first.end(), 0);
    CONVOY_TRY(const Dims given, list(node, inputs, 3, "axes", first));
    CONVOY_TRY(const Dims steps, list(node, inputs, 4, "steps", Dims(starts.size(), 1)));
    if (ends.size() != starts.size() || given.size() != starts.size() || steps.size() != starts.size()) {
      return bad_node(node, fmt::format("starts, ends, axes and steps have {}, {}, {} and {} entries", starts.size(),
                                        ends.size(), given.size(), steps.size()));
    }
    CONVOY_TRY(const std::vector<int> axes, normalize_axes(node, given, rank));
    Ranges ranges{Dims(rank, 0), Dims(rank, 1), dims};
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const std::int64_t dim = dims[axes[i]];
      const std::int64_t step = steps[i];
      if (step == 0) return bad_node(node, fmt::format("steps[{}] is 0", i));
      // numpy's clamping: a position counts from the end where negative, then saturates.
      const std::int64_t low = step > 0 ? 0 : -1;
      const std::int64_t high = step > 0 ? dim : dim - 1;
      const auto clamp = [&](std::int64_t at) { return std::clamp(at < 0 ? at + dim : at, low, std::max(low, high)); };
      const std::int64_t start = clamp(starts[i]), end = clamp(ends[i]);
      const std::int64_t length = step > 0 ? end - start : start - end;
      // Written so that steps of INT64_MIN and INT64_MAX do not overflow.
      const std::uint64_t size = step > 0 ? step : -static_cast<std::uint64_t>(step);
      ranges.count[axes[i]] = length <= 0 ? 0 : 1 + static_cast<std::int64_t>((length - 1) / size);
      ranges.start[axes[i]] = length <= 0 ? 0 : start;
      ranges.step[axes[i]] = step;
    }
    return ranges;
  }
};

class Expand final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {1}; }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    CONVOY_TRY(const Dims shape, constant_integers(node, inputs, 1));
    for (const std::int64_t dim : shape) {
      if (dim < 0) return bad_node(node, fmt::format("input 1 (shape) has a negative dim: {}", dim));
    }
    const std::vector<Dims> both{inputs[0].desc.dims, shape};
    CONVOY_TRY(Dims dims, broadcast_dims(node, both));
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    const TensorDesc& x = inputs[0].desc;
    Dims strides(outputs[0].rank(), 0);
    for (int d = 0; d < x.rank(); ++d) {
      if (x.dims[d] != 1) strides[outputs[0].rank() - x.rank() + d] = x.strides[d];
    }
    const StridedCopy copy(size_of(x.type), outputs[0].dims, strides, outputs[0].strides);
    return make_plan(node, [copy](auto in, auto out, const ExecContext& context) -> Result<void> {
      copy.run(in[0], out[0], context);
      return {};
    });
  }
};

// A copy per part, from or to a window of the whole that starts `offset` elements in.
struct Part {
  StridedCopy copy;
  std::int64_t offset;
};

bool is_packed_in(const std::vector<int>& order, const TensorDesc& desc) {
  std::int64_t expected = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    if (desc.dims[*d] != 1 && desc.strides[*d] != expected) return false;
    expected *= desc.dims[*d];
  }
  return true;
}

// A whole whose rows are its parts' rows side by side, each a run of bytes: images in channels last whose channels are
// joined, for one. Written row by row its memory is written once, from front to back.
struct SideBySide {
  std::int64_t rows = 0;
  std::vector<std::int64_t> bytes;  // of a row, by part
};
// Nothing where rows are few or long, a part is empty, or something isn't packed as the whole is.
std::optional<SideBySide> side_by_side(const TensorDesc& whole, const std::vector<TensorDesc>& parts, int axis) {
  constexpr std::int64_t kFew = 64, kLong = 16 << 10;
  std::vector<int> order(whole.dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](int d) { return whole.strides[d]; });
  const auto outside = std::ranges::find(order, axis);
  SideBySide found{.rows = 1, .bytes = {}};
  for (auto d = order.begin(); d != outside; ++d) found.rows *= whole.dims[*d];
  if (found.rows < kFew || !is_packed_in(order, whole)) return std::nullopt;
  for (const TensorDesc& part : parts) {
    if (!is_packed_in(order, part)) return std::nullopt;
    found.bytes.push_back(part.elements() / found.rows * static_cast<std::int64_t>(size_of(whole.type)));
    if (found.bytes.back() == 0 || found.bytes.back() > kLong) return std::nullopt;
  }
  return found;
}

class Concat final : public Operator {
 public:
  // Every part has to fill its blocks.
  bool accepts(const NodeDesc&, std::span<const Input> inputs, Layout layout) const override {
    return is_plain(layout) || std::ranges::all_of(inputs, [&](const Input& input) {
             return fills_blocks(input.desc, channel_block(layout));
           });
  }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, -1));
    CONVOY_CHECK(check_same_type(node, inputs, kAnyType));
    Dims dims = inputs[0].desc.dims;
    CONVOY_TRY(const int axis, axis_of(node, inputs));
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      if (!inputs[i].present) return bad_node(node, fmt::format("input {} is absent, it is required", i));
      Dims other = inputs[i].desc.dims;
      const std::int64_t added = other.size() == dims.size() ? other[axis] : 0;
      if (other.size() == dims.size()) other[axis] = dims[axis];
      if (other != dims) {
        return bad_node(node, fmt::format("input {} has dims [{}] and input 0 [{}]; they may differ along axis {} only",
                                          i, to_string(inputs[i].desc.dims), to_string(inputs[0].desc.dims), axis));
      }
      if (__builtin_add_overflow(dims[axis], added, &dims[axis])) return bad_node(node, "the output dim overflows");
    }
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const int axis, axis_of(node, inputs));
    const std::size_t size = size_of(outputs[0].type);
    std::vector<Part> parts;
    std::vector<TensorDesc> descs;
    std::int64_t at = 0;
    const TensorDesc whole = as_in(outputs[0], outputs[0]);
    for (const Input& input : inputs) descs.push_back(as_in(input.desc, outputs[0]));
    if (auto rows = side_by_side(whole, descs, axis)) return make_plan(node, joined(*std::move(rows)));
    for (const TensorDesc& part : descs) {
      parts.push_back({StridedCopy(size, part.dims, part.strides, whole.strides), at * whole.strides[axis]});
      at += part.dims[axis];
    }
    return make_plan(node, [parts, size](auto in, auto out, const ExecContext& context) -> Result<void> {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        parts[i].copy.run(in[i], at_element(out[0], parts[i].offset, size), context);
      }
      return {};
    });
  }

 private:
  static constexpr std::int64_t kShortRow = 64;  // bytes: a line of the cache
  static OpBody joined(SideBySide rows) {
    const std::int64_t width = std::accumulate(rows.bytes.begin(), rows.bytes.end(), std::int64_t{0});
    return [rows = std::move(rows), width](auto in, auto out, const ExecContext& context) -> Result<void> {
      parallel_for(context, rows.rows, width / 4 + 1, [&](std::int64_t begin, std::int64_t end) {
        char* to = static_cast<char*>(out[0]) + begin * width;
        if (width <= kShortRow) {
          for (std::size_t i = 0; i < rows.bytes.size(); to += rows.bytes[i++]) {
            const std::int64_t bytes = rows.bytes[i];
            copy_rows(static_cast<const char*>(in[i]) + begin * bytes, bytes, to, width, end - begin, bytes);
          }
          return;
        }
        for (std::int64_t row = begin; row < end; ++row) {
          for (std::size_t i = 0; i < rows.bytes.size(); ++i) {
            const auto bytes = static_cast<std::size_t>(rows.bytes[i]);
            std::memcpy(to, static_cast<const char*>(in[i]) + row * rows.bytes[i], bytes);
            to += bytes;
          }
        }
      });
      return {};
    };
  }

  static Result<int> axis_of(const NodeDesc& node, std::span<const Input> inputs) {
    if (!node.has("axis")) return bad_node(node, "attribute 'axis' is required");
    CONVOY_TRY(const std::int64_t axis, node.integer("axis", 0));
    return normalize_axis(node, axis, inputs[0].desc.rank(), "axis");
  }
};

class Split final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc& node) const override {
    return node.opset >= 13 ? std::vector<int>{1} : std::vector<int>{};
  }
  // Every part has to fill its blocks.
  bool accepts(const NodeDesc& node, std::span<const Input> inputs, Layout layout) const override {
    if (is_plain(layout)) return true;
    const auto parts = infer(node, inputs);
    return parts.ok() && std::ranges::all_of(
                             *parts, [&](const TensorDesc& part) { return fills_blocks(part, channel_block(layout)); });
  }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, node.opset >= 13 ? 2 : 1, node.output_count));
    CONVOY_TRY(const std::int64_t given, node.integer("axis", 0));
    CONVOY_TRY(const int axis, normalize_axis(node, given, inputs[0].desc.rank(), "axis"));
    CONVOY_TRY(const Dims sizes, sizes_of(node, inputs, inputs[0].desc.dims[axis]));
    std::vector<TensorDesc> outputs;
    for (const std::int64_t size : sizes) {
      Dims dims = inputs[0].desc.dims;
      dims[axis] = size;
      CONVOY_TRY(TensorDesc desc, make_output(node, inputs[0].desc.type, std::move(dims)));
      outputs.push_back(std::move(desc));
    }
    return outputs;
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const std::int64_t given, node.integer("axis", 0));
    CONVOY_TRY(const int axis, normalize_axis(node, given, inputs[0].desc.rank(), "axis"));
    const TensorDesc whole = as_in(inputs[0].desc, inputs[0].desc);
    const std::size_t size = size_of(whole.type);
    std::vector<Part> parts;
    std::int64_t at = 0;
    for (const TensorDesc& output : outputs) {
      const TensorDesc part = as_in(output, inputs[0].desc);
      parts.push_back({StridedCopy(size, part.dims, whole.strides, part.strides), at * whole.strides[axis]});
      at += part.dims[axis];
    }
    return make_plan(node, [parts, size](auto in, auto out, const ExecContext& context) -> Result<void> {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (out[i] != nullptr) parts[i].copy.run(at_element(in[0], parts[i].offset, size), out[i], context);
      }
      return {};
    });
  }

 private:
  static Result<Dims> sizes_of(const NodeDesc& node, std::span<const Input> inputs, std::int64_t dim) {
    const std::int64_t count = node.output_count;
    if (is_present(inputs, 1) || node.has("split")) {
      Dims sizes;
      if (is_present(inputs, 1)) {
        CONVOY_TRY(sizes, constant_integers(node, inputs, 1));
      } else {
        CONVOY_TRY(sizes, node.integers("split", {}));
      }
      std::int64_t rest = dim;
      for (const std::int64_t size : sizes) {
        if (size < 0 || size > rest) rest = -1;
        if (rest < 0) break;
        rest -= size;
      }
      if (static_cast<std::int64_t>(sizes.size()) != count || rest != 0) {
        return bad_node(node, fmt::format("split=[{}] does not divide a dim of {} among {} outputs",
                                          fmt::join(sizes, ","), dim, count));
      }
      return sizes;
    }
    CONVOY_TRY(const std::int64_t parts, node.integer("num_outputs", count));
    if (parts != count || count < 1) return bad_node(node, fmt::format("num_outputs={} for {} outputs", parts, count));
    // From opset 18 the last part may be smaller; before, the parts are equal.
    const std::int64_t part = (dim + count - 1) / count;
    if (part * (count - 1) > dim || (node.opset < 18 && part * count != dim)) {
      return bad_node(node, fmt::format("a dim of {} can't be split into {} parts", dim, count));
    }
    Dims sizes(count, part);
    sizes.back() = dim - part * (count - 1);
    return sizes;
  }
};

const Transpose transpose;
const Slice slice;
const Expand expand;
const Concat concat;
const Split split;

}  // namespace

std::vector<OperatorRow> movement_rows() {
  return {{"Transpose", &transpose, images::transpose, Rate::transposes, values::moved},
          {"Slice", &slice, images::slice, Rate::moves, values::moved},
          {"Expand", &expand, images::element_wise, Rate::moves, values::moved},
          {"Concat", &concat, images::concat, Rate::moves, values::mixed},
          {"Split", &split, images::along_first, Rate::moves, values::moved}};
}

}  // namespace convoy::ops
