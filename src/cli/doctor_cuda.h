// The part of `convoy doctor` about NVIDIA: its libraries, where they were found and why others weren't taken, and
// devices.
#pragma once

#include <string>
#include <vector>

#include "cli/program.h"

namespace convoy::cli {

struct CudaFindings {
  Json json;                         // {"libraries": [..], "devices": [..], "error": "no CUDA device: .." or null}
  std::vector<std::string> devices;  // "cuda:0 NVIDIA H200, sm_90, 132 multiprocessors, .."; or why there is none
  report::Table libraries;           // for people
  report::Table not_taken;
  std::vector<std::string> remarks;  // what is not known of a library's version
};
CudaFindings cuda_findings();

}  // namespace convoy::cli
