// What a recorded program asked of cuDNN and did not get: descriptors that could not be finalized and plans that could
// not be built, each with the field at fault, both values, cuDNN's words and an advice.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/record.h"

namespace convoy::report {

struct Finding {
  std::string what;     // "CUDNN_BACKEND_TENSOR_DESCRIPTOR", "plan of cudnn.eng7"
  std::string problem;  // the convolution; empty: it is not known, or none
  std::string status;
  std::string message;  // cuDNN's last error string
  std::int64_t count = 0;
  std::string field;  // "x.dims[1]=8 is no multiple of w.dims[1]=7"; empty: unknown
  std::vector<std::pair<std::string, std::string>> given;  // what the descriptor was set to
  std::string advice;
  bool consequence = false;  // of a failure of something that it is made of
  bool ran = false;          // a plan's: another one of the same convolution was built
};

// Those that stop something first, then plans where another one was built.
std::vector<Finding> diagnose(const Record& record);

// Of one finding, for people: several lines. `brief`: without what was given where the field at fault is known.
std::string text_of(const Finding& finding, bool brief = false);

// The convolutions that failed, as problem strings, each once: those of which nothing could be built first.
std::vector<std::string> failing_problems(const std::vector<Finding>& findings);

}  // namespace convoy::report
