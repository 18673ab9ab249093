#include "engines/cpu/depthwise/depthwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engines/cost/fitted_engine.h"
#include "engines/cpu/common/limits.h"
#include "engines/cpu/common/problem.h"
#include "engines/cpu/depthwise/plans.h"

namespace convoy::cpu {

DepthwiseShape depthwise_shape(const ConvProblem& problem) {
  DepthwiseShape shape;
  shape.geometry = flat_geometry(problem);
  shape.forward = problem.pass == Pass::fprop;
  const ConvGeometry& g = shape.geometry;
  shape.multiplier = g.group_filters;
  shape.channels = shape.forward ? g.filters : g.channels;
  shape.sources = shape.forward ? 1 : shape.multiplier;
  shape.source = shape.forward ? g.x : g.y;
  shape.out = shape.forward ? g.y : g.x;
  shape.phases = depthwise_phases(g, problem.pass);
  for (int i = 0; i < 3; ++i) shape.out_size[i] = shape.forward ? g.y_size[i] : g.x_size[i];
  return shape;
}

bool channels_innermost(const ConvProblem& problem) {
  const auto fits = [](const TensorDesc& desc) { return desc.channel_block > 1 || desc.is_packed(Layout::nhwc); };
  return fits(problem.x) && fits(problem.y);
}

template <>
const DepthwiseKernels<float>* depthwise_kernels_for(const ConvProblem& problem, Isa isa) {
  static constexpr IsaRow<DepthwiseKernels<float>> kRows[] = {{Isa::avx2, &avx2::depthwise_kernels},
                                                              {Isa::avx512, &avx512::depthwise_kernels}};
  // A vector must not be longer than a block of channels.
  const bool short_blocks = problem.x.channel_block == 8 || problem.y.channel_block == 8;
  return best_row<DepthwiseKernels<float>>(kRows, short_blocks ? std::min(isa, Isa::avx2) : isa);
}

template <>
const DepthwiseKernels<double>* depthwise_kernels_for(const ConvProblem&, Isa isa) {
  static constexpr IsaRow<DepthwiseKernels<double>> kRows[] = {{Isa::avx2, &avx2_f64::depthwise_kernels},
                                                               {Isa::avx512, &avx512_f64::depthwise_kernels}};
  return best_row<DepthwiseKernels<double>>(kRows, isa);
}

namespace {

constexpr std::int64_t kMaxPhases = 1024;  // of a dim; a phase is a residue of the position by the stride

constexpr double kVectorSeconds = 1.6e-9;
constexpr double kTapSeconds = 0.17e-9;
constexpr double kPlaneSeconds = 90e-9;
constexpr double kCopySeconds = 0.15e-9;
constexpr double kConvertedSeconds = 0.08e-9;

EngineInfo make_info() {
  // Revision 2: both phases of a row of a strided dgrad at once.
  EngineInfo info = own_engine(
      "cpu.depthwise", 2,
      "depthwise convolutions and their transposes, f32 and f64, vectors over channels or over positions; fprop of "
      "bf16 and f16");
  info.passes = {Pass::fprop, Pass::dgrad};
  info.types = {kAllF32, kAllF64};
  for (const DataType half : {DataType::bf16, DataType::f16}) info.types.push_back({half, half, half, DataType::f32});
  for (const Layout x : {Layout::nhwc, Layout::nchw8c, Layout::nchw16c}) {
    for (const Layout y : {Layout::nhwc, Layout::nchw8c, Layout::nchw16c}) info.layouts.push_back({x, y});
  }
  info.layouts.push_back({Layout::nchw, Layout::nchw});
  info.groups = info.strided = info.dilated = true;
  info.alpha_beta = info.bias = info.residual = info.any_activation = true;
  return info;
}

class DepthwiseEngine final : public cost::FittedEngine {
 public:
  DepthwiseEngine() : FittedEngine(make_info()) {}

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& request) const override {
    if (auto refusal = refuse_huge_window(problem)) return refusal;
    if (problem.groups != problem.in_channels()) {
      return Refusal{RefusalCode::groups,
                     fmt::format("groups={}: this engine needs as many groups as x has channels, {}", problem.groups,
                                 problem.in_channels())};
    }
    if (size_of(problem.x.type) == 2) {
      if (auto refusal = check_halves(problem, request)) return refusal;
    }
    if (problem.pass == Pass::dgrad) {
      for (const std::int64_t stride : problem.stride) {
        if (stride > kMaxPhases) {
          return Refusal{RefusalCode::stride, fmt::format("stride={}: this engine takes at most {} in dgrad",
                                                          to_string(problem.stride), kMaxPhases)};
        }
      }
    }
    if (!channels_innermost(problem)) {
      const double bytes = plane_bytes(problem);
      if (bytes > static_cast<double>(kMaxPlaneBytes)) {
        return Refusal{RefusalCode::size, fmt::format("x.dims={}, w.dims={}, dilation={}: the rows that one row of out "
                                                      "reads need {:.0f} bytes, this engine takes {} in nchw",
                                                      to_string(problem.x.dims), to_string(problem.w.dims),
                                                      to_string(problem.dilation), bytes, kMaxPlaneBytes)};
      }
    }
    return std::nullopt;
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest& request) const override {
    Candidate candidate{info_.name, {}};
    if (channels_innermost(problem)) return make_channels_plan(problem, std::move(candidate), request);
    return make_plane_plan(problem, std::move(candidate), request);
  }

