#include "core/padding.h"

namespace convoy {

bool reads_padding(const ConvProblem& problem) {
  if (problem.pass == Pass::dgrad) return true;
  for (int i = 0; i < problem.spatial_dims(); ++i) {
    const std::int64_t last = (problem.y.dims[2 + i] - 1) * problem.stride[i] - problem.pre_padding[i] +
                              (problem.w.dims[2 + i] - 1) * problem.dilation[i];
    if (problem.pre_padding[i] > 0 || last >= problem.x.dims[2 + i]) return true;
  }
  return false;
}

}  // namespace convoy
