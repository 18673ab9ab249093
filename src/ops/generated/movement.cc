// Elements moved from where they are to where they go, as an operator's index maps say (index_map.h); and by indices
// that are looked up.
#include <algorithm>
#include <numeric>
#include <optional>

#include "ops/generated/rules.h"
#include "ops/index_map.h"
#include "ops/operator_row.h"
#include "ops/padding.h"

namespace convoy::ops::generated {
namespace {

// y[position] = what the loads say: bits, or values where some of them are outside of all.
Computation moved(const TensorDesc& y, DataType type, Dims kept, std::vector<Load> loads, std::vector<Coordinate> to) {
  const bool bits = type == moved_as(y.type);
  Computation made{
      .type = type, .kept = std::move(kept), .folded = {}, .loads = std::move(loads), .folds = {}, .stores = {}};
  for (Load& load : made.loads) load.place.tensor.type = bits ? type : load.place.tensor.type;
  made.stores.push_back({0, {bits ? as_type(y, type) : y, std::move(to)}, generate::itself()});
  return made;
}

// The dims of outputs, cut where a divisor or a modulus cuts them: every term is then a sum of positions.
class CutDims {
 public:
  CutDims(const Dims& dims, const IndexMap& map) : of_dim_(dims.size()), whole_(dims.size(), true) {
    for (std::size_t d = 0; d < dims.size(); ++d) {
      std::vector<std::int64_t> cuts{1};
      for (const MapSource& source : map.sources) {
        for (const Index& index : source.indices) {
          for (const IndexTerm& term : index.terms) {
            if (term.dim != static_cast<int>(d)) continue;
            if (term.divisor < dims[d]) cuts.push_back(term.divisor);
            if (term.modulus > 0 && term.divisor * term.modulus < dims[d]) cuts.push_back(term.divisor * term.modulus);
          }
        }
      }
      std::ranges::sort(cuts);
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
      cuts.push_back(std::max<std::int64_t>(dims[d], 1));
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i) whole_[d] = whole_[d] && cuts[i + 1] % cuts[i] == 0;
      if (!whole_[d]) cuts = {1, dims[d]};
      for (std::size_t i = cuts.size() - 1; i-- > 0;) {
        of_dim_[d].push_back({static_cast<int>(space_.size()), cuts[i]});
        space_.push_back(dims[d] == 0 ? 0 : cuts[i + 1] / cuts[i]);
      }
    }
  }
  const Dims& space() const { return space_; }

  // Of a dim of the outputs.
  Coordinate output(std::size_t dim) const {
    Coordinate made;
    for (const Part& part : of_dim_[dim]) made.parts.push_back({part.number, part.weight});
    return made;
  }

  // Nothing where a dim isn't cut as it has to be, unless a table of that dim says where the elements are.
  std::optional<Coordinate> of(const Index& index, std::int64_t size, const Dims& dims) const {
    Coordinate made = Coordinate::at(index.offset);
    for (const IndexTerm& term : index.terms) {
      const auto d = static_cast<std::size_t>(term.dim);
      if (!whole_[d] && !term.is_plain()) {
        return index.terms.size() == 1 ? std::optional(table(index, term.dim, size, dims[d])) : std::nullopt;
      }
      for (const Part& part : of_dim_[d]) {
        if (part.weight < term.divisor || (term.modulus > 0 && part.weight >= term.divisor * term.modulus)) continue;
        made.parts.push_back({part.number, term.factor * (part.weight / term.divisor)});
      }
    }
    return made;
  }

 private:
  struct Part {
    int number;           // of the position
    std::int64_t weight;  // of a step, in the dim
  };

  Coordinate table(const Index& index, int dim, std::int64_t size, std::int64_t count) const {
    Coordinate made = output(static_cast<std::size_t>(dim));
    Dims o(static_cast<std::size_t>(dim) + 1, 0);
    for (o.back() = 0; o.back() < count; ++o.back()) {
      const std::int64_t at = index.at(o);
      made.table.push_back(at < 0 || at >= size ? -1 : static_cast<std::int32_t>(at));
    }
    return made;
  }

