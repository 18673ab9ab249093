// What cpu.direct and cpu.gemm share: how a forward convolution is cut into blocks, panels and register tiles (the
// design, also what the cost model reads), and the plan that runs it.
//
// Loop order, outermost first: phase, chunk of weight panels that fits half of L2, block of output positions whose
// input fits a quarter of L2, panel of V vectors of output channels, tile of positions. Weights are streamed once a
// block sweep, the input once a chunk. A position's sum is always taken in the same order, whatever the blocking and
// the number of threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "convoy/engine.h"
#include "core/declared_names.h"
#include "engines/cpu/common/forward.h"
#include "engines/cpu/common/packed_plan.h"
#include "engines/cpu/common/panels.h"
#include "engines/cpu/direct/tile_kernels.h"

namespace convoy::cpu {

enum class TileInput : std::uint8_t {
  in_place,  // the kernel reads x
  padded,    // each block's rows are copied into a buffer with zeros for padding
  gathered,  // im2col: each position's taps are gathered into one row of a panel (channels-last x only)
};

struct TilePanel {
  std::int64_t group;
  std::int64_t first;     // output channel within the group
  std::int64_t channels;  // valid ones
  const TileShape* shape;
  std::int64_t weights;  // offset of the packed panel, in floats
};

struct TilePhase {
  Axis axis[3];
  TileInput input = TileInput::in_place;
  int halves = 1;
  int pixels = 1;
  std::vector<TilePanel> panels;
  std::vector<PanelChunk> chunks;
  std::int64_t reduction = 0;           // length of a sum
  std::vector<PackedElement> elements;  // of the sum
  std::vector<std::int64_t> steps;      // x offsets, for each group where group_steps
  bool group_steps = false;
  std::int64_t step_count = 0;
  std::int64_t run = 0;
  std::int64_t run_stride = 1;
  std::int64_t x_pixel = 0;  // elements between neighbouring output positions in what the kernel reads
  // Blocks: rows x cols positions of one (image, depth); gathered: `cols` flattened positions.
  std::int64_t block_rows = 1;
  std::int64_t block_cols = 1;
  std::int64_t row_blocks = 1;
  std::int64_t col_blocks = 1;
  std::int64_t images = 1;  // batch * depth positions (1 when gathered)
  // The buffer of a block: plane > slab > row > pixel.
  std::int64_t planes = 0, plane = 0, slab = 0, row = 0, pixel = 0;
  std::int64_t gathered_channels = 0;  // floats a tap has in a gathered row
  std::int64_t buffer = 0;             // floats
  std::int64_t tiles = 0;              // most tiles of a block
  std::int64_t items() const { return static_cast<std::int64_t>(chunks.size()) * images * row_blocks * col_blocks; }
};

struct TileDesign {
  ForwardConv conv;
  bool channels_last_in = false;
  bool planar_in = false;
  bool channels_last_out = false;
  // Channels of a group where the grouped kernels run: `conv` then has lanes/grouped groups joined into one, whose
  // weights lie `group_weights` apart.
  std::int64_t grouped = 0;
  std::int64_t group_weights = 0;
  std::vector<TilePhase> phases;
  std::int64_t packed_floats = 0;
  std::int64_t scratch_floats = 0;  // a thread's
  const TileKernels* kernels = nullptr;
  bool too_large = false;    // a block's buffer would be: absurd dilation or padding
  double cycles = 0;         // predicted, one thread, everything in cache
  double packing_bytes = 0;  // copied into blocks' buffers
};

// A register tile.
struct TileSize {
  int positions = 0;  // of the output
  int vectors = 0;    // of output channels
  friend bool operator==(const TileSize&, const TileSize&) = default;
};

struct TileRequest {
  const TileKernels* kernels;
  const CpuFeatures* cpu;
  int threads = 1;
  bool gathered = false;  // cpu.gemm: gather where x can't be read in place
  TileSize tile = {};     // not there: the model's choice
};

// Without the order of the sums, which only a plan needs: long lists.
TileDesign design_tiles(const ConvProblem& problem, const TileRequest& request);
// Fills in elements, steps and how they are run through.
void order_reductions(TileDesign& design);

// The knobs of these plans: `positions` and `channel_vectors` of a tile. The configurations are the tiles that make
// sense for the problem, the model's choice first.
std::vector<DeclaredKnob> tile_knobs();
Configurations tile_configurations(const ConvProblem& problem, const TileRequest& request);
KnobValues knobs_of(TileSize tile);  // none for no tile
TileSize tile_of(const KnobValues& knobs);

// The plan's candidate is `engine` with the tile spelled out.
Result<std::unique_ptr<ConvPlan>> make_tile_plan(const ConvProblem& problem, const std::string& engine,
                                                 const TileRequest& request, const void* constant_weights);

// Seconds for one execution with one thread, all data cold but what a pass reuses.
double tile_seconds(const ConvProblem& problem, const TileDesign& design);

// The default configuration's, for a design at hand; none where there is nothing to compute.
TileSize tile_of(const TileDesign& design);

// Of f32 or f64. Null where this processor has neither AVX2 nor AVX-512.
const TileKernels* tile_kernels_for(DataType type, Isa isa);

}  // namespace convoy::cpu
