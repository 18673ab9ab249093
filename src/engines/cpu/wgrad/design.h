// How cpu.wgrad divides a problem. Floats are elements, f32 or f64.
//
// Positions of y come in blocks of up to kMostPositions, so that a panel of y for a block stays in the first cache:
// whole images, else whole rows of one, else a part of a row. An item is a group's panel of filters and a chunk of its
// channels: what a thread takes, for all blocks. Items of a chunk follow on each other, so that what a block has of its
// channels is read once from beyond the second cache. Sums are [tile of channels][tap][channel][filter of the panel].
//
// Where channels lie side by side, positions may be so far apart that they push each other out of the caches: then an
// item's channels of a block are copied, too.
//
// Where there are few sums for what is read, the blocks are divided into slices with sums of their own, which are added
// up in the end: so threads share positions, as the steps before and behind do. It depends on the problem alone: sums
// are the same for any thread count.
//
// Depthwise, and in groups of two and four, where channels lie side by side, a vector's lanes are filters of several
// groups: an item is two vectors of them, its sums are [tap][channel of a group][filter], and y is read in place.
#pragma once

#include <vector>

#include "convoy/engine.h"
#include "engines/cpu/common/geometry.h"
#include "engines/cpu/wgrad/kernels.h"

namespace convoy::cpu {

struct WgradTileRows {
  std::int64_t first;  // channel of the group
  int rows;
};

struct WgradItem {
  std::int64_t group, panel;
  std::int64_t first_tile, last_tile;  // by_groups: none
  std::int64_t sums;                   // where they begin, in floats
};

// Positions of y, of one depth.
struct WgradBlock {
  std::int64_t first_image, images, depth, first_row, rows, first_column, columns;
};

struct WgradDesign {
  static constexpr std::int64_t kMostPositions = 256;

  ConvGeometry geometry;
  bool turned = false;      // x and y have changed places: filters of 1, whose channels lie side by side in w
  bool by_groups = false;   // lanes are filters of several groups
  int vectors = 2;          // of a panel: 2 or 4
  std::int64_t width = 0;   // of a panel, filters
  std::int64_t panels = 0;  // a group
  const WgradTile* tiles = nullptr;
  const WgradTaps* of_taps = nullptr;   // by_groups
  WgradTaps of_window = nullptr;        // by_groups, of 3x3 taps at once; null: there is none
  std::int64_t most_taps = 0;           // of them at once
  std::vector<WgradTileRows> channels;  // of a group, in tiles
  std::vector<std::int64_t> taps;       // where in w each is, in floats
  bool copies_x = false;
  std::int64_t chunks = 1;  // of a group's channels
  std::int64_t slices = 1;  // of the blocks
  std::int64_t block_images = 1, block_rows = 1, block_columns = 1;

  std::int64_t item_count() const { return (by_groups ? 1 : geometry.groups) * chunks * panels; }
  WgradItem item(std::int64_t index) const;
  std::int64_t block_count() const;
  // Nothing is added up beyond a tile, and sums are not kept.
  bool one_block() const;
  std::int64_t tile_floats(const WgradTileRows& tile) const { return geometry.taps * tile.rows * width; }
  std::int64_t kept_floats() const {  // of a slice
    const std::int64_t all = panels * geometry.group_channels * geometry.taps * width;
    return by_groups ? all : one_block() ? 0 : geometry.groups * all;
  }
  std::int64_t x_floats() const;  // of a block, copied
  std::int64_t panel_floats() const { return by_groups ? 0 : block_images * block_rows * block_columns * width; }
};

WgradDesign design_wgrad(const ConvProblem& problem, const WgradKernels& kernels, const PlanRequest& request);

const WgradKernels* wgrad_kernels_for(DataType type, Isa isa);  // of f32 or f64

// Cycles of one thread for all of it, everything in caches.
double wgrad_cycles(const WgradDesign& design);

}  // namespace convoy::cpu
