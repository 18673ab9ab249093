#include "generate/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

namespace convoy::generate {
namespace {

constexpr std::size_t kMostTableEntries = 1 << 15;  // they are part of the text

struct Range {
  std::int64_t least, most;
};
Range range_of(const Coordinate& coordinate, const Dims& space) {
  Range range{coordinate.offset, coordinate.offset};
  for (const Coordinate::Part& part : coordinate.parts) {
    const std::int64_t last = part.factor * (space[static_cast<std::size_t>(part.dim)] - 1);
    (last < 0 ? range.least : range.most) += last;
  }
  return range;
}

// Offsets stay in memory, but what is added up to them on the way may be beyond: all of it counts.
std::int64_t largest_sum(const Access& access, const Dims& space) {
  std::int64_t sum = std::abs(access.base);
  for (std::size_t d = 0; d < space.size(); ++d) sum += std::abs(access.strides[d]) * space[d];
  for (const Guarded& each : access.guarded) {
    const Range range = range_of(each.coordinate, space);
    sum += each.size * each.stride + std::max(std::abs(range.least), std::abs(range.most)) + each.size;
  }
  return sum;
}

// The inputs of an expression that its value depends on.
std::set<int> inputs_of(const Expression& expression) {
  std::set<int> found;
  const auto take = [&](const Term& term) {
    if (term.kind == Term::input) found.insert(term.index);
  };
  for (const Expression::Step& step : expression.steps) {
    const Term terms[] = {step.a, step.b, step.c};
    for (int i = 0; i < operand_count(step.function); ++i) take(terms[i]);
  }
  take(expression.result);
  return found;
}

// A coordinate that is computed: its parts say on which dims it depends.
Result<Guarded> computed_coordinate(const Computation& computation, const Expression& value, const TensorDesc& tensor,
                                    std::size_t dim, Lowered& lowered, const std::vector<Access>& loads) {
  const std::int64_t size = tensor.dims[dim];
  constexpr std::int64_t kMostOfF32 = 1 << 24;
  if (computation.type == DataType::f32 && size > kMostOfF32) {
    return Error{ErrorCode::unsupported,
                 fmt::format("a dim of {}: indices computed in f32 end at {}", size, kMostOfF32)};
  }
  Guarded made{.size = size, .stride = tensor.strides[dim], .value = static_cast<int>(lowered.values.size())};
  lowered.values.push_back(value);
  const int kept = static_cast<int>(computation.kept.size());
  for (int d = 0; d < kept + static_cast<int>(computation.folded.size()); ++d) {
    const auto depends = [&](int input) {
      const auto load = static_cast<std::size_t>(input);
      return load < loads.size() ? loads[load].depends_on(d) : d < kept;
    };
    if (std::ranges::any_of(inputs_of(value), depends)) made.coordinate.parts.push_back({d, 0});
  }
  return made;
}

bool is_first(const Coordinate& coordinate) {
  return coordinate.parts.empty() && coordinate.offset == 0 && coordinate.table.empty() && coordinate.input < 0 &&
         !coordinate.value;
}

// `loads`: of those in front, which coordinates are computed of.
Result<Access> access_of(const Computation& computation, const Subscript& place, const Dims& space, Lowered& lowered,
                         const std::vector<Access>& loads) {
  const TensorDesc& tensor = place.tensor;
  std::vector<std::vector<std::int32_t>>& tables = lowered.tables;
  // Of one image, what looks as if it were the same for all of a batch is most likely that image's.
  const bool one_image =
      !computation.kept.empty() && computation.kept[0] == 1 && !tensor.dims.empty() && tensor.dims[0] == 1;
  if (tensor.channel_block > 1) return Error{ErrorCode::unsupported, "channels in blocks: no kernel is generated"};
  if (tensor.type > DataType::boolean || tensor.type == DataType::f8_e4m3 || tensor.type == DataType::f8_e5m2) {
    return Error{ErrorCode::unsupported, fmt::format("type {}: no kernel is generated", name_of(tensor.type))};
  }
  Access access{.type = tensor.type, .alignment = tensor.alignment};
  access.strides.resize(space.size(), 0);
  for (std::size_t d = 0; d < place.coordinates.size(); ++d) {
    const Coordinate of_image = Coordinate::of(0);
    const bool is_image = d == 0 && one_image && is_first(place.coordinates[0]);
    const Coordinate& given = is_image ? of_image : place.coordinates[d];
    const std::int64_t size = tensor.dims[d], stride = tensor.strides[d];
    if (given.value) {
      CONVOY_TRY(Guarded made, computed_coordinate(computation, *given.value, tensor, d, lowered, loads));
      access.guarded.push_back(std::move(made));
      continue;
    }
    if (!given.table.empty()) {
      if (given.table.size() > kMostTableEntries) {
        return Error{ErrorCode::unsupported,
                     fmt::format("a dim of {} entries: generated kernels hold at most {} in a table",
                                 given.table.size(), kMostTableEntries)};
      }
      if (size > std::numeric_limits<std::int32_t>::max()) {
        return Error{ErrorCode::unsupported,
                     fmt::format("a dim of {}: the tables of generated kernels have 32 bits", size)};
      }
      auto found = std::find(tables.begin(), tables.end(), given.table);
      if (found == tables.end()) found = tables.insert(tables.end(), given.table);
      access.guarded.push_back(
          {{given.parts, given.offset, {}}, static_cast<int>(found - tables.begin()), size, stride});
      continue;
    }
    const Range range = range_of(given, space);
    if (given.input < 0 && range.least >= 0 && range.most < size) {
      access.base += given.offset * stride;
      for (const Coordinate::Part& part : given.parts) {
        access.strides[static_cast<std::size_t>(part.dim)] += part.factor * stride;
      }
    } else {
      access.guarded.push_back({given, -1, size, stride});
    }
  }
  return access;
}

// Dims of one part of the space as they move in an access, the fastest last.
std::vector<int> in_order_of(const Access* access, int first, const Dims& dims) {
  std::vector<int> order;
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
    if (dims[static_cast<std::size_t>(d)] != 1) order.push_back(first + d);
  }
  if (access == nullptr) return order;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return std::abs(access->step(a).value_or(0)) > std::abs(access->step(b).value_or(0));
  });
  return order;
}

