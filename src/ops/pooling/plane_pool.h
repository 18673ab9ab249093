// Pooling of f32 and halves whose channels lie apart: rows of each plane by vectors (plane_rows.h).
#pragma once

#include "ops/pooling/pooling.h"

namespace convoy::ops {

// The plan, or null where there are no vectors, channels do not lie apart, or a window may have no tap that reads x.
std::unique_ptr<OpPlan> plane_pooling(const NodeDesc& node, PoolKind kind, const PoolGeometry& geometry,
                                      const TensorDesc& x, const TensorDesc& y, const PlanRequest& request);

// The averages of whole planes of x, packed as nchw, each of one element or more.
std::unique_ptr<OpPlan> average_of_planes(const NodeDesc& node, const TensorDesc& x, const PlanRequest& request);

}  // namespace convoy::ops
