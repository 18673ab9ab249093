// Rows of f32 made integers of 8 or 16 bits with vectors of 512 bits; avx2::quantize_row (rows_avx2.h) is for others.
#pragma once

#include <cstdint>

#include "convoy/data_type.h"

namespace convoy::ops::avx512 {

// As avx2::quantize_row, with the same bits.
void quantize_row(DataType type, const float* x, float scale, std::int32_t zero, void* y, std::int64_t count);

}  // namespace convoy::ops::avx512
