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

// What convert_layout is predicted to take: a start, which is assumed, and the bytes at a rate that the kind of
// conversion and the elements' sizes say; 0 where both are the same bytes. The rates are medians of one thread's runs
// in bench/results/conversions-2026-11-23.json (AMD EPYC with AVX2, a busy machine), over 256 KB and 8 MB together, so
// a prediction may be wrong by a factor of 2 or more. That n threads are n times as fast is assumed, too: the record's
// runs of 2 threads were disturbed.
double conversion_seconds(const TensorDesc& from, const TensorDesc& to, const PlanRequest& request);

}  // namespace convoy
