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

constexpr std::int64_t kMostPhases = 64;

EngineInfo make_info() {
  EngineInfo info;
  info.name = "cpu.gemm";
  info.revision = 4;  // threads get as much to do
  info.summary = "matrix product over im2col that is never spelled out, f32 and f64";
  info.passes = {Pass::fprop, Pass::dgrad};
  info.types = {kAllF32, kAllF64};
  info.layouts = {{Layout::nhwc, Layout::nhwc}, {Layout::nchw, Layout::nchw}};
  info.min_isa = Isa::avx2;
  info.any_weight_strides = true;
  info.max_spatial_dims = 3;
  info.groups = info.strided = info.dilated = info.flipped = true;
  info.alpha_beta = info.bias = info.residual = true;
  info.any_activation = true;
  info.deterministic = info.thread_invariant = true;
  info.max_elements = EngineInfo::any_size;
  info.notes = {"TRANSFORMED_WEIGHTS"};
  return info;
}

bool channels_last(const ConvProblem& problem) {
  return problem.x.is_packed(Layout::nhwc) && problem.y.is_packed(Layout::nhwc);
}

TileRequest tile_request(const ConvProblem& problem, const CpuFeatures& cpu, int threads, const KnobValues& knobs) {
  TileRequest request;
  request.kernels = tile_kernels_for(problem.x.type, cpu.isa);
  request.cpu = &cpu;
  request.threads = threads;
  request.gathered = true;
  request.tile = tile_of(knobs);
  return request;
}

PlanarRequest planar_request(const ConvProblem& problem, const CpuFeatures& cpu, int threads, const KnobValues& knobs) {
  PlanarRequest request;
  request.kernels = planar_kernels_for(problem.x.type, cpu.isa);
  request.cpu = &cpu;
  request.threads = threads;
  request.tile = planar_tile_of(knobs);
  return request;
}

class GemmEngine final : public cost::FittedEngine, public DeclaresNames {
 public:
  GemmEngine() : FittedEngine("cpu.gemm") {}

  const EngineInfo& info() const override { return info_; }

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
    if (phase_count(problem) > kMostPhases) {
      return Refusal{RefusalCode::stride, "stride=" + to_string(problem.stride) + ": dgrad takes at most " +
                                              std::to_string(kMostPhases) + " residues of the stride, it has " +
                                              std::to_string(phase_count(problem))};
    }
    return std::nullopt;
  }

  EngineInfo info_ = make_info();
};

}  // namespace

const Engine& gemm_engine() {
  static const GemmEngine& engine = *new GemmEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cpu
