// cpu.gemm on planar tensors (nchw to nchw): GEMM with positions along the vectors, im2col implicit in offsets.
//
// A block of output rows gets its input rows copied once into a buffer with padding as zeros and strides taken apart
// (one plane for each residue of the stride), so that every tap of every position lies at a fixed distance from the
// position's number q = row*pitch + column: the sum runs over offsets, no matrix is spelled out. Positions between the
// end of a row and the pitch are computed and dropped. A position's sum is always taken in the same order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "convoy/engine.h"
#include "core/declared_names.h"
#include "engines/cpu/common/forward.h"
#include "engines/cpu/common/panels.h"
#include "engines/cpu/gemm/planar_kernels.h"

namespace convoy::cpu {

struct PlanarPanel {
  std::int64_t group;
  std::int64_t first;  // output channel within the group
  std::int64_t channels;
  const PlanarKernel* kernel;
  std::int64_t weights;  // offset of the packed panel, in floats
};

// A plane of the buffer: the input rows of one depth tap and one residue of the row and column stride.
struct PlanarSlice {
  std::int64_t depth;  // input depth offset
  std::int64_t row;    // input row offset of the slice's row 0, from that of output row 0
  std::int64_t column;
};

struct PlanarPhase {
  Axis axis[3];
  std::vector<PlanarPanel> panels;
  std::vector<PanelChunk> chunks;
  std::vector<PlanarSlice> slices;
  std::vector<std::int64_t> steps;      // buffer offset of each element of the sum, group-relative
  std::vector<PackedElement> elements;  // of the sum
  std::int64_t block_rows = 1, block_cols = 1, row_blocks = 1, col_blocks = 1, images = 1;
  std::int64_t slice_rows = 1;  // rows of a slice
  std::int64_t pitch = 1;
  std::int64_t slice = 0, plane = 0;  // floats of a slice; of a channel
  std::int64_t channels = 0;          // of a chunk
  std::int64_t buffer = 0;            // floats, slack for the last vector included
  std::int64_t items() const { return static_cast<std::int64_t>(chunks.size()) * images * row_blocks * col_blocks; }
};

struct PlanarDesign {
  ForwardConv conv;
  std::vector<PlanarPhase> phases;
  const PlanarKernels* kernels = nullptr;
  std::int64_t packed_floats = 0;
  std::int64_t scratch_floats = 0;  // a thread's
  bool too_large = false;
  double cycles = 0;  // predicted, one thread, everything in cache
};

// A register tile.
struct PlanarTile {
  int channels = 0;  // of the output
  int vectors = 0;   // of output positions
  friend bool operator==(const PlanarTile&, const PlanarTile&) = default;
};

struct PlanarRequest {
  const PlanarKernels* kernels;
  const CpuFeatures* cpu;
  int threads = 1;
  PlanarTile tile = {};  // not there: the model's choice
};

// Without the order of the sums, which only a plan needs: long lists.
PlanarDesign design_planar(const ConvProblem& problem, const PlanarRequest& request);
// Fills in steps and elements. Precondition: !too_large.
void order_reductions(PlanarDesign& design);

// As tile_plan.h's, with the knobs `channels` and `position_vectors`.
std::vector<DeclaredKnob> planar_knobs();
Configurations planar_configurations(const ConvProblem& problem, const PlanarRequest& request);
KnobValues knobs_of(PlanarTile tile);
PlanarTile planar_tile_of(const KnobValues& knobs);
PlanarTile tile_of(const PlanarDesign& design);

// The plan's candidate is `engine` with the tile spelled out.
Result<std::unique_ptr<ConvPlan>> make_planar_plan(const ConvProblem& problem, const std::string& engine,
                                                   const PlanarRequest& request, const void* constant_weights);

// Seconds for one execution with one thread, data cold.
double tile_seconds(const ConvProblem& problem, const PlanarDesign& design);

const PlanarKernels* planar_kernels_for(DataType type, Isa isa);

}  // namespace convoy::cpu
