#include "engines/cpu/direct/direct.h"

#include <string>

#include "core/declared_names.h"
#include "engines/cost/fitted_engine.h"
#include "engines/cpu/common/limits.h"
#include "engines/cpu/common/problem.h"
#include "engines/cpu/direct/tile_plan.h"

namespace convoy::cpu {
namespace {

EngineInfo make_info() {
  // Revision 4: threads get as much to do.
  EngineInfo info = own_engine("cpu.direct", 4, "direct convolution, vectors along output channels, f32 and f64");
  info.passes = {Pass::fprop, Pass::dgrad};
  info.types = {kAllF32, kAllF64};
  info.layouts = {{Layout::nhwc, Layout::nhwc},
                  {Layout::nchw16c, Layout::nchw16c},
                  {Layout::nchw8c, Layout::nchw8c},
                  {Layout::nchw, Layout::nhwc},
                  {Layout::nchw, Layout::nchw16c}};
  info.groups = info.strided = info.dilated = true;
  info.alpha_beta = info.bias = info.residual = info.any_activation = true;
  info.notes = {"TRANSFORMED_WEIGHTS"};
  return info;
}

class DirectEngine final : public cost::FittedEngine, public DeclaresNames {
 public:
  DirectEngine() : FittedEngine(make_info()) {}

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& plan) const override {
    if (auto refusal = check_sizes(problem)) return refusal;
    if (!design_tiles(problem, request(problem, plan.cpu, 1, {})).too_large) return std::nullopt;
    return Refusal{RefusalCode::workspace, "dilation=" + to_string(problem.dilation) +
                                               ": the rows that one output row reads do not fit 256 MiB"};
  }

  std::vector<DeclaredKnob> declared_knobs() const override { return tile_knobs(); }
  Configurations configurations(const ConvProblem& problem, const PlanRequest& plan) const override {
    return tile_configurations(problem, request(problem, plan.cpu, 1, {}));
  }

  std::optional<Estimate> estimate(const ConvProblem& problem, const PlanRequest& plan) const override {
    if (check_sizes(problem)) return std::nullopt;
    TileDesign design = design_tiles(problem, request(problem, plan.cpu, plan.threads, {}));
    if (design.too_large) return std::nullopt;
    const KnobValues knobs = knobs_of(tile_of(design));
    // Spelled out, the tile holds for every phase.
    if (design.phases.size() > 1) design = design_tiles(problem, request(problem, plan.cpu, plan.threads, knobs));
    return Estimate{knobs, predict(problem, {tile_seconds(problem, design), 0, packing_seconds(problem, plan)}, plan)};
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& knobs,
                                         const PlanRequest& plan) const override {
    TileRequest tile = request(problem, plan.cpu, plan.threads, knobs);
    return make_tile_plan(problem, info_.name, tile, plan.constant_weights);
  }

 private:
  Work work(const ConvProblem& problem, const KnobValues& knobs, const PlanRequest& plan) const override {
    return {tile_seconds(problem, design_tiles(problem, request(problem, plan.cpu, plan.threads, knobs))), 0,
            packing_seconds(problem, plan)};
  }

  static std::optional<Refusal> check_sizes(const ConvProblem& problem) {
    if (auto refusal = refuse_huge_weights(problem)) return refusal;
    if (auto refusal = refuse_huge_window(problem)) return refusal;
    if (problem.pass == Pass::dgrad && problem.x.channel_block == 1 && !problem.x.is_packed(Layout::nhwc)) {
      return Refusal{RefusalCode::layout, "x=nchw: dgrad needs the channels of x innermost or blocked"};
    }
    return refuse_many_phases(problem);
  }

  static TileRequest request(const ConvProblem& problem, const CpuFeatures& cpu, int threads, const KnobValues& knobs) {
    return {
        .kernels = tile_kernels_for(problem.x.type, cpu.isa), .cpu = &cpu, .threads = threads, .tile = tile_of(knobs)};
  }
};

}  // namespace

const Engine& direct_engine() {
  static const DirectEngine& engine = *new DirectEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cpu
