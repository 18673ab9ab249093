#include "engines/cuda/depthwise/design.h"

#include <fmt/format.h>

#include <algorithm>

namespace convoy::cuda {

extern const DepthwiseFamily general_family, patch_family, rolling_family, planes_family, mma_family,
    plane_bands_family, pixel_bands_family, signal_family;

namespace {

// A row a family, and a file.
constexpr const DepthwiseFamily* kFamilies[] = {&general_family,     &patch_family, &rolling_family,
                                                &planes_family,      &mma_family,   &plane_bands_family,
                                                &pixel_bands_family, &signal_family};
constexpr const char* kKernel = "kernel";
constexpr std::size_t kMostDesigns = 12;
constexpr int kReduceThreads = 256;
constexpr int kMostReduceLanes = 32;

// What it is of in each family that has it.
std::vector<Knob> all_knobs() {
  std::vector<Knob> knobs = {{kKernel, {}, "docs/cuda-kernels.md says which is for what"}};
  for (const DepthwiseFamily* family : kFamilies) {
    for (const auto& [name, text] : family->knobs) {
      auto knob = std::ranges::find(knobs, name, &Knob::name);
      if (knob == knobs.end()) knob = knobs.insert(knob, Knob{name, {}, {}});
      knob->text += fmt::format("{}{}: {}", knob->text.empty() ? "" : "; ", family->word, text);
    }
  }
  return knobs;
}

CudaDevice part_of(CudaDevice device, int target_sms) {
  if (target_sms > 0) device.sm_count = std::min(target_sms, device.sm_count);
  return device;
}

KernelLaunch second_stage(const ConvProblem& problem, const DepthwiseShape& shape, const DepthwiseKernel& kernel,
                          int architecture, int target_sms) {
  const std::int64_t splits = kernel.blocks.splits;
  int lanes = 1;
  while (lanes < kMostReduceLanes && lanes * 2 <= splits) lanes *= 2;
  const std::int64_t outputs = kReduceThreads / lanes;
  Constants constants;
  constants.enumerations().element(shape.type);
  constants.set("THREADS", kReduceThreads).set("REDUCE_LANES", lanes).set("SPLITS", splits);
  constants.set("REDUCE_TAPS", shape.taps()).set("OUT_C", shape.out_channels).set("FLIPPED", shape.flipped);
  constants.set("W_STRIDE_K", shape.w_strides[0]).set("TAPS_FIRST", kernel.taps_first);
  constants.epilogue(problem);
  const std::int64_t grid = ceil_div(shape.taps() * shape.out_channels, outputs);
  if (target_sms > 0) constants.work_blocks(grid);
  KernelLaunch launch{{"reduce.cu", constants.text(), architecture}, "reduce", {}, "sum of the shares"};
  launch.shape.grid.x = static_cast<unsigned>(grid);
  launch.shape.block.x = kReduceThreads;
  return launch;
}

}  // namespace

std::span<const DepthwiseFamily* const> depthwise_families() { return kFamilies; }

DepthwiseKernel::DepthwiseKernel(const char* source, const DepthwiseShape& shape, const DepthwiseBlocks& blocks,
                                 bool knows_batch)
    : source(source), blocks(blocks), adds_shares(wgrad(shape)) {
  constants.enumerations().element(shape.type);
  if (knows_batch) {
    constants.set("BATCH", shape.batch);
  } else {
    sizes = bytes_of(static_cast<int>(shape.batch));
    // Whether 32 bits count the pixels, a row and a column more than there are.
    std::int64_t pixels = shape.batch * shape.axes[0].out;
    for (const int axis : {1, 2}) pixels *= shape.axes[axis].out + 1;
    constants.set("SMALL_WORK", pixels < (std::int64_t{1} << 30));
  }
  constants.set("IN_C", shape.in_channels).set("OUT_C", shape.out_channels);
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
  constants.set("THREADS", blocks.threads).set("MIN_BLOCKS", blocks.blocks_per_sm);
}

KnobValues configuration_of(const DepthwiseDesign& design) {
  KnobValues values = {KnobValue{kKernel, design.family->word}};
  for (std::size_t i = 0; i < design.family->knobs.size(); ++i) {
    values.push_back({design.family->knobs[i].name, design.values[i]});
  }
  std::sort(values.begin(), values.end(), [](const KnobValue& a, const KnobValue& b) { return a.name < b.name; });
  return values;
}

DepthwiseDesign design_of(const KnobValues& configuration) {
  DepthwiseDesign design;
  const std::string_view word = word_or(configuration, kKernel, design.family->word);
  for (const DepthwiseFamily* family : kFamilies) {
    if (word == family->word) design.family = family;
  }
  for (std::size_t i = 0; i < design.family->knobs.size(); ++i) {
    design.values[i] = knob_or(configuration, design.family->knobs[i].name, 1);
  }
  return design;
}

std::vector<DeclaredKnob> depthwise_knobs() {
  std::vector<DeclaredKnob> declared;
  for (const Knob& knob : all_knobs()) declared.push_back({knob.name});
  for (const DepthwiseFamily* family : kFamilies) declared.front().words.emplace_back(family->word);
  return declared;
}

Configurations configurations_of(const std::vector<DepthwiseDesign>& designs) {
  std::vector<KnobValues> listed;
  listed.reserve(designs.size());
  for (const DepthwiseDesign& design : designs) listed.push_back(configuration_of(design));
  return listed_configurations(std::move(listed), all_knobs());
}

std::vector<DepthwiseDesign> depthwise_designs(const DepthwiseShape& shape, const CudaDevice& device, int target_sms) {
  const CudaDevice part = part_of(device, target_sms);
  std::vector<std::pair<double, DepthwiseDesign>> ranked;
  for (const DepthwiseFamily* family : depthwise_families().subspan(1)) {
    for (const DepthwiseFamily::Values& values : family->configurations(shape, part)) {
      ranked.emplace_back(family->seconds(values, shape, part), DepthwiseDesign{family, values});
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  ranked.resize(std::min(ranked.size(), kMostDesigns - 1));
  std::vector<DepthwiseDesign> designs;
  for (const auto& [seconds, design] : ranked) designs.push_back(design);
  designs.emplace_back();  // general
  return designs;
}

double predicted_seconds(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device,
                         int target_sms) {
  return design.family->seconds(design.values, shape, part_of(device, target_sms));
}

PlannedKernels depthwise_launches(const ConvProblem& problem, const DepthwiseShape& shape,
                                  const DepthwiseDesign& design, const CudaDevice& device, int target_sms) {
  DepthwiseKernel kernel = design.family->kernel(design.values, shape, part_of(device, target_sms));
  kernel.constants.epilogue(problem);
  if (target_sms > 0) kernel.constants.work_blocks(kernel.blocks.grid);

  KernelLaunch first{{kernel.source, kernel.constants.text(), device.architecture},
                     wgrad(shape) ? "depthwise_wgrad" : "depthwise",
                     {}};
  first.shape.grid.x = static_cast<unsigned>(kernel.blocks.grid);
  first.shape.block.x = static_cast<unsigned>(kernel.blocks.threads);
  first.shape.dynamic_shared_bytes = static_cast<int>(kernel.blocks.shared_bytes);
  PlannedKernels launches;
  launches.sizes = kernel.sizes;
  if (kernel.adds_shares) {
    launches.workspace_bytes = kernel.blocks.splits * shape.taps() * shape.out_channels * 4;
    launches.kernels.push_back(std::move(first));
    launches.kernels.push_back(second_stage(problem, shape, kernel, device.architecture, target_sms));
  } else {
    launches.kernels.push_back(std::move(first));
  }
  for (KernelLaunch& launch : launches.kernels) launch.shape.overlapped = device.architecture >= 90;
  return launches;
}

}  // namespace convoy::cuda
