// How a depthwise problem may be computed: which kernel and how large the tile of a thread. A design is a configuration
// of the engine's.
#pragma once

#include <cstdint>
#include <vector>

#include "convoy/engine.h"
#include "core/declared_names.h"
#include "engines/cuda/depthwise/shape.h"

namespace convoy::cuda {

enum class DepthwiseKernel : std::uint8_t {
  general,      // depthwise_general.cu
  patch,        // depthwise_nhwc.cu, depthwise_nhwc_wgrad.cu: a patch of the output a thread
  rolling,      // depthwise_nhwc_rolling.cu, .._wgrad.cu: a strip of `rows` rows a thread
  planes,       // depthwise_nchw.cu, depthwise_nchw_wgrad.cu: planes in shared memory
  mma,          // depthwise_nhwc_mma.cu: tensor cores; a block's patch, `vector` channels of a warp
  plane_bands,  // depthwise_nchw_bands.cu, .._wgrad.cu: tensor cores; bands of `rows` rows, a block's channels
                // (columns) and images (vector)
  pixel_bands,  // depthwise_nhwc_bands.cu, .._wgrad.cu: tensor cores; bands of `rows` rows, channels of a warp
                // (columns), channels of a block (vector), `unroll` units of rows a step
  signal,       // depthwise_signal.cu, .._wgrad.cu: tiles of `columns` positions, `rows` tiles of `vector` channels a
                // block
};

struct DepthwiseDesign {
  DepthwiseKernel kernel = DepthwiseKernel::general;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t vector = 1;  // channels of a thread
  std::int64_t unroll = 1;
  friend bool operator==(const DepthwiseDesign&, const DepthwiseDesign&) = default;
};

// A design as an engine's configuration, {columns=7,kernel=planes,rows=4}, and back. The knob `kernel` is a word, and
// says which others there are. design_of() takes what configuration_of() gives.
KnobValues configuration_of(const DepthwiseDesign& design);
DepthwiseDesign design_of(const KnobValues& configuration);
std::vector<DeclaredKnob> depthwise_knobs();
Configurations configurations_of(const std::vector<DepthwiseDesign>& designs);

// The designs that can run, at most twelve, the one that should be fastest first.
std::vector<DepthwiseDesign> depthwise_designs(const DepthwiseShape& shape, const CudaDevice& device, int target_sms);

// From bytes and instructions: a memory-bound and an issue-bound time, of which the larger counts, and launches.
double predicted_seconds(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device,
                         int target_sms);

}  // namespace convoy::cuda
