#include "generate/schedule.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace convoy::generate {

std::int64_t position_count(const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  return count;
}

bool reads_folded(const Lowered& space, const Access& access) {
  for (int d = static_cast<int>(space.kept.size()); d < space.rank(); ++d) {
    if (access.depends_on(d)) return true;
  }
  return false;
}

namespace {

constexpr std::int64_t kBlock = 256;
// Half of what an H100 has at once: each has one load of 16 bytes under way, and the memory wants 2 MB of them.
constexpr std::int64_t kEnoughThreads = 131072;
constexpr std::int64_t kShort = 16;         // dims that are no reason for tiles
constexpr std::int64_t kLeastOfAShare = 4;  // vectors of folded positions that a thread of a cluster has
constexpr std::int64_t kMostTurns = 4;      // of 8 values in f32, which are registers

// The step of the access that folds are of, along a dim.
std::int64_t step_of_first(const Lowered& space, int dim) {
  for (const Access& access : space.loads) {
    if (reads_folded(space, access)) return std::abs(access.step(dim).value_or(std::numeric_limits<int>::max()));
  }
  return 0;
}

// Whether `count` neighbours along `dim` can be one thread's, and are worth it.
bool vectors_fit(const Lowered& space, int dim, std::int64_t count, bool has_folds) {
  if (space.size(dim) % count != 0) return false;
  bool any = false;
  const auto fits = [&](const Access& access) {
    if (!access.depends_on(dim)) return true;
    const bool side_by_side = access.side_by_side(dim, count);
    any = any || side_by_side;
    const auto bytes = count * static_cast<std::int64_t>(size_of(access.type));
    return side_by_side ? bytes <= 64 : !has_folds && access.uniform(dim, count) && access.step(dim).has_value();
  };
  return std::all_of(space.loads.begin(), space.loads.end(), fits) &&
         std::all_of(space.stores.begin(), space.stores.end(), fits) && any;
}

// A map with one output, one of whose loads lies along another dim than the output does.
std::optional<Schedule> transposing(const Lowered& space) {
  const int along = static_cast<int>(space.kept.size()) - 1;
  if (along < 1 || space.stores.size() != 1) return std::nullopt;
  const Access& to = space.stores[0];
  if (to.step(along) != 1 || !to.guarded.empty() || space.size(along) < kShort) return std::nullopt;
  for (std::size_t i = 0; i < space.loads.size(); ++i) {
    const Access& from = space.loads[i];
    if (!from.guarded.empty() || std::abs(from.strides[static_cast<std::size_t>(along)]) < kShort) continue;
    for (int d = 0; d < along; ++d) {
      if (from.strides[static_cast<std::size_t>(d)] != 1 || space.size(d) < kShort) continue;
      Schedule schedule;
      schedule.tiled = static_cast<int>(i);
      schedule.across = d;
      schedule.tile = size_of(from.type) > 2 ? 32 : 64;
      schedule.blocks = 1;
      for (int each = 0; each <= along; ++each) {
        const bool in_tiles = each == along || each == d;
        schedule.blocks *= in_tiles ? (space.size(each) + schedule.tile - 1) / schedule.tile : space.size(each);
      }
      return schedule;
    }
  }
  return std::nullopt;
}

// Whether an expression is the product of inputs 0 and 1 alone.
bool is_product(const Expression& expression, Function function) {
  const auto is_input = [](const Term& term, int index) { return term.kind == Term::input && term.index == index; };
  return expression.steps.size() == 1 && expression.steps[0].function == function &&
         is_input(expression.steps[0].a, 0) && is_input(expression.steps[0].b, 1) &&
         expression.result == Term{Term::step, 0};
}

// One fold that adds up products of loads 0 and 1 over one dim, each of which has a dim of its own that is long.
std::optional<Schedule> multiplying(const Computation& computation, const Lowered& space) {
  const int k = static_cast<int>(space.kept.size());
  if (!is_floating(computation.type) || computation.folds.size() != 1 || space.folded.size() != 1 ||
      space.stores.size() != 1 || space.loads.size() < 2) {
    return std::nullopt;
  }
  const Fold& fold = computation.folds[0];
  if (!is_product(fold.value, Function::mul) || !is_product(fold.join, Function::add) || !fold.then.empty()) {
    return std::nullopt;
  }
  if (!space.loads[0].guarded.empty() || !space.loads[1].guarded.empty() || space.size(k) < kShort) return std::nullopt;
  Schedule schedule;
  for (int d = 0; d < k; ++d) {  // the last ones, which are closest together in the output
    const bool a = space.loads[0].depends_on(d), b = space.loads[1].depends_on(d);
    if (space.size(d) < kShort || a == b) continue;
    (a ? schedule.product_rows : schedule.columns) = d;
  }
  if (schedule.product_rows < 0 || schedule.columns < 0) return std::nullopt;
  schedule.left = 0;
  schedule.right = 1;
  const auto blocks = [&](std::int64_t tile) {
    std::int64_t count = 1;
    for (int d = 0; d < k; ++d) {
      const bool in_tiles = d == schedule.product_rows || d == schedule.columns;
      count *= in_tiles ? (space.size(d) + tile - 1) / tile : space.size(d);
    }
    return count;
  };
  constexpr std::int64_t kEnoughBlocks = 128;  // one for each multiprocessor of an H100, nearly
  schedule.tile = blocks(64) < kEnoughBlocks ? 32 : 64;
  schedule.blocks = blocks(schedule.tile);
  return schedule;
}

// Fewer threads than there are folded vectors, where all of them then have something to do and there are enough still.
std::int64_t busy_rows(std::int64_t rows, const Schedule& schedule) {
  const auto places = [&](std::int64_t count) { return count * ((schedule.folded + count - 1) / count); };
  std::int64_t best = rows;
  for (std::int64_t fewer = rows / 2; fewer > 1 && fewer * kMostTurns >= schedule.folded; fewer /= 2) {
    if (schedule.kept * fewer >= kEnoughThreads && places(fewer) < places(best)) best = fewer;
  }
  return best;
}

}  // namespace

