#include "engines/cuda/testing/device_data.h"

#include <algorithm>
#include <cstring>

#include "device/cuda/device.h"
#include "device/cuda/stream.h"
#include "engines/cuda/reference/verification.h"

namespace convoy::cuda::testing {
namespace {

using convoy::testing::ConvData;
using convoy::testing::GuardedBuffer;

constexpr std::size_t kZone = 256;  // bytes before and after
constexpr const char* kPurpose = "test data";

}  // namespace

Result<void*> DeviceData::put(const void* host, std::size_t bytes, std::size_t alignment) {
  // Aligned to `alignment` and, below the zone's size, to no more.
  const std::size_t shift = alignment < kZone ? alignment : 0;
  CONVOY_TRY(DeviceMemory memory, DeviceMemory::allocate(ordinal_, bytes + 3 * kZone, kPurpose));
  CONVOY_CHECK(fill_bytes(memory.data(), 0xFF, bytes + 3 * kZone, nullptr));
  auto* data = static_cast<std::byte*>(memory.data()) + kZone + shift;
  if (host != nullptr && bytes > 0) CONVOY_CHECK(copy_to_device(data, host, bytes, nullptr));
  memory_.push_back(std::move(memory));
  return static_cast<void*>(data);
}

Result<DeviceData> DeviceData::upload(const ConvProblem& problem, const ConvData& data, int ordinal) {
  DeviceData made;
  made.ordinal_ = ordinal;
  CONVOY_CHECK(make_current(ordinal));
  const ConvArgs host = data.args();
  const Epilogue& epilogue = problem.epilogue;
  const std::size_t channels =
      static_cast<std::size_t>(problem.pass == Pass::wgrad ? problem.out().dims[0] : problem.out().dims[1]);
  CONVOY_TRY(made.args_.x, made.put(host.x, problem.x.bytes(), problem.x.alignment));
  CONVOY_TRY(made.args_.w, made.put(host.w, problem.w.bytes(), problem.w.alignment));
  CONVOY_TRY(made.args_.y, made.put(host.y, problem.y.bytes(), problem.y.alignment));
  CONVOY_TRY(made.args_.out, made.put(host.out, problem.out().bytes(), problem.out().alignment));
  if (epilogue.takes_z()) {
    CONVOY_TRY(made.args_.z, made.put(host.z, problem.out().bytes(), problem.out().alignment));
  }
  if (epilogue.bias) {
    CONVOY_TRY(made.args_.bias, made.put(host.bias, channels * size_of(problem.bias_type()), 64));
  }
  const auto floats = [&](const float* from, std::size_t count) -> Result<const float*> {
    CONVOY_TRY(void* const to, made.put(from, count * sizeof(float), 64));
    return static_cast<const float*>(to);
  };
  const auto integers = [&](const std::int32_t* from, std::size_t count) -> Result<const std::int32_t*> {
    CONVOY_TRY(void* const to, made.put(from, count * sizeof(std::int32_t), 64));
    return static_cast<const std::int32_t*>(to);
  };
  if (epilogue.activation.kind == ActivationKind::prelu) {
    CONVOY_TRY(made.args_.slopes, floats(host.slopes, channels));
  }
  if (epilogue.requantize != Requantize::none) {
    CONVOY_TRY(made.args_.scales, floats(host.scales, epilogue.requantize == Requantize::per_channel ? channels : 1));
  }
  if (problem.x_zero_given) {
    CONVOY_TRY(made.args_.x_zero_point, integers(host.x_zero_point, 1));
  }
  if (problem.w_zero_given) {
    CONVOY_TRY(made.args_.w_zero_points, integers(host.w_zero_points, static_cast<std::size_t>(problem.w.dims[0])));
  }
  if (problem.gate) {
    const auto values = static_cast<std::size_t>(problem.batch() * problem.in_channels());
    CONVOY_TRY(made.args_.gate, made.put(host.gate, values * size_of(problem.x.type), problem.x.alignment));
  }
  made.out_bytes_ = problem.out().bytes();
  CONVOY_TRY(made.out_, made.put(nullptr, made.out_bytes_, problem.out().alignment));
  return made;
}

Result<void> DeviceData::reset(const GuardedBuffer& contents) const {
  return copy_to_device(out_, contents.data(), contents.size(), nullptr);
}

Result<std::string> DeviceData::fetch(GuardedBuffer& contents) const {
  const DeviceMemory& memory = memory_.back();
  std::vector<std::byte> all(memory.bytes());
  CONVOY_CHECK(copy_to_host(all.data(), memory.data(), all.size(), nullptr));
  CONVOY_CHECK(synchronize(nullptr, kPurpose));
  const std::size_t first =
      static_cast<std::size_t>(static_cast<std::byte*>(out_) - static_cast<std::byte*>(memory.data()));
  std::memcpy(contents.data(), all.data() + first, out_bytes_);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if ((i < first || i >= first + out_bytes_) && all[i] != std::byte{0xFF}) {
      return "wrote " + std::to_string(static_cast<std::int64_t>(i) - static_cast<std::int64_t>(first)) +
             " bytes from out's begin, out has " + std::to_string(out_bytes_);
    }
  }
  return std::string();
}

