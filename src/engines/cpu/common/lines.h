// How engines that multiply steps of 4 bytes (products.h) read x: in place, by lines, or gathered.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engines/cpu/common/geometry.h"
#include "engines/cpu/common/products.h"

namespace convoy::cpu {

// The rows of x that consecutive output pixels of a group read; in groups of tile.group_rows, of which some may be less
// than full.
struct Block {
  static constexpr int kMostTiles = 16, kMostRows = 2 * kMostTiles * kMaxRows;
  int groups;
  std::array<int, kMostRows / 16> pixels;   // of a group
  std::array<const void*, kMostRows> x;     // what a group has too few of is repeated
  std::array<std::int64_t, kMostRows> out;  // where their first channels lie, in elements
};

// The reduction runs over taps, then the group's channels: over runs of terms that lie side by side in x. Each run is
// padded with weights of zero to whole steps of the kernel.
//
// An output pixel's runs lie in the same places from its first. A block's lines hold, for each of its output rows, the
// rows of x that the filter reads, with a fill value where it reads outside; so x is copied once for each row of the
// filter, not for each tap, or once for all rows of a block, where these are whole ones and that is less. Else pixels
// are read one by one, and their terms are one run (implicit im2col): where lines were longer; where a run's padding
// would read numbers that zero times is not zero; and with AMX, which takes rows equally far apart, so that a group has
// pixels of one output row only, also where that and the padding of runs to 64 bytes cost more.
//
// T: std::uint8_t, of which copies may have a shift added to each, or std::uint16_t, halves.
template <class T>
class Lines {
 public:
  // `panels`: of a group's filters, that read each row.
  Lines(const ConvGeometry& geometry, const TileShape& tile, std::int64_t panels, T shift);

  std::int64_t terms() const { return terms_; }              // of a pixel and group
  std::int64_t steps() const { return steps_; }              // padding included
  std::int64_t block_tiles() const { return block_tiles_; }  // at most, of tile.rows pixels each
  std::size_t block_bytes() const { return block_bytes_; }   // scratch for a block's lines; 0 when direct
  bool direct() const { return direct_; }                    // x is used in place: 1x1, dense channels
  const char* how_x_is_read() const;
  double copied_bytes() const;               // of x for an output pixel and group, were no lines shared
  double filled() const { return filled_; }  // share of the rows of groups that are pixels
  // That a group of so many pixels takes beside AMX's products, which are too fast to hide it: blocks but the first
  // read weights from the third cache again, where the second doesn't keep them.
  double again_seconds(std::int64_t pixels) const;

  // Where in packed weights the next term of a run belongs: its step, and its place in it.
  struct Position {
    std::int64_t step, element;
  };
  Position position_of(std::int64_t term) const {
    const std::int64_t in_run = term % run_terms_;
    return {term / run_terms_ * padded_steps(run_terms_) + in_run / kPerStep, in_run % kPerStep};
  }

  // Before any of the following: where steps read, a long list.
  void list_steps();
  const std::int64_t* steps_at() const { return steps_at_.data(); }
  // f(element) for each that a pixel reads, from `pixel`, a row of a block, on.
  template <class F>
  void each_term(const T* pixel, F f) const {
    for (const std::int64_t run : runs_) {
      for (std::int64_t i = 0; i < run_terms_; ++i) f(pixel[run + i]);
    }
  }

  // Fills `block` with `count` output pixels from `first`, copying what they read of x into `memory` unless direct.
  // Outside of x there is `fill`.
  void gather(const T* x, T fill, std::int64_t group, std::int64_t first, std::int64_t count, void* memory,
              Block& block) const;

 private:
  static constexpr std::int64_t kPerStep = kStepBytes / sizeof(T);
  struct Pixel {
    std::int64_t n, d, h, w;
  };
  Pixel pixel_at(std::int64_t index) const;
  void plan_lines();
  bool reads_one_by_one() const;
  double filled_rows() const;
  std::int64_t padded_steps(std::int64_t run_terms) const;
  std::int64_t line_pixels(std::int64_t pixels) const;
  const T* first_read(const T* x, const Pixel& p) const;
  bool is_inside(const Pixel& p) const;
  void copy(const T* x, T fill, const Pixel& p, std::int64_t pixels, T* to) const;
  void copy_lines(const T* x, T fill, const Pixel& p, std::int64_t pixels, T* to) const;
  void copy_line(const T* x, T fill, const Pixel& p, std::int64_t xd, std::int64_t xh, std::int64_t pixels,
                 T* line) const;
  // Lines that so many output rows below one another read.
  std::int64_t shared_lines(std::int64_t rows) const { return (rows - 1) * geometry_.stride[1] + geometry_.filter[1]; }
  std::int64_t rows_from(const Pixel& p, std::int64_t pixels) const;
  bool shares_lines(const Pixel& first, std::int64_t count) const;
  void copy_pixels(const T* from, std::int64_t count, T* to) const;

