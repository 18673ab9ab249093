#include "ops/movement/map_copy.h"

#include <algorithm>
#include <array>

#include "ops/movement/mapped_copy.h"
#include "ops/movement/strided_copy.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

// How many elements lie between indices of dim d that are n apart: less than a block of channels, or whole ones.
std::int64_t apart(const TensorDesc& desc, int d, std::int64_t n) {
  if (d != 1 || desc.channel_block == 1) return n * desc.strides[d];
  return n / desc.channel_block * desc.strides[1] + n % desc.channel_block;
}

using Element = std::array<std::byte, 8>;
Element element_of(DataType type, double value) {
  Element element{};
  store_from_double(type, element.data(), 0, value);
  return element;
}

struct Window {
  Dims begin, end;
  bool empty() const { return !std::ranges::equal(begin, end, std::less()); }
};

// The outputs that a source has.
Window window_of(const MapSource& source, const Dims& outputs) {
  Window window{Dims(outputs.size(), 0), outputs};
  if (source.has_all(outputs)) return window;
  for (std::size_t d = 0; d < source.dims.size(); ++d) {
    const Index& index = source.indices[d];
    if (index.terms.size() != 1) continue;
    const int along = index.terms[0].dim;
    window.begin[along] = std::max(window.begin[along], -index.offset);
    window.end[along] = std::min(window.end[along], source.dims[d] - index.offset);
  }
  return window;
}

// Where dim d of the output is cut: what a term reads of it is a run of the parts between.
Dims cuts(const MapSource& source, int d, std::int64_t dim, std::int64_t block) {
  Dims cuts{1};
  if (d == 1) cuts.push_back(block);
  for (const Index& index : source.indices) {
    for (const IndexTerm& term : index.terms) {
      if (term.dim != d) continue;
      cuts.push_back(term.divisor);
      cuts.push_back(term.divisor * std::max<std::int64_t>(term.modulus, 1));
    }
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  while (cuts.size() > 1 && cuts.back() >= dim) cuts.pop_back();
  return cuts;
}

// How far in x one step of the part that begins at `cut` leads.
std::int64_t step(const MapSource& source, const TensorDesc& x, int d, std::int64_t cut) {
  std::int64_t step = 0;
  for (std::size_t i = 0; i < source.indices.size(); ++i) {
    for (const IndexTerm& term : source.indices[i].terms) {
      const bool reads =
          term.dim == d && cut >= term.divisor && (term.modulus == 0 || cut < term.divisor * term.modulus);
      if (reads) step += apart(x, static_cast<int>(i), term.factor * (cut / term.divisor));
    }
  }
  return step;
}

struct Copy {
  int input;  // -1: `fill`
  std::size_t output;
  std::size_t element_size;
  StridedCopy copy;
  std::int64_t from = 0, to = 0;  // elements
  Element fill{};
};

Copy copy_of(const MapSource& source, const Window& window, const TensorDesc& x, const TensorDesc& y,
             std::size_t output) {
  Dims dims, from, to;
  for (int d = 0; d < y.rank(); ++d) {
    const std::int64_t size = window.end[d] - window.begin[d];
    const Dims at = cuts(source, d, size, std::max(x.channel_block, y.channel_block));
    for (std::size_t i = 0; i < at.size(); ++i) {
      dims.push_back((i + 1 < at.size() ? at[i + 1] : size) / at[i]);
      from.push_back(step(source, x, d, at[i]));
      to.push_back(apart(y, d, at[i]));
    }
  }
  const std::size_t element_size = size_of(y.type);
  Copy made{source.input, output, element_size, StridedCopy(element_size, dims, from, to)};
  for (std::size_t i = 0; i < source.indices.size(); ++i) {
    made.from += apart(x, static_cast<int>(i), source.indices[i].at(window.begin));
  }
  for (int d = 0; d < y.rank(); ++d) made.to += apart(y, d, window.begin[d]);
  return made;
}

// Its one source leaves elements out, or takes short runs of them in turns, and has each dim from the same one of the
// output.
bool is_looked_up(const IndexMap& map, const TensorDesc& y) {
  constexpr std::int64_t kLongBytes = 16;
  if (map.sources.size() != 1 || map.sources[0].dims.size() != map.dims.size()) return false;
  const MapSource& source = map.sources[0];
  bool plain = source.has_all(map.dims);
  for (std::size_t d = 0; d < map.dims.size(); ++d) {
    const std::int64_t run = y.strides[d] * static_cast<std::int64_t>(size_of(y.type));
    for (const IndexTerm& term : source.indices[d].terms) {
      if (term.dim != static_cast<int>(d)) return false;
      plain = plain && (term.is_plain() || run >= kLongBytes);
    }
  }
  return !plain;
}

Result<std::unique_ptr<OpPlan>> look_up(const NodeDesc& node, const IndexMap& map, const TensorDesc& x,
                                        const TensorDesc& y) {
  CONVOY_CHECK(check_mappable(node, y));
  Dims o(map.dims.size(), 0);
  const MappedCopy copy(x, y, [&](int d, std::int64_t i) -> std::int64_t {
    o[d] = i;
    const std::int64_t at = map.sources[0].indices[d].at(o);
    o[d] = 0;
    return at >= 0 && at < x.dims[d] ? at : -1;
  });
  const Element fill = element_of(y.type, map.fill);
  return make_plan(node,
                   [copy, fill, from = map.sources[0].input, given = map.fill_input](
                       auto in, auto out, const ExecContext& context) -> Result<void> {
                     copy.run(in[from], out[0], given >= 0 ? in[given] : fill.data(), context);
                     return {};
                   });
}

}  // namespace

Result<std::unique_ptr<OpPlan>> MapOperator::plan(const NodeDesc& node, std::span<const Input> inputs,
                                                  std::span<const TensorDesc> outputs, const PlanRequest&) const {
  const std::vector<IndexMap> maps = find_row(node.domain, node.op)->maps(node, inputs, outputs);
  if (maps.size() == 1 && is_looked_up(maps[0], outputs[0])) {
    return look_up(node, maps[0], inputs[maps[0].sources[0].input].desc, outputs[0]);
  }
  std::vector<Copy> copies;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const TensorDesc& y = outputs[i];
    if (maps[i].sources.empty()) {
      copies.push_back(
          {-1, i, size_of(y.type), StridedCopy(size_of(y.type), y.dims, Dims(y.dims.size(), 0), y.strides)});
      copies.back().fill = element_of(y.type, maps[i].fill);
    }
    for (const MapSource& source : maps[i].sources) {
      const Window window = window_of(source, maps[i].dims);
      if (!window.empty()) copies.push_back(copy_of(source, window, inputs[source.input].desc, y, i));
    }
  }
  return make_plan(node, [copies](auto in, auto out, const ExecContext& context) -> Result<void> {
    for (const Copy& each : copies) {
      const void* const x = each.input < 0 ? each.fill.data() : in[each.input];
      if (out[each.output] == nullptr || out[each.output] == x) continue;
      each.copy.run(at_element(x, each.from, each.element_size),
                    at_element(out[each.output], each.to, each.element_size), context);
    }
    return {};
  });
}

}  // namespace convoy::ops
