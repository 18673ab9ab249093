// For tests of own engines on the first GPU.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/environment.h"
#include "device/cuda/device.h"
#include "device/cuda/nvrtc.h"
#include "engines/cuda/testing/device_data.h"

namespace convoy::cuda::testing {

inline bool full() { return environment(Variable::test_full).has_value(); }

// Skips its tests where there is no GPU, or no compiler.
class OnAGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto count = device_count(); !count.ok()) GTEST_SKIP() << "skipped: " << count.error().message;
    if (const auto api = nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
    const auto found = describe(0);
    ASSERT_TRUE(found.ok()) << found.error().message;
    request_.cuda = *found;
    ASSERT_TRUE(make_current(0).ok());
  }

  PlanRequest request_;
};

// Of tests with random problems: 5,000 with CONVOY_TEST_FULL. For machines that are lent for minutes they have parts
// (--gtest_filter=*Part/3, or GTEST_TOTAL_SHARDS).
constexpr int kParts = 10;
class PartOnAGpu : public OnAGpu, public ::testing::WithParamInterface<int> {
 protected:
  // Problems that text_of(random, type) makes, f16 and bf16, each with one of its configurations, some with special
  // values or on a part of the device, against the oracle there. The engine takes half of them at least.
  void check_random(const Engine& engine, int count,
                    const std::function<std::string(convoy::testing::Random&, const char*)>& text_of);
};

}  // namespace convoy::cuda::testing