  std::vector<std::vector<Part>> of_dim_;
  std::vector<bool> whole_;
  Dims space_;
};

// One output, from the first source that has an element, else what fills.
Result<Computation> of_map(const Described& d, const IndexMap& map) {
  const TensorDesc& y = d.outputs[0];
  const CutDims cut(y.dims, map);
  const bool fills = map.fill_input >= 0 || map.fill != 0;
  std::vector<Load> loads;
  for (const MapSource& source : map.sources) {
    Subscript place{d.inputs[static_cast<std::size_t>(source.input)].desc, {}};
    for (std::size_t i = 0; i < source.indices.size(); ++i) {
      auto coordinate = cut.of(source.indices[i], source.dims[i], y.dims);
      if (!coordinate) return no_kernel(d, "dims that its indices don't divide");
      place.coordinates.push_back(*std::move(coordinate));
    }
    loads.push_back({source.input, std::move(place), map.fill, static_cast<int>(loads.size()) + 1});
  }
  if (map.fill_input >= 0) {
    TensorDesc one = d.inputs[static_cast<std::size_t>(map.fill_input)].desc;
    one.dims.clear();
    one.strides.clear();
    loads.push_back({map.fill_input, {one, {}}});
  }
  if (loads.empty()) return no_kernel(d, "an output that is filled alone");
  loads.back().otherwise = -1;
  std::vector<Coordinate> to;
  for (std::size_t i = 0; i < y.dims.size(); ++i) to.push_back(cut.output(i));
  return moved(y, fills ? computed_in(y.type) : moved_as(y.type), cut.space(), std::move(loads), std::move(to));
}

// Outputs that lie side by side in the input.
Computation split(const Described& d, int axis) {
  const TensorDesc& x = d.inputs[0].desc;
  const DataType type = moved_as(x.type);
  Computation made{.type = type, .kept = x.dims, .folded = {}, .loads = {}, .folds = {}, .stores = {}};
  made.loads.push_back({0, Subscript::broadcast(as_type(x, type), x.rank())});
  std::int64_t start = 0;
  for (std::size_t i = 0; i < d.outputs.size(); ++i) {
    Subscript place = Subscript::broadcast(as_type(d.outputs[i], type), x.rank());
    place.coordinates[static_cast<std::size_t>(axis)] = Coordinate::of(axis, 1, -start);
    made.stores.push_back({static_cast<int>(i), std::move(place), generate::itself()});
    start += d.outputs[i].dims[static_cast<std::size_t>(axis)];
  }
  return made;
}

// The integers of an input, whose dims are the positions' from `dim` on.
Coordinate looked_up(const Described& d, int input, int dim) {
  const TensorDesc& indices = d.inputs[static_cast<std::size_t>(input)].desc;
  Coordinate made;
  made.input = input;
  made.input_type = indices.type;
  for (int i = 0; i < indices.rank(); ++i) {
    made.parts.push_back({dim + i, indices.strides[static_cast<std::size_t>(i)]});
  }
  return made;
}

// The same where they are known: a table, if there are few enough.
Result<Coordinate> looked_up_in_table(const Described& d, int input, int dim, std::int64_t size) {
  constexpr std::int64_t kMostEntries = 4096;
  const TensorDesc& indices = d.inputs[static_cast<std::size_t>(input)].desc;
  if (d.inputs[static_cast<std::size_t>(input)].constant == nullptr || indices.elements() > kMostEntries) {
    return looked_up(d, input, dim);
  }
  Coordinate made;
  CONVOY_TRY(const std::vector<std::int64_t> given, constant_integers(d.node, d.inputs, input));
  for (const std::int64_t index : given) {
    if (index < -size || index >= size) return no_kernel(d, "an index outside");
    made.table.push_back(static_cast<std::int32_t>(index < 0 ? index + size : index));
  }
  std::int64_t step = 1;
  for (int i = indices.rank() - 1; i >= 0; --i) {
    made.parts.push_back({dim + i, step});
    step *= indices.dims[static_cast<std::size_t>(i)];
  }
  return made;
}

// Elements of an input at these coordinates, for each position of the output.
Computation picked(const Described& d, int input, std::vector<Coordinate> coordinates) {
  const TensorDesc& y = d.outputs[0];
  Subscript place{d.inputs[static_cast<std::size_t>(input)].desc, std::move(coordinates)};
  return moved(y, moved_as(y.type), y.dims, {{input, std::move(place)}}, Subscript::broadcast(y, y.rank()).coordinates);
}

Result<Computation> gather(const Described& d) {
  const TensorDesc &x = d.inputs[0].desc, &indices = d.inputs[1].desc;
  CONVOY_TRY(const std::int64_t given_axis, d.node.integer("axis", 0));
  CONVOY_TRY(const int axis, normalize_axis(d.node, given_axis, x.rank(), "axis"));
  CONVOY_TRY(const Coordinate along, looked_up_in_table(d, 1, axis, x.dims[static_cast<std::size_t>(axis)]));
  std::vector<Coordinate> coordinates;
  for (int i = 0; i < x.rank(); ++i) {
    coordinates.push_back(i == axis ? along : Coordinate::of(i < axis ? i : i - 1 + indices.rank()));
  }
  return picked(d, 0, std::move(coordinates));
}

Result<Computation> gather_elements(const Described& d) {
  const int rank = d.outputs[0].rank();
  CONVOY_TRY(const std::int64_t given_axis, d.node.integer("axis", 0));
  CONVOY_TRY(const int axis, normalize_axis(d.node, given_axis, rank, "axis"));
  std::vector<Coordinate> coordinates;
  for (int i = 0; i < rank; ++i) coordinates.push_back(i == axis ? looked_up(d, 1, 0) : Coordinate::of(i));
  return picked(d, 0, std::move(coordinates));
}

// Tuples of indices, the last dim of them, behind dims that both have.
Result<Computation> gather_nd(const Described& d) {
  const TensorDesc &x = d.inputs[0].desc, &indices = d.inputs[1].desc;
  CONVOY_TRY(const std::int64_t batch_dims, d.node.integer("batch_dims", 0));
  const int batch = static_cast<int>(batch_dims), count = static_cast<int>(indices.dims.back());
  std::vector<Coordinate> coordinates;
  for (int i = 0; i < x.rank(); ++i) {
    if (i < batch || i >= batch + count) {
      coordinates.push_back(Coordinate::of(i < batch ? i : indices.rank() - 1 + i - batch - count));
      continue;
    }
    Coordinate each = looked_up(d, 1, 0);
    each.parts.pop_back();
    each.offset = (i - batch) * indices.strides.back();
    coordinates.push_back(std::move(each));
  }
  return picked(d, 0, std::move(coordinates));
}

// A table of the values of all bytes.
Result<Computation> lookup(const Described& d) {
  Coordinate byte = looked_up(d, 0, 0);
  byte.input_type = DataType::u8;
  return picked(d, 1, {std::move(byte)});
}

// Blocks of the data are replaced, by the last update that names them. Of indices that are known.
Result<Computation> scatter_nd(const Described& d) {
  const TensorDesc &x = d.inputs[0].desc, &indices = d.inputs[1].desc, &updates = d.inputs[2].desc, &y = d.outputs[0];
  CONVOY_TRY(const std::string reduction, d.node.text("reduction", "none"));
  if (reduction != "none") return no_kernel(d, "reduction=" + reduction);
  if (d.inputs[1].constant == nullptr) return no_kernel(d, "indices that aren't known beforehand");
  CONVOY_TRY(const std::vector<std::int64_t> given, constant_integers(d.node, d.inputs, 1));
  const int count = static_cast<int>(indices.dims.back());
  if (indices.rank() != 2) return no_kernel(d, "updates of more dims than one");
  Coordinate row;  // the update of a block, by the block's number
  std::int64_t blocks = 1;
  for (int i = count - 1; i >= 0; --i) {
    row.parts.push_back({i, blocks});
    blocks *= x.dims[static_cast<std::size_t>(i)];
  }
  constexpr std::int64_t kMostBlocks = 1 << 26;
  if (blocks > kMostBlocks) return no_kernel(d, "a table of blocks so long");
  row.table.assign(static_cast<std::size_t>(blocks), -1);
  for (std::int64_t update = 0; update < indices.dims[0]; ++update) {
    std::int64_t block = 0;
    for (int i = 0; i < count; ++i) {
      const std::int64_t size = x.dims[static_cast<std::size_t>(i)];
      const std::int64_t index = given[static_cast<std::size_t>(update * count + i)];
      if (index < -size || index >= size) return no_kernel(d, "an index outside");
      block = block * size + (index < 0 ? index + size : index);
    }
    row.table[static_cast<std::size_t>(block)] = static_cast<std::int32_t>(update);
  }
  // Blocks in a row need no table.
  const auto first = std::ranges::find_if(row.table, [](std::int32_t each) { return each >= 0; });
  const std::int64_t start = first - row.table.begin();
  const auto in_a_row = [&](std::int64_t block) {
    const std::int64_t update = block - start;
    return row.table[static_cast<std::size_t>(block)] == (update >= 0 && update < indices.dims[0] ? update : -1);
  };
  bool all = true;
  for (std::int64_t block = 0; block < blocks && all; ++block) all = in_a_row(block);
  if (all) {
    row.table.clear();
    row.offset = -start;
  }
  std::vector<Coordinate> coordinates{std::move(row)};
  for (int i = count; i < x.rank(); ++i) coordinates.push_back(Coordinate::of(i));
  std::vector<Load> loads{{2, {updates, std::move(coordinates)}, 0, 1}, {0, Subscript::broadcast(x, x.rank())}};
  return moved(y, moved_as(y.type), y.dims, std::move(loads), Subscript::broadcast(y, y.rank()).coordinates);
}

// With values of the input, which are looked up along each dim; with one value it is an index map.
Result<Computation> pad(const Described& d) {
  CONVOY_TRY(const std::string mode, d.node.text("mode", "constant"));
  if (mode == "constant") return map_computation(d);
  CONVOY_TRY(const std::vector<Dims> indices, padded_indices(d.node, d.inputs, d.outputs[0]));
  Subscript place{d.inputs[0].desc, {}};
  for (std::size_t i = 0; i < indices.size(); ++i) {
    Coordinate coordinate = Coordinate::of(static_cast<int>(i));
    Dims same(indices[i].size());
    std::iota(same.begin(), same.end(), 0);
    if (indices[i] != same) coordinate.table.assign(indices[i].begin(), indices[i].end());
    place.coordinates.push_back(std::move(coordinate));
  }
  const TensorDesc& y = d.outputs[0];
  return moved(y, moved_as(y.type), y.dims, {{0, std::move(place)}}, Subscript::broadcast(y, y.rank()).coordinates);
}

constexpr NamedRule kMovementRules[] = {
    {"Gather", gather},        {"GatherElements", gather_elements}, {"GatherND", gather_nd},
    {"ScatterND", scatter_nd}, {"Lookup", lookup, "convoy"},        {"Pad", pad},
};

}  // namespace

Result<Computation> map_computation(const Described& d) {
  const OperatorRow* const row = find_row(d.node.domain, d.node.op);
  const std::vector<IndexMap> maps = row->maps(d.node, d.inputs, d.outputs);
  if (maps.size() == 1) return of_map(d, maps[0]);
  if (const int axis = split_dim(maps); axis >= 0) return split(d, axis);
  // Elements in their order, in dims that have no factors in common.
  TensorDesc x = d.inputs[0].desc, y = d.outputs[0];
  const bool reshapes = row->maps == maps::reshaped && x.is_packed(Layout::nchw) && y.is_packed(Layout::nchw);
  if (!reshapes) return no_kernel(d, "what it moves is no index map");
  for (TensorDesc* each : {&x, &y}) {
    each->dims = {each->elements()};
    each->strides = {1};
  }
  return moved(y, moved_as(y.type), y.dims, {{0, Subscript::broadcast(x, 1)}}, {Coordinate::of(0)});
}

std::span<const NamedRule> movement_rules() { return kMovementRules; }

}  // namespace convoy::ops::generated
