// Converts a run of elements from one type to another, as load_as_double and store_from_double do one by one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "convoy/data_type.h"

namespace convoy {

// `count` elements; strides in elements.
void convert_row(DataType src_type, const std::byte* src, std::int64_t src_stride, DataType dst_type, std::byte* dst,
                 std::int64_t dst_stride, std::int64_t count);

}  // namespace convoy
