// Transpose, Slice, Expand, Concat and Split: what their index maps say.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>

#include "ops/blocks.h"
#include "ops/movement/map_copy.h"
#include "ops/movement/strided_copy.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

Result<std::vector<int>> permutation(const NodeDesc& node, int rank) {
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

class Transpose final : public MapOperator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    const Dims& from = inputs[0].desc.dims;
    CONVOY_TRY(const std::vector<int> order, permutation(node, static_cast<int>(from.size())));
    Dims to;
    for (const int d : order) to.push_back(from[d]);
    return one_output(node, inputs[0].desc.type, std::move(to));
  }
};

std::vector<IndexMap> map_of_transpose(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs) {
  const auto order = permutation(node, inputs[0].desc.rank());
  if (!order.ok()) return {};
  std::vector<Index> indices(order->size());
  for (std::size_t d = 0; d < order->size(); ++d) indices[(*order)[d]].terms = {{static_cast<int>(d)}};
  return {map_of(inputs[0].desc, outputs[0], std::move(indices))};
}

struct Ranges {  // one entry per dim of the data
  Dims start, step, count;
};

Result<Dims> list(const NodeDesc& node, std::span<const Input> inputs, int index, const char* name, Dims fallback) {
  if (node.opset < 10) return node.integers(name, std::move(fallback));
  if (!is_present(inputs, index)) return fallback;
  return constant_integers(node, inputs, index);
}

Result<Ranges> read(const NodeDesc& node, std::span<const Input> inputs) {
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
    // A position counts from the end where negative, then saturates: backwards a start does so at 0 (in numpy before
    // it, where nothing is left).
    const std::int64_t high = step > 0 ? dim : dim - 1;
    const auto clamp = [&](std::int64_t at, std::int64_t low) {
      return std::clamp(at < 0 ? at + dim : at, low, std::max(low, high));
    };
    const std::int64_t start = clamp(starts[i], 0), end = clamp(ends[i], step > 0 ? 0 : -1);
    const std::int64_t length = dim == 0 ? 0 : step > 0 ? end - start : start - end;
    // Written so that steps of INT64_MIN and INT64_MAX do not overflow.
    const std::uint64_t size = step > 0 ? step : -static_cast<std::uint64_t>(step);
    ranges.count[axes[i]] = length <= 0 ? 0 : 1 + static_cast<std::int64_t>((length - 1) / size);
    ranges.start[axes[i]] = length <= 0 ? 0 : start;
    ranges.step[axes[i]] = step;
  }
  return ranges;
}

class Slice final : public MapOperator {
 public:
  std::vector<int> shape_inputs(const NodeDesc& node) const override {
    return node.opset >= 10 ? std::vector<int>{1, 2, 3, 4} : std::vector<int>{};
  }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(node.opset >= 10 ? check_counts(node, inputs, 3, 5) : check_counts(node, inputs, 1, 1));
    CONVOY_TRY(Ranges ranges, read(node, inputs));
    return one_output(node, inputs[0].desc.type, std::move(ranges.count));
  }
};

// Blocks where it takes whole ones.
Taken layouts_of_slice(const NodeDesc& node, std::span<const Input> inputs, Layout layout) {
  if (is_plain(layout)) return Taken::as_it_is;
  const std::int64_t block = channel_block(layout);
  const auto ranges = read(node, inputs);
  return layouts::where(ranges.ok() && fills_blocks(inputs[0].desc, block) && ranges->count[1] > 0 &&
                        ranges->count[1] % block == 0 && ranges->start[1] % block == 0 && ranges->step[1] == 1);
}

std::vector<IndexMap> map_of_slice(const NodeDesc& node, std::span<const Input> inputs,
                                   std::span<const TensorDesc> outputs) {
  const auto ranges = read(node, inputs);
  if (!ranges.ok()) return {};
  std::vector<Index> indices;
  for (std::size_t d = 0; d < ranges->count.size(); ++d) {
    indices.push_back({ranges->start[d], {}});
    if (ranges->count[d] > 1) indices.back().terms = {{static_cast<int>(d), ranges->step[d]}};
  }
  return {map_of(inputs[0].desc, outputs[0], std::move(indices))};
}

