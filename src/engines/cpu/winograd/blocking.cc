#include "engines/cpu/winograd/blocking.h"

#include <algorithm>

namespace convoy::cpu {
namespace {

constexpr double kCycle = 1 / 3.7e9;    // seconds
constexpr double kTransformCycles = 7;  // a point, tile and vector
constexpr double kMemoryBytes = 16e9;   // a second, a thread
constexpr double kL3Bytes = 29e9;
constexpr double kExposed = 0.7;   // share of the streams' time that the products don't hide
constexpr double kBarrier = 3e-6;  // seconds a parallel region, beyond one thread

double ceil_div(double a, double b) { return static_cast<double>(static_cast<std::int64_t>((a + b - 1) / b)); }

// Cycles a channel of a register tile.
double tile_cycles(double rows, int vectors) {
  return (vectors == 2 ? std::max(rows, 4.0) : std::max((rows + 1) / 2, 4.0)) + 1;
}

WinogradBlocking cost(const WinogradSize& s, std::int64_t block_tiles, std::int64_t chunk_vectors, bool split_chunks) {
  WinogradBlocking b;
  b.block_tiles = block_tiles;
  const std::int64_t row_tiles = (block_tiles + s.max_rows - 1) / s.max_rows;
  b.row_tile = (block_tiles + row_tiles - 1) / row_tiles;
  b.chunk_vectors = chunk_vectors;
  b.split_chunks = split_chunks;

  const double threads = s.threads;
  const double blocks = ceil_div(static_cast<double>(s.tiles), static_cast<double>(block_tiles));
  const double chunks = ceil_div(static_cast<double>(s.vectors), static_cast<double>(chunk_vectors));
  const double points = static_cast<double>(s.points);
  const double vectors = static_cast<double>(s.vectors);
  const double reduction = static_cast<double>(s.reduction);

  // One block's work on one core.
  const std::int64_t whole = block_tiles / b.row_tile;
  const std::int64_t two_vectors = s.vectors / 2;
  const auto whole_tiles = static_cast<double>(whole);
  const auto rest = static_cast<double>(block_tiles % b.row_tile);
  const auto pairs = static_cast<double>(two_vectors);
  const auto single = static_cast<double>(s.vectors % 2);
  const auto rows_cycles = [&](double rows) {
    return rows > 0 ? pairs * tile_cycles(rows, 2) + single * tile_cycles(rows, 1) : 0.0;
  };
  const double products =
      points * reduction * (whole_tiles * rows_cycles(static_cast<double>(b.row_tile)) + rows_cycles(rest));
  const double in_vectors = ceil_div(static_cast<double>(s.channels), s.lanes) * static_cast<double>(s.depth_taps);
  const double tiles = static_cast<double>(block_tiles);
  const double transform_in = kTransformCycles * points * tiles * in_vectors;
  const double transform_out = kTransformCycles * points * tiles * vectors;

  const double weights = s.element_bytes * points * reduction * vectors * s.lanes;
  const double v = s.element_bytes * points * tiles * in_vectors * s.lanes;
  const double m = s.element_bytes * points * tiles * static_cast<double>(std::min(chunk_vectors, s.vectors)) * s.lanes;
  const double l2 = 0.8 * static_cast<double>(s.l2_bytes);
  const double groups = static_cast<double>(s.groups);

  double work = 0;     // cycles of the busiest thread
  double from_l3 = 0;  // bytes of the busiest thread
  double barriers = 0;
  const double cold = weights * groups / (split_chunks ? threads : 1);
  if (split_chunks) {
    // Of the vectors, on the busiest thread: a last chunk may be small.
    const double share = std::min(1.0, ceil_div(chunks, threads) * static_cast<double>(chunk_vectors) / vectors);
    const double tile_share = ceil_div(tiles, threads) / tiles;
    work = groups * blocks * (transform_in * tile_share + (products + transform_out) * share);
    const bool stays = weights * share + m <= l2 && blocks > 1;
    from_l3 += groups * (blocks - 1) * (stays ? 0 : weights * share);
    if (threads > 1 || v + m > l2)
      from_l3 += groups * blocks * (v * tile_share + v * (v + m > l2 ? chunks * share : 1));
    barriers = threads > 1 ? 2 * groups * blocks : 0;
  } else {
    const double turns = ceil_div(groups * blocks, threads);
    work = turns * (transform_in + products + transform_out);
    if (weights + v + m > l2) from_l3 += std::max(turns - groups, 0.0) * weights;
    if (v + m > l2) from_l3 += turns * v * (1 + chunks);
    barriers = threads > 1 ? 1 : 0;
  }
  b.seconds = work * kCycle + kExposed * (cold / kMemoryBytes + from_l3 / kL3Bytes) + barriers * kBarrier + 1e-6;
  return b;
}

}  // namespace

WinogradBlocking choose_blocking(const WinogradSize& size) {
  WinogradBlocking best;
  best.seconds = -1;
  const auto consider = [&](std::int64_t block_tiles, std::int64_t vectors) {
    for (const bool split_chunks : {false, true}) {
      if (split_chunks && size.threads == 1) continue;
      const WinogradBlocking b = cost(size, block_tiles, vectors, split_chunks);
      if (best.seconds < 0 || b.seconds < best.seconds) best = b;
    }
  };
  const auto consider_chunks = [&](std::int64_t block_tiles) {
    for (std::int64_t chunk = 2;; chunk *= 2) {
      consider(block_tiles, std::min(chunk, size.vectors));
      if (chunk >= size.vectors) break;
    }
    if (size.threads == 1) return;
    const std::int64_t a_thread = (size.vectors + size.threads - 1) / size.threads;
    consider(block_tiles, std::min((a_thread + 1) / 2 * 2, size.vectors));
  };
  const std::int64_t row_tiles = std::max<std::int64_t>((size.tiles + size.max_rows - 1) / size.max_rows, 1);
  for (std::int64_t in_block = 1;; in_block += in_block / 4 + 1) {
    // A whole number of register tiles, or all there is in as many equal blocks.
    const std::int64_t whole = std::min(in_block * size.max_rows, size.tiles);
    consider_chunks(in_block < row_tiles ? whole : size.tiles);
    // 512 tiles of 36 points and 512 channels are 38 MB: more than that never pays, and workspace is not free.
    if (in_block >= row_tiles || whole >= 512) break;
  }
  // As much for each thread.
  for (std::int64_t turns = 1; turns <= 4 && size.threads > 1; ++turns) {
    const std::int64_t equal = (size.tiles + turns * size.threads - 1) / (turns * size.threads);
    if (equal <= 512) consider_chunks(equal);
  }
  return best;
}

}  // namespace convoy::cpu