 private:
  // What networks have; cpu.in_f32 takes the others.
  static std::optional<Refusal> check_halves(const ConvProblem& problem, const PlanRequest& request) {
    const std::string type(convoy::name_of(problem.x.type));
    const auto refuse = [&](RefusalCode code, const std::string& field, const char* needs) {
      return Refusal{code, fmt::format("{}: with x.type={} this engine needs {}", field, type, needs)};
    };
    if (problem.pass != Pass::fprop) return refuse(RefusalCode::pass, "pass=dgrad", "fprop");
    for (const auto& [name, desc] : {std::pair{"x", &problem.x}, {"y", &problem.y}}) {
      if (!desc->is_packed(Layout::nhwc)) {
        return refuse(RefusalCode::layout,
                      fmt::format("{}.layout={}", name, convoy::name_of(desc->layout(), desc->spatial_dims())), "nhwc");
      }
    }
    if (problem.out_channels() != problem.in_channels()) {
      return refuse(RefusalCode::channels, fmt::format("w.dims={}", to_string(problem.w.dims)), "a filter a channel");
    }
    if (problem.beta != 0) return refuse(RefusalCode::scaling, fmt::format("beta={}", problem.beta), "0");
    if (problem.epilogue.takes_z()) return refuse(RefusalCode::epilogue, "residual", "none");
    if (problem.epilogue.narrow_bias) return refuse(RefusalCode::epilogue, "bias=out", "an f32 bias");
    if (const double bytes = halves_bytes(problem, request); bytes > static_cast<double>(kMaxPlaneBytes)) {
      return Refusal{RefusalCode::size,
                     fmt::format("x.dims={}, x.type={}: the rows that one row of out reads need {:.0f} "
                                 "bytes as f32, this engine takes {}",
                                 to_string(problem.x.dims), type, bytes, kMaxPlaneBytes)};
    }
    return std::nullopt;
  }

  // Work or memory, whichever takes longer, and a fixed cost. Work is a cost a vector of out and one a vector and tap;
  // planes (NCHW) add one a plane and one a source element copied. Memory is read and written from L2 where it fits and
  // from L3 otherwise, where two threads share the bandwidth. Fitted on one Sapphire Rapids core (AVX-512 peak 236
  // GFLOP/s, AVX2 127) with the 3x3 and 5x5 layers of MobileNetV2 and EfficientNet, both strides.
  Work work(const ConvProblem& problem, const KnobValues& knobs, const PlanRequest& request) const override {
    if (size_of(problem.x.type) == 2) {  // what the same takes in f32, and to convert
      ConvProblem wide = problem;
      wide.x.type = wide.w.type = wide.y.type = DataType::f32;
      const double converted = static_cast<double>(problem.x.elements() + problem.y.elements()) * kConvertedSeconds;
      return {std::max(1, request.threads) * predict(wide, work(wide, knobs, request), request) + converted};
    }
    const double lanes = problem.x.type == DataType::f64
                             ? depthwise_kernels_for<double>(problem, request.cpu.isa)->lanes
                             : depthwise_kernels_for<float>(problem, request.cpu.isa)->lanes;
    const ConvGeometry g = flat_geometry(problem);
    const bool forward = problem.pass == Pass::fprop;
    const std::int64_t* out_size = forward ? g.y_size : g.x_size;
    const double channels = static_cast<double>(forward ? g.filters : g.channels);
    const double positions = static_cast<double>(out_size[0]) * static_cast<double>(out_size[1] * out_size[2]);
    const double images = static_cast<double>(g.batch);
    // Taps that an output meets: of a strided dgrad, those of its phase.
    double taps = static_cast<double>(g.taps) * (forward ? 1 : static_cast<double>(g.group_filters));
    if (!forward) taps /= static_cast<double>(g.stride[0] * g.stride[1] * g.stride[2]);
    double products = 0;
    if (channels_innermost(problem)) {
      const double vectors = images * positions * std::ceil(channels / lanes);
      const double tap = g.group_filters == 1 ? kTapSeconds : forward ? 2 * kTapSeconds : 8 * kTapSeconds;
      products = vectors * (kVectorSeconds + taps * tap);
    } else {
      const double planes = images * channels * static_cast<double>(out_size[0]);
      const double vectors = planes * std::ceil(static_cast<double>(out_size[1] * out_size[2]) / lanes);
      products = planes * kPlaneSeconds + vectors * (3 * kVectorSeconds + 2 * taps * kTapSeconds) +
                 static_cast<double>((forward ? problem.x : problem.y).elements()) *
                     (forward && g.stride[2] > 1 ? 3 : 1) * kCopySeconds;
    }
    const double threads = std::max(1, request.threads);
    const double bytes = bytes_moved(problem);
    const bool in_l2 = bytes / threads < 0.75 * static_cast<double>(request.cpu.l2_bytes);
    const double memory = bytes / (in_l2 ? 80e9 * threads : 20e9 * std::min(threads, 2.0));
    return {threads * (std::max(products / threads, memory) + 1.5e-6 + (threads > 1 ? 2e-6 : 0))};
  }
};

}  // namespace

const Engine& depthwise_engine() {
  static const DepthwiseEngine& engine = *new DepthwiseEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cpu
