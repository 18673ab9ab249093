// A convolution primitive made ready: its reorders, its weights packed, the layout of its workspace.
#pragma once

#include <memory>

#include "convoy/engine.h"
#include "engines/onednn/implementations.h"
#include "engines/onednn/survey.h"

namespace convoy::onednn {

// Precondition: the problem is expressible and survey() has this offer. `unsupported` where oneDNN does not offer it
// for the request's thread count.
Result<std::unique_ptr<ConvPlan>> make_convolution_plan(const ConvProblem& problem, const SurveyedImplementation& offer,
                                                        const PlanRequest& request);

}  // namespace convoy::onednn
