// For tests that compile kernels without a GPU.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <regex>
#include <string>

#include "engines/cuda/compiler/compiler.h"

namespace convoy::cuda::testing {

// Bytes that the assembler spills of the kernel's registers, by its report. Fails the test where it doesn't compile,
// nothing is reported, or the assembler puts wgmma one after another.
inline std::int64_t spilled_bytes(const KernelRequest& request) {
  const auto compiled = compile(request, true);
  if (!compiled.ok()) {
    ADD_FAILURE() << request.source << ": " << compiled.error().message;
    return 0;
  }
  EXPECT_NE(compiled->log.find("registers"), std::string::npos) << compiled->log;
  EXPECT_EQ(compiled->log.find("C7510"), std::string::npos) << compiled->log;
  static const std::regex& pattern = *new std::regex("([0-9]+) bytes spill (stores|loads)");
  std::int64_t bytes = 0;
  for (auto at = std::sregex_iterator(compiled->log.begin(), compiled->log.end(), pattern);
       at != std::sregex_iterator(); ++at) {
    bytes += std::stoll((*at)[1]);
  }
  return bytes;
}

}  // namespace convoy::cuda::testing
