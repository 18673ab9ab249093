#include "engines/cpu/wgrad/wgrad.h"

#include <fmt/format.h>

#include "engines/cost/fitted_engine.h"
#include "engines/cpu/common/limits.h"
#include "engines/cpu/common/problem.h"
#include "engines/cpu/wgrad/design.h"
#include "engines/cpu/wgrad/plan.h"

namespace convoy::cpu {
namespace {

constexpr double kMostSumBytes = 1 << 30;

EngineInfo make_info() {
  // Revision 2: threads share positions where there are few sums.
  EngineInfo info = own_engine(
      "cpu.wgrad", 2, "gradients of weights, tiles of channels by filters summed up over positions, f32 and f64");
  info.passes = {Pass::wgrad};
  info.types = {kAllF32, kAllF64};
  for (const Layout x : {Layout::nhwc, Layout::nchw, Layout::nchw8c, Layout::nchw16c}) {
    for (const Layout y : {Layout::nhwc, Layout::nchw, Layout::nchw8c, Layout::nchw16c}) info.layouts.push_back({x, y});
  }
  info.groups = info.strided = info.dilated = true;
  info.alpha_beta = true;
  return info;
}

class WgradEngine final : public cost::FittedEngine {
 public:
  WgradEngine() : FittedEngine(make_info()) {}

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& plan) const override {
    if (auto refusal = refuse_huge_window(problem)) return refusal;
    if (auto refusal = refuse_huge_weights(problem)) return refusal;
    const WgradKernels& kernels = *wgrad_kernels_for(problem.x.type, plan.cpu.isa);
    const WgradDesign design = design_wgrad(problem, kernels, plan);
    const double bytes = kernels.element_bytes * static_cast<double>(design.slices * design.kept_floats());
    if (bytes <= kMostSumBytes) return std::nullopt;
    return Refusal{RefusalCode::workspace,
                   fmt::format("w={}, groups={}: sums take {:.0f} bytes, this engine takes {:.0f}",
                               to_string(problem.w.dims), problem.groups, bytes, kMostSumBytes)};
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest& request) const override {
    return make_wgrad_plan(problem, Candidate{info_.name, {}}, request);
  }

 private:
  Work work(const ConvProblem& problem, const KnobValues&, const PlanRequest& request) const override {
    const WgradKernels& kernels = *wgrad_kernels_for(problem.x.type, request.cpu.isa);
    const WgradDesign design = design_wgrad(problem, kernels, request);
    return {.seconds = cpu::predict_seconds(problem, wgrad_cycles(design), kernels.lanes),
            .parts = design.item_count() * design.slices};
  }
};

}  // namespace

const Engine& wgrad_engine() {
  static const WgradEngine& engine = *new WgradEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cpu
