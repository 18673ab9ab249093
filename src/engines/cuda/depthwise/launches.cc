#include "engines/cuda/depthwise/launches.h"

#include <algorithm>

#include "core/epilogue.h"
#include "engines/cuda/compiler/constants.h"
#include "engines/cuda/depthwise/blocks.h"
#include "engines/cuda/depthwise/pixel_bands.h"

namespace convoy::cuda {
namespace {

constexpr int kReduceThreads = 256;
constexpr int kMostReduceLanes = 32;

void set_shape(const DepthwiseShape& shape, Constants& constants) {
  constants.element(shape.type);
  constants.set("BATCH", shape.batch).set("IN_C", shape.in_channels).set("OUT_C", shape.out_channels);
  constants.set("MULTIPLIER", shape.multiplier).set("FAN_IN", shape.fan_in);
  constants.set("TRANSPOSED", shape.transposed).set("FLIPPED", shape.flipped);
  const char* const names[] = {"D", "H", "W"};
  for (int i = 0; i < 3; ++i) {
    const std::string name = names[i];
    const DepthwiseAxis& axis = shape.axes[i];
    constants.set("IN_" + name, axis.in).set("OUT_" + name, axis.out).set("TAPS_" + name, axis.taps);
    constants.set("STRIDE_" + name, axis.stride).set("DILATION_" + name, axis.dilation).set("PAD_" + name, axis.pad);
    constants.set("IN_STRIDE_" + name, shape.in_strides[2 + i]).set("OUT_STRIDE_" + name, shape.out_strides[2 + i]);
    constants.set("W_STRIDE_" + name, shape.w_strides[2 + i]);
  }
  constants.set("IN_STRIDE_N", shape.in_strides[0]).set("IN_STRIDE_C", shape.in_strides[1]);
  constants.set("OUT_STRIDE_N", shape.out_strides[0]).set("OUT_STRIDE_C", shape.out_strides[1]);
  constants.set("W_STRIDE_K", shape.w_strides[0]);
}

void set_design(const DepthwiseDesign& design, const DepthwiseBlocks& blocks, Constants& constants) {
  constants.set("THREADS", blocks.threads).set("MIN_BLOCKS", blocks.blocks_per_sm);
  switch (design.kernel) {
    case DepthwiseKernel::general:
      return;
    case DepthwiseKernel::rolling:
      constants.set("STRIP_ROWS", design.rows).set("TILE_W", design.columns).set("UNROLL", 1);
      constants.set("CHANNEL_THREADS", blocks.channel_threads).set("SPLITS", blocks.splits);
      return;
    case DepthwiseKernel::patch:
      constants.set("TILE_H", design.rows).set("TILE_W", design.columns).set("VECTOR", design.vector);
      constants.set("CHANNEL_THREADS", blocks.channel_threads).set("SPLITS", blocks.splits);
      constants.set("PREFETCH", blocks.prefetch);
      return;
    case DepthwiseKernel::planes:
      constants.set("TILE_H", design.rows).set("TILE_W", design.columns).set("PLANES", blocks.planes);
      constants.set("STRIP_TILES", blocks.strip_tiles).set("SPLITS", blocks.splits);
      constants.set("IMAGES", blocks.images).set("STAGES", blocks.stages);
      return;
    case DepthwiseKernel::mma:
      constants.set("TILE_H", blocks.tile_h).set("CHANNEL_TILES", design.vector / 8);
      constants.set("BLOCK_H", blocks.block_h).set("BLOCK_W", blocks.block_w).set("IMAGES", blocks.images);
      constants.set("CHANNEL_WARPS", blocks.channel_warps).set("PIXEL_PITCH", blocks.pitch);
      constants.set("SPLITS", blocks.splits);
      return;
    case DepthwiseKernel::plane_bands:
      constants.set("BAND_ROWS", design.rows).set("CHANNELS", design.columns).set("IMAGES", design.vector);
      constants.set("CHANNEL_WARPS", blocks.channel_warps).set("STAGES", blocks.stages).set("SPLITS", blocks.shares);
      constants.set("WINDOW", blocks.window).set("HALVES", blocks.halves).set("FOLDED", blocks.folded);
      constants.set("IN_PITCH", blocks.pitch).set("OUT_PITCH", blocks.out_pitch);
      return;
    case DepthwiseKernel::pixel_bands:
      constants.set("SLICE", design.vector).set("WARP_CHANNELS", bands_channels(design));
      constants.set("INSTANCES", blocks.images).set("BLOCKS_W", blocks.block_w);
      constants.set("BAND_UNITS", blocks.tile_h).set("UNROLL", blocks.block_h);
      constants.set("STAGES", blocks.stages).set("SPLITS", blocks.splits).set("SHARED_BYTES", blocks.shared_bytes);
      return;
    case DepthwiseKernel::signal:
      constants.set("TILES", design.rows).set("TILE", design.columns).set("PLANES", design.vector);
      constants.set("STAGES", blocks.stages).set("SPARSE", blocks.sparse).set("GROUP_TAPS", blocks.tap_group);
      constants.set("ROUND", blocks.round).set("SPLITS", blocks.image_splits);
      return;
  }
}

const char* source_of(DepthwiseKernel kernel, const DepthwiseShape& shape) {
  const bool wgrad = shape.pass == Pass::wgrad;
  switch (kernel) {
    case DepthwiseKernel::patch:
      return wgrad ? "depthwise_nhwc_wgrad.cu" : "depthwise_nhwc.cu";
    case DepthwiseKernel::rolling:
      return wgrad ? "depthwise_nhwc_rolling_wgrad.cu" : "depthwise_nhwc_rolling.cu";
    case DepthwiseKernel::planes:
      return wgrad ? "depthwise_nchw_wgrad.cu" : "depthwise_nchw.cu";
    case DepthwiseKernel::mma:
      return "depthwise_nhwc_mma.cu";
    case DepthwiseKernel::plane_bands:
      return wgrad ? "depthwise_nchw_bands_wgrad.cu" : "depthwise_nchw_bands.cu";
    case DepthwiseKernel::pixel_bands:
      return wgrad ? "depthwise_nhwc_bands_wgrad.cu" : "depthwise_nhwc_bands.cu";
    case DepthwiseKernel::signal:
      if (signal_channels_last(shape)) return wgrad ? "depthwise_signal_nhwc_wgrad.cu" : "depthwise_signal_nhwc.cu";
      return wgrad ? "depthwise_signal_wgrad.cu" : "depthwise_signal.cu";
    case DepthwiseKernel::general:
      break;
  }
  return "depthwise_general.cu";
}

DepthwiseLaunch second_stage(const ConvProblem& problem, const DepthwiseShape& shape, const DepthwiseDesign& design,
                             const DepthwiseBlocks& blocks, int architecture, int target_sms) {
  const bool planar = design.kernel == DepthwiseKernel::planes || design.kernel == DepthwiseKernel::plane_bands ||
                      (design.kernel == DepthwiseKernel::signal && !signal_channels_last(shape));
  int lanes = 1;
  while (lanes < kMostReduceLanes && lanes * 2 <= blocks.splits) lanes *= 2;
  const std::int64_t outputs = kReduceThreads / lanes;
  Constants constants;
  constants.enumerations().element(shape.type);
  constants.set("THREADS", kReduceThreads).set("REDUCE_LANES", lanes).set("SPLITS", blocks.splits);
  constants.set("REDUCE_TAPS", shape.taps()).set("OUT_C", shape.out_channels).set("FLIPPED", shape.flipped);
  constants.set("W_STRIDE_K", shape.w_strides[0]).set("TAPS_FIRST", !planar);
  constants.epilogue(problem);
  const std::int64_t grid = ceil_div(shape.taps() * shape.out_channels, outputs);
  if (target_sms > 0) constants.work_blocks(grid);
  DepthwiseLaunch launch{{"reduce.cu", constants.text(), architecture}, "reduce", {}, "sum of the shares"};
  launch.shape.grid.x = static_cast<unsigned>(grid);
  launch.shape.block.x = kReduceThreads;
  launch.stage += epilogue_text(problem);
  return launch;
}

}  // namespace

DepthwiseLaunches depthwise_launches(const ConvProblem& problem, const DepthwiseShape& shape,
                                     const DepthwiseDesign& design, const CudaDevice& device, int target_sms) {
  const bool wgrad = shape.pass == Pass::wgrad;
  const bool general = design.kernel == DepthwiseKernel::general;
  const DepthwiseBlocks blocks = blocks_of(shape, design, device, target_sms);
  Constants constants;
  constants.enumerations();
  set_shape(design.kernel == DepthwiseKernel::pixel_bands ? bands_shape(shape) : shape, constants);
  set_design(design, blocks, constants);
  if (general) constants.set("CHANNELS_INNERMOST", shape.channels_innermost());
  if (design.kernel == DepthwiseKernel::signal) constants.set("ALIGNMENT", std::min<std::int64_t>(16, shape.alignment));
  constants.epilogue(problem);
  if (target_sms > 0) constants.work_blocks(blocks.grid);

  DepthwiseLaunch first{{source_of(design.kernel, shape), constants.text(), device.architecture},
                        wgrad ? "depthwise_wgrad" : "depthwise",
                        {},
                        "products"};
  first.shape.grid.x = static_cast<unsigned>(blocks.grid);
  first.shape.block.x = static_cast<unsigned>(blocks.threads);
  first.shape.dynamic_shared_bytes = static_cast<int>(blocks.shared_bytes);
  DepthwiseLaunches launches;
  if (wgrad && !general) {
    launches.workspace_bytes = blocks.splits * shape.taps() * shape.out_channels * 4;
    launches.kernels.push_back(std::move(first));
    launches.kernels.push_back(second_stage(problem, shape, design, blocks, device.architecture, target_sms));
  } else {
    first.stage += epilogue_text(problem);
    launches.kernels.push_back(std::move(first));
  }
  for (DepthwiseLaunch& launch : launches.kernels) launch.shape.overlapped = device.architecture >= 90;
  return launches;
}

}  // namespace convoy::cuda
