// A convolution problem's data on a device, for tests: uploaded from ConvData, every tensor aligned exactly as its
// description says and out between red zones.
#pragma once

#include <memory>
#include <vector>

#include "convoy/engine.h"
#include "device/cuda/memory.h"
#include "engines/testing/conv_data.h"

namespace convoy::cuda::testing {

class DeviceData {
 public:
  static Result<DeviceData> upload(const ConvProblem& problem, const convoy::testing::ConvData& data, int ordinal);

  // Inputs, and out's prior contents: what DeviceExpectation takes.
  ConvArgs args() const { return args_; }
  // The output that executions write.
  void* out() const { return out_; }
  // Fills it with the prior contents, or NaN.
  Result<void> reset(const convoy::testing::GuardedBuffer& contents) const;
  // Copies it back; "" or a sentence about the red zones.
  Result<std::string> fetch(convoy::testing::GuardedBuffer& contents) const;

 private:
  DeviceData() = default;
  Result<void*> put(const void* host, std::size_t bytes, std::size_t alignment);

  int ordinal_ = 0;
  ConvArgs args_;
  void* out_ = nullptr;
  std::size_t out_bytes_ = 0;
  std::vector<DeviceMemory> memory_;
};

struct DeviceOutcome {
  std::string failure;  // empty: right
  double max_error = 0;
  std::vector<std::byte> out;
};

// Plans and executes a candidate with out and workspace NaN-filled, and compares with the oracle on the device; checks
// gaps of strided outputs and the red zones. With `plan` given it is used instead of planning.
DeviceOutcome run_on_device(const ConvPlan& plan, const ConvProblem& problem, const convoy::testing::ConvData& data,
                            const CudaDevice& device, bool exact);

// For problems too large for the host: data made on the device from a random block that repeats, the default candidate,
// checked on samples. "" or what is wrong.
std::string check_large(const Engine& engine, const ConvProblem& problem, const PlanRequest& request);

// `bytes` of device memory filled with that block: random floats of the type.
Result<DeviceMemory> random_memory(DataType type, std::size_t bytes, std::uint64_t seed, int ordinal);

}  // namespace convoy::cuda::testing
