// Tiles of products as kernels compute them: a step takes 4 bytes of each row of a (4 of 8 bits, or 2 of 16) against 4
// bytes of weights for each column of b, and adds up in 32 bits. AMX takes 16 steps at once, of rows that lie equally
// far apart. Plain data only: these structs are shared by units of every instruction set.
#pragma once

#include <cstdint>

namespace convoy::cpu {

constexpr int kMaxRows = 32;
constexpr int kMaxColumns = 32;
constexpr int kStepBytes = 4;

struct TileShape {
  int rows;            // of the register tile
  int columns;         // of the register tile: the width of a panel
  int group_rows;      // rows come in groups of so many
  int steps_together;  // a panel has a multiple of so many; where there are several, a group's rows lie equally far
                       // apart
};

// The columns of b that a tile needs: [step][column][4 bytes], first of all `steps`, then of those taken `again`.
struct Panel {
  const void* weights;
  const std::int64_t* at;  // where in a row a step's values are, in bytes; those of steps together lie side by side
  std::int64_t steps;
  const std::int32_t* again;
  std::int64_t again_count;
  int columns;  // that count, up to the tile's; of others the sums are not needed
  bool more;    // added to what c has
  // What AMX asks for meanwhile: with steps together so many bytes of weights each, from `next` on; rows of x two tiles
  // further, where they follow one another.
  const void* next;
  std::int64_t next_bytes;
  bool next_rows;
};

// `a`: one pointer per row, of which row_count count; others repeat a valid one. Where steps are taken together, all
// rows of a group are read before another one: as many as there are, equally far apart. `c`: rows x columns, row-major.
template <class Sum>
using Multiply = void (*)(const void* const* a, int row_count, const Panel& panel, Sum* c);

}  // namespace convoy::cpu
