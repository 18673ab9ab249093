// Elements moved from where they are to where they go: an index map each.
#include "ops/generated/rules.h"

namespace convoy::ops::generated {
namespace {

// y[position] = x at the place, as bits; `outside` where that isn't in x.
Computation moved(const TensorDesc& y, std::vector<Load> loads) {
  const DataType type = moved_as(y.type);
  Computation made{.type = type, .kept = y.dims, .folded = {}, .loads = std::move(loads), .folds = {}, .stores = {}};
  for (Load& load : made.loads) load.place.tensor.type = type;
  made.stores.push_back({0, Place::broadcast(as_type(y, type), y.rank()), generate::itself()});
  return made;
}

Result<Computation> transpose(const Described& d) {
  const TensorDesc& x = d.inputs[0].desc;
  Dims reversed;
  for (int i = x.rank() - 1; i >= 0; --i) reversed.push_back(i);
  CONVOY_TRY(const Dims order, d.node.integers("perm", reversed));
  Place place{x, std::vector<Coordinate>(x.dims.size())};
  for (std::size_t i = 0; i < order.size(); ++i) {
    place.coordinates[static_cast<std::size_t>(order[i])] = Coordinate::of(static_cast<int>(i));
  }
  return moved(d.outputs[0], {{0, place}});
}

// The same elements in row-major order under other dims.
Result<Computation> reshape(const Described& d) {
  TensorDesc x = d.inputs[0].desc, y = d.outputs[0];
  if (!x.is_packed(Layout::nchw) || !y.is_packed(Layout::nchw)) return no_kernel(d, "tensors that aren't row-major");
  for (TensorDesc* each : {&x, &y}) {
    each->dims = {each->elements()};
    each->strides = {1};
  }
  return moved(y, {{0, Place::broadcast(x, 1)}});
}

Result<Computation> expand(const Described& d) {
  return moved(d.outputs[0], {{0, Place::broadcast(d.inputs[0].desc, d.outputs[0].rank())}});
}

// A part of a whole that begins `start` along the axis.
Place part_place(const TensorDesc& part, int axis, std::int64_t start) {
  Place place = Place::broadcast(part, part.rank());
  place.coordinates[static_cast<std::size_t>(axis)] = Coordinate::of(axis, 1, -start);
  return place;
}

Result<int> axis_of(const Described& d) {
  CONVOY_TRY(const std::int64_t axis, d.node.integer("axis", 0));
  return normalize_axis(d.node, axis, d.inputs[0].desc.rank(), "axis");
}

// A position's element is the first part's that has it.
Result<Computation> concat(const Described& d) {
  CONVOY_TRY(const int axis, axis_of(d));
  std::vector<Load> loads;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < d.inputs.size(); ++i) {
    const TensorDesc& part = d.inputs[i].desc;
    const int next = i + 1 < d.inputs.size() ? static_cast<int>(i) + 1 : -1;
    loads.push_back({static_cast<int>(i), part_place(part, axis, start), 0, next});
    start += part.dims[static_cast<std::size_t>(axis)];
  }
  return moved(d.outputs[0], std::move(loads));
}

Result<Computation> split(const Described& d) {
  CONVOY_TRY(const int axis, axis_of(d));
  const TensorDesc& x = d.inputs[0].desc;
  const DataType type = moved_as(x.type);
  Computation made{.type = type, .kept = x.dims, .folded = {}, .loads = {}, .folds = {}, .stores = {}};
  made.loads.push_back({0, Place::broadcast(as_type(x, type), x.rank())});
  std::int64_t start = 0;
  for (std::size_t i = 0; i < d.outputs.size(); ++i) {
    made.stores.push_back(
        {static_cast<int>(i), part_place(as_type(d.outputs[i], type), axis, start), generate::itself()});
    start += d.outputs[i].dims[static_cast<std::size_t>(axis)];
  }
  return made;
}

// Of indices that are known, which are a table.
Result<Computation> gather(const Described& d) {
  const TensorDesc &x = d.inputs[0].desc, &indices = d.inputs[1].desc;
  if (d.inputs[1].constant == nullptr) return no_kernel(d, "indices that aren't known beforehand");
  CONVOY_TRY(const int axis, axis_of(d));
  const std::int64_t size = x.dims[static_cast<std::size_t>(axis)];
  Coordinate looked_up;
  CONVOY_TRY(const std::vector<std::int64_t> given, constant_integers(d.node, d.inputs, 1));
  for (const std::int64_t index : given) {
    if (index < -size || index >= size) return no_kernel(d, "an index outside");
    looked_up.table.push_back(static_cast<std::int32_t>(index < 0 ? index + size : index));
  }
  std::int64_t step = 1;
  for (int i = indices.rank() - 1; i >= 0; --i) {
    looked_up.parts.push_back({axis + i, step});
    step *= indices.dims[static_cast<std::size_t>(i)];
  }
  Place place{x, {}};
  for (int i = 0; i < x.rank(); ++i) {
    const int dim = i < axis ? i : i - 1 + indices.rank();
    place.coordinates.push_back(i == axis ? looked_up : Coordinate::of(dim));
  }
  return moved(d.outputs[0], {{0, place}});
}

constexpr NamedRule kRules[] = {
    {"Transpose", transpose}, {"Reshape", reshape}, {"Flatten", reshape}, {"Squeeze", reshape}, {"Unsqueeze", reshape},
    {"Expand", expand},       {"Concat", concat},   {"Split", split},     {"Gather", gather},
};

}  // namespace

std::span<const NamedRule> movement_rules() { return kRules; }

}  // namespace convoy::ops::generated
