// Pad and Tile: every output index maps to an input index by its dim alone.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/movement/map_copy.h"
#include "ops/movement/mapped_copy.h"
#include "ops/movement/strided_copy.h"
#include "ops/operator_row.h"
#include "ops/padding.h"

namespace convoy::ops {
namespace {

// Pads may be negative: they cut, before anything is padded.
enum class Mode { constant, reflect, edge, wrap };
// What is left of a dim where pads cut: [begin, end).
struct Kept {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};
struct Pads {
  Mode mode = Mode::constant;
  Dims before, after;  // one per dim
  Kept kept(std::size_t d, std::int64_t dim) const {
    return {-std::min<std::int64_t>(before[d], 0), dim + std::min<std::int64_t>(after[d], 0)};
  }
};

std::int64_t source(Mode mode, std::int64_t at, std::int64_t dim) {
  if (at >= 0 && at < dim) return at;
  switch (mode) {
    case Mode::constant:
      return -1;
    case Mode::edge:
      return at < 0 ? 0 : dim - 1;
    case Mode::wrap:
      return (at % dim + dim) % dim;
    case Mode::reflect:
      break;
  }
  if (dim == 1) return 0;
  const std::int64_t period = 2 * (dim - 1);
  const std::int64_t phase = (at % period + period) % period;
  return phase < dim ? phase : period - phase;
}

Result<Pads> read(const NodeDesc& node, std::span<const Input> inputs) {
  Pads pads;
  CONVOY_TRY(const std::string mode, node.text("mode", "constant"));
  if (mode == "reflect") {
    pads.mode = Mode::reflect;
  } else if (mode == "edge") {
    pads.mode = Mode::edge;
  } else if (mode == "wrap") {
    pads.mode = Mode::wrap;
  } else if (mode != "constant") {
    return bad_node(node, "mode='" + mode + "' is not constant, reflect, edge or wrap");
  }
  const int rank = inputs[0].desc.rank();
  Dims given;
  if (node.opset >= 11) {
    CONVOY_TRY(given, constant_integers(node, inputs, 1));
  } else {
    CONVOY_TRY(given, node.integers("pads", {}));
  }
  std::vector<int> axes;
  if (is_present(inputs, 3)) {
    CONVOY_TRY(const Dims named, constant_integers(node, inputs, 3));
    CONVOY_TRY(axes, normalize_axes(node, named, rank));
  } else {
    for (int d = 0; d < rank; ++d) axes.push_back(d);
  }
  if (given.size() != 2 * axes.size()) {
    return bad_node(node, fmt::format("pads has {} entries for {} axes", given.size(), axes.size()));
  }
  pads.before.assign(rank, 0);
  pads.after.assign(rank, 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    pads.before[axes[i]] = given[i];
    pads.after[axes[i]] = given[axes.size() + i];
  }
  return pads;
}

// Of index i along dim d, of so many in the input.
std::int64_t from(const Pads& pads, std::int64_t dim, std::size_t d, std::int64_t i) {
  const Kept kept = pads.kept(d, dim);
  const std::int64_t at = source(pads.mode, i - pads.before[d] - kept.begin, kept.size());
  return at < 0 ? at : kept.begin + at;
}

class Pad final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc& node) const override {
    return node.opset >= 11 ? std::vector<int>{1, 3} : std::vector<int>{};
  }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(node.opset >= 11 ? check_counts(node, inputs, 2, 4) : check_counts(node, inputs, 1, 1));
    CONVOY_TRY(const Pads pads, read(node, inputs));
    const Dims& from = inputs[0].desc.dims;
    Dims to(from.size());
    for (std::size_t d = 0; d < from.size(); ++d) {
      // An index minus the pad before it must not overflow.
      if (pads.before[d] < std::numeric_limits<std::int64_t>::min() / 2 ||
          __builtin_add_overflow(from[d], pads.before[d], &to[d]) ||
          __builtin_add_overflow(to[d], pads.after[d], &to[d]) || to[d] < 0) {
        return bad_node(node,
                        fmt::format("pads {} and {} for dim {} of size {}", pads.before[d], pads.after[d], d, from[d]));
      }
      if (pads.kept(d, from[d]).size() <= 0 && to[d] > 0 && pads.mode != Mode::constant) {
        return bad_node(node, fmt::format("of dim {} of size {}, pads {} and {} leave nothing to pad it with", d,
                                          from[d], pads.before[d], pads.after[d]));
      }
    }
    if (is_present(inputs, 2)) {
      if (inputs[2].desc.elements() != 1) return bad_node(node, "input 2 (constant_value) must have one element");
      if (inputs[2].desc.type != inputs[0].desc.type) {
        return bad_node(node, "input 2 (constant_value) must have the type of input 0");
      }
    }
    return one_output(node, inputs[0].desc.type, std::move(to));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const Pads pads, read(node, inputs));
    CONVOY_TRY(const double value, node.real("value", 0));
    const TensorDesc& x = inputs[0].desc;
    CONVOY_CHECK(check_mappable(node, outputs[0]));
    const auto is_zero = [](std::int64_t pad) { return pad == 0; };
    if (std::ranges::all_of(pads.before, is_zero) && std::ranges::all_of(pads.after, is_zero)) {
      return plan_of_copy(node, StridedCopy(size_of(x.type), x.dims, x.strides, outputs[0].strides));
    }
    MappedCopy copy(x, outputs[0], [&](int d, std::int64_t i) { return from(pads, x.dims[d], d, i); });
    std::vector<std::byte> attribute(8);
    store_from_double(x.type, attribute.data(), 0, value);
    return make_plan(node, [attribute, copy](auto in, auto out, const ExecContext& context) -> Result<void> {
      const bool given = in.size() > 2 && in[2] != nullptr;
      copy.run(in[0], out[0], given ? in[2] : attribute.data(), context);
      return {};
    });
  }
};