class Expand final : public MapOperator {
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

// Where the whole is in blocks of channels, so are the parts (a constant may be without): whole blocks are moved.
TensorDesc as_in(const TensorDesc& desc, const TensorDesc& whole) {
  return whole.channel_block == 1 ? desc : blocks_as_dim(desc, whole.channel_block);
}

Result<int> axis_of(const NodeDesc& node, std::span<const Input> inputs) {
  if (!node.has("axis")) return bad_node(node, "attribute 'axis' is required");
  CONVOY_TRY(const std::int64_t axis, node.integer("axis", 0));
  return normalize_axis(node, axis, inputs[0].desc.rank(), "axis");
}

class Concat final : public MapOperator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, -1));
    CONVOY_CHECK(check_same_type(node, inputs));
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
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const int axis, axis_of(node, inputs));
    std::vector<TensorDesc> parts;
    for (const Input& input : inputs) parts.push_back(as_in(input.desc, outputs[0]));
    auto rows = side_by_side(as_in(outputs[0], outputs[0]), parts, axis);
    return rows ? make_plan(node, joined(*std::move(rows))) : MapOperator::plan(node, inputs, outputs, request);
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
};

// Every part has to fill its blocks.
Taken layouts_of_concat(const NodeDesc&, std::span<const Input> inputs, Layout layout) {
  return layouts::where(is_plain(layout) || std::ranges::all_of(inputs, [&](const Input& input) {
                          return fills_blocks(input.desc, channel_block(layout));
                        }));
}

// All dims as they are but one of them, from `at` on.
std::vector<Index> shifted(int rank, int axis, std::int64_t at) {
  std::vector<Index> indices;
  for (int d = 0; d < rank; ++d) indices.push_back({d == axis ? at : 0, {{d}}});
  return indices;
}

std::vector<IndexMap> map_of_concat(const NodeDesc& node, std::span<const Input> inputs,
                                    std::span<const TensorDesc> outputs) {
  const auto axis = axis_of(node, inputs);
  if (!axis.ok()) return {};
  IndexMap map{outputs[0].dims, {}};
  std::int64_t at = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorDesc& part = inputs[i].desc;
    map.sources.push_back({static_cast<int>(i), part.dims, shifted(part.rank(), *axis, -at)});
    at += part.dims[*axis];
  }
  return {std::move(map)};
}

class Split final : public MapOperator {
 public:
  std::vector<int> shape_inputs(const NodeDesc& node) const override {
    return node.opset >= 13 ? std::vector<int>{1} : std::vector<int>{};
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

const Split split;

// Every part has to fill its blocks.
Taken layouts_of_split(const NodeDesc& node, std::span<const Input> inputs, Layout layout) {
  if (is_plain(layout)) return Taken::as_it_is;
  const auto parts = split.infer(node, inputs);
  return layouts::where(parts.ok() && std::ranges::all_of(*parts, [&](const TensorDesc& part) {
                          return fills_blocks(part, channel_block(layout));
                        }));
}

std::vector<IndexMap> maps_of_split(const NodeDesc& node, std::span<const Input> inputs,
                                    std::span<const TensorDesc> outputs) {
  const int rank = inputs[0].desc.rank();
  const auto given = node.integer("axis", 0);
  const auto axis = given.ok() ? normalize_axis(node, *given, rank, "axis") : given.error();
  if (!axis.ok()) return {};
  std::vector<IndexMap> maps;
  std::int64_t at = 0;
  for (const TensorDesc& output : outputs) {
    maps.push_back(map_of(inputs[0].desc, output, shifted(rank, *axis, at)));
    at += output.dims[*axis];
  }
  return maps;
}

const Transpose transpose;
const Slice slice;
const Expand expand;
const Concat concat;

}  // namespace

std::vector<OperatorRow> movement_rows() {
  return {{"Transpose", &transpose, images::transpose, Rate::transposes, values::moved_by(map_of_transpose),
           in_place::never, layouts::row_major, kEveryType},
          {"Slice", &slice, images::slice, Rate::moves, values::moved_by(map_of_slice), in_place::never,
           layouts_of_slice, kEveryType},
          {"Expand", &expand, images::element_wise, Rate::moves, values::moved_by(maps::broadcast), in_place::never,
           layouts::row_major, kEveryType},
          {"Concat", &concat, images::concat, Rate::moves, values::joined_by(map_of_concat), in_place::never,
           layouts_of_concat, kAnyType},
          {"Split", &split, images::along_first, Rate::moves, values::moved_by(maps_of_split), in_place::never,
           layouts_of_split, kEveryType}};
}

}  // namespace convoy::ops
