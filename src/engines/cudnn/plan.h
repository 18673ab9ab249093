// A candidate of cuDNN made ready: execution plans for each piece of the problem, run one after another on one stream.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "convoy/engine.h"
#include "engines/cudnn/split.h"
#include "engines/cudnn/survey.h"

namespace convoy::cudnn {

// A piece of the problem and what cuDNN knows of it; pieces of equal problems share a survey.
struct SurveyedSubProblem {
  SubProblem piece;
  std::shared_ptr<Survey> survey;
};

// The pieces of a problem: one where nothing has to be split. Errors: there is no cuDNN; it can't be split.
Result<std::vector<SurveyedSubProblem>> surveyed_sub_problems(const ConvProblem& problem, const CudaDevice& device,
                                                              int target_sms);
// The survey of the first of them, which speaks for all that looks at one. Quick for problems that need no cutting.
Result<std::shared_ptr<Survey>> first_survey(const ConvProblem& problem, const CudaDevice& device, int target_sms);

// What plans of cuDNN tell beyond those of others.
class HasPlanJson {
 public:
  // cuDNN's own description of the plan of the first piece: graph, device, engine and knobs. Empty where it gives none.
  virtual std::string plan_json() const = 0;

 protected:
  ~HasPlanJson() = default;
};

// Precondition: the engine with these knobs was not refused for any piece.
Result<std::unique_ptr<ConvPlan>> make_backend_plan(const ConvProblem& problem, std::string engine, std::int64_t index,
                                                    const KnobValues& knobs, const PlanRequest& request);

}  // namespace convoy::cudnn