class Tile final : public MapOperator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {1}; }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    CONVOY_TRY(const Dims repeats, constant_integers(node, inputs, 1));
    Dims dims = inputs[0].desc.dims;
    if (repeats.size() != dims.size()) {
      return bad_node(node, fmt::format("input 1 (repeats) has {} entries for rank {}", repeats.size(), dims.size()));
    }
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (repeats[d] < 0 || __builtin_mul_overflow(dims[d], repeats[d], &dims[d])) {
        return bad_node(node, fmt::format("input 1 (repeats) has {} for a dim of {}", repeats[d], dims[d]));
      }
    }
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }
};

std::vector<IndexMap> map_of_pad(const NodeDesc& node, std::span<const Input> inputs,
                                 std::span<const TensorDesc> outputs) {
  const auto pads = read(node, inputs);
  const auto value = node.real("value", 0);
  if (!pads.ok() || !value.ok() || pads->mode != Mode::constant) return {};
  std::vector<Index> indices;
  for (int d = 0; d < inputs[0].desc.rank(); ++d) indices.push_back({-pads->before[d], {{d}}});
  IndexMap map = map_of(inputs[0].desc, outputs[0], std::move(indices));
  map.fill = *value;
  map.fill_input = is_present(inputs, 2) ? 2 : -1;
  return {std::move(map)};
}

std::vector<IndexMap> map_of_tile(const NodeDesc&, std::span<const Input> inputs, std::span<const TensorDesc> outputs) {
  const TensorDesc& x = inputs[0].desc;
  std::vector<Index> indices;
  for (int d = 0; d < x.rank(); ++d) {
    indices.push_back({0, {{d, 1, 1, x.dims[d] == outputs[0].dims[d] ? 0 : x.dims[d]}}});
  }
  return {map_of(x, outputs[0], std::move(indices))};
}

const Pad pad;
const Tile tile;

}  // namespace

Result<std::vector<Dims>> padded_indices(const NodeDesc& node, std::span<const Input> inputs,
                                         const TensorDesc& output) {
  CONVOY_TRY(const Pads pads, read(node, inputs));
  std::vector<Dims> indices;
  for (std::size_t d = 0; d < output.dims.size(); ++d) {
    indices.emplace_back();
    for (std::int64_t i = 0; i < output.dims[d]; ++i) {
      indices.back().push_back(from(pads, inputs[0].desc.dims[d], d, i));
    }
  }
  return indices;
}

std::vector<OperatorRow> pad_rows() {
  return {{"Pad", &pad, images::pad, Rate::moves, values::joined_by(map_of_pad), in_place::never, layouts::plain,
           kEveryType},
          {"Tile", &tile, images::each_alone, Rate::moves, values::moved_by(map_of_tile), in_place::never,
           layouts::plain, kEveryType}};
}

}  // namespace convoy::ops