// A batch of one image is a dim of one position, and stays the slowest, as it is in larger ones, whose kernels then
// serve it, too: its size is in no text. Not where its strides, by which nothing is read, would keep vectors apart.
bool batch_may_stay(const std::vector<Access>& loads, const std::vector<Access>& stores, const Dims& space) {
  std::int64_t least = 16;  // bytes of an element
  for (const auto* accesses : {&loads, &stores}) {
    for (const Access& each : *accesses) least = std::min(least, static_cast<std::int64_t>(size_of(each.type)));
  }
  const auto harmless = [&](const Access& access) {
    bool has_others = false;
    for (std::size_t d = 1; d < space.size(); ++d) {
      has_others = has_others || (space[d] > 1 && access.depends_on(static_cast<int>(d)));
    }
    return !has_others || access.strides[0] % (16 / least) == 0;
  };
  return std::ranges::any_of(stores, [](const Access& access) { return access.depends_on(0); }) &&
         std::ranges::all_of(loads, harmless) && std::ranges::all_of(stores, harmless);
}

class Merge {
 public:
  Merge(const std::vector<Access>& loads, const std::vector<Access>& stores) : loads_(loads), stores_(stores) {}

  // Whether `inner` goes on where `outer` steps, in all accesses.
  bool may(int outer, int inner, std::int64_t inner_size) const {
    const auto fits = [&](const Access& access) {
      const auto o = static_cast<std::size_t>(outer), i = static_cast<std::size_t>(inner);
      return access.strides[o] == access.strides[i] * inner_size &&
             std::none_of(access.guarded.begin(), access.guarded.end(), [&](const Guarded& each) {
               return std::any_of(each.coordinate.parts.begin(), each.coordinate.parts.end(),
                                  [&](const Coordinate::Part& part) { return part.dim == outer || part.dim == inner; });
             });
    };
    return std::all_of(loads_.begin(), loads_.end(), fits) && std::all_of(stores_.begin(), stores_.end(), fits);
  }

 private:
  const std::vector<Access>&loads_, &stores_;
};

}  // namespace

std::optional<std::int64_t> Access::step(int dim) const {
  std::int64_t sum = strides[static_cast<std::size_t>(dim)];
  for (const Guarded& each : guarded) {
    for (const Coordinate::Part& part : each.coordinate.parts) {
      if (part.dim != dim) continue;
      if (each.is_looked_up()) return std::nullopt;
      sum += part.factor * each.stride;
    }
  }
  return sum;
}

bool Access::depends_on(int dim) const {
  if (strides[static_cast<std::size_t>(dim)] != 0) return true;
  for (const Guarded& each : guarded) {
    for (const Coordinate::Part& part : each.coordinate.parts) {
      if (part.dim == dim) return true;
    }
  }
  return false;
}

