// Reading and writing the small languages of the core: problem strings, candidates, problem lists.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/result.h"
#include "convoy/tensor.h"

namespace convoy {

// `text` in single quotes for an error message: at most 60 characters of it, unprintable ones as '?'.
std::string quoted(std::string_view text);

// The pieces between separators; one (empty) piece for an empty text.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);

// The whole of `text` as a number, or an error that quotes it. No spaces, no sign but '-'.
Result<std::int64_t> parse_integer(std::string_view text);
// Shortest decimal that reads back as the same double, and its inverse ("inf" and "nan" included).
std::string print_double(double value);
Result<double> parse_double(std::string_view text);

// "1x64x56x56"; at most 16 dims.
Result<Dims> parse_dims(std::string_view text);

// "f32,1x64x56x56,nhwc", the tensor's form in a problem string: exact, the default alignment left out.
std::string print(const TensorDesc& desc);
Result<TensorDesc> parse_tensor(std::string_view text);

}  // namespace convoy
