// What cuDNN documents as its limits, checked before it is asked: its own answers are often a bare status, and a few
// inputs make it crash instead. (cuDNN's documentation: "Supported graph patterns", "Tensor descriptor", "Odds and
// ends".)
#pragma once

#include <optional>
#include <string>

#include "convoy/engine.h"

namespace convoy::cudnn {

bool is_fp8(DataType type);

// The largest element count of one tensor that cuDNN is given: engines index with 32 bits, and some are wrong above,
// without saying so. Larger problems are split (split.h).
inline constexpr std::int64_t kMostElements = (std::int64_t{1} << 31) - 1;

// Why no engine of cuDNN can take the problem on this device, whatever its sizes.
std::optional<Refusal> outside_limits(const ConvProblem& problem, const CudaDevice& device);

// What engines for tensor cores and vector types document and this problem lacks, for an answer that says nothing:
// "x.dims[1]=3 is no multiple of 8 (16-bit tensor cores)". Empty: nothing.
std::string unmet_advice(const ConvProblem& problem, const CudaDevice& device);

}  // namespace convoy::cudnn
