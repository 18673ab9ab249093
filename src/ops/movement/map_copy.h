// Operators that do what their index maps say (index_map.h), and nothing else: one strided copy a source, or one that
// looks up where each index of a dim comes from.
#pragma once

#include "ops/index_map.h"

namespace convoy::ops {

// Precondition: its row has maps, whose sources leave no element out or are one whose dims are mapped one by one;
// without a source all is filled. Blocks of channels may be moved by whole blocks, and constants read that have none.
// An output that is in its input's memory stays as it is.
class MapOperator : public Operator {
 public:
  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override;

 protected:
  ~MapOperator() = default;
};

}  // namespace convoy::ops
