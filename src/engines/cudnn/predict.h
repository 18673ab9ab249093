// What cuDNN's candidates are ranked by before anything was measured.
#pragma once

#include "engines/cudnn/survey.h"

namespace convoy::cudnn {

// cuDNN says in which order its heuristics would try configurations, not how long any takes. So this is no model of an
// engine: it is one guess of the time of cuDNN's first choice, from the device's rates and what cuDNN reaches of them
// on kinds of problems (measured on one H200), the same for all engines, and a step up for each place in the order (3%:
// eighteen places of a 3x3 of 64 channels took 39 to 59 us, in the order but for one).
// Among cuDNN's candidates only the order means something; against other engines, only about a factor of two.
double predict(const ConvProblem& problem, Survey& survey, std::int64_t engine, const KnobValues& knobs,
               const CudaDevice& device);

// The guess for the first choice, which asks nobody, and what it makes of the place in the heuristics' order.
double first_choice_seconds(const ConvProblem& problem, const CudaDevice& device);
// The same of an engine that would be the first choice, which may be known to be slow for such a problem.
double first_choice_seconds(const ConvProblem& problem, const CudaDevice& device, std::int64_t engine);
double at_rank(double first_choice_seconds, std::size_t rank);

}  // namespace convoy::cudnn
