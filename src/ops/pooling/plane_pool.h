// Pooling of f32, and maxima of halves, whose channels lie apart: rows of each plane by vectors (plane_rows.h).
#pragma once

#include "ops/pooling/pooling.h"

namespace convoy::ops {

// The plan, or null where there are no vectors, channels do not lie apart, or a window may have no tap that reads x.
std::unique_ptr<OpPlan> plane_pooling(const NodeDesc& node, PoolKind kind, const PoolGeometry& geometry,
                                      const TensorDesc& x, const TensorDesc& y, const PlanRequest& request);

}  // namespace convoy::ops
