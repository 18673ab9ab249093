// A small network of the zoo through the C interface, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "convoy.h"

namespace convoy::capi {

inline bool says(std::string_view part) {
  return std::string_view(convoy_error()).find(part) != std::string_view::npos;
}

inline constexpr std::int64_t kDims[] = {1, 3, 64, 48};
inline constexpr convoy_shape kShape = {4, kDims};
inline constexpr std::size_t kElements = 1 * 3 * 64 * 48;

inline std::vector<float> ramp() {
  std::vector<float> values(kElements + 16);  // some, for tests of alignment
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97) / 97 - 0.5F;
  return values;
}

struct CNetwork : testing::Test {
  void SetUp() override { ASSERT_EQ(convoy_network_load("zoo:squeezenet1_1", &network), CONVOY_OK) << convoy_error(); }
  void TearDown() override {
    convoy_session_destroy(session);
    convoy_network_destroy(network);
  }

  convoy_status prepare(const convoy_options* options = nullptr) {
    convoy_session_destroy(session);
    return convoy_session_create(network, &kShape, 1, options, &session);
  }

  convoy_status run(const float* values) {
    const void* inputs[] = {values};
    return convoy_session_run(session, inputs, 1);
  }

  // Of the convolution steps.
  std::vector<convoy_step> convolutions() const {
    convoy_session_info info = CONVOY_SESSION_INFO_INIT;
    EXPECT_EQ(convoy_session_describe(session, &info), CONVOY_OK);
    std::vector<convoy_step> steps;
    for (std::size_t i = 0; i < info.steps; ++i) {
      convoy_step step = CONVOY_STEP_INIT;
      EXPECT_EQ(convoy_session_step(session, i, &step), CONVOY_OK) << convoy_error();
      if (step.problem != nullptr) steps.push_back(step);
    }
    return steps;
  }

  convoy_network* network = nullptr;
  convoy_session* session = nullptr;
};

}  // namespace convoy::capi
