#include "engines/cuda/depthwise/depthwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/declared_names.h"
#include "core/notes.h"
#include "core/padding.h"
#include "core/suggestions.h"
#include "engines/cuda/compiler/has_kernels.h"
#include "engines/cuda/depthwise/design.h"
#include "engines/cuda/depthwise/lanes.h"

namespace convoy::cuda {
namespace {

constexpr const char* kName = "cuda.depthwise";
constexpr std::int64_t kMostIndex = std::int64_t{1} << 30;  // kernels count positions along a dim with 32 bits
constexpr std::int64_t kMostTaps = 1 << 20;
constexpr std::int64_t kMostGrid = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kMostSuggestions = 4;
constexpr double kUncertainty = 1.1;  // of a prediction

TypeCombination all_of(DataType type) { return {type, type, type, DataType::f32}; }

// The families' fits are of convolutions alone. With a bias, as networks have them, forward ones of 3x3 and 5x5 in nhwc
// took longer: 48 layers of MobileNetV2 and EfficientNet-B0 on an H200 (gpu-network-plans-h200-2026-11-30). So did
// ConvNeXt-T's 7x7, by 1.2 to 1.9, but what cuDNN takes for those is not known.
double in_network(const ConvProblem& problem, const DepthwiseShape& shape, double alone) {
  constexpr double kTap = 0.06e-6, kFewTaps = 9, kMostTaps = 25;
  const auto taps = static_cast<double>(shape.taps());
  if (!problem.epilogue.bias || planar(shape) || shape.transposed || wgrad(shape) || taps > kMostTaps) return alone;
  const bool strided = std::ranges::any_of(shape.axes, [](const DepthwiseAxis& axis) { return axis.stride > 1; });
  return (strided ? 1.05 : 1.3) * alone + kTap * std::max(taps - kFewTaps, 0.0);
}

class DepthwiseEngine final : public Engine, public HasSuggestions, public DeclaresNames, public HasKernels {
 public:
  DepthwiseEngine() {
    info_.name = kName;
    info_.revision = 6;  // 5 had other configurations for long signals
    info_.summary = "depthwise convolutions and their gradients, compiled for the problem; f32, f16, bf16; any strides";
    info_.device = DeviceKind::cuda;
    info_.min_architecture = 80;
    info_.passes = {Pass::fprop, Pass::dgrad, Pass::wgrad};
    info_.types = {all_of(DataType::f32), all_of(DataType::f16), all_of(DataType::bf16)};
    info_.any_layouts = info_.any_weight_strides = true;
    info_.max_spatial_dims = 3;
    info_.groups = info_.strided = info_.dilated = info_.flipped = true;
    info_.alpha_beta = info_.bias = info_.narrow_bias = info_.residual = info_.any_activation = true;
    info_.deterministic = info_.thread_invariant = true;
    info_.max_elements = EngineInfo::any_size;
    info_.notes = {std::string(note::runtime_compilation)};
    info_.notes_vary = true;
  }
  const EngineInfo& info() const override { return info_; }