bool Access::uniform(int dim, std::int64_t count) const {
  for (const Guarded& each : guarded) {
    const auto& parts = each.coordinate.parts;
    const auto touches = [&](const Coordinate::Part& part) { return part.dim == dim; };
    if (std::none_of(parts.begin(), parts.end(), touches)) continue;
    if (each.is_looked_up() || each.coordinate.offset % count != 0 || each.size % count != 0) return false;
    for (const Coordinate::Part& part : parts) {
      if (part.dim == dim ? part.factor != 1 : part.factor % count != 0) return false;
    }
  }
  return true;
}

bool Access::side_by_side(int dim, std::int64_t count) const {
  if (step(dim) != 1 || !uniform(dim, count) || base % count != 0) return false;
  const auto bytes = std::min<std::int64_t>(16, count * static_cast<std::int64_t>(size_of(type)));
  if (alignment % bytes != 0) return false;
  for (int d = 0; d < static_cast<int>(strides.size()); ++d) {
    if (d != dim && strides[static_cast<std::size_t>(d)] % count != 0) return false;
  }
  return std::all_of(guarded.begin(), guarded.end(), [&](const Guarded& each) {
    const auto& parts = each.coordinate.parts;
    const bool touches =
        std::any_of(parts.begin(), parts.end(), [&](const Coordinate::Part& part) { return part.dim == dim; });
    return touches || each.stride % count == 0;
  });
}

Result<Lowered> lower(const Computation& computation) {
  const int kept = static_cast<int>(computation.kept.size());
  Dims space = computation.kept;
  space.insert(space.end(), computation.folded.begin(), computation.folded.end());
  Lowered lowered;
  std::vector<Access> loads, stores;
  for (const Load& load : computation.loads) {
    CONVOY_TRY(Access access, access_of(computation, load.place, space, lowered, loads));
    loads.push_back(std::move(access));
  }
  for (const Store& store : computation.stores) {
    CONVOY_TRY(stores.emplace_back(), access_of(computation, store.place, space, lowered, loads));
  }

  // Kept dims move as the first output does, folded ones as the first input that has them.
  const auto has_folded = [&](const Access& access) {
    for (int d = kept; d < static_cast<int>(space.size()); ++d) {
      if (access.depends_on(d)) return true;
    }
    return false;
  };
  const auto first = std::find_if(loads.begin(), loads.end(), has_folded);
  std::vector<int> kept_order = in_order_of(stores.empty() ? nullptr : &stores[0], 0, computation.kept);
  const std::vector<int> folded_order = in_order_of(first == loads.end() ? nullptr : &*first, kept, computation.folded);

  // new_dim[d] of the lowered space is d, or has it merged into it.
  std::vector<int> new_dim(space.size(), -1);
  const Merge merge(loads, stores);
  if (kept > 0 && space[0] == 1 && batch_may_stay(loads, stores, space)) kept_order.insert(kept_order.begin(), 0);
  std::vector<int> of;  // the old dim whose strides a new one has
  const auto merged = [&](const std::vector<int>& order, Dims& dims) {
    for (const int d : order) {
      const std::int64_t size = space[static_cast<std::size_t>(d)];
      if (!dims.empty() && merge.may(of.back(), d, size)) {
        dims.back() *= size;
        of.back() = d;
      } else {
        dims.push_back(size);
        of.push_back(d);
      }
      new_dim[static_cast<std::size_t>(d)] = static_cast<int>(of.size()) - 1;
    }
  };
  merged(kept_order, lowered.kept);
  merged(folded_order, lowered.folded);

  Dims new_space = lowered.kept;
  new_space.insert(new_space.end(), lowered.folded.begin(), lowered.folded.end());
  const auto moved = [&](Access access) {
    std::vector<std::int64_t> strides;
    for (const int d : of) strides.push_back(access.strides[static_cast<std::size_t>(d)]);
    access.strides = std::move(strides);
    for (Guarded& each : access.guarded) {
      auto& parts = each.coordinate.parts;  // of dims of one position nothing is left
      std::erase_if(parts,
                    [&](const Coordinate::Part& part) { return new_dim[static_cast<std::size_t>(part.dim)] < 0; });
      for (Coordinate::Part& part : parts) part.dim = new_dim[static_cast<std::size_t>(part.dim)];
    }
    return access;
  };
  for (const Access& access : loads) lowered.loads.push_back(moved(access));
  for (const Access& access : stores) lowered.stores.push_back(moved(access));

  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::int64_t positions = 1;
  for (const std::int64_t size : new_space) positions *= std::max<std::int64_t>(size, 1);
  lowered.wide = positions > kMost;
  for (const auto* accesses : {&lowered.loads, &lowered.stores}) {
    for (const Access& access : *accesses) lowered.wide = lowered.wide || largest_sum(access, new_space) > kMost;
  }
  return lowered;
}

}  // namespace convoy::generate
