#include "engines/cpu/direct/tile_cost.h"

#include <algorithm>

namespace convoy::cpu {
namespace {

// Cycles for one element of the sum: FMA ports, load ports, FMA latency, and weights streamed from L2 where a panel
// does not stay in L1. A Sapphire Rapids core with AVX-512 sustains 32 bytes a cycle from there, a Zen 3 core 20.
double tile_cycles(int positions, int vectors, int vector_bytes, std::int64_t reduction) {
  const double fma = positions * vectors / 2.0;
  const double loads = (positions + vectors) / 2.0;
  double cycles = std::max({fma, loads, 4.0});
  const std::int64_t panel_bytes = reduction * vectors * vector_bytes;
  const double l2_bytes_a_cycle = vector_bytes == 32 ? 20 : 32;
  if (panel_bytes > 24 * 1024) cycles = std::max(cycles, vectors * vector_bytes / l2_bytes_a_cycle);
  return cycles + 0.3;
}

// Cycles of one panel's tile over `positions`: the sum; the call, clearing and storing the accumulators; and for a
// panel whose channels do not fill its vectors the general epilogue.
double panel_cycles(int positions, std::int64_t channels, const TileKernels& kernels, std::int64_t reduction,
                    bool grouped) {
  const int lanes = kernels.lanes;
  const int vectors = static_cast<int>(ceil_div(channels, lanes));
  // A permutation an FMA, on the port of every other FMA.
  const double element = grouped ? std::max<double>(positions, 4)
                                 : tile_cycles(positions, vectors, lanes * kernels.element_bytes, reduction);
  const double sum = element * static_cast<double>(reduction);
  const double whole = channels % lanes == 0 ? 2.5 * vectors : 8 + 14.0 * vectors;
  return sum + 30 + whole * positions;
}

}  // namespace

double shape_cycles(const ForwardConv& conv, const TilePhase& phase, const TileShape& shape,
                    const TileKernels& kernels) {
  const int positions = shape.halves * shape.pixels;
  double tiles;
  if (phase.input == TileInput::gathered) {
    tiles = std::max(1.0, static_cast<double>(conv.batch * phase.axis[0].count * phase.axis[1].count) *
                              phase.axis[2].count / positions);
  } else {
    const double parts = static_cast<double>(conv.batch * phase.axis[0].count) * phase.axis[1].count *
                         ceil_div(phase.axis[2].count, shape.pixels);
    tiles = std::max(1.0, parts / shape.halves);
  }
  const std::int64_t width = static_cast<std::int64_t>(shape.vectors) * kernels.lanes;
  const std::int64_t full = conv.out_channels / width;
  const std::int64_t rest = conv.out_channels % width;
  double cycles = 0;
  if (full > 0)
    cycles += static_cast<double>(full) * panel_cycles(positions, width, kernels, phase.reduction, shape.group > 0);
  if (rest > 0) cycles += panel_cycles(positions, rest, kernels, phase.reduction, shape.group > 0);
  return cycles * tiles * static_cast<double>(conv.groups);
}

double copy_cycles(const TileDesign& design, const TilePhase& phase) {
  const ForwardConv& conv = design.conv;
  const double blocks = static_cast<double>(phase.images) * phase.row_blocks * phase.col_blocks;
  double cycles = 0;
  for (const PanelChunk& chunk : phase.chunks) {
    const double channels = static_cast<double>((chunk.group_end - chunk.group_begin) * conv.in_channels);
    if (phase.input == TileInput::gathered) {
      const double taps =
          static_cast<double>(phase.axis[0].taps.size() * phase.axis[1].taps.size()) * phase.axis[2].taps.size();
      const double positions =
          static_cast<double>(conv.batch * phase.axis[0].count) * phase.axis[1].count * phase.axis[2].count;
      cycles += positions * taps * (20 + channels / 8);
    } else if (phase.input == TileInput::padded) {
      const std::int64_t plane_rows = phase.plane / phase.row;
      const std::int64_t row_pixels = phase.row / phase.pixel;
      const double rows = blocks * static_cast<double>(phase.planes * plane_rows);
      const auto pixels = static_cast<double>(row_pixels);
      const bool whole = phase.pixel == conv.in.spatial[2];
      cycles += rows * (30 + (whole ? static_cast<double>(phase.row) / 8 : pixels * (15 + channels / 8)));
    }
    if (blocks == 1 && conv.groups == 1) break;  // all chunks share one buffer
  }
  return cycles;
}

}  // namespace convoy::cpu
