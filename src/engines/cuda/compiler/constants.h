// The text of problem.h, the header that is written for each kernel: what is known of the problem, as constants.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "convoy/convolution.h"

namespace convoy::cuda {

class Constants {
 public:
  Constants& set(std::string_view name, std::int64_t value);
  Constants& set(std::string_view name, int value) { return set(name, static_cast<std::int64_t>(value)); }
  Constants& set(std::string_view name, bool value);
  Constants& set(std::string_view name, double value);
  Constants& define(std::string_view name, std::int64_t value);  // for the preprocessor
  Constants& work_blocks(std::int64_t blocks);                   // WORK_BLOCKS (work_blocks.cuh)
  Constants& element(DataType type);                             // ELEMENT, of f32, f16 or bf16
  Constants& epilogue(const ConvProblem& p);                     // what epilogue.cuh needs
  Constants& enumerations();  // TYPE_*, PASS_* and ACTIVATION_*: the numbers of the enums
  const std::string& text() const { return text_; }

 private:
  std::string text_ = "#pragma once\n";
};

}  // namespace convoy::cuda
