#include "engines/cost/fitted_engine.h"

#include <algorithm>

namespace convoy::cost {

FittedEngine::FittedEngine(std::string_view name)
    : models_{EngineModels(name, Isa::portable), EngineModels(name, Isa::avx2), EngineModels(name, Isa::avx512)} {}

FittedEngine::FittedEngine(std::string_view name, Isa only, Products products)
    : models_{EngineModels(name, only, products), EngineModels(name, only, products),
              EngineModels(name, only, products)} {}

double FittedEngine::predict(const ConvProblem& problem, const Work& work, const PlanRequest& request) const {
  const double extra = work.extra_seconds / std::max(request.threads, 1);
  if (const Model* model = models_[static_cast<std::size_t>(request.cpu.isa)].of(problem)) {
    return model->seconds(terms(problem, work.seconds, work.copied_bytes), request.threads) + extra;
  }
  constexpr double copied_bytes_per_second = 4e9;  // of a core: read and written, and read or written again
  return (work.seconds + work.copied_bytes / copied_bytes_per_second) / std::max(request.threads, 1) + extra;
}

}  // namespace convoy::cost
