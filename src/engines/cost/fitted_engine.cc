#include "engines/cost/fitted_engine.h"

#include <algorithm>

namespace convoy::cost {

FittedEngine::FittedEngine(EngineInfo info)
    : info_(std::move(info)),
      models_{EngineModels(info_.name, Isa::portable), EngineModels(info_.name, Isa::avx2),
              EngineModels(info_.name, Isa::avx512)} {}

FittedEngine::FittedEngine(EngineInfo info, Isa only, Products products)
    : info_(std::move(info)),
      models_{EngineModels(info_.name, only, products), EngineModels(info_.name, only, products),
              EngineModels(info_.name, only, products)} {}

namespace {

// How many times as fast as one thread they are together.
double shared_by(std::int64_t threads, std::int64_t parts) {
  threads = std::max<std::int64_t>(threads, 1);
  if (parts <= 0) return static_cast<double>(threads);
  const std::int64_t rounds = (parts + threads - 1) / threads;
  return static_cast<double>(parts) / static_cast<double>(rounds);
}

// Weights that the shared cache doesn't hold come from memory, as in no problem of the fits: a classifier's, in which
// nothing is used twice. All engines wait for them alike.
double from_memory(const ConvProblem& problem, const PlanRequest& request, double bytes_per_second) {
  const std::int64_t bytes = problem.w.bytes();
  const bool held = request.cpu.l3_bytes == 0 || bytes <= request.cpu.l3_bytes;
  return held ? 0 : static_cast<double>(bytes) / bytes_per_second;
}

}  // namespace

double FittedEngine::predict(const ConvProblem& problem, const Work& work, const PlanRequest& request) const {
  const double shared = shared_by(request.threads, work.parts);
  const double extra = (work.extra_seconds + from_memory(problem, request, kMemoryBytesPerSecond)) / shared;
  if (const Model* model = models_[static_cast<std::size_t>(request.cpu.isa)].of(problem)) {
    return model->seconds(terms(problem, work.seconds, work.copied_bytes)) / shared + extra;
  }
  constexpr double copied_bytes_per_second = 4e9;  // of a core: read and written, and read or written again
  return (work.seconds + work.copied_bytes / copied_bytes_per_second) / shared + extra;
}

}  // namespace convoy::cost
