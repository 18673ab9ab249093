// A computation made ready for text: positions merged and ordered as memory is, coordinates added up to offsets.
#pragma once

#include <optional>
#include <vector>

#include "convoy/result.h"
#include "generate/computation.h"

namespace convoy::generate {

// A coordinate that adds to the offset only where it is inside.
struct Guarded {
  Coordinate coordinate;  // of the lowered space; its table moved to Lowered::tables
  int table = -1;
  std::int64_t size, stride;
  int value = -1;  // in Lowered::values; the coordinate's parts are the dims that it depends on
  bool is_looked_up() const { return table >= 0 || value >= 0 || coordinate.input >= 0; }
};

struct Access {
  DataType type;
  std::int64_t alignment;
  std::int64_t base = 0;
  std::vector<std::int64_t> strides;  // a dim of the space
  std::vector<Guarded> guarded;

  // Elements from one position of a dim to the next; nothing where it is looked up.
  std::optional<std::int64_t> step(int dim) const;
  bool depends_on(int dim) const;
  // Of `count` neighbouring positions along `dim` all are inside or none is: the first is a multiple of `count`.
  bool uniform(int dim, std::int64_t count) const;
  // And they lie side by side, aligned to their bytes or to 16.
  bool side_by_side(int dim, std::int64_t count) const;
};

struct Lowered {
  Dims kept, folded;  // kept first in all numbers; the last of each moves fastest
  std::vector<Access> loads, stores;
  std::vector<std::vector<std::int32_t>> tables;
  std::vector<Expression> values;  // of coordinates
  bool wide = false;               // offsets or positions need 64 bits

  int rank() const { return static_cast<int>(kept.size() + folded.size()); }
  std::int64_t size(int dim) const {
    const auto d = static_cast<std::size_t>(dim);
    return d < kept.size() ? kept[d] : folded[d - kept.size()];
  }
};

// The refusal names what is not taken.
Result<Lowered> lower(const Computation& computation);

}  // namespace convoy::generate
