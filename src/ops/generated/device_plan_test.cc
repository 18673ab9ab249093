// Plans of generated kernels on a driver without a GPU, whose kernels this processor runs.
#include "ops/generated/device_plan.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "device/cuda/device.h"
#include "device/cuda/stream.h"
#include "device/device.h"
#include "ops/generated/describe.h"
#include "ops/on_device.h"
#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

// Before anything asks for the driver.
const bool prepared = [] {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();  // the build puts them there
  ::setenv("CONVOY_CUDA_DRIVER", (folder / "fake_driver/libcuda.so.1").c_str(), 1);
  ::setenv("CONVOY_NVRTC", (folder / "fake_nvrtc/libnvrtc.so.13").c_str(), 1);
  ::setenv("CONVOY_KERNEL_CACHE", "off", 1);
  ::setenv("CONVOY_NVML", "off", 1);
  return true;
}();

class OnFakeDevice : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(prepared);
    const auto found = find_device("cuda");
    ASSERT_TRUE(found.ok()) << found.error().message;
    device_ = *found;
    const auto described = cuda::describe(0);
    ASSERT_TRUE(described.ok()) << described.error().message;
    request_.cuda = *described;
    request_.device = device_;
    entered_ = *device_->enter();
    queue_ = *device_->make_queue(1);
  }

  Buffer on_device(const HostTensor& tensor) {
    Buffer buffer = *device_->allocate(static_cast<std::size_t>(tensor.desc.bytes()), "a test");
    EXPECT_TRUE(queue_->copy_in(buffer.data(), tensor.data.get(), buffer.bytes()).ok());
    return buffer;
  }
  HostTensor on_host(const Buffer& buffer, const TensorDesc& desc) {
    HostTensor tensor = *HostTensor::allocate(desc);
    EXPECT_TRUE(queue_->copy_out(tensor.data.get(), buffer.data(), buffer.bytes()).ok());
    EXPECT_TRUE(queue_->finish().ok());
    return tensor;
  }

  const Device* device_ = nullptr;
  PlanRequest request_;
  std::shared_ptr<void> entered_;
  std::unique_ptr<Queue> queue_;
};

void expect_same(const HostTensor& got, const HostTensor& want) {
  ASSERT_EQ(got.desc, want.desc);
  EXPECT_EQ(std::memcmp(got.data.get(), want.data.get(), static_cast<std::size_t>(want.desc.bytes())), 0);
}

TEST_F(OnFakeDevice, AnOperatorGivesWhatTheProcessorGives) {
  const HostTensor x = tensor(DataType::f16, {2, 8, 5, 6}, spread(480, -4, 4));
  const HostTensor bias = tensor(DataType::f16, {8, 1, 1}, spread(8, -1, 1));
  const NodeDesc node = node_of("Add");
  const auto want = run_op(node, {bias, x});
  ASSERT_TRUE(want.ok());

  const Operator& op = *find_operator("", "Add");
  const std::vector<Input> inputs{{true, bias.desc}, {true, x.desc}};
  const std::vector<TensorDesc> outputs{x.desc};
  ASSERT_TRUE(check_on_device(op, node, inputs, outputs, request_).ok());
  const auto plan = plan_on_device(op, node, inputs, outputs, request_);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ((*plan)->candidate().engine, "gen.map");
  EXPECT_EQ((*plan)->workspace_bytes(), 0U);

  const Buffer a = on_device(bias), b = on_device(x), y = on_device(x);
  const void* const in[] = {a.data(), b.data()};
  void* const out[] = {y.data()};
  const auto ran = (*plan)->execute(in, out, ExecContext{*queue_});
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  expect_same(on_host(y, x.desc), (*want)[0]);
}

TEST_F(OnFakeDevice, ExecutionsAreRecordedAndRunLater) {
  const HostTensor x = tensor(DataType::f16, {3, 1000}, spread(3000, -4, 4));
  const NodeDesc node = node_of("Softmax");
  const std::vector<Input> inputs{{true, x.desc}};
  const auto plan = plan_on_device(*find_operator("", "Softmax"), node, inputs, std::vector{x.desc}, request_);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Buffer a = on_device(x), eager = on_device(x), later = on_device(x);
  const void* const in[] = {a.data()};
  void* const out[] = {eager.data()};
  void* const recorded[] = {later.data()};
  const ExecContext context{*queue_};
  ASSERT_TRUE((*plan)->execute(in, out, context).ok());
  const auto recording = device_->record(*queue_, [&] { return (*plan)->execute(in, recorded, context); });
  ASSERT_TRUE(recording.ok()) << recording.error().message;
  expect_same(on_host(later, x.desc), x);  // nothing of it has run
  ASSERT_TRUE((*recording)->enqueue(*queue_).ok());
  expect_same(on_host(later, x.desc), on_host(eager, x.desc));
}

TEST_F(OnFakeDevice, NothingIsLaunchedForNoElements) {
  const TensorDesc none = TensorDesc::packed(DataType::f32, {0, 4});
  const NodeDesc node = node_of("Relu");
  const std::vector<Input> inputs{{true, none}};
  const auto plan = plan_on_device(*find_operator("", "Relu"), node, inputs, std::vector{none}, request_);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ((*plan)->candidate().engine, "gen.nothing");
  const void* const in[] = {nullptr};
  void* const out[] = {nullptr};
  EXPECT_TRUE((*plan)->execute(in, out, ExecContext{*queue_}).ok());
}

TEST_F(OnFakeDevice, WhatHasNoKernelIsRefusedByName) {
  const TensorDesc x = TensorDesc::packed(DataType::f32, {4, 4});
  const NodeDesc node = node_of("Det");
  const std::vector<Input> inputs{{true, x}};
  const std::vector<TensorDesc> outputs{TensorDesc::packed(DataType::f32, {})};
  const auto checked = check_on_device(*find_operator("", "Det"), node, inputs, outputs, request_);
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().code, ErrorCode::unsupported);
  EXPECT_EQ(checked.error().message, "no kernel for Det on cuda");
}

TEST_F(OnFakeDevice, AKernelOfAllMultiprocessorsIsRefusedWhereSomeAreLeft) {
  const TensorDesc x = TensorDesc::packed(DataType::f32, {4});
  request_.target_sms = 8;
  const auto kernel = describe_conversion(x, TensorDesc::packed(DataType::f16, {4}), "convert");
  ASSERT_TRUE(kernel.ok());
  const auto plan = device_plan(*kernel, request_);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("target_sms"), std::string::npos);
}

}  // namespace
}  // namespace convoy::ops
