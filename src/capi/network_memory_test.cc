// The memory of networks through the C interface: what activations take, and results in the caller's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "capi/testing/c_network.h"

namespace convoy::capi {
namespace {

TEST_F(CNetwork, MemoryOfActivationsIsLimitedOrLeast) {
  const auto activation_bytes = [&] {
    convoy_session_info info = CONVOY_SESSION_INFO_INIT;
    EXPECT_EQ(convoy_session_describe(session, &info), CONVOY_OK);
    return info.activation_bytes;
  };
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.threads = 1;
  options.how = "uniform:nchw16c";  // whose three channels are padded
  ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  const std::int64_t padded = activation_bytes();
  options.how = "global";
  options.objective = "memory";
  ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  const std::int64_t least = activation_bytes();
  EXPECT_LT(least, padded);
  options.objective = "time";
  options.activation_limit = least;
  ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  EXPECT_LE(activation_bytes(), least);
  options.activation_limit = 1000;
  EXPECT_EQ(prepare(&options), CONVOY_UNSUPPORTED);
  EXPECT_TRUE(says("activation limit: no plan was found within 1000 bytes")) << convoy_error();
  options.how = nullptr;
  EXPECT_EQ(prepare(&options), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "activation_limit is for how='global': 'tuned' goes by time, and by no limit");
  options.activation_limit = -2;
  EXPECT_EQ(prepare(&options), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "activation_limit=-2 is neither a number of bytes nor -1");
  options.activation_limit = -1;
  options.weight_limit = 1000;
  EXPECT_EQ(prepare(&options), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "weight_limit is for how='global': 'tuned' goes by time, and by no limit");
  options.how = "global";
  EXPECT_EQ(prepare(&options), CONVOY_UNSUPPORTED);
  EXPECT_TRUE(says("weight limit: no choice of engines keeps less than ")) << convoy_error();
  options.weight_limit = 1 << 30;
  EXPECT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  options.how = nullptr;
  options.weight_limit = -1;
  options.objective = "energy";
  EXPECT_EQ(prepare(&options), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "objective is for how='global': 'tuned' goes by time, and by no limit");
  options.how = "global";
  EXPECT_EQ(prepare(&options), CONVOY_UNSUPPORTED);
  EXPECT_TRUE(says("objective 'energy=1': no step's energy is known")) << convoy_error();
  options.objective = "time=1,memory=0.5";
  EXPECT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  EXPECT_LE(activation_bytes(), padded);
  options.objective = "speed";
  EXPECT_EQ(prepare(&options), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("'speed' is not one of time, workspace, energy")) << convoy_error();
}

TEST_F(CNetwork, WritesIntoTheCallersMemory) {
  ASSERT_EQ(prepare(), CONVOY_OK) << convoy_error();
  convoy_value value = CONVOY_VALUE_INIT;
  ASSERT_EQ(convoy_session_output_value(session, 0, &value), CONVOY_OK) << convoy_error();
  ASSERT_EQ(value.rank, 2);
  EXPECT_EQ(value.dims[0], 1);
  EXPECT_EQ(value.dims[1], 1000);
  EXPECT_STREQ(value.type, "f32");
  EXPECT_EQ(convoy_session_output_value(session, 1, &value), CONVOY_INVALID_ARGUMENT);

  const std::vector<float> values = ramp();
  const void* inputs[] = {values.data()};
  ASSERT_EQ(run(values.data()), CONVOY_OK) << convoy_error();
  convoy_output expected = CONVOY_OUTPUT_INIT;
  ASSERT_EQ(convoy_session_output(session, 0, &expected), CONVOY_OK);
  std::vector<float> memory(1001 + 16, -7.F);
  for (std::size_t offset = 0; offset < 16; ++offset) {  // one of them is aligned
    const convoy_buffer buffer = {memory.data() + offset, 4000};
    convoy_results* results = nullptr;
    ASSERT_EQ(convoy_session_execute_into(session, inputs, 1, &buffer, 1, &results), CONVOY_OK) << convoy_error();
    convoy_output output = CONVOY_OUTPUT_INIT;
    ASSERT_EQ(convoy_results_output(results, 0, &output), CONVOY_OK);
    EXPECT_EQ(output.data, buffer.data);
    EXPECT_EQ(output.bytes, 4000);
    EXPECT_EQ(std::memcmp(buffer.data, expected.data, 4000), 0) << offset;
    EXPECT_EQ(memory[offset + 1000], -7.F);
    convoy_results_destroy(results);
    std::ranges::fill(memory, -7.F);
    ASSERT_EQ(convoy_session_execute_into(session, inputs, 1, &buffer, 1, nullptr), CONVOY_OK) << convoy_error();
    EXPECT_EQ(std::memcmp(buffer.data, expected.data, 4000), 0) << offset;
    std::ranges::fill(memory, -7.F);
  }

  convoy_buffer buffer = {memory.data(), 3999};
  EXPECT_EQ(convoy_session_execute_into(session, inputs, 1, &buffer, 1, nullptr), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("buffers[0].bytes=3999: output '")) << convoy_error();
  EXPECT_TRUE(says("takes 4000")) << convoy_error();
  EXPECT_EQ(convoy_session_execute_into(session, inputs, 1, &buffer, 2, nullptr), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "buffer_count=2, the network has 1 outputs");
  EXPECT_EQ(convoy_session_execute_into(session, inputs, 1, nullptr, 1, nullptr), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "buffers is null");
  buffer.data = nullptr;
  EXPECT_EQ(convoy_session_execute_into(session, inputs, 1, &buffer, 1, nullptr), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "results is null, and so is buffers[0].data");
  convoy_results* results = nullptr;
  ASSERT_EQ(convoy_session_execute_into(session, inputs, 1, &buffer, 1, &results), CONVOY_OK) << convoy_error();
  convoy_output output = CONVOY_OUTPUT_INIT;
  ASSERT_EQ(convoy_results_output(results, 0, &output), CONVOY_OK);
  EXPECT_EQ(std::memcmp(output.data, expected.data, 4000), 0);
  convoy_results_destroy(results);
}

}  // namespace
}  // namespace convoy::capi
