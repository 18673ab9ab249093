// What TopK is asked for.
#pragma once

#include "ops/support.h"

namespace convoy::ops {

struct TopKRequest {
  int axis = 0;
  std::int64_t k = 0;
  bool largest = true;
};

Result<TopKRequest> top_k_request(const NodeDesc& node, std::span<const Input> inputs);

}  // namespace convoy::ops
