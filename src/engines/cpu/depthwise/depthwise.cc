#include "engines/cpu/depthwise/depthwise.h"

#include <fmt/format.h>

#include <algorithm>

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

const DepthwiseKernels* depthwise_kernels_for(const ConvProblem& problem, Isa isa) {
  static constexpr IsaRow<DepthwiseKernels> kRows[] = {{Isa::avx2, &avx2::depthwise_kernels},
                                                       {Isa::avx512, &avx512::depthwise_kernels}};
  // A vector must not be longer than a block of channels.
  const bool short_blocks = problem.x.channel_block == 8 || problem.y.channel_block == 8;
  return best_row<DepthwiseKernels>(kRows, short_blocks ? std::min(isa, Isa::avx2) : isa);
}

namespace {

EngineInfo make_info() {
  EngineInfo info;
  info.name = "cpu.depthwise";
  info.summary = "depthwise convolutions and their transposes, f32, vectors over channels or over positions";
  info.passes = {Pass::fprop, Pass::dgrad};
  info.types = {kAllF32};
  for (const Layout x : {Layout::nhwc, Layout::nchw8c, Layout::nchw16c}) {
    for (const Layout y : {Layout::nhwc, Layout::nchw8c, Layout::nchw16c}) info.layouts.push_back({x, y});
  }
  info.layouts.push_back({Layout::nchw, Layout::nchw});
  info.min_isa = Isa::avx2;
  return info;
}

class DepthwiseEngine final : public Engine {
 public:
  const EngineInfo& info() const override { return info_; }

  std::optional<Refusal> check(const ConvProblem& problem, const CpuFeatures&) const override {
    if (problem.groups != problem.in_channels()) {
      return Refusal{RefusalCode::groups,
                     fmt::format("groups={}: this engine needs as many groups as x has channels, {}", problem.groups,
                                 problem.in_channels())};
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

  // Arithmetic at `rate` multiply-adds a second a thread, or memory at `bandwidth` bytes a second (which two threads
  // share), whichever takes longer, and a fixed cost. Fitted on one Sapphire Rapids core (AVX-512 peak 236 GFLOP/s,
  // AVX2 127; L2 and L3 streams 30 GB/s) with 3x3 and 5x5 layers of MobileNetV2 and EfficientNet, both strides.
  double predict_seconds(const ConvProblem& problem, const KnobValues&, const PlanRequest& request) const override {
    const bool wide = depthwise_kernels_for(problem, request.cpu.isa)->lanes == 16;
    const double lanes = wide ? 16 : 8;
    const ConvGeometry g = flat_geometry(problem);
    const bool forward = problem.pass == Pass::fprop;
    const bool innermost = channels_innermost(problem);
    // Lanes that do nothing: channels or columns up to the next whole vector.
    const double vector_dim =
        static_cast<double>(innermost ? (forward ? g.filters : g.channels)
                                      : (forward ? g.y_size[1] * g.y_size[2] : g.x_size[1] * g.x_size[2]));
    const double waste =
        std::max(vector_dim, 1.0) > 0
            ? std::max(1.0, lanes * static_cast<double>(static_cast<std::int64_t>((vector_dim + lanes - 1) / lanes)) /
                                std::max(vector_dim, 1.0))
            : 1.0;
    double rate = wide ? 70e9 : 45e9;
    if (!innermost) rate *= 0.45;                                        // unaligned loads and the copy
    if (innermost && g.group_filters > 1) rate *= forward ? 0.5 : 0.12;  // lanes rearranged, or gathered one by one
    const double threads = std::max(1, request.threads);
    const double compute = flops(problem) / 2 * waste / (rate * threads);
    const double memory = bytes_moved(problem) / (25e9 * std::min(threads, 2.0));
    const double overhead = 1.5e-6 + (threads > 1 ? 2e-6 : 0);
    return std::max(compute, memory) + overhead;
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest& request) const override {
    Candidate candidate{info_.name, {}};
    if (channels_innermost(problem)) return make_channels_plan(problem, std::move(candidate), request);
    return make_plane_plan(problem, std::move(candidate), request);
  }

 private:
  const EngineInfo info_ = make_info();
};

}  // namespace

const Engine& depthwise_engine() {
  static const DepthwiseEngine engine;
  return engine;
}

}  // namespace convoy::cpu
