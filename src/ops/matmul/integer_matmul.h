// Products of 8-bit matrices with zero points, sums in 32 bits that wrap.
#pragma once

#include "ops/matmul/matmul.h"

namespace convoy::ops {

// An operand of s8 or u8. zero(image, position): the zero point of row `position` of a, or of that column of b, in
// matrix `image` of the batch; one of the operand's type.
struct IntegerOperand {
  DataType type;
  const void* data;
  FunctionRef<std::int32_t(std::int64_t image, std::int64_t position)> zero;
};

// Bytes of workspace that integer_matmul needs.
std::size_t integer_matmul_workspace(const PlanRequest& request);

// finish() gets sums of row i, columns j on, of matrix `image`, at most kMostSums at once.
constexpr std::int64_t kMostSums = 128;
using FinishSums =
    FunctionRef<void(const std::int32_t* sums, std::int64_t image, std::int64_t i, std::int64_t j, std::int64_t count)>;
void integer_matmul(const MatMulShape& shape, const CpuFeatures& cpu, const IntegerOperand& a, const IntegerOperand& b,
                    FinishSums finish, const ExecContext& context);

}  // namespace convoy::ops
