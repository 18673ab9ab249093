// For tests of kernels without a GPU: data-centre GPUs as they describe themselves, and problems by their strings.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "convoy/engine.h"

namespace convoy::cuda::testing {

// An A100, H100 or B200: 80, 90 or 100.
inline CudaDevice device_of(int architecture) {
  CudaDevice device;
  device.architecture = architecture;
  device.sm_count = architecture == 80 ? 108 : architecture == 90 ? 132 : 148;
  device.shared_bytes_per_block = architecture == 80 ? 166912 : 232448;
  device.shared_bytes_per_sm = architecture == 80 ? 167936 : 233472;
  device.registers_per_sm = 65536;
  device.threads_per_sm = 2048;
  return device;
}

inline ConvProblem problem_of(const std::string& text) {
  auto problem = parse_problem(text);
  EXPECT_TRUE(problem.ok()) << text << ": " << problem.error().message;
  return *std::move(problem);
}

}  // namespace convoy::cuda::testing