Schedule schedule_of(const Computation& computation, const Lowered& space, int most_shares) {
  const bool has_folds = !computation.folds.empty();
  if (auto tiles = has_folds ? multiplying(computation, space) : transposing(space)) return *tiles;
  Schedule schedule;
  const int kept = static_cast<int>(space.kept.size());
  if (has_folds && !space.folded.empty()) {
    // Windows lie in each other, or nearly; other folds go along what is closest together.
    const std::int64_t step = step_of_first(space, space.rank() - 1);
    schedule.along_folded = position_count(space.kept) == 1 || step_of_first(space, kept - 1) > 4 * step;
  }
  schedule.vector_dim = schedule.along_folded ? space.rank() - 1 : kept - 1;
  std::int64_t least = 16;
  for (const auto* accesses : {&space.loads, &space.stores}) {
    for (const Access& access : *accesses) least = std::min(least, static_cast<std::int64_t>(size_of(access.type)));
  }
  if (schedule.vector_dim >= 0) {
    for (std::int64_t vector = 16 / least; vector > 1; vector /= 2) {
      if (!vectors_fit(space, schedule.vector_dim, vector, has_folds)) continue;
      schedule.vector = static_cast<int>(vector);
      break;
    }
  }
  schedule.kept = position_count(space.kept) / (schedule.along_folded ? 1 : schedule.vector);
  schedule.folded = position_count(space.folded) / (schedule.along_folded ? schedule.vector : 1);
  std::int64_t rows = 1, block = kBlock;
  if (schedule.along_folded) {
    const auto most = static_cast<std::uint64_t>(std::clamp<std::int64_t>(schedule.folded, 1, 1024));
    const bool few = schedule.kept < 264 && schedule.folded >= 4096;  // two blocks for each multiprocessor of an H100
    if (few) block = 1024;
    rows = busy_rows(std::min(block, static_cast<std::int64_t>(std::bit_ceil(most))), schedule);
    const std::int64_t turns = (schedule.folded + rows - 1) / rows;
    if (rows > 1 && turns <= kMostTurns) schedule.turns = static_cast<int>(turns);
  } else if (has_folds) {
    while (schedule.kept * rows < kEnoughThreads && rows * 10 <= schedule.folded && rows < kBlock) rows *= 2;
  }
  schedule.rows = static_cast<int>(rows);
  schedule.lanes = static_cast<int>(block / rows);
  schedule.blocks = (schedule.kept + schedule.lanes - 1) / schedule.lanes;
  if (rows > 1 && schedule.turns == 0) {
    const auto more = [&] { return 2 * schedule.shares; };
    while (more() <= most_shares && schedule.blocks * block * more() <= kEnoughThreads &&
           rows * more() * kLeastOfAShare <= schedule.folded) {
      schedule.shares = more();
    }
  }
  schedule.blocks *= schedule.shares;
  return schedule;
}

}  // namespace convoy::generate
