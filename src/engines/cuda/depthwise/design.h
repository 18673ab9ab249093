// How a depthwise problem may be computed: which kernel and how large the tile of a thread. A design is a knob's value.
#pragma once

#include <cstdint>
#include <vector>

#include "convoy/device.h"
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
  pixel_bands,  // depthwise_nhwc_bands.cu, .._wgrad.cu: tensor cores; bands of `rows` rows, rows of a step * 10 +
                // channels of a warp (columns), channels of a block (vector)
  signal = 7,   // depthwise_signal.cu, .._wgrad.cu: tiles of `columns` positions, `rows` tiles of `vector` channels a
                // block
};

struct DepthwiseDesign {
  DepthwiseKernel kernel = DepthwiseKernel::general;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t vector = 1;  // channels of a thread
  friend bool operator==(const DepthwiseDesign&, const DepthwiseDesign&) = default;
};

// kernel*100,000,000 + rows*10,000 + columns*100 + vector; 0 for `general`.
std::int64_t knob_of(const DepthwiseDesign& design);
DepthwiseDesign design_of(std::int64_t knob);

// The designs that can run, at most twelve, the one that should be fastest first.
std::vector<DepthwiseDesign> depthwise_designs(const DepthwiseShape& shape, const CudaDevice& device, int target_sms);

// From bytes and instructions: a memory-bound and an issue-bound time, of which the larger counts, and launches.
double predicted_seconds(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device,
                         int target_sms);

}  // namespace convoy::cuda