  std::vector<std::string> notes(const ConvProblem& problem, const KnobValues& values,
                                 const PlanRequest& request) const override {
    std::vector<std::string> notes = info_.notes;
    if (problem.pass != Pass::wgrad || problem.out().elements() == 0 || !reads_padding(problem)) return notes;
    const DepthwiseDesign design = design_for(depthwise_shape(problem), values, request);
    if (!design.family->skips_padding) notes.emplace_back(note::multiplies_padding);
    return notes;
  }
  std::vector<std::string> other_notes() const override { return {std::string(note::multiplies_padding)}; }

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest&) const override {
    if (problem.groups != problem.in_channels()) {
      return Refusal{RefusalCode::groups,
                     fmt::format("groups={}: this engine needs as many groups as x has channels, {}", problem.groups,
                                 problem.in_channels())};
    }
    const std::pair<const char*, const TensorDesc*> tensors[] = {
        {"x", &problem.x}, {"w", &problem.w}, {"y", &problem.y}};
    for (const auto& [name, desc] : tensors) {
      if (desc->channel_block > 1) {
        return Refusal{
            RefusalCode::layout,
            fmt::format("{} is in blocks of {} channels: this engine takes strides only", name, desc->channel_block)};
      }
      for (std::size_t i = 0; i < desc->dims.size(); ++i) {
        if (desc->dims[i] > kMostIndex) {
          return Refusal{RefusalCode::size, fmt::format("{}.dims[{}]={}: this engine takes at most {}", name, i,
                                                        desc->dims[i], kMostIndex)};
        }
      }
      if (desc->elements() == 0 && problem.out().elements() != 0) {
        return Refusal{RefusalCode::size,
                       fmt::format("{}.dims={}: this engine needs data to compute from", name, to_string(desc->dims))};
      }
    }
    for (std::size_t i = 0; i < problem.stride.size(); ++i) {
      if (problem.stride[i] > kMostIndex || problem.dilation[i] > kMostIndex ||
          problem.dilation[i] * (problem.w.dims[2 + i] - 1) > kMostIndex || problem.pre_padding[i] > kMostIndex) {
        return Refusal{RefusalCode::size,
                       fmt::format("stride={}, dilation={}, pad={}: this engine takes windows of at most {}",
                                   to_string(problem.stride), to_string(problem.dilation),
                                   to_string(problem.pre_padding), kMostIndex)};
      }
    }
    const std::int64_t filters = problem.w.elements();
    if (filters > kMostGrid || (problem.out_channels() > 0 && filters / problem.out_channels() > kMostTaps)) {
      return Refusal{RefusalCode::filter, fmt::format("w.dims={}: this engine takes at most {} taps and {} weights",
                                                      to_string(problem.w.dims), kMostTaps, kMostGrid)};
    }
    return std::nullopt;
  }

  std::vector<DeclaredKnob> declared_knobs() const override { return depthwise_knobs(); }
  Configurations configurations(const ConvProblem& problem, const PlanRequest& request) const override {
    if (problem.out().elements() == 0) return {};
    return configurations_of(depthwise_designs(depthwise_shape(problem), *request.cuda, request.target_sms));
  }

  // Those predicted to be almost as fast as the first.
  std::vector<KnobValues> suggestions(const ConvProblem& problem, const PlanRequest& request) const override {
    std::vector<KnobValues> all;
    if (problem.out().elements() == 0) return all;
    const DepthwiseShape shape = depthwise_shape(problem);
    double first = 0;
    for (const DepthwiseDesign& design : depthwise_designs(shape, *request.cuda, request.target_sms)) {
      const double seconds = predicted_seconds(shape, design, *request.cuda, request.target_sms);
      if (all.empty()) first = seconds;
      if (all.size() == kMostSuggestions || seconds > kUncertainty * first) break;
      all.push_back(configuration_of(design));
    }
    return all;
  }

  double predict_seconds(const ConvProblem& problem, const KnobValues& values,
                         const PlanRequest& request) const override {
    if (problem.out().elements() == 0) return 1e-6;
    const DepthwiseShape shape = depthwise_shape(problem);
    const double alone =
        predicted_seconds(shape, design_for(shape, values, request), *request.cuda, request.target_sms);
    return in_network(problem, shape, alone);
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& values,
                                         const PlanRequest& request) const override {
    Candidate candidate{kName, values};
    if (values.empty() && problem.out().elements() != 0) {
      candidate.knobs = configuration_of(design_for(depthwise_shape(problem), values, request));
    }
    PlannedKernels planned = kernels(problem, candidate.knobs, request);
    return kernel_plan(problem, std::move(candidate), info_.notes, std::move(planned), request);
  }

  PlannedKernels kernels(const ConvProblem& problem, const KnobValues& values,
                         const PlanRequest& request) const override {
    if (problem.out().elements() == 0) return {};
    const DepthwiseShape shape = depthwise_shape(problem);
    return depthwise_launches(problem, shape, design_for(shape, values, request), *request.cuda, request.target_sms);
  }

 private:
  static DepthwiseDesign design_for(const DepthwiseShape& shape, const KnobValues& values, const PlanRequest& request) {
    if (!values.empty()) return design_of(values);
    return depthwise_designs(shape, *request.cuda, request.target_sms).front();
  }

  EngineInfo info_;
};

}  // namespace

const Engine& depthwise_engine() {
  static const DepthwiseEngine& engine = *new DepthwiseEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cuda