  ConvGeometry geometry_;
  TileShape tile_;
  std::int64_t panels_;
  T shift_;
  std::int64_t terms_;  // taps * group_channels
  bool direct_;
  double filled_ = 1;
  bool one_by_one_ = false;  // each pixel has lines of its own
  bool pointwise_;           // a filter of 1, without padding
  bool rows_are_runs_;       // what a row of the filter reads lies side by side in x
  // In elements:
  bool may_share_ = false;             // lines among the rows of a block
  std::int64_t line_step_;             // from a line's pixel to the next in x, in pixels
  std::int64_t line_size_, row_size_;  // from one line, and from one output row's lines, to the next
  std::int64_t pixel_size_;            // from one output pixel's first tap to the next's
  std::int64_t run_terms_;
  std::vector<std::int64_t> runs_;      // where they begin, from a pixel's first tap
  std::vector<std::int64_t> steps_at_;  // in bytes
  std::int64_t steps_;
  std::int64_t block_tiles_;
  std::size_t block_bytes_ = 0;
};

// Sums of a block's tiles, of which there may be more than block_tiles() where groups are not full.
template <class Sum>
struct alignas(64) TileSums {
  Sum of[Block::kMostTiles][kMaxRows * kMaxColumns];
};

// For each tile of a block its products with a panel, then finish(sums, its first row, pixels) for each of its groups.
//
// A tile is finished while the next one is under way: it would wait for its sums to reach the cache. With AMX a panel
// that the first cache does not hold is taken in parts, each of which meets all tiles: else both operands came from the
// second cache, which is not fast enough.
template <class Sum, class Finish>
void each_tile(const Block& block, const TileShape& tile, Multiply<Sum> multiply, Panel panel, TileSums<Sum>& sums,
               Finish finish) {
  constexpr std::int64_t kPart = 128, kMost = 192;  // steps: 16 KiB, 24 KiB
  const int groups = tile.rows / tile.group_rows, tiles = (block.groups + groups - 1) / groups;
  const auto multiply_tile = [&](int i) {
    // Tiles ask for what comes behind, the next part or panel, in equal shares of whole cache lines.
    const std::int64_t row = tile.columns * kStepBytes, together = tile.steps_together;
    panel.next_bytes = ceil_div(row * together / tiles, 64) * 64;
    panel.next = static_cast<const std::byte*>(panel.weights) + panel.steps * row +
                 i * (panel.steps / together) * panel.next_bytes;
    const int group = i * groups, last = std::min(groups, block.groups - group) - 1;
    multiply(block.x.data() + group * tile.group_rows, last * tile.group_rows + block.pixels[group + last], panel,
             sums.of[i]);
  };
  const std::int64_t steps = panel.steps, parts = steps > kMost && tile.steps_together > 1 ? ceil_div(steps, kPart) : 1;
  for (std::int64_t part = 0, done = 0; part < parts; ++part, done += panel.steps) {
    panel.steps = (steps - done) / (parts - part) / tile.steps_together * tile.steps_together;
    if (part + 1 < parts) {
      for (int i = 0; i < tiles; ++i) multiply_tile(i);
      panel.weights = static_cast<const std::byte*>(panel.weights) + panel.steps * tile.columns * kStepBytes;
      panel.at += panel.steps;
      panel.more = true;
    }
  }
  for (int i = 0; i <= tiles; ++i) {
    if (i < tiles) multiply_tile(i);
    if (i == 0) continue;
    const int group = (i - 1) * groups;
    for (int k = 0; k < std::min(groups, block.groups - group); ++k) {
      finish(sums.of[i - 1] + k * tile.group_rows * tile.columns, (group + k) * tile.group_rows,
             block.pixels[group + k]);
    }
  }
}

// How threads share an execution: tiles of pixels for each group and, where these are few, parts of its panels. Items
// follow one another by part, then group, then tile.
class BlockLoop {
 public:
  template <class T>
  BlockLoop(const ConvGeometry& g, const TileShape& tile, const Lines<T>& lines, std::int64_t panels, int threads)
      : BlockLoop(g, tile, lines.block_tiles(), panels, threads) {}

  std::int64_t items() const { return parts_ * groups_ * tiles_; }

  // body(group, first pixel, count of pixels, first panel, end of panels) for the blocks of these items.
  template <class Body>
  void each(std::int64_t begin, std::int64_t end, Body body) const {
    while (begin < end) {
      const std::int64_t part = begin / (groups_ * tiles_), group = begin / tiles_ % groups_, tile = begin % tiles_;
      const std::int64_t count = std::min({block_tiles_, end - begin, tiles_ - tile}), first = tile * rows_;
      body(group, first, std::min(count * rows_, pixels_ - first), panels_ * part / parts_,
           panels_ * (part + 1) / parts_);
      begin += count;
    }
  }

 private:
  BlockLoop(const ConvGeometry& g, const TileShape& tile, std::int64_t block_tiles, std::int64_t panels, int threads);
  std::int64_t parts_of(int threads) const;

  std::int64_t groups_, pixels_, rows_, tiles_, block_tiles_, panels_;  // panels of a group
  std::int64_t parts_;
};

extern template class Lines<std::uint8_t>;
extern template class Lines<std::uint16_t>;

}  // namespace convoy::cpu
