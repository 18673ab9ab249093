// What engines with fitted predictions share.
#pragma once

#include "engines/cost/cost_model.h"

namespace convoy::cost {

class FittedEngine : public Engine {
 public:
  const EngineInfo& info() const final { return info_; }
  double predict_seconds(const ConvProblem& problem, const KnobValues& knobs, const PlanRequest& request) const final {
    return predict(problem, work(problem, knobs, request), request);
  }
  std::vector<double> cost_terms(const ConvProblem& problem, const KnobValues& knobs,
                                 const PlanRequest& request) const final {
    const Work known = work(problem, knobs, request);
    const Terms all = terms(problem, known.seconds, known.copied_bytes);
    return {all.begin(), all.end()};
  }

 protected:
  // Engines whose code doesn't depend on the instruction set give the one that it needs.
  explicit FittedEngine(EngineInfo info);
  FittedEngine(EngineInfo info, Isa only, Products products);

  // The engine's own estimate for one thread, which stands alone where no model is fitted.
  struct Work {
    double seconds = 0;
    double copied_bytes = 0;   // of tensors reordered before or after, each counted once
    double extra_seconds = 0;  // for what the models are not fitted to: epilogues that cost more than their bytes,
                               // weights that are read again
    std::int64_t parts = 0;    // so many it is divided into, each done by one thread; 0: as many as there are threads
  };
  // Of a core, for weights that no cache holds: predict() adds their time.
  static constexpr double kMemoryBytesPerSecond = 12e9;
  virtual Work work(const ConvProblem& problem, const KnobValues& knobs, const PlanRequest& request) const = 0;

  double predict(const ConvProblem& problem, const Work& work, const PlanRequest& request) const;

  const EngineInfo info_;

 private:
  std::array<EngineModels, 3> models_;  // by the instruction set that a plan may use
};

}  // namespace convoy::cost
