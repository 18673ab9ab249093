// What the tests on a GPU share: a problem's data on both sides, one execution on memory full of NaN.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "device/cuda/cudnn.h"
#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "engines/cudnn/cudnn.h"

namespace convoy::cudnn::testing {

// One host buffer and its copy on the device.
struct Buffer {
  std::vector<std::byte> host;
  cuda::DeviceMemory device;
};

class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto device = cuda::describe(0);
    if (!device) GTEST_SKIP() << "skipped: no CUDA device: " << device.error().message;
    const auto api = cuda::cudnn();
    if (!api) GTEST_SKIP() << "skipped: no cuDNN: " << api.error().message;
    request_.cuda = *device;
    team_ = make_cpu_team(8);
  }

  PlanRequest request_;
  std::unique_ptr<ThreadTeam> team_;
};

inline void fill(std::vector<std::byte>& bytes, DataType type, std::uint64_t seed) {
  // Big tensors repeat a block of an odd number of elements.
  constexpr std::int64_t block = 1000003;
  const std::int64_t count = std::min<std::int64_t>(static_cast<std::int64_t>(bytes.size() / size_of(type)), block);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double unit = static_cast<double>(state >> 33) / 2147483648.0;  // [0, 1)
    store_from_double(type, bytes.data(), i,
                      is_floating(type) ? 2 * unit - 1 : std::floor(9 * unit) - (type == DataType::u8 ? 0 : 4));
  }
  const std::size_t filled = static_cast<std::size_t>(count) * size_of(type);
  for (std::size_t at = filled; at < bytes.size(); at += filled) {
    std::memcpy(bytes.data() + at, bytes.data(), std::min(filled, bytes.size() - at));
  }
}

// A problem with its data on both sides.
class Case {
 public:
  static Result<std::unique_ptr<Case>> make(const ConvProblem& problem, int ordinal) {
    CONVOY_TRY(const cuda::Stream stream, cuda::Stream::create(ordinal));
    CudaQueue queue(stream.get());
    CONVOY_CHECK(cuda::make_current(ordinal));
    auto made = std::unique_ptr<Case>(new Case(problem));
    const std::int64_t channels = problem.out().dims[problem.pass == Pass::wgrad ? 0 : 1];
    const auto add = [&](Buffer& buffer, DataType type, std::int64_t elements, std::uint64_t seed) -> Result<void> {
      buffer.host.resize(static_cast<std::size_t>(elements) * size_of(type));
      fill(buffer.host, type, seed);
      CONVOY_TRY(buffer.device, cuda::DeviceMemory::allocate(ordinal, buffer.host.size(), "a test's tensor"));
      return cuda::copy_to_device(buffer.device.data(), buffer.host.data(), buffer.host.size(), stream.get());
    };
    CONVOY_CHECK(add(made->x_, problem.x.type, problem.x.storage_elements(), 1));
    CONVOY_CHECK(add(made->w_, problem.w.type, problem.w.storage_elements(), 2));
    CONVOY_CHECK(add(made->y_, problem.y.type, problem.y.storage_elements(), 3));
    CONVOY_CHECK(add(made->z_, problem.out().type, problem.out().storage_elements(), 4));
    CONVOY_CHECK(add(made->bias_, problem.bias_type(), channels, 5));
    CONVOY_CHECK(add(made->scales_, DataType::f32, channels, 6));
    CONVOY_CHECK(add(made->out_, problem.out().type, problem.out().storage_elements(), 7));
    CONVOY_CHECK(stream.synchronize());  // executions have streams of their own
    return made;
  }

  ConvArgs host() {
    return {.x = x_.host.data(),
            .w = w_.host.data(),
            .y = y_.host.data(),
            .out = out_.host.data(),
            .bias = bias_.host.data(),
            .z = z_.host.data(),
            .scales = reinterpret_cast<const float*>(scales_.host.data())};
  }
  ConvArgs device() {
    return {.x = x_.device.data(),
            .w = w_.device.data(),
            .y = y_.device.data(),
            .out = out_.device.data(),
            .bias = bias_.device.data(),
            .z = z_.device.data(),
            .scales = static_cast<const float*>(scales_.device.data())};
  }

  // Runs once on an out of NaN (or of the prior values, where they are read) and a workspace of NaN.
  Result<std::vector<std::byte>> run(const ConvPlan& plan, int ordinal) {
    CONVOY_CHECK(cuda::make_current(ordinal));
    CONVOY_TRY(const cuda::Stream stream, cuda::Stream::create(ordinal));
    CudaQueue queue(stream.get());
    const std::size_t bytes = out_.host.size();
    if (problem_.beta != 0) {
      CONVOY_CHECK(cuda::copy_to_device(out_.device.data(), out_.host.data(), bytes, stream.get()));
    } else {
      CONVOY_CHECK(cuda::fill_bytes(out_.device.data(), 0xff, bytes, stream.get()));
    }
    CONVOY_TRY(const cuda::DeviceMemory workspace,
               cuda::DeviceMemory::allocate(ordinal, plan.workspace_bytes(), "a test's workspace"));
    if (workspace.bytes() > 0) CONVOY_CHECK(cuda::fill_bytes(workspace.data(), 0xff, workspace.bytes(), stream.get()));
    CONVOY_CHECK(plan.execute(device(), {queue, workspace.data(), workspace.bytes()}));
    std::vector<std::byte> result(bytes);
    CONVOY_CHECK(cuda::copy_to_host(result.data(), out_.device.data(), bytes, stream.get()));
    CONVOY_CHECK(stream.synchronize());
    return result;
  }

  // x and w full of one value.
  Result<void> refill(double value) {
    for (auto [buffer, type] : {std::pair{&x_, problem_.x.type}, {&w_, problem_.w.type}}) {
      const auto count = static_cast<std::int64_t>(buffer->host.size() / size_of(type));
      for (std::int64_t i = 0; i < count; ++i) store_from_double(type, buffer->host.data(), i, value);
      CONVOY_CHECK(cuda::copy_to_device(buffer->device.data(), buffer->host.data(), buffer->host.size(), nullptr));
    }
    return {};
  }

  // Seconds of an execution, the least of a few.
  Result<double> time(const ConvPlan& plan, int ordinal) {
    CONVOY_TRY(const cuda::Stream stream, cuda::Stream::create(ordinal));
    CudaQueue queue(stream.get());
    CONVOY_TRY(const cuda::DeviceMemory workspace,
               cuda::DeviceMemory::allocate(ordinal, plan.workspace_bytes(), "a test's workspace"));
    CONVOY_TRY(const cuda::Event begin, cuda::Event::create(ordinal));
    CONVOY_TRY(const cuda::Event end, cuda::Event::create(ordinal));
    double least = 1e9;
    for (int i = 0; i < 4; ++i) {
      CONVOY_CHECK(begin.record(stream.get()));
      CONVOY_CHECK(plan.execute(device(), {queue, workspace.data(), workspace.bytes()}));
      CONVOY_CHECK(end.record(stream.get()));
      CONVOY_CHECK(stream.synchronize());
      CONVOY_TRY(const double seconds, cuda::Event::seconds(begin, end));
      if (i > 0) least = std::min(least, seconds);
    }
    return least;
  }

 private:
  explicit Case(const ConvProblem& problem) : problem_(problem) {}
  ConvProblem problem_;
  Buffer x_, w_, y_, z_, bias_, scales_, out_;
};

}  // namespace convoy::cudnn::testing
