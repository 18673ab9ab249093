// For tests of tuning: a network of the zoo that runs in a fraction of a millisecond, on one thread.
#pragma once

#include <memory>
#include <vector>

#include "network/testing/graphs.h"

namespace convoy::network {

class SmallNetworkTest : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = Network::load("zoo:squeezenet1_1");
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    network_ = std::move(*loaded);
    descs_ = {TensorDesc::packed(DataType::f32, {1, 3, 64, 64})};
    inputs_ = {spread({1, 3, 64, 64})};
    options_ = test_options(1);
  }

  std::unique_ptr<Network> network_;
  std::vector<TensorDesc> descs_;
  std::vector<HostTensor> inputs_;
  NetworkOptions options_;
};

}  // namespace convoy::network
