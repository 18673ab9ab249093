#include "ops/index_map.h"

#include <algorithm>
#include <numeric>

namespace convoy::ops {

std::int64_t Index::at(const Dims& o) const {
  std::int64_t index = offset;
  for (const IndexTerm& term : terms) {
    const std::int64_t part = o[term.dim] / term.divisor;
    index += term.factor * (term.modulus == 0 ? part : part % term.modulus);
  }
  return index;
}

std::pair<std::int64_t, std::int64_t> Index::range(const Dims& dims) const {
  std::pair range{offset, offset};
  for (const IndexTerm& term : terms) {
    const std::int64_t last = (dims[term.dim] - 1) / term.divisor;
    const std::int64_t most = term.factor * (term.modulus == 0 ? last : std::min(last, term.modulus - 1));
    (most < 0 ? range.first : range.second) += most;
  }
  return range;
}

std::int64_t MapSource::offset(const Dims& o) const {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t index = indices[d].at(o);
    if (index < 0 || index >= dims[d]) return -1;
    offset = offset * dims[d] + index;
  }
  return offset;
}

bool MapSource::has_all(const Dims& outputs) const {
  if (std::ranges::find(outputs, 0) != outputs.end()) return true;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto [least, greatest] = indices[d].range(outputs);
    if (least < 0 || greatest >= dims[d]) return false;
  }
  return true;
}

IndexMap map_of(const TensorDesc& x, const TensorDesc& y, std::vector<Index> indices) {
  return {y.dims, {{0, x.dims, std::move(indices)}}};
}

namespace maps {

std::vector<IndexMap> none(const NodeDesc&, std::span<const Input>, std::span<const TensorDesc>) { return {}; }

std::vector<IndexMap> broadcast(const NodeDesc&, std::span<const Input> inputs, std::span<const TensorDesc> outputs) {
  const TensorDesc& x = inputs[0].desc;
  const int added = outputs[0].rank() - x.rank();
  std::vector<Index> indices(x.dims.size());
  for (int d = 0; d < x.rank(); ++d) {
    if (x.dims[d] != 1) indices[d].terms = {{added + d}};
  }
  return {map_of(x, outputs[0], std::move(indices))};
}

// Dims are matched from the first on, in groups of the same product; within one, either side has one dim besides ones.
std::vector<IndexMap> reshaped(const NodeDesc&, std::span<const Input> inputs, std::span<const TensorDesc> outputs) {
  const Dims &from = inputs[0].desc.dims, &to = outputs[0].dims;
  std::vector<Index> indices(from.size());
  if (outputs[0].elements() == 0) return {map_of(inputs[0].desc, outputs[0], std::move(indices))};
  std::size_t f = 0, t = 0;
  while (f < from.size() || t < to.size()) {
    std::vector<std::size_t> ours, theirs;
    std::int64_t have = 1, need = 1;
    do {
      const bool take = t == to.size() || (f < from.size() && have <= need);
      std::vector<std::size_t>& side = take ? ours : theirs;
      std::size_t& next = take ? f : t;
      const std::int64_t dim = take ? from[next] : to[next];
      (take ? have : need) *= dim;
      if (dim != 1) side.push_back(next);
      ++next;
    } while (have != need);
    if (ours.size() > 1 && theirs.size() > 1) return {};
    std::int64_t stride = 1;
    if (ours.size() == 1) {  // several of theirs make up one of ours
      for (auto d = theirs.rbegin(); d != theirs.rend(); stride *= to[*d++]) {
        indices[ours[0]].terms.push_back({static_cast<int>(*d), stride});
      }
      continue;
    }
    for (auto d = ours.rbegin(); d != ours.rend(); stride *= from[*d++]) {
      indices[*d].terms = {{static_cast<int>(theirs[0]), 1, stride, *d == ours[0] ? 0 : from[*d]}};
    }
  }
  return {map_of(inputs[0].desc, outputs[0], std::move(indices))};
}

}  // namespace maps

namespace {

// The one dim along which the source of a part is not what it is of, shifted by `at`; -1: it is another map.
int shifted_dim(const MapSource& source, const Dims& output, std::int64_t at) {
  if (source.dims.size() != output.size()) return -1;
  int along = -1;
  for (std::size_t d = 0; d < output.size(); ++d) {
    const Index& index = source.indices[d];
    const bool plain = index.terms.size() == 1 && index.terms[0].is_plain() && index.terms[0].factor == 1 &&
                       index.terms[0].dim == static_cast<int>(d);
    if (!plain) return -1;
    if (index.offset == 0 && source.dims[d] == output[d]) continue;
    if (along >= 0 || index.offset != at) return -1;
    along = static_cast<int>(d);
  }
  return along;
}

}  // namespace

int joined_dim(std::span<const IndexMap> maps) {
  if (maps.size() != 1 || maps[0].sources.size() < 2) return -1;
  const IndexMap& map = maps[0];
  int along = -1;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < map.sources.size(); ++i) {
    const MapSource& source = map.sources[i];
    const int dim = shifted_dim(source, map.dims, -at);
    if (source.input != static_cast<int>(i) || dim < 0 || (along >= 0 && dim != along)) return -1;
    along = dim;
    at += source.dims[dim];
  }
  return at == map.dims[along] ? along : -1;
}

int split_dim(std::span<const IndexMap> maps) {
  if (maps.size() < 2) return -1;
  int along = -1;
  std::int64_t at = 0;
  for (const IndexMap& map : maps) {
    if (map.sources.size() != 1 || map.sources[0].input != 0) return -1;
    const int dim = shifted_dim(map.sources[0], map.dims, at);
    if (dim < 0 || (along >= 0 && dim != along)) return -1;
    along = dim;
    at += map.dims[dim];
  }
  return at == maps[0].sources[0].dims[along] ? along : -1;
}

}  // namespace convoy::ops
