// What the operators that take a tensor of indices (Gather*, Scatter*) share.
#pragma once

#include <string>

#include "ops/support.h"

namespace convoy::ops {

// Index `at` of packed s32 or s64 indices.
inline std::int64_t index_at(DataType type, const void* indices, std::int64_t at) {
  return type == DataType::s32 ? static_cast<const std::int32_t*>(indices)[at]
                               : static_cast<const std::int64_t*>(indices)[at];
}

// An error unless each of `count` indices is in [-dim, dim) of dim = limits[at % limits.size()].
Result<void> check_indices(const std::string& op, int input, DataType type, const void* indices, std::int64_t count,
                           const Dims& limits);

// Row-major strides.
Dims packed_strides(const Dims& dims);

inline std::int64_t product(const Dims& dims, int begin, int end) {
  std::int64_t result = 1;
  for (int d = begin; d < end; ++d) result *= dims[d];
  return result;
}

}  // namespace convoy::ops