DeviceOutcome run_on_device(const ConvPlan& plan, const ConvProblem& problem, const ConvData& data,
                            const CudaDevice& device, bool exact) {
  DeviceOutcome outcome;
  const auto attempt = [&]() -> Result<std::string> {
    CONVOY_TRY(const DeviceData on_device, DeviceData::upload(problem, data, device.ordinal));
    GuardedBuffer out = data.make_out();
    data.reset(out);
    CONVOY_CHECK(on_device.reset(out));
    const std::size_t bytes = plan.workspace_bytes();
    CONVOY_TRY(const DeviceMemory workspace, DeviceMemory::allocate(device.ordinal, bytes, kPurpose));
    if (bytes > 0) CONVOY_CHECK(fill_bytes(workspace.data(), 0xFF, bytes, nullptr));
    CudaQueue queue(nullptr);
    ConvArgs args = on_device.args();
    args.out = on_device.out();
    CONVOY_CHECK(plan.execute(args, {queue, workspace.data(), bytes}));
    CONVOY_CHECK(synchronize(device.ordinal));
    CONVOY_TRY(const Verification verdict,
               verify_on_device(problem, on_device.args(), on_device.out(), device_verify_options(), device, nullptr));
    outcome.max_error = verdict.max_error;
    CONVOY_TRY(std::string trespass, on_device.fetch(out));
    if (trespass.empty()) trespass = data.trespass(out);
    outcome.out.assign(out.data(), out.data() + out.size());
    if (!trespass.empty()) return trespass;
    if (!verdict.ok()) {
      return "error " + std::to_string(verdict.max_error) + " at " + to_string(verdict.worst) + ": " +
             std::to_string(verdict.actual) + " instead of " + std::to_string(verdict.expected);
    }
    if (exact) {
      CONVOY_TRY(const Verification bits,
                 verify_on_device(problem, on_device.args(), on_device.out(), {.exact = true}, device, nullptr));
      if (!bits.ok()) return "not the oracle's bits at " + to_string(bits.worst);
    }
    return std::string();
  };
  const auto result = attempt();
  outcome.failure = result.ok() ? *result : result.error().message;
  return outcome;
}

Result<DeviceMemory> random_memory(DataType type, std::size_t bytes, std::uint64_t seed, int ordinal) {
  constexpr std::size_t kBlock = 3 * 5 * 7 * 11 * 13 * 128;  // bytes; odd, so that planes and rows differ
  const std::size_t block = std::min(bytes, kBlock);
  const auto count = static_cast<std::int64_t>(block / size_of(type));
  std::vector<std::byte> values(block);
  convoy::testing::Random random(seed);
  for (std::int64_t i = 0; i < count; ++i) store_from_double(type, values.data(), i, random.normal());
  CONVOY_TRY(DeviceMemory memory, DeviceMemory::allocate(ordinal, bytes, kPurpose));
  CONVOY_CHECK(copy_to_device(memory.data(), values.data(), block, nullptr));
  // Doubling what is there already.
  for (std::size_t done = block; done < bytes;) {
    const std::size_t next = std::min(done, bytes - done);
    auto* first = static_cast<std::byte*>(memory.data());
    CONVOY_CHECK(copy_on_device(first + done, first, next, nullptr));
    done += next;
  }
  CONVOY_CHECK(synchronize(nullptr, kPurpose));
  return memory;
}

std::string check_large(const Engine& engine, const ConvProblem& problem, const PlanRequest& request) {
  const auto attempt = [&]() -> Result<std::string> {
    const int ordinal = request.cuda->ordinal;
    CONVOY_CHECK(make_current(ordinal));
    CONVOY_TRY(const DeviceMemory x, random_memory(problem.x.type, problem.x.bytes(), 1, ordinal));
    CONVOY_TRY(const DeviceMemory w, random_memory(problem.w.type, problem.w.bytes(), 2, ordinal));
    CONVOY_TRY(const DeviceMemory y, random_memory(problem.y.type, problem.y.bytes(), 3, ordinal));
    CONVOY_TRY(const DeviceMemory out, DeviceMemory::allocate(ordinal, problem.out().bytes(), kPurpose));
    CONVOY_CHECK(fill_bytes(out.data(), 0xFF, out.bytes(), nullptr));
    CONVOY_TRY(const auto plan, engine.plan(problem, {}, request));
    CONVOY_TRY(const DeviceMemory workspace, DeviceMemory::allocate(ordinal, plan->workspace_bytes(), kPurpose));
    ConvArgs args{.x = x.data(), .w = w.data(), .y = y.data(), .out = out.data()};
    CudaQueue queue(nullptr);
    CONVOY_CHECK(plan->execute(args, {queue, workspace.data(), workspace.bytes()}));
    CONVOY_CHECK(synchronize(ordinal));
    CONVOY_TRY(const Verification verdict,
               verify_on_device(problem, args, out.data(), device_verify_options(), *request.cuda, nullptr));
    if (verdict.ok()) return std::string();
    return print(plan->candidate()) + ": error " + std::to_string(verdict.max_error) + " at " +
           to_string(verdict.worst);
  };
  const auto result = attempt();
  return result.ok() ? *result : result.error().message;
}

}  // namespace convoy::cuda::testing
