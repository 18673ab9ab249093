#include "convoy/engine.h"

namespace convoy {

void declare_everything(EngineInfo& info) {
  info.min_architecture = 0;
  info.min_isa = Isa::portable;
  info.passes = {Pass::fprop, Pass::dgrad, Pass::wgrad};
  info.max_spatial_dims = 3;
  info.any_types = info.any_layouts = info.any_weight_strides = info.any_activation = true;
  info.groups = info.strided = info.dilated = info.flipped = info.alpha_beta = true;
  info.bias = info.narrow_bias = info.float_bias = info.residual = true;
  info.requantize = info.quantized_residual = info.zero_points = info.given_zero_points = true;
  info.gate = true;
  info.deterministic = info.thread_invariant = true;
  info.max_elements = EngineInfo::any_size;
}

std::optional<Estimate> certain_estimate(const Engine& engine, const ConvProblem& problem, const PlanRequest& request) {
  if (engine.check(problem, request)) return std::nullopt;
  Estimate estimate;
  estimate.knobs = default_knobs(engine.configurations(problem, request));
  estimate.seconds = engine.predict_seconds(problem, estimate.knobs, request);
  return estimate;
}

std::optional<Estimate> Engine::estimate(const ConvProblem& problem, const PlanRequest& request) const {
  return certain_estimate(*this, problem, request);
}

}  // namespace convoy
