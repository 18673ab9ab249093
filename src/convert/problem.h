// A conversion as a problem: its string, and what it is predicted to take.
#pragma once

#include <string>
#include <string_view>

#include "convoy/engine.h"
#include "convoy/tensor.h"

namespace convoy {

// "convert:x=f32,1x64x56x56,nchw:y=f32,1x64x56x56,nhwc": x becomes y, which has the same dims.
struct ConversionProblem {
  TensorDesc x, y;
  friend bool operator==(const ConversionProblem&, const ConversionProblem&) = default;
};

bool is_conversion_string(std::string_view text);  // begins with "convert:"
// Lossless. Errors name the field.
std::string print(const ConversionProblem& problem);
Result<ConversionProblem> parse_conversion(std::string_view text);

// Bytes read and written, the padding of blocks too.
double bytes_moved(const ConversionProblem& problem);

// What convert_layout is predicted to take: a start, and the bytes at a rate that the kind of conversion, the elements'
// sizes and short rows say; 0 where both are the same bytes. Fitted to conversions measured one by one, caches as a
// network leaves them, on an AMD EPYC with AVX2 (bench/results/step-costs-2026-11-23.json): of those in networks, f32,
// half are within a factor 1.1, nine tenths within 1.9; of other types half within 1.2, nine tenths within 2.3, single
// ones off by 13. That n threads are n times as fast is assumed.
double conversion_seconds(const TensorDesc& from, const TensorDesc& to, const PlanRequest& request);

}  // namespace convoy
