#include "engines/cpu/gemm/gemm.h"

#include <string>

#include "core/declared_names.h"
#include "engines/cost/fitted_engine.h"
#include "engines/cpu/common/limits.h"
#include "engines/cpu/common/problem.h"
#include "engines/cpu/direct/tile_plan.h"
#include "engines/cpu/gemm/planar_plan.h"

namespace convoy::cpu {
namespace {

EngineInfo make_info() {
  // Revision 4: threads get as much to do.
  EngineInfo info = own_engine("cpu.gemm", 4, "matrix product over im2col that is never spelled out, f32 and f64");
  info.passes = {Pass::fprop, Pass::dgrad};
  info.types = {kAllF32, kAllF64};
  info.layouts = {{Layout::nhwc, Layout::nhwc}, {Layout::nchw, Layout::nchw}};
  info.groups = info.strided = info.dilated = true;
  info.alpha_beta = info.bias = info.residual = info.any_activation = true;
  info.notes = {"TRANSFORMED_WEIGHTS"};
  return info;
}

bool channels_last(const ConvProblem& problem) {
  return problem.x.is_packed(Layout::nhwc) && problem.y.is_packed(Layout::nhwc);
}

TileRequest tile_request(const ConvProblem& problem, const CpuFeatures& cpu, int threads, const KnobValues& knobs) {
  return {tile_kernels_for(problem.x.type, cpu.isa), &cpu, threads, /*gathered=*/true, tile_of(knobs)};
}

PlanarRequest planar_request(const ConvProblem& problem, const CpuFeatures& cpu, int threads, const KnobValues& knobs) {
  return {planar_kernels_for(problem.x.type, cpu.isa), &cpu, threads, planar_tile_of(knobs)};
}

class GemmEngine final : public cost::FittedEngine, public DeclaresNames {
 public:
  GemmEngine() : FittedEngine(make_info()) {}

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& plan) const override {
    if (auto refusal = check_sizes(problem)) return refusal;
    const bool too_large = channels_last(problem)
                               ? design_tiles(problem, tile_request(problem, plan.cpu, 1, {})).too_large
                               : design_planar(problem, planar_request(problem, plan.cpu, 1, {})).too_large;
    if (too_large) {
      return Refusal{RefusalCode::workspace, "dilation=" + to_string(problem.dilation) +
                                                 ": the input that one output row reads does not fit 256 MiB"};
    }
    return std::nullopt;
  }

  std::vector<DeclaredKnob> declared_knobs() const override {
    std::vector<DeclaredKnob> knobs = tile_knobs();
    for (DeclaredKnob& knob : planar_knobs()) knobs.push_back(std::move(knob));
    return knobs;
  }
  Configurations configurations(const ConvProblem& problem, const PlanRequest& plan) const override {
    if (channels_last(problem)) return tile_configurations(problem, tile_request(problem, plan.cpu, 1, {}));
    return planar_configurations(problem, planar_request(problem, plan.cpu, 1, {}));
  }

  std::optional<Estimate> estimate(const ConvProblem& problem, const PlanRequest& plan) const override {
    if (check_sizes(problem)) return std::nullopt;
    const auto answer = [&](auto make_design) -> std::optional<Estimate> {
      const auto design = make_design({});
      if (design.too_large) return std::nullopt;
      const KnobValues knobs = knobs_of(tile_of(design));
      // Spelled out, the tile holds for every phase.
      const double seconds = tile_seconds(problem, design.phases.size() > 1 ? make_design(knobs) : design);
      return Estimate{knobs, predict(problem, {seconds, 0, packing_seconds(problem, plan)}, plan)};
    };
    if (channels_last(problem)) {
      return answer([&](const KnobValues& knobs) {
        return design_tiles(problem, tile_request(problem, plan.cpu, plan.threads, knobs));
      });
    }
    return answer([&](const KnobValues& knobs) {
      return design_planar(problem, planar_request(problem, plan.cpu, plan.threads, knobs));
    });
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& knobs,
                                         const PlanRequest& plan) const override {
    if (channels_last(problem)) {
      return make_tile_plan(problem, info_.name, tile_request(problem, plan.cpu, plan.threads, knobs),
                            plan.constant_weights);
    }
    return make_planar_plan(problem, info_.name, planar_request(problem, plan.cpu, plan.threads, knobs),
                            plan.constant_weights);
  }

 private:
  Work work(const ConvProblem& problem, const KnobValues& knobs, const PlanRequest& plan) const override {
    const double seconds =
        channels_last(problem)
            ? tile_seconds(problem, design_tiles(problem, tile_request(problem, plan.cpu, plan.threads, knobs)))
            : tile_seconds(problem, design_planar(problem, planar_request(problem, plan.cpu, plan.threads, knobs)));
    return {seconds, 0, packing_seconds(problem, plan)};
  }

  static std::optional<Refusal> check_sizes(const ConvProblem& problem) {
    if (auto refusal = refuse_huge_weights(problem)) return refusal;
    if (auto refusal = refuse_huge_window(problem)) return refusal;
    return refuse_many_phases(problem);
  }
};

}  // namespace

const Engine& gemm_engine() {
  static const GemmEngine& engine = *new GemmEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cpu
